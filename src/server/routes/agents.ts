// What agents and adapters call (20–22): agents become nodes; both say what runs, and get to know what should. A node token
// reaches its own node only, the token of an adapter its own pools.

import {
  type Command,
  type NodeName,
  type NodeRecord,
  type PoolName,
  type RequestId,
  type Resources,
  requestOf,
} from "../../engine/index.ts";
import type { CallContext, View } from "../../leader/index.ts";
import type {
  WireLogPiece,
  WireNodeSync,
  WirePartCheckpoint,
  WireReportedNode,
} from "../../protocol/index.ts";
import { toMs, toNodeName, toPoolName, toRequestId, toTimestamp } from "../../translation/index.ts";
import { amountsText } from "../../words/index.ts";
import { memberDenial } from "../administration.ts";
import { heldIn } from "../agents/adopted.ts";
import type { Sync } from "../agents/agents.ts";
import { nodeChanges } from "../agents/machines.ts";
import { atMost, isRecorded, offerOf } from "../agents/offer.ts";
import {
  forgottenBy,
  type Meaning,
  answerFor as makeAnswer,
  meaningOf,
  type PartsAnswer,
  placesOf,
} from "../agents/parts.ts";
import { hasAdapter, keyOf, type Reporter } from "../agents/reporters.ts";
import {
  type Call,
  type Change,
  type Denial,
  denial,
  type Handler,
  ok,
  perform,
  type Reply,
  refused,
  type Services,
} from "../call.ts";
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
  // Whoever enrols a machine can be that machine, and be given what the jobs of everybody there run.
  const guard = (view: View) => memberDenial(view, call, { pools: [pool] });
  const denied = await services.leader.read(guard);
  if (denied !== undefined) throw refused(denied);
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
  if (capacity !== undefined) await register(call, services, { name, pool, capacity }, guard);
  await replaceToken(call, services, record, { detail: { pool }, guard });
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

/** What was enrolled is known before the machine joins; a node that has not synced yet gets no work. */
async function register(
  call: Call,
  services: Services,
  enrolled: { name: string; pool: string; capacity: Resources },
  guard: NonNullable<Change["guard"]>,
): Promise<void> {
  const name = toNodeName(enrolled.name);
  const { capacity } = enrolled;
  const node = { name, pool: toPoolName(enrolled.pool), capacity, enrolled: capacity, isDown: true };
  await perform(call, services, {
    command: { kind: "putNode", node },
    target: `node ${name}`,
    detail: { capacity },
    guard,
  });
}

/** A token of this name replaces the one before it. */
async function replaceToken(
  call: Call,
  services: Services,
  record: ReturnType<typeof makeToken>["record"],
  how: Pick<Change, "detail" | "guard">,
): Promise<void> {
  const { tokens, leader } = services;
  const target = `token ${record.name}`;
  for (const old of tokens.find(record.name)) {
    const revoked = { ...old, revokedAtMs: leader.nowMs() };
    await perform(call, services, { command: { kind: "putToken", token: revoked }, target, ...how });
    tokens.put(revoked);
  }
  await perform(call, services, { command: { kind: "putToken", token: record }, target, ...how });
  tokens.put(record);
}

export const joinNode: Handler<"joinNode"> = async (call, services) => {
  const name = call.params.node as string;
  const { tokens, leader } = services;
  if (call.identity.role !== "join" || call.identity.name !== joinTokenName(name)) {
    throw forbidden(`The token is not that of the enrolment of node "${name}".`, "Enrol this node first.");
  }
  // Used up before anything else: the second caller finds it gone.
  const giveUp = tokens.claim(call.identity.tokenId);
  if (giveUp === undefined) throw problemError("unauthenticated", "The join token is in use.");
  try {
    const pool = [...(call.identity.pools ?? [])][0] as string;
    const known = await leader.read((view) => checkEnrolment(view, name, pool));
    if (known instanceof Error) throw known;
    const bound = known?.enrolled ?? call.body.capacity;
    const capacity = atMost(call.body.capacity, bound);
    if (Object.keys(capacity).length === 0)
      throw nothingEnrolled(name, pool, { offered: call.body.capacity, bound });
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
    await replaceToken(call, services, record, { detail: { pool } });
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

/** The machine is another one than was enrolled, or has changed. */
function nothingEnrolled(
  name: string,
  pool: string,
  { offered, bound }: { readonly offered: Resources; readonly bound: Resources },
): Error {
  const has = Object.entries(offered).map(([key, amount]) => `${key}=${amount}`);
  return problemError(
    "empty_capacity",
    `Node "${name}" offers ${amountsText(offered)}, and was enrolled with ${amountsText(bound)}: no key is in both.`,
    { hint: `Enrol what it has: berth node enroll ${name} --pool ${pool} --capacity ${has.join(",")}` },
  );
}

// --- Sync (E2)

export const syncNode: Handler<"syncNode"> = async (call, services) => {
  const node = ownNode(call);
  services.leader.hearNode(node);
  await lookForLoss(call, services, { kind: "node", node });
  await settleNode(call, services, node);
  return answerSync(call, services, { kind: "node", node });
};

/** The adapter of a pool says what runs in all of it, and which machines it has (21, 22). */
export const syncPool: Handler<"syncPool"> = async (call, services) => {
  const pool = await ownPool(call, services);
  await lookForLoss(call, services, { kind: "pool", pool });
  if (call.body.nodes !== undefined) await settleNodes(call, services, pool, call.body.nodes);
  return answerSync(call, services, { kind: "pool", pool });
};

/** What was said is committed first, and then the answer waits for news. */
async function answerSync(
  call: Call & { readonly body: Sync },
  services: Services,
  reporter: Reporter,
): Promise<Reply> {
  const { epoch } = services.leader.status();
  await takeIn(call, services, reporter);
  const aborted = new AbortController();
  call.outgoing.on("close", () => aborted.abort());
  const untilMs = performance.now() + 1000 * (call.body.wait_seconds ?? 0);
  for (;;) {
    const leftMs = untilMs - performance.now();
    // Listening starts before the look, so that no change falls between the two.
    const stopListening = new AbortController();
    const signal = AbortSignal.any([aborted.signal, stopListening.signal]);
    const news = services.agents.nextNews(keyOf(reporter), leftMs, signal);
    const answer = await answerTo(services, reporter);
    if (answer.epoch !== epoch) {
      stopListening.abort();
      // What it said was taken in by another leadership, whose history this one may not have (C14): it says it again.
      throw problemError("not_leader", "Another leadership has begun since this sync.", {
        hint: "Sync again.",
        headers: { "retry-after": "0" },
      });
    }
    if (answer.version !== call.body.seen || leftMs <= 0 || aborted.signal.aborted) {
      stopListening.abort();
      return ok(await withRuns(services, answer, call.body));
    }
    await news;
  }
}

/** What the database has lost, the executors may still know (C14). */
async function lookForLoss(
  { body, identity }: Call & { readonly body: Sync },
  { replica, grants, agents, leader, log }: Services,
  reporter: Reporter,
): Promise<void> {
  const { epoch = 0, token = "", request_id = "" } = body.highest ?? {};
  const seq = replica?.role() === "leader" ? grants.verify(request_id, token) : undefined;
  if (replica !== undefined && seq !== undefined && seq > replica.seq()) {
    await replica.loseHistory({ seq, epoch }, `"${identity.name}" has the grant of event ${seq}.`);
    throw problemError(
      "not_leader",
      "The database has lost a part of the history; this server reads it anew.",
    );
  }
  for (const { request_id: target } of agents.adopted.note(keyOf(reporter), body.jobs)) {
    log.error({ requestId: target, actor: identity.name }, "history_lost: work whose grant is lost goes on");
    await leader.audit({ actor: identity.name, action: "adopted", target, outcome: "alert", body: {} });
  }
}

/** The node whose token it is; everything else does not exist for it. */
function ownNode({ identity, params }: Call): NodeName {
  const name = params.node as string;
  if (identity.role === "node" && identity.name === nodeTokenName(name)) return toNodeName(name);
  throw forbidden(`The token is not that of node "${name}".`, "An agent speaks for its own node only.");
}

/** A pool that the token is bound to, and whose jobs an adapter starts. */
async function ownPool({ identity, params }: Call, { leader }: Services): Promise<PoolName> {
  const name = toPoolName(params.pool as string);
  if (identity.role !== "executor" || !reachesPool(identity, name)) {
    throw forbidden(`The token is not that of an adapter of pool "${name}".`, "Use one that is bound to it.");
  }
  const { isKnown, isOurs } = await leader.read(({ state }) => ({
    isKnown: state.pools.has(name),
    isOurs: hasAdapter(state, name),
  }));
  if (!isKnown) throw notFound("pool", name);
  if (!isOurs) {
    throw problemError("no_executor", `Pool "${name}" does not start its jobs with an adapter.`, {
      hint: `Say so first: berth pool update ${name} --set executor=slurm (or kubernetes)`,
    });
  }
  return name;
}

/** Everything that the sync says is committed before it is answered: an end is acknowledged by the answer (J5). */
async function takeIn(
  call: Call & { readonly body: Sync },
  services: Services,
  reporter: Reporter,
): Promise<void> {
  const { leader, agents, grants } = services;
  const forgotten = await leader.read((view) =>
    forgottenBy(view, reporter, { agents, grants, sync: call.body }),
  );
  await performAll(call, services, forgotten);
  agents.keepReport(keyOf(reporter), call.body);
  const meaning = await leader.read((view) => {
    for (const { id, reporters } of placesOf(view, reporter)) agents.notePlaces(id, reporters);
    return meaningOf(view, reporter, { agents, grants });
  });
  await performAll(call, services, meaning);
  if (reporter.kind === "pool") await alertNotStarted(call, services, meaning);
  for (const { request_id: id, stuck, progress } of call.body.jobs) {
    if (stuck === true) await alertStuck(services, toRequestId(id), { actor: call.identity.name, progress });
  }
}

/** What Berth has granted and the cluster did not start needs an administrator (S3, K3). */
async function alertNotStarted(
  { identity }: Call,
  { leader, log }: Services,
  meanings: readonly Meaning[],
): Promise<void> {
  for (const { command } of meanings) {
    if (command.kind !== "reportEnd" || command.end?.cause !== "start_failed") continue;
    const { requestId } = command;
    const { message = "" } = command.end;
    log.error({ requestId, message }, "the cluster did not start a job: its grant was given back");
    const target = `request ${requestId}`;
    const body = { message };
    await leader.audit({ actor: identity.name, action: "not_started", target, outcome: "alert", body });
  }
}

/** A node that syncs is ready again, with what it offers now. A drained one stays so until an operator ends the drain. */
async function settleNode(
  call: Call & { readonly body: WireNodeSync },
  services: Services,
  name: NodeName,
): Promise<void> {
  const found = await services.leader.read((view) => {
    const known = view.state.nodes.get(name);
    return (
      known && {
        ...known,
        held: heldIn(view, name, services.agents.adopted),
      }
    );
  });
  if (found === undefined) throw notFound("node", name);
  const { record, pool, held } = found;
  const { enrolled = record.capacity, state } = record;
  const avoidBusy = pool.record.settings.avoidBusyDevices === true;
  const offer = offerOf(record, call.body, { avoidBusy, held });
  const { capacity, devices } = offer;
  const isUp = state === "ready" || state === "suspect";
  const target = `node ${name}`;
  const send = (command: Command, detail: Record<string, unknown> = {}) =>
    perform(call, services, { command, target, detail });
  if (Object.keys(capacity).length === 0) {
    // All that it has is in use by others: it gets nothing new until that is over.
    if (state === "ready") await send({ kind: "suspectNode", name });
  } else if (state === "down" || (isUp && !isRecorded(offer, record))) {
    await send({ kind: "putNode", node: { name, enrolled, capacity, devices } }, { capacity });
  } else if (state === "suspect") await send({ kind: "undrainNode", name });
}

/** The pool's nodes follow the machines of the cluster; what cannot be taken over is refused by itself. */
async function settleNodes(
  call: Call,
  services: Services,
  pool: PoolName,
  reported: readonly WireReportedNode[],
): Promise<void> {
  const commands = await services.leader.read((view) => nodeChanges(view.state, pool, reported));
  if (commands.length === 0) return;
  await services.leader.performMany(
    commands.map((command) => {
      const name = command.kind === "putNode" ? command.node.name : command.name;
      return { command, context: contextFor(call, command.kind, { target: `node ${name}` }) };
    }),
  );
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

async function answerTo(services: Services, reporter: Reporter): Promise<PartsAnswer> {
  const { leader, agents, grants } = services;
  const { epoch } = leader.status();
  const answer = await leader.read((view) => makeAnswer(view, reporter, { agents, grants, epoch }));
  if (answer === undefined) throw notFound(reporter.kind, keyOf(reporter));
  return answer;
}

/** What to run is sent only where it is not known yet (E2). */
async function withRuns({ store }: Services, answer: PartsAnswer, sync: Sync): Promise<PartsAnswer> {
  const known = new Set(sync.jobs.map(({ token }) => token));
  const jobs: PartsAnswer["jobs"] = [];
  for (const job of answer.jobs) {
    const run = known.has(job.token) ? undefined : await store.getAttachment(job.request_id, "run");
    jobs.push(run === undefined ? job : { ...job, run: run.body as NonNullable<typeof job.run> });
  }
  return { ...answer, jobs };
}

// --- Checkpoints and logs

export const reportPartCheckpoint: Handler<"reportPartCheckpoint"> = (call, services) => {
  const node = ownNode(call);
  services.leader.hearNode(node);
  return takeCheckpoint(call, services, { kind: "node", node });
};

export const reportPoolCheckpoint: Handler<"reportPoolCheckpoint"> = async (call, services) =>
  takeCheckpoint(call, services, { kind: "pool", pool: await ownPool(call, services) });

async function takeCheckpoint(
  call: Call & { readonly body: WirePartCheckpoint },
  services: Services,
  reporter: Reporter,
): Promise<Reply> {
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
    guard: (view) => runsFor(view, id, reporter),
    present: () => ({}),
  });
  return ok({});
}

function runsFor(view: View, id: RequestId, reporter: Reporter): Denial | undefined {
  const allocation = requestOf(view.state, id)?.progress.allocation ?? null;
  const isOurs =
    reporter.kind === "pool"
      ? allocation?.pool === reporter.pool
      : (allocation?.placement ?? []).some((place) => place.node === reporter.node);
  if (isOurs) return undefined;
  const where = reporter.kind === "pool" ? `in pool "${reporter.pool}"` : `on node "${reporter.node}"`;
  return denial("not_found", `There is no request "${id}" ${where}.`, "Sync, and look again.");
}

export const sendLog: Handler<"sendLog"> = (call, services) =>
  takeLog(call, services, { kind: "node", node: ownNode(call) });

export const sendPoolLog: Handler<"sendPoolLog"> = async (call, services) =>
  takeLog(call, services, { kind: "pool", pool: await ownPool(call, services) });

async function takeLog(
  call: Call & { readonly body: WireLogPiece },
  { agents }: Services,
  reporter: Reporter,
): Promise<Reply> {
  const taken = await agents.readers.take(keyOf(reporter), call.params.reader as string, call.body);
  return ok(taken ?? { go_on: false, position: 0 });
}
