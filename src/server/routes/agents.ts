// What agents call (20): they become nodes, say what runs, and get to know what should. A node token reaches its own node only.

import { type NodeName, type NodeRecord, type Resources, requestOf } from "../../engine/index.ts";
import type { CallContext, View } from "../../leader/index.ts";
import type { WireNodeSync, WireNodeSyncAnswer } from "../../protocol/index.ts";
import { toMs, toNodeName, toPoolName, toRequestId, toTimestamp } from "../../translation/index.ts";
import { forgottenBy, type Meaning, answerFor as makeAnswer, meaningOf } from "../agents/parts.ts";
import { type Call, type Denial, denial, type Handler, ok, perform, type Services } from "../call.ts";
import { reachesPool } from "../identity.ts";
import { JOIN_TOKEN_LIFE_MS } from "../limits.ts";
import { forbidden, notFound, problemError } from "../problems.ts";
import { makeToken } from "../tokens.ts";
import { alertStuck } from "./requests.ts";

// --- Becoming a node (E1)

const nodeTokenName = (node: string) => `node ${node}`;
const joinTokenName = (node: string) => `join ${node}`;

export const enrolNode: Handler<"enrolNode"> = async (call, services) => {
  const name = call.params.node as string;
  const { pool, capacity } = call.body;
  if (!reachesPool(call.identity, pool)) {
    throw forbidden(`The token does not reach the pool "${pool}".`, "Use a pool of yours.");
  }
  const known = await services.leader.read((view) => checkEnrolment(view, name, pool));
  if (known instanceof Error) throw known;
  const nowMs = services.leader.nowMs();
  const { record, secret } = makeToken(
    {
      name: joinTokenName(name),
      role: "join",
      components: [],
      pools: [pool],
      expiresAtMs: nowMs + JOIN_TOKEN_LIFE_MS,
    },
    nowMs,
  );
  if (capacity !== undefined) await register(call, services, { name, pool, capacity });
  await replaceToken(call, services, record, { pool });
  const expiresAt = toTimestamp(nowMs + JOIN_TOKEN_LIFE_MS);
  return { status: 201, body: { node: name, pool, join_token: secret, expires_at: expiresAt } };
};

function checkEnrolment(view: View, name: string, pool: string): NodeRecord | undefined | Error {
  const settings = view.state.pools.get(toPoolName(pool))?.record.settings;
  if (settings === undefined) return notFound("pool", pool);
  if (settings.executor !== "agents") {
    return problemError("no_executor", `Pool "${pool}" does not start its jobs with agents.`, {
      hint: `Say so first: berth pool update ${pool} --set executor=agents`,
    });
  }
  const known = view.state.nodes.get(toNodeName(name))?.record;
  if (known !== undefined && known.pool !== pool) {
    return problemError("name_taken", `Node "${name}" belongs to pool "${known.pool}".`, {
      hint: "Remove it there first, or choose another name.",
    });
  }
  return known;
}

/** What was enrolled is known before the machine joins; a node that nobody has heard of gets no work. */
async function register(
  call: Call,
  services: Services,
  enrolled: { name: string; pool: string; capacity: Resources },
): Promise<void> {
  const name = toNodeName(enrolled.name);
  const { capacity } = enrolled;
  const node = { name, pool: toPoolName(enrolled.pool), capacity, enrolled: capacity, isDown: true };
  await perform(call, services, {
    command: { kind: "putNode", node },
    target: `node ${name}`,
    detail: { capacity },
  });
}

/** A token of this name replaces the one before it. */
async function replaceToken(
  call: Call,
  services: Services,
  record: ReturnType<typeof makeToken>["record"],
  detail: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { tokens, leader } = services;
  const target = `token ${record.name}`;
  for (const old of tokens.find(record.name)) {
    const revoked = { ...old, revokedAtMs: leader.nowMs() };
    await perform(call, services, { command: { kind: "putToken", token: revoked }, target, detail });
    tokens.put(revoked);
  }
  await perform(call, services, { command: { kind: "putToken", token: record }, target, detail });
  tokens.put(record);
}

export const joinNode: Handler<"joinNode"> = async (call, services) => {
  const name = call.params.node as string;
  const { tokens, leader } = services;
  if (call.identity.role !== "join" || call.identity.name !== joinTokenName(name)) {
    throw forbidden(`The token is not that of the enrolment of node "${name}".`, "Enrol this node first.");
  }
  // Used up before anything else: whoever comes second finds it gone.
  const giveUp = tokens.claim(call.identity.tokenId);
  if (giveUp === undefined) throw problemError("unauthenticated", "The join token is in use.");
  try {
    const pool = [...(call.identity.pools ?? [])][0] as string;
    const known = await leader.read((view) => checkEnrolment(view, name, pool));
    if (known instanceof Error) throw known;
    const bound = known?.enrolled ?? call.body.capacity;
    const capacity = atMost(call.body.capacity, bound);
    await perform(call, services, {
      command: {
        kind: "putNode",
        node: {
          ...{ name: toNodeName(name), pool: toPoolName(pool), capacity, enrolled: bound },
          ...(call.body.labels !== undefined && { labels: call.body.labels }),
          ...(call.body.topology !== undefined && { topology: call.body.topology }),
        },
      },
      target: `node ${name}`,
      detail: { capacity },
    });
    const { record, secret } = makeToken(
      { name: nodeTokenName(name), role: "node", components: [], pools: [pool] },
      leader.nowMs(),
    );
    await replaceToken(call, services, record, { pool });
    for (const used of tokens.find(call.identity.tokenId)) {
      const revoked = { ...used, revokedAtMs: leader.nowMs() };
      await perform(call, services, {
        command: { kind: "putToken", token: revoked },
        target: `token ${used.name}`,
      });
      tokens.put(revoked);
    }
    return { status: 201, body: { node: name, pool, node_token: secret, capacity } };
  } finally {
    giveUp();
  }
};

/** An agent may lower what was enrolled, not raise it; keys that were not enrolled do not count (E1). */
function atMost(offered: Resources, enrolled: Resources): Resources {
  return Object.fromEntries(
    Object.entries(enrolled).flatMap(([key, most]) => {
      const amount = Math.min(offered[key] ?? 0, most);
      return amount > 0 ? [[key, amount]] : [];
    }),
  );
}

// --- Sync (E2)

export const syncNode: Handler<"syncNode"> = async (call, services) => {
  const node = ownNode(call);
  const { leader, agents } = services;
  leader.hearNode(node);
  await takeIn(call, services, node);

  const aborted = new AbortController();
  call.outgoing.on("close", () => aborted.abort());
  const untilMs = performance.now() + 1000 * (call.body.wait_seconds ?? 0);
  for (;;) {
    const leftMs = untilMs - performance.now();
    // Listening starts before the look, so that no change falls between the two.
    const stopListening = new AbortController();
    const news = agents.nextNews(node, leftMs, AbortSignal.any([aborted.signal, stopListening.signal]));
    const answer = await answerTo(services, node);
    if (answer.version !== call.body.seen || leftMs <= 0 || aborted.signal.aborted) {
      stopListening.abort();
      return ok(await withRuns(services, answer, call.body));
    }
    await news;
  }
};

/** The node whose token it is; everything else does not exist for it. */
function ownNode({ identity, params }: Call): NodeName {
  const name = params.node as string;
  if (identity.role === "node" && identity.name === nodeTokenName(name)) return toNodeName(name);
  throw forbidden(`The token is not that of node "${name}".`, "An agent speaks for its own node only.");
}

/** Everything that the sync says is committed before it is answered: an end is acknowledged by the answer (J5). */
async function takeIn(
  call: Call & { readonly body: WireNodeSync },
  services: Services,
  node: NodeName,
): Promise<void> {
  const { leader, agents, grants } = services;
  await settleNode(call, services, node);
  const forgotten = await leader.read((view) => forgottenBy(view, node, { agents, grants, sync: call.body }));
  await performAll(call, services, forgotten);
  agents.keepReport(node, call.body);
  const meaning = await leader.read((view) => {
    for (const { id, nodes } of placesOn(view, node)) agents.notePlaces(id, nodes);
    return meaningOf(view, node, { agents, grants });
  });
  await performAll(call, services, meaning);
  for (const { request_id: id, stuck, progress } of call.body.jobs) {
    if (stuck === true) await alertStuck(services, toRequestId(id), { actor: call.identity.name, progress });
  }
}

function placesOn(view: View, node: NodeName) {
  const runs = view.state.nodes.get(node)?.runs ?? [];
  return [...runs].map(({ request, nodes }) => ({
    id: request.spec.id,
    nodes: nodes.map(({ record }) => record.name),
  }));
}

/** A node that is heard of is ready again, with what it offers now. A drained one stays so until somebody says otherwise. */
async function settleNode(
  call: Call & { readonly body: WireNodeSync },
  services: Services,
  name: NodeName,
): Promise<void> {
  const record = await services.leader.read((view) => view.state.nodes.get(name)?.record);
  if (record === undefined) throw notFound("node", name);
  const { enrolled = record.capacity, state } = record;
  const capacity = call.body.capacity === undefined ? undefined : atMost(call.body.capacity, enrolled);
  const isOther = capacity !== undefined && !isSame(capacity, record.capacity);
  const isUp = state === "ready" || state === "suspect";
  const target = `node ${name}`;
  if (state === "down" || (isUp && isOther)) {
    const node = { name, enrolled, ...(capacity !== undefined && { capacity }) };
    await perform(call, services, { command: { kind: "putNode", node }, target, detail: { capacity } });
  } else if (state === "suspect") {
    await perform(call, services, { command: { kind: "undrainNode", name }, target });
  }
}

function isSame(a: Resources, b: Resources): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => a[key] === b[key]);
}

/** Whatever is refused is over already: another sync has said it, or the grant has gone. */
async function performAll(call: Call, { leader }: Services, meanings: readonly Meaning[]): Promise<void> {
  if (meanings.length === 0) return;
  await leader.performMany(
    meanings.map(({ command, attachments }) => ({
      command,
      context: contextFor(call, command.kind, { attachments }),
    })),
  );
}

function contextFor(
  { identity, address }: Call,
  action: string,
  { attachments, target = "" }: { attachments?: Meaning["attachments"]; target?: string },
): CallContext {
  return {
    actor: identity.name,
    // How far a job is need not be in the audit log; that it ended must.
    audit: action === "reportPhase" ? false : { action, target, detail: { from: address } },
    ...(attachments !== undefined && { attachments }),
  };
}

async function answerTo(services: Services, node: NodeName): Promise<WireNodeSyncAnswer> {
  const { leader, agents, grants } = services;
  const { epoch } = leader.status();
  const answer = await leader.read((view) => makeAnswer(view, node, { agents, grants, epoch }));
  if (answer === undefined) throw notFound("node", node);
  return answer;
}

/** What to run is sent to whoever does not have it (E2). */
async function withRuns(
  { store }: Services,
  answer: WireNodeSyncAnswer,
  sync: WireNodeSync,
): Promise<WireNodeSyncAnswer> {
  const known = new Set(sync.jobs.map(({ token }) => token));
  const jobs: WireNodeSyncAnswer["jobs"] = [];
  for (const job of answer.jobs) {
    const run = known.has(job.token) ? undefined : await store.getAttachment(job.request_id, "run");
    jobs.push(run === undefined ? job : { ...job, run: run.body as NonNullable<typeof job.run> });
  }
  return { ...answer, jobs };
}

// --- Checkpoints and logs

export const reportPartCheckpoint: Handler<"reportPartCheckpoint"> = async (call, services) => {
  const node = ownNode(call);
  services.leader.hearNode(node);
  const { request_id, token, report, seconds } = call.body;
  const id = toRequestId(request_id);
  const engineToken = services.grants.verify(id, token);
  if (engineToken === undefined) throw problemError("stale_token", "The grant token is not one of ours.");
  if (report === "defer" && seconds === undefined) {
    throw problemError("invalid_request", "A deferral needs seconds.", {
      errors: [{ pointer: "/seconds", message: "is missing" }],
    });
  }
  const checkpoint = report === "defer" ? { report, deferMs: toMs(seconds ?? 0) } : { report };
  await perform(call, services, {
    command: { kind: "reportCheckpoint", requestId: id, token: engineToken, checkpoint },
    target: id,
    detail: { report },
    guard: (view) => onNode(view, id, node),
    present: () => ({}),
  });
  return ok({});
};

function onNode(view: View, id: ReturnType<typeof toRequestId>, node: NodeName): Denial | undefined {
  const placement = requestOf(view.state, id)?.progress.allocation?.placement ?? [];
  if (placement.some((place) => place.node === node)) return undefined;
  return denial("not_found", `There is no request "${id}" on node "${node}".`, "Sync, and look again.");
}

export const sendLog: Handler<"sendLog"> = async (call, services) => {
  const node = ownNode(call);
  const taken = await services.agents.readers.take(node, call.params.reader as string, call.body);
  return ok(taken ?? { go_on: false, position: 0 });
};
