// Nodes (12).

import { nodesOf, nodeViewsOf } from "../../engine/index.ts";
import { SUSPECT_AFTER_MS, type View } from "../../leader/index.ts";
import type { WireNode, WireNodeAnswer, WireNodeUpdate } from "../../protocol/index.ts";
import { toMs, toNodeChange, toNodeName } from "../../translation/index.ts";
import { agreed, alter, pageOf, presentNodeSeen, reachedPool, showNode } from "../administration.ts";
import { type Call, type Handler, ok, type Reply, type Services } from "../call.ts";
import { reachesPool } from "../identity.ts";
import { forbidden, hidden, notFound, problemError } from "../problems.ts";
import { sightOf } from "../sight.ts";

export const listNodes: Handler<"listNodes"> = async (call, services) =>
  listed(call, services, call.query, call.query.pool);

export const listPoolNodes: Handler<"listPoolNodes"> = async (call, services) =>
  listed(call, services, call.query, await reachedPool(call, services));

async function listed(
  { identity }: Call,
  { leader, agents }: Services,
  query: { limit?: number | undefined; cursor?: string | undefined },
  pool: string | undefined,
): Promise<Reply> {
  const nodes = await leader.read((view) => {
    const sight = sightOf(identity, view);
    const names = nodesOf(view.state)
      .filter((node) => sight.seesPool(node.pool) && (pool === undefined || node.pool === pool))
      .map(({ name }) => name);
    return nodeViewsOf(view.state, names).map((node) => presentNodeSeen(view, node, sight, agents));
  });
  return pageOf(nodes, ({ name }) => name, query);
}

export const getNode: Handler<"getNode"> = async (call, services) => {
  const { body, etag } = await reachedNode(call, services);
  return ok(body, { etag });
};

async function reachedNode(call: Call, services: Services) {
  const name = call.params.node as string;
  const node = await services.leader.read(shownTo(call, services, name));
  if (node === undefined) throw notFound("node", name);
  const { pool } = node.body as WireNode;
  if (!reachesPool(call.identity, pool)) throw hidden("node", name);
  return { name, pool, ...node };
}

function shownTo({ identity }: Call, { agents }: Services, name: string) {
  return (view: View) => showNode(view, name, sightOf(identity, view), agents);
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
  const known = await services.leader.read(shownTo(call, services, node.name));
  const { pool: knownPool, enrolled } = (known?.body ?? {}) as Partial<WireNodeAnswer>;
  // What an operator says is also the most that its agent may offer from now on (E1).
  const bound = enrolled && node.capacity && { enrolled: node.capacity };
  if (knownPool !== undefined && !reachesPool(call.identity, knownPool)) throw hidden("node", node.name);
  return alter(call, services, {
    command: { kind: "putNode", node: { ...toNodeChange(node), ...bound } },
    target: `node ${node.name}`,
    pools: [node.pool, knownPool].filter((pool) => pool !== undefined),
    status,
    detail: { node },
    show: shownTo(call, services, node.name),
  });
}

export const drainNode: Handler<"drainNode"> = async (call, services) => {
  const { name, pool } = await reachedNode(call, services);
  const { deadline_seconds: seconds } = call.body;
  return alter(call, services, {
    command: {
      kind: "drainNode",
      name: toNodeName(name),
      ...(seconds !== undefined && { deadlineMs: services.leader.nowMs() + toMs(seconds) }),
    },
    target: `node ${name}`,
    pools: [pool],
    detail: { deadline_seconds: seconds },
    show: shownTo(call, services, name),
  });
};

export const undrainNode: Handler<"undrainNode"> = async (call, services) => {
  const { name, pool } = await reachedNode(call, services);
  return alter(call, services, {
    command: { kind: "undrainNode", name: toNodeName(name) },
    target: `node ${name}`,
    pools: [pool],
    show: shownTo(call, services, name),
  });
};

/** An operator has looked: nothing runs there any more, or never will again (E3). */
export const confirmNodeLost: Handler<"confirmNodeLost"> = async (call, services) => {
  const { name, pool } = await reachedNode(call, services);
  const heardAtMs = await services.leader.read((view) => view.nodeHeardAtMs(toNodeName(name)));
  const silentMs = heardAtMs === undefined ? Number.POSITIVE_INFINITY : services.leader.nowMs() - heardAtMs;
  if (silentMs < SUSPECT_AFTER_MS) {
    const seconds = Math.round(silentMs / 1000);
    throw problemError("in_use", `The agent of node "${name}" was heard of ${seconds} s ago.`, {
      hint: "Drain it: its agent stops what runs there, and then the units come free.",
    });
  }
  return alter(call, services, {
    command: { kind: "loseNode", name: toNodeName(name) },
    target: `node ${name}`,
    pools: [pool],
    show: shownTo(call, services, name),
  });
};

export const removeNode: Handler<"removeNode"> = async (call, services) => {
  const { name, pool } = await reachedNode(call, services);
  const force = call.query.force === "true";
  return alter(call, services, {
    command: { kind: "removeNode", name: toNodeName(name), force },
    target: `node ${name}`,
    pools: [pool],
    status: 204,
    detail: { force },
    show: shownTo(call, services, name),
  });
};
