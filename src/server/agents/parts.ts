// What a sync means (E2, E4, E7), and what its answer says. Both follow from the state and from what agents have said; nothing
// in here waits or changes anything.

import { hash } from "node:crypto";
import {
  type Command,
  DEFAULT_POOL_SETTINGS,
  type EndFacts,
  type JobPhase,
  type NodeName,
  type NodeState,
  type RequestId,
  requestOf,
  type Stop,
} from "../../engine/index.ts";
import type { View } from "../../leader/index.ts";
import type { WirePoolSyncAnswer, WireRunningPart, WireWantedPart } from "../../protocol/index.ts";
import type { Attachment } from "../../store/index.ts";
import { toSeconds, toTimestamp } from "../../translation/index.ts";
import type { Grants } from "../grants.ts";
import { heldIn, meets, outsiders, stays, wantedOutsider } from "./adopted.ts";
import type { Agents, Sync } from "./agents.ts";
import { grantedTo, keyOf, type Reporter, reportersFor } from "./reporters.ts";

/** One thing that a sync says about the world. */
export interface Meaning {
  readonly command: Command;
  readonly attachments?: readonly Attachment[];
}

interface Sources {
  readonly agents: Agents;
  readonly grants: Grants;
}

/** A job that an executor should run now, as the engine knows it. */
interface PlacedJob {
  readonly id: RequestId;
  readonly token: number;
  readonly nodes: readonly NodeName[];
  /** Who speaks for each of its parts. */
  readonly reporters: readonly string[];
  readonly attempt: number;
  readonly phase: JobPhase;
  readonly stop: Stop | null;
}

function jobsOf(view: View, reporter: Reporter): PlacedJob[] {
  return grantedTo(view.state, reporter).flatMap((id) => placedJob(view, id) ?? []);
}

function placedJob(view: View, id: RequestId): PlacedJob | undefined {
  const request = requestOf(view.state, id);
  const allocation = request?.progress.allocation ?? null;
  if (request === undefined || allocation?.phase === undefined) return undefined;
  const { token, phase, stop, placement, pool } = allocation;
  const nodes = placement.map(({ node }) => node);
  const reporters = reportersFor(view.state, pool, nodes);
  return { id, token, phase, stop, nodes, reporters, attempt: request.progress.attempt };
}

// --- What was said

/** Who speaks for the jobs of this one, so that what happens to them is news for all of them. */
export function placesOf(view: View, reporter: Reporter): Pick<PlacedJob, "id" | "reporters">[] {
  return jobsOf(view, reporter);
}

/** What the parts of all reporters, this one's as it says now, mean for its jobs. */
export function meaningOf(view: View, reporter: Reporter, sources: Sources): Meaning[] {
  const own = jobsOf(view, reporter).flatMap((job) => {
    const parts = job.reporters.map((key) => partOf(job, key, sources));
    return ended(job, parts) ?? failed(job, parts) ?? progressed(job, parts);
  });
  // The end of an outsider is that of the grant which its request has now, somewhere else and not started.
  const others = outsiders(view, reporter, sources.agents.adopted).flatMap((part) => {
    const job = part.phase === "ended" ? placedJob(view, part.request_id as RequestId) : undefined;
    if (job === undefined || hasStarted(job, sources)) return [];
    return ended(job, [part]) ?? [];
  });
  return [...own, ...others];
}

/** A reporter knows a grant by its token, or by that of the lost grant whose work it still runs (C14). */
function partOf({ id, token }: PlacedJob, key: string, { agents, grants }: Sources): Part {
  const lost = () => agents.adopted.of(key).find(({ request_id }) => request_id === id);
  return agents.partOf(key, id, grants.sign(id, token)) ?? lost();
}

function hasStarted(job: PlacedJob, sources: Sources): boolean {
  return job.reporters.some((key) => partOf(job, key, sources) !== undefined);
}

type Part = WireRunningPart | undefined;

/** All parts have ended: so has the attempt. */
function ended(job: PlacedJob, parts: readonly Part[]): Meaning[] | undefined {
  const ends = parts.flatMap((part) => (part?.phase === "ended" && part.end ? [part.end] : []));
  if (ends.length < parts.length) return undefined;
  const about = { requestId: job.id, token: job.token };
  const deciding = decidingEnd(ends);
  const attachments = ends.flatMap(({ log_tail: pieces, log_bytes: bytes }, rank): Attachment[] => {
    if (pieces === undefined) return [];
    const kept: KeptTail = { node: job.nodes[rank] ?? null, pieces, ...(bytes !== undefined && { bytes }) };
    return [{ requestId: job.id, part: logPartOf(job.attempt, rank), body: kept }];
  });
  if (deciding.outcome === "lost") return [{ command: { kind: "loseHolder", ...about }, attachments }];
  // An agent that stopped it of its own accord, after it had heard nothing for long, was not asked to.
  const isUnasked = deciding.outcome === "stopped" && job.stop === null;
  const outcome = isUnasked ? "failed" : deciding.outcome;
  const end = { ...factsOf(deciding), ...(isUnasked && { cause: "interrupted" as const }) };
  return [{ command: { kind: "reportEnd", ...about, outcome, end }, attachments }];
}

type PartEnd = NonNullable<WireRunningPart["end"]>;
const WORST_FIRST: readonly PartEnd["outcome"][] = ["lost", "failed", "stopped", "succeeded"];

/** The first failure is the attempt's (E7). */
function decidingEnd(ends: readonly PartEnd[]): PartEnd {
  const rank = ({ outcome }: PartEnd) => WORST_FIRST.indexOf(outcome);
  const atMs = ({ ended_at: at }: PartEnd) => Date.parse(at ?? "") || 0;
  return [...ends].sort((a, b) => rank(a) - rank(b) || atMs(a) - atMs(b))[0] as PartEnd;
}

function factsOf({ exit_code, signal, cause, message, ended_at }: PartEnd): EndFacts {
  const atMs = Date.parse(ended_at ?? "");
  return {
    ...(Number.isSafeInteger(atMs) && { atMs }),
    ...(exit_code !== undefined && { exitCode: exit_code }),
    ...(signal !== undefined && { signal }),
    ...(cause !== undefined && { cause }),
    ...(message !== undefined && { message }),
  };
}

/** The first part that ended badly stops the others (E7). */
function failed({ id, token, stop }: PlacedJob, parts: readonly Part[]): Meaning[] | undefined {
  const isBad = (part: Part) =>
    part?.phase === "ended" && (part.end?.outcome === "failed" || part.end?.outcome === "lost");
  if (stop !== null || !parts.some(isBad)) return undefined;
  return [{ command: { kind: "failPart", requestId: id, token } }];
}

/** It is starting when some part is, and runs when all do. */
function progressed({ id, token, phase }: PlacedJob, parts: readonly Part[]): Meaning[] {
  const hasStarted = (part: Part) => part !== undefined && part.phase !== "starting";
  const next = parts.every(hasStarted) ? "running" : parts.some(Boolean) ? "starting" : phase;
  const isNews = next !== phase && phase !== "running";
  return isNews ? [{ command: { kind: "reportPhase", requestId: id, token, phase: next } }] : [];
}

/** The end of the output of one part of an attempt (J6). */
export interface KeptTail {
  readonly node: string | null;
  /** In base64. */
  readonly pieces: readonly string[];
  /** Of the whole output; absent in what was kept before this was known. */
  readonly bytes?: number;
}

/** Names the end of the output of one part of an attempt among the attachments of its request (J6). */
export function logPartOf(attempt: number, rank: number): string {
  return `log ${attempt}.${rank}`;
}

/**
 * Attempts that an agent has started and that a later process of it knows nothing of: its disk was lost. They must not be
 * started again (J5). A late sync of the process that did know them says nothing.
 */
export function forgottenBy(
  view: View,
  reporter: Reporter,
  { agents, grants, sync }: Sources & { readonly sync: Sync },
): Meaning[] {
  // An adapter finds its attempts again by their names in the cluster (S2, K1): its disk is not all that it has.
  if (reporter.kind === "pool") return [];
  const before = agents.reportOf(keyOf(reporter));
  if (before === undefined || before.session === sync.session) return [];
  return jobsOf(view, reporter).flatMap((job): Meaning[] => {
    const signed = grants.sign(job.id, job.token);
    const lists = ({ jobs }: Sync) =>
      jobs.some(({ token }) => token === signed || grants.isLost(job.id, token));
    return lists(before) && !lists(sync)
      ? [{ command: { kind: "loseHolder", requestId: job.id, token: job.token } }]
      : [];
  });
}

// --- What is answered

/** The answer to a node has also the node's state. */
export type PartsAnswer = WirePoolSyncAnswer & { readonly state?: NodeState };

/** All but what is to be run, which is not in memory. */
export function answerFor(
  view: View,
  reporter: Reporter,
  { agents, grants, epoch }: Sources & { readonly epoch: number },
): PartsAnswer | undefined {
  const { state } = view;
  const node = reporter.kind === "node" ? state.nodes.get(reporter.node) : undefined;
  const pool = reporter.kind === "node" ? node?.pool : state.pools.get(reporter.pool);
  if (pool === undefined) return undefined;
  const { settings } = pool.record;
  const sources = { agents, grants };
  const outside = outsiders(view, reporter, agents.adopted);
  const wanted = jobsOf(view, reporter)
    .filter((job) => !isHeldBack(view, job, reporter, sources))
    .map((job) => wantedPart(view, job, reporter, sources));
  const isStarted = (id: RequestId) => {
    const job = placedJob(view, id);
    return job !== undefined && hasStarted(job, sources);
  };
  const adopted = outside
    .filter((part) => stays(view, part, isStarted))
    .map((part) => wantedOutsider(view, part, node === undefined ? [] : [node.record.name]));
  const facts = {
    epoch,
    ...(node !== undefined && { state: node.record.state }),
    sync_after_seconds: toSeconds(settings.heartbeatMs),
    lost_after_seconds: toSeconds(settings.nodeLostMs ?? (DEFAULT_POOL_SETTINGS.nodeLostMs as number)),
    may_run_on: settings.allowRunOn ?? false,
    jobs: [...wanted, ...adopted],
    logs: agents.readers.on(keyOf(reporter)).map(({ reader, requestId, token, from, follow }) => ({
      ...{ reader, request_id: requestId, token, from, follow },
    })),
  };
  return { ...facts, version: versionOf(facts) };
}

/** What must not be started yet, because of what still runs by a lost grant, or may (C14). */
function isHeldBack(view: View, job: PlacedJob, reporter: Reporter, sources: Sources): boolean {
  const key = keyOf(reporter);
  // What had begun before the loss has ended since, if it is not reported: its node still has the end, and must be asked.
  if (job.phase !== "assigned" || partOf(job, key, sources) !== undefined) return false;
  const { adopted } = sources.agents;
  if (adopted.isWaiting(view.state) || adopted.runsElsewhere(job.id, key)) return true;
  if (reporter.kind === "pool" || adopted.of(key).length === 0) return false;
  const rank = job.nodes.indexOf(reporter.node);
  const placement = requestOf(view.state, job.id)?.progress.allocation?.placement[rank];
  return meets(view, reporter.node, placement?.devices ?? [], heldIn(view, reporter.node, adopted));
}

/** The same as long as nothing changes but the time that is left, and how far a reader has got. */
function versionOf(facts: Omit<PartsAnswer, "version">): string {
  const text = JSON.stringify(facts, (key, value: unknown) =>
    key === "left_seconds" || key === "from" ? undefined : value,
  );
  return hash("sha1", text, "base64url").slice(0, 22);
}

function wantedPart(
  view: View,
  job: PlacedJob,
  reporter: Reporter,
  { agents, grants }: Sources,
): WireWantedPart {
  const { spec, progress } = requestOf(view.state, job.id) as NonNullable<ReturnType<typeof requestOf>>;
  const pool = view.state.pools.get(progress.allocation?.pool as never)?.record.settings;
  const part = partOf(job, keyOf(reporter), { agents, grants });
  const token = part?.token ?? grants.sign(job.id, job.token);
  const rank = Math.max(0, job.reporters.indexOf(keyOf(reporter)));
  return {
    request_id: job.id,
    number: view.numberOf(job.id) ?? 0,
    name: spec.name,
    component: spec.component,
    submitted_by: spec.submittedBy,
    operation: spec.operation,
    attempt: job.attempt,
    token,
    resources: spec.resources,
    devices: [...(progress.allocation?.placement[rank]?.devices ?? [])],
    rank,
    nodes: [...job.nodes],
    array_index: spec.array?.index ?? null,
    checkpoint: spec.checkpoint,
    resume: progress.resume,
    grace_seconds: toSeconds(pool?.graceMs ?? DEFAULT_POOL_SETTINGS.graceMs),
    checkpoint_seconds: toSeconds(pool?.checkpointTimeoutMs ?? DEFAULT_POOL_SETTINGS.checkpointTimeoutMs),
    instruction: instructionOf(job.stop, view.nowMs),
    signals: [...agents.signalsFor(job.id, token)],
  };
}

function instructionOf(stop: Stop | null, nowMs: number): WireWantedPart["instruction"] {
  if (stop === null) return { do: "carry_on" };
  return {
    do: stop.phase === "checkpoint" ? "checkpoint" : "stop",
    reason: stop.reason ?? stop.cause,
    deadline: toTimestamp(stop.deadlineMs),
    left_seconds: stop.phase === "kill" ? 0 : toSeconds(Math.max(0, stop.deadlineMs - nowMs)),
  };
}
