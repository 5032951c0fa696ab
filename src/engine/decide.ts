// What a command means for the current state. Nothing here waits or looks at a clock: the caller brings the
// time, and gets back the events that happened, or a refusal to show and a state left as it was.

import { checkAmounts } from "./administration/checks.ts";
import { isAdmitted, rejectUnadmitted, settleAdministration } from "./administration/effects.ts";
import { createGroup, deleteGroup, updateGroup } from "./administration/groups.ts";
import { decideNode, fireDrainDeadlines } from "./administration/nodes.ts";
import { attachPolicy, detachPolicy, updatePolicy } from "./administration/policies.ts";
import { createPool, deletePool, updatePool } from "./administration/pools.ts";
import { isFirmOn } from "./admission.ts";
import { assertNever } from "./assert.ts";
import { finishAttempt } from "./attempts.ts";
import { neverUp } from "./breaks.ts";
import type { Command, CommandOf, NoHolder, RequestChange } from "./commands.ts";
import { belongsOutside, enterReady, judgeEntered, settleAfter, settleBlocked } from "./entering.ts";
import type { Event } from "./events.ts";
import { dependenciesOf, hasTurn } from "./indexes/blocked.ts";
import { dueRequests, rewake } from "./indexes/timers.ts";
import { shapeKeyOf } from "./lines.ts";
import { type JobPhase, type RequestId, type RequestSpec, TERMINAL_STATUSES } from "./records.ts";
import { type Refusal, RefusedError, refusal, refuse } from "./refusals.ts";
import { amountOf } from "./resources.ts";
import { pauseScheduling, schedule } from "./scheduling/schedule.ts";
import { CLASS_MAX, type EngineState, type Request, type Run } from "./state.ts";
import {
  cancelRun,
  deferStop,
  failRun,
  fireRunTimer,
  reportCheckpointDone,
  reportProgress,
} from "./stopping.ts";
import { EvolveError, Transaction } from "./transaction.ts";

export type Decision =
  | { readonly outcome: "accepted"; readonly events: readonly Event[] }
  /** `bug` is set when the engine itself failed: undone, to be reported, and the server lives on. */
  | { readonly outcome: "refused"; readonly refusal: Refusal; readonly bug?: unknown };

/**
 * Decides a command at a time that never runs backwards. On acceptance the state has evolved already. A fixed point
 * that is not reached when `isTimeUp` says so is cut: what is left is for the next ticks (`nextWakeMs` says now).
 */
export function decide(
  state: EngineState,
  command: Command,
  nowMs: number,
  isTimeUp: () => boolean = neverUp,
): Decision {
  const transaction = new Transaction(state, nowMs, { isTimeUp, mayGoOn: command.kind === "tick" });
  return attempt(transaction, command, "keep");
}

/** What would happen (P10, 14): the same decision up to its end, taken back. */
export function preview(state: EngineState, command: Command, nowMs: number): Decision {
  return attempt(new Transaction(state, nowMs), command, "take back");
}

/** Decisions that `act` makes on the state are taken back at its end, as if it had had a copy (X5). Forks nest. */
export function fork<T>(state: EngineState, act: () => T): T {
  state.undo.begin(state);
  try {
    return act();
  } finally {
    state.undo.rollback(state);
  }
}

function attempt(transaction: Transaction, command: Command, then: "keep" | "take back"): Decision {
  const { state, nowMs } = transaction;
  if (nowMs < state.clockMs) throw new Error(`time ran backwards, from ${state.clockMs} to ${nowMs}`);
  state.undo.begin(state);
  try {
    state.clockMs = nowMs;
    carryOut(transaction, command);
    if (!transaction.isCut) {
      enterReady(transaction);
      schedule(transaction); // Time has passed, whatever the command was about.
    }
  } catch (error) {
    state.undo.rollback(state);
    if (error instanceof RefusedError) return { outcome: "refused", refusal: error.refusal };
    if (error instanceof EvolveError) throw error;
    const message = `The engine failed on ${command.kind}; nothing was changed.`;
    return {
      outcome: "refused",
      refusal: refusal("engine_error", message, "Report this with the command."),
      bug: error,
    };
  }
  if (then === "take back") state.undo.rollback(state);
  else state.undo.commit();
  return { outcome: "accepted", events: transaction.events };
}

function carryOut(transaction: Transaction, command: Command): void {
  switch (command.kind) {
    case "createPool":
      return administer(transaction, () => createPool(transaction, command));
    case "updatePool":
      return administer(transaction, () => updatePool(transaction, command));
    case "deletePool":
      return administer(transaction, () => deletePool(transaction, command));
    case "createGroup":
      return administer(transaction, () => createGroup(transaction, command));
    case "updateGroup":
      return administer(transaction, () => updateGroup(transaction, command));
    case "deleteGroup":
      return administer(transaction, () => deleteGroup(transaction, command));
    case "attachPolicy":
      return administer(transaction, () => attachPolicy(transaction, command));
    case "updatePolicy":
      return administer(transaction, () => updatePolicy(transaction, command));
    case "detachPolicy":
      return administer(transaction, () => detachPolicy(transaction, command));
    case "putNode":
    case "drainNode":
    case "undrainNode":
    case "suspectNode":
    case "loseNode":
    case "removeNode":
      return administer(transaction, () => decideNode(transaction, command));
    case "changeServerSettings":
      return transaction.emit({ kind: "serverSettingsChanged", unmanaged: command.unmanaged });
    case "submitRequest":
      return submit(transaction, command);
    case "updateRequest":
      return updateRequest(transaction, command);
    case "cancelRequest":
      return cancel(transaction, command.requestId, command.noHolder);
    case "deleteRequest":
      return deleteRequest(transaction, command);
    case "forgetEnded":
      return forgetEnded(transaction, command.endedBeforeMs);
    case "reportEnd":
      return reportEnd(transaction, command);
    case "reportCheckpoint":
      return reportCheckpoint(transaction, command);
    case "reportPhase":
      return reportPhase(transaction, command);
    case "failPart":
      return failRun(transaction, runningRequest(transaction.state, command.requestId, command.token));
    case "loseHolder":
      return loseHolder(transaction, command);
    case "tick":
      return tick(transaction, command);
    default:
      return assertNever(command);
  }
}

/** Every change of pools, groups, policies and nodes is followed by a new judgement of those who wait (P9). */
function administer(transaction: Transaction, change: () => void): void {
  change();
  settleAdministration(transaction);
}

function submit(transaction: Transaction, { spec, impossible }: CommandOf<"submitRequest">): void {
  const { state, nowMs } = transaction;
  if (state.requests.has(spec.id)) {
    refuse(
      "name_taken",
      `A request with the id "${spec.id}" exists already.`,
      "Every request needs an id of its own.",
    );
  }
  checkSpec(state, spec);
  checkBeginning(state, spec);
  const isImpossible = impossible !== undefined;
  const isBlocked = isImpossible || dependenciesOf(state, spec).are !== "met" || !hasTurn(state, spec);
  transaction.emit(
    isBlocked
      ? { kind: "requestSubmitted", spec, blocked: true, atMs: nowMs }
      : { kind: "requestSubmitted", spec, atMs: nowMs },
  );
  const request = state.requests.newest as Request;
  if (isImpossible) {
    return transaction.emit({
      kind: "requestCancelled",
      requestId: spec.id,
      because: impossible,
      atMs: nowMs,
    });
  }
  if (isBlocked) return rejectBlocked(transaction, request);
  judgeEntered(transaction, request);
}

/** What no pool admits is rejected before it waits for others (A3); what waits for the impossible is cancelled (J9). */
function rejectBlocked(transaction: Transaction, request: Request): void {
  const { spec, line } = request;
  settleBlocked(transaction, request);
  const hasPlace = isAdmitted(line) || belongsOutside(transaction.state, request);
  if (hasPlace || request.progress.blocked !== true) return;
  transaction.emit({ kind: "requestEntered", requestId: spec.id, atMs: transaction.nowMs });
  rejectUnadmitted(transaction, line);
}

const CHANGEABLE_ALWAYS: ReadonlySet<string> = new Set<keyof RequestChange>(["labels", "note"]);
const CHANGEABLE_WHILE_RUNNING: ReadonlySet<string> = new Set<keyof RequestChange>([
  ...(["labels", "note", "walltimeMs", "preemptionClass"] as const),
  ...(["requeue", "retriesMax", "retryDelayMs"] as const),
]);

/** Judged again like a new one; a change that no pool would admit is refused, and nothing happens (Q9). */
function updateRequest(transaction: Transaction, { requestId, change }: CommandOf<"updateRequest">): void {
  const { state, nowMs } = transaction;
  const request = requestNamed(state, requestId);
  const { spec, progress } = request;
  const isWaiting = progress.status === "queued";
  const changeable = progress.allocation === null ? CHANGEABLE_ALWAYS : CHANGEABLE_WHILE_RUNNING;
  const fixed = isWaiting ? undefined : Object.keys(change).find((field) => !changeable.has(field));
  if (fixed !== undefined) {
    refuse(
      "invalid_request",
      `Request "${requestId}" is ${progress.status}, so its ${wireNameOf(fixed)} cannot be changed.`,
      `What can be: ${[...changeable].map(wireNameOf).join(", ")}.`,
    );
  }
  const next: RequestSpec = { ...spec, ...change };
  checkSpec(state, next);
  if (progress.hold !== null && shapeKeyOf(next) !== shapeKeyOf(spec)) {
    transaction.emit({ kind: "holdEnded", requestId, why: "request_changed", by: null, atMs: nowMs });
  }
  const asksForMore = isWaiting && isMore(next, spec);
  transaction.emit({ kind: "requestChanged", requestId, spec: next, asksForMore, atMs: nowMs });
  if (isWaiting) checkAdmitted(request);
  else if (request.run !== null) checkStays(request.run);
}

/** More of any key, or more nodes. */
function isMore(next: RequestSpec, { resources, nodes }: RequestSpec): boolean {
  const isMoreOf = (key: string) => amountOf(next.resources, key) > amountOf(resources, key);
  return next.nodes > nodes || Object.keys(next.resources).some(isMoreOf);
}

function checkAdmitted({ spec, line }: Request): void {
  if (isAdmitted(line)) return;
  const verdicts = line.poolLines.map(({ verdict }) => verdict);
  const named = verdicts.find((verdict) => verdict !== null && verdict.code !== "no_policy");
  const reason = named
    ? `pool "${named.pool}" allows ${named.allowed} ${named.key}, and it would ask for ${named.asked} (${named.code})`
    : "its component has no policy in them (no_policy)";
  refuse(
    "invalid_request",
    `No pool would admit request "${spec.id}": ${reason}.`,
    "Ask for something else.",
  );
}

/** What runs stays admitted where it is, and what may use reserved capacity only stays inside it (A2, G2). */
function checkStays({ poolLine, request }: Run): void {
  const { policy, verdict, pool } = poolLine;
  const isOver = (i: number) =>
    isFirmOn(poolLine, i) && (policy.firmUsage[i] as number) > (policy.reserved[i] as number);
  if (verdict === null && !pool.keys.some((_, i) => isOver(i))) return;
  refuse(
    "invalid_request",
    `Pool "${pool.record.name}" would not admit request "${request.spec.id}" any more.`,
    "Cancel it and ask again, or change its policy.",
  );
}

/** As people write it. */
function wireNameOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`).replace(/_ms$/, "_seconds");
}

/** What is refused before anything is stored (A5, R1). */
function checkSpec(state: EngineState, spec: RequestSpec): void {
  const what = `request "${spec.id}"`;
  let keys = 0;
  for (const _ in spec.resources) keys++;
  if (keys === 0)
    refuse("invalid_request", `The ${what} asks for nothing.`, "Ask for at least one unit of something.");
  if (keys > 64)
    refuse("invalid_request", `The ${what} names more than 64 keys.`, "Ask for fewer kinds of resources.");
  checkAmounts(what, spec.resources, 1);
  if (
    !Number.isInteger(spec.preemptionClass) ||
    spec.preemptionClass < 0 ||
    spec.preemptionClass > CLASS_MAX
  ) {
    refuse(
      "invalid_class",
      `The ${what} has class ${spec.preemptionClass}.`,
      "Use a whole number from 0 to 10.",
    );
  }
  const highest = state.components.get(spec.component)?.classMax ?? CLASS_MAX;
  if (spec.preemptionClass > highest) {
    refuse(
      "invalid_class",
      `The ${what} has class ${spec.preemptionClass}.`,
      `Component "${spec.component}" may use up to ${highest}.`,
    );
  }
  checkWhole(spec, 1, "number of nodes", spec.nodes);
  checkWhole(spec, 1, "walltime in milliseconds", spec.walltimeMs);
  checkWhole(spec, 1, "wait timeout in milliseconds", spec.waitTimeoutMs);
  checkWhole(spec, 0, "checkpoint estimate in milliseconds", spec.checkpointMs);
  checkWhole(spec, 0, "number of retries", spec.retriesMax);
  checkWhole(spec, 0, "retry delay in milliseconds", spec.retryDelayMs);
}

function checkWhole({ id }: RequestSpec, min: number, name: string, value: number | null): void {
  if (value === null || (Number.isSafeInteger(value) && value >= min)) return;
  refuse(
    "invalid_request",
    `The request "${id}" has a ${name} of ${value}.`,
    `Use a whole number from ${min} on.`,
  );
}

/** Members of an array differ by their numbers, and belong to one operation (J9). */
function checkBeginning(state: EngineState, { array, operation, after, id }: RequestSpec): void {
  const unknown = after?.find(({ requestId }) => requestId !== id && !state.requests.has(requestId));
  if (unknown !== undefined) {
    refuse(
      "not_found",
      `The request "${id}" waits for "${unknown.requestId}", which is not there.`,
      "List the requests to see their ids.",
    );
  }
  if (after?.some(({ requestId }) => requestId === id)) {
    refuse("invalid_request", `The request "${id}" waits for its own end.`, "Name another one.");
  }
  if (array == null) return;
  if (operation === null) {
    refuse(
      "invalid_request",
      `The request "${id}" is a member of an array and has no operation.`,
      "Give all members of an array the same operation.",
    );
  }
}

/** Cancelling what waits, or what nobody holds, ends it; what runs is stopped and ends when it has stopped (Q5, L2). */
function cancel(transaction: Transaction, id: RequestId, noHolder?: NoHolder): void {
  const request = requestNamed(transaction.state, id);
  const { progress } = request;
  if (progress.status === "queued") {
    transaction.emit({ kind: "requestCancelled", requestId: id, atMs: transaction.nowMs });
  } else if (progress.allocation !== null) {
    // Asked twice: the first one counts.
    if (progress.allocation.stop?.cause !== "cancellation") cancelRun(transaction, request);
    if (noHolder !== undefined) finishAttempt(transaction, request, "stopped", { cause: noHolder });
  } else {
    refuse(
      "invalid_request",
      `Request "${id}" has ended as ${progress.status}.`,
      "There is nothing left to cancel.",
    );
  }
}

/** Possible when it has ended; otherwise force cancels first, and the record goes with its end (Q6). */
function deleteRequest(
  transaction: Transaction,
  { requestId, force = false, noHolder }: CommandOf<"deleteRequest">,
): void {
  const { progress } = requestNamed(transaction.state, requestId);
  if (!TERMINAL_STATUSES.has(progress.status)) {
    if (!force) {
      refuse("in_use", `Request "${requestId}" is ${progress.status}.`, "Cancel it first, or pass force.");
    }
    cancel(transaction, requestId, noHolder);
    if (!transaction.state.requests.has(requestId)) return; // Asked twice, and gone with its end.
    if (!TERMINAL_STATUSES.has(progress.status)) {
      if (progress.deletionPlanned !== true) transaction.emit({ kind: "deletionPlanned", requestId });
      return; // It is stopping.
    }
  }
  settleAfter(transaction, requestId);
  transaction.emit({ kind: "requestDeleted", requestId });
}

function forgetEnded(transaction: Transaction, endedBeforeMs: number): void {
  const requestIds: RequestId[] = [];
  for (const { spec, progress } of transaction.state.ended) {
    if ((progress.endedAtMs as number) >= endedBeforeMs) break;
    requestIds.push(spec.id);
  }
  if (requestIds.length > 0) transaction.emit({ kind: "endedForgotten", requestIds });
}

// --- what holders say --------------------------------------------------------------------------------

function reportEnd(
  transaction: Transaction,
  { requestId, token, outcome, end }: CommandOf<"reportEnd">,
): void {
  const request = runningRequest(transaction.state, requestId, token);
  if (outcome === "stopped" && request.progress.allocation?.stop === null) {
    refuse(
      "invalid_request",
      `Request "${requestId}" was not asked to stop.`,
      "Report succeeded or failed, or cancel it.",
    );
  }
  finishAttempt(transaction, request, outcome, end);
}

function reportCheckpoint(transaction: Transaction, command: CommandOf<"reportCheckpoint">): void {
  const request = runningRequest(transaction.state, command.requestId, command.token);
  switch (command.checkpoint.report) {
    case "done":
      reportCheckpointDone(transaction, request);
      break;
    case "progress":
      reportProgress(transaction, request);
      break;
    case "defer":
      if (!Number.isSafeInteger(command.checkpoint.deferMs) || command.checkpoint.deferMs < 0) {
        refuse(
          "invalid_request",
          `A deferral of ${command.checkpoint.deferMs} ms was asked for.`,
          "Use a time from 0 on.",
        );
      }
      deferStop(transaction, request, command.checkpoint.deferMs);
      break;
    default:
      assertNever(command.checkpoint);
  }
}

const PHASES: readonly JobPhase[] = ["assigned", "starting", "running"];

/** Phases only go forward, so that a late report does no harm (J4). */
function reportPhase(transaction: Transaction, { requestId, token, phase }: CommandOf<"reportPhase">): void {
  const { allocation } = runningRequest(transaction.state, requestId, token).progress;
  const known = allocation?.phase;
  if (known === undefined) {
    refuse("invalid_request", `Request "${requestId}" is not a job.`, "Only jobs have phases.");
  }
  if (PHASES.indexOf(phase) <= PHASES.indexOf(known)) return;
  transaction.emit({ kind: "phaseChanged", requestId, phase, atMs: transaction.nowMs });
}

/** The lease rules say that a holder is gone, or that nobody waits any more for an attended request (L2). */
function loseHolder(
  transaction: Transaction,
  { requestId, token, untaken = false }: CommandOf<"loseHolder">,
): void {
  const request = requestNamed(transaction.state, requestId);
  if (request.progress.status === "queued" && request.spec.attended) {
    transaction.emit({ kind: "requestExpired", requestId, atMs: transaction.nowMs });
  } else {
    const run = runningRequest(transaction.state, requestId, token);
    finishAttempt(transaction, run, "lost", { cause: untaken ? "not_taken_up" : "holder_silent" });
  }
}

function requestNamed(state: EngineState, id: RequestId): Request {
  return (
    state.requests.get(id) ??
    refuse("not_found", `There is no request "${id}".`, "List the requests to see their ids.")
  );
}

/** The request with the allocation that the caller speaks of; an old token is refused (L1). */
function runningRequest(state: EngineState, id: RequestId, token: number | undefined): Request {
  const request = requestNamed(state, id);
  const { allocation, status } = request.progress;
  if (token !== undefined && token !== allocation?.token) {
    refuse(
      "stale_token",
      `The grant ${token} of request "${id}" is over.`,
      "Stop the work: the units belong to others now.",
    );
  }
  if (allocation === null) {
    refuse(
      "invalid_request",
      `Request "${id}" is ${status} and holds nothing.`,
      "Only a running request can report.",
    );
  }
  return request;
}

// --- time --------------------------------------------------------------------------------------------

/**
 * Timers on one instant happen together: ends of runs, scheduling, wait timeouts of what still waits, scheduling (Q8).
 * Where there are too many for one slice, nothing is scheduled before the last of them.
 */
function tick(transaction: Transaction, { ends = [] }: CommandOf<"tick">): void {
  const { state, nowMs } = transaction;
  for (const { requestId, outcome } of ends) {
    finishAttempt(transaction, runningRequest(state, requestId, undefined), outcome);
  }
  const due = dueRequests(state, nowMs);
  if (!fireTimers(transaction, due)) return;
  fireDrainDeadlines(transaction);
  enterReady(transaction);
  schedule(transaction);

  for (const request of due) {
    const hasWaitedEnough = isWaitOver(request, nowMs);
    if (hasWaitedEnough && state.isPaused) continue; // It may still be granted: its timer stays due.
    if (hasWaitedEnough)
      transaction.emit({ kind: "requestExpired", requestId: request.spec.id, atMs: nowMs });
    rewake(state, request);
  }
}

/** Fires timers, but for wait timeouts, which come after scheduling; false: the others are for the next tick. */
function fireTimers(transaction: Transaction, due: readonly Request[]): boolean {
  const { state, nowMs, isTimeUp } = transaction;
  const toFire = due.filter((request) => !isWaitOver(request, nowMs));
  for (const [index, request] of toFire.entries()) {
    fireTimer(transaction, request);
    if (index === toFire.length - 1 || !isTimeUp()) continue;
    for (const fired of toFire.slice(0, index + 1)) rewake(state, fired);
    for (const { run } of toFire) if (run !== null) state.unsettled.add(run.poolLine.pool);
    if (state.unsettled.size === 0) continue; // Nothing would say that there is more to do.
    pauseScheduling(transaction, state.unsettled);
    return false;
  }
  return true;
}

function isWaitOver({ spec, progress }: Request, nowMs: number): boolean {
  const { status, delayed, queuedAtMs } = progress;
  return (
    status === "queued" && !delayed && nowMs >= queuedAtMs + (spec.waitTimeoutMs ?? Number.POSITIVE_INFINITY)
  );
}

function fireTimer(transaction: Transaction, request: Request): void {
  const { state, nowMs } = transaction;
  const { progress, spec, run } = request;
  if (progress.delayed && nowMs >= progress.queuedAtMs) {
    transaction.emit({ kind: "requestEntered", requestId: spec.id, atMs: nowMs });
    rejectUnadmitted(transaction, request.line);
  } else if (progress.allocation !== null) {
    fireRunTimer(transaction, request);
    if (run !== null) state.unsettled.add(run.poolLine.pool); // It may have become old enough to be a victim (V2).
  }
}
