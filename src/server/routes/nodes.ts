// Nodes (12).

import { nodesOf, nodeViewsOf } from "../../engine/index.ts";
import type { WireNode, WireNodeUpdate } from "../../protocol/index.ts";
import { presentNodeView, toMs, toNodeChange, toNodeName } from "../../translation/index.ts";
import { agreed, alter, pageOf, reachedPool, showNode } from "../administration.ts";
import { type Call, type Handler, ok, type Reply, type Services } from "../call.ts";
import { reachesPool } from "../identity.ts";
import { forbidden, hidden, notFound } from "../problems.ts";

export const listNodes: Handler<"listNodes"> = async (call, services) =>
  listed(call, services, call.query, call.query.pool);

export const listPoolNodes: Handler<"listPoolNodes"> = async (call, services) =>
  listed(call, services, call.query, await reachedPool(call, services));

async function listed(
  { identity }: Call,
  { leader }: Services,
  query: { limit?: number | undefined; cursor?: string | undefined },
  pool: string | undefined,
): Promise<Reply> {
  const nodes = await leader.read(({ state, numberOf }) => {
    const names = nodesOf(state)
      .filter((node) => reachesPool(identity, node.pool) && (pool === undefined || node.pool === pool))
      .map(({ name }) => name);
    return nodeViewsOf(state, names).map((node) => presentNodeView(node, numberOf));
  });
  return pageOf(nodes, ({ name }) => name, query);
}

export const getNode: Handler<"getNode"> = async (call, services) => {
  const { body, etag } = await reachedNode(call, services);
  return ok(body, { etag });
};

async function reachedNode(call: Call, { leader }: Services) {
  const name = call.params.node as string;
  const node = await leader.read((view) => showNode(view, name));
  if (node === undefined) throw notFound("node", name);
  if (!reachesPool(call.identity, (node.body as WireNode).pool)) throw hidden("node", name);
  return { name, ...node };
}

export const createNode: Handler<"createNode"> = (call, services) => put(call, services, call.body, 201);

export const putNode: Handler<"putNode"> = async (call, services) => {
  const node = agreed(call.body, { name: call.params.node as string }) as WireNodeUpdate;
  return put(call, services, node, 200);
};

async function put(call: Call, services: Services, node: WireNodeUpdate, status: number): Promise<Reply> {
  if (node.pool !== undefined && !reachesPool(call.identity, node.pool)) {
    throw forbidden(`The token does not reach the pool "${node.pool}".`, "Use a pool of yours.");
  }
  const known = await services.leader.read((view) => showNode(view, node.name));
  if (known !== undefined && !reachesPool(call.identity, (known.body as WireNode).pool)) {
    throw hidden("node", node.name);
  }
  return alter(call, services, {
    command: { kind: "putNode", node: toNodeChange(node) },
    target: `node ${node.name}`,
    status,
    detail: { node },
    show: (view) => showNode(view, node.name),
  });
}

export const drainNode: Handler<"drainNode"> = async (call, services) => {
  const { name } = await reachedNode(call, services);
  const { deadline_seconds: seconds } = call.body;
  return alter(call, services, {
    command: {
      kind: "drainNode",
      name: toNodeName(name),
      ...(seconds !== undefined && { deadlineMs: services.leader.nowMs() + toMs(seconds) }),
    },
    target: `node ${name}`,
    detail: { deadline_seconds: seconds },
    show: (view) => showNode(view, name),
  });
};

export const undrainNode: Handler<"undrainNode"> = async (call, services) => {
  const { name } = await reachedNode(call, services);
  return alter(call, services, {
    command: { kind: "undrainNode", name: toNodeName(name) },
    target: `node ${name}`,
    show: (view) => showNode(view, name),
  });
};

export const removeNode: Handler<"removeNode"> = async (call, services) => {
  const { name } = await reachedNode(call, services);
  const force = call.query.force === "true";
  return alter(call, services, {
    command: { kind: "removeNode", name: toNodeName(name), force },
    target: `node ${name}`,
    status: 204,
    detail: { force },
    show: (view) => showNode(view, name),
  });
};
