// One batch on its way to the store: commands are decided into it one after the other, and it collects all
// that their commit must write. Nothing in here waits.

import {
  accountsOf,
  type Command,
  decide,
  type EngineState,
  type Event,
  type PoolName,
  preview,
  type RequestId,
  type Resources,
  TERMINAL_STATUSES,
} from "../engine/index.ts";
import { type DueRow, type Sample, toRow } from "../history/index.ts";
import type {
  Attachment,
  AuditEntry,
  Commit,
  DecisionRecord,
  HistoryRecord,
  IdempotencyRecord,
  RequestRecord,
  TargetRecord,
  TokenRecord,
} from "../store/index.ts";
import { FORM_WITH_SLICES, firstFormOf, NEWEST_FORM, toStored } from "./event-forms.ts";
import type {
  Answer,
  Call,
  CallContext,
  CommittedEvent,
  LeaderCommand,
  LeaderRefusal,
  Log,
  Observer,
  View,
} from "./interface.ts";
import type { Leases } from "./leases.ts";
import type { Lookups } from "./lookups.ts";
import { type Memory, note } from "./memory.ts";
import type { NodeClocks } from "./nodes.ts";
import { decisionsOf, recordOf, touchedBy } from "./projections.ts";
import { resumeExpiry, withoutHolder } from "./renewals.ts";
import { SLICE_MS } from "./slices.ts";

export interface Batch {
  readonly nowMs: number;
  readonly events: CommittedEvent[];
  readonly touched: Set<RequestId>;
  readonly decisions: DecisionRecord[];
  readonly audit: AuditEntry[];
  /** Answers to remember, by scope and key. */
  readonly answers: Map<string, IdempotencyRecord>;
  readonly attachments: Attachment[];
  readonly tokens: TokenRecord[];
  readonly deletedTokenIds: string[];
  readonly targets: TargetRecord[];
  readonly deletedTargets: string[];
  readonly deletedRequestIds: Set<string>;
  /** The state as the batch has made it so far. */
  readonly view: View;
  engineErrors: number;
}

/** What a batch is decided with. */
export interface Decider {
  readonly memory: Memory;
  readonly log: Log;
  readonly observer: Observer;
  readonly measureMs: () => number;
  readonly nodes: Pick<NodeClocks, "lift">;
  readonly leases: Leases;
  /** In which form events are written now. */
  readonly eventForm: () => number;
}

export function openBatch(view: View): Batch {
  return {
    nowMs: view.nowMs,
    view,
    events: [],
    touched: new Set(),
    decisions: [],
    audit: [],
    answers: new Map(),
    attachments: [],
    tokens: [],
    deletedTokenIds: [],
    targets: [],
    deletedTargets: [],
    deletedRequestIds: new Set(),
    engineErrors: 0,
  };
}

export function isEmpty(batch: Batch): boolean {
  const { events, audit, answers, attachments, tokens, deletedTokenIds, deletedRequestIds } = batch;
  const rows = events.length + audit.length + answers.size + attachments.length + tokens.length;
  const targets = batch.targets.length + batch.deletedTargets.length;
  return rows + targets + deletedTokenIds.length + deletedRequestIds.size === 0;
}

export function commitOf(
  batch: Batch,
  memory: Memory,
  eventForm: number,
): Omit<Commit, "epoch" | "expectedSeq"> {
  const requests = [...batch.touched].flatMap((id) => recordOf(memory, id) ?? []);
  return {
    atMs: batch.nowMs,
    events: batch.events.map(({ event }) => toStored(event, eventForm)),
    audit: batch.audit,
    idempotency: [...batch.answers.values()],
    requests,
    decisions: batch.decisions.filter(({ requestId }) => !batch.deletedRequestIds.has(requestId)),
    history: dueRows(memory),
    attachments: batch.attachments.filter(({ requestId }) => !batch.deletedRequestIds.has(requestId)),
    tokens: batch.tokens,
    deletedRequestIds: [...batch.deletedRequestIds],
    deletedTokenIds: batch.deletedTokenIds,
    targets: batch.targets.filter(({ name }) => !batch.deletedTargets.includes(name)),
    deletedTargets: batch.deletedTargets,
  };
}

/** What is due of the history since the last commit. What is owed is known where the state is whole. */
function dueRows({ history, state }: Memory): readonly HistoryRecord[] {
  if (history.due.length === 0) return history.due as [];
  const rows = history.due.map((due) =>
    toRow(due.kind === "day" ? due : { ...due, sample: withOwed(state, due) }),
  );
  history.due = [];
  return rows;
}

function withOwed(state: EngineState, { pool, sample }: Extract<DueRow, { kind: "sample" }>): Sample {
  const name = pool as PoolName;
  if (!state.pools.has(name)) return sample;
  const components = { ...sample.components };
  for (const { kind, name: component, fairShare } of accountsOf(state, name)) {
    if (kind !== "policy" || fairShare === null || components[component] === undefined) continue;
    const o = Object.entries(fairShare).map(([key, units]) => [key, Math.round(units * 1000) / 1000]);
    components[component] = { ...components[component], o: Object.fromEntries(o) as Resources };
  }
  return { ...sample, components };
}

/** Decides a call once: the same key gets the same answer (Q4). */
export function decideCall(batch: Batch, decider: Decider, lookups: Lookups, call: Call): Answer {
  const { idempotency } = call.context;
  if (idempotency === undefined) return decideAnew(batch, decider, lookups, call);

  const key = keyOf(idempotency);
  const first = batch.answers.get(key) ?? lookups.answers.get(key);
  if (first === undefined) {
    const answer = decideAnew(batch, decider, lookups, call);
    if (isFinal(answer))
      batch.answers.set(key, { ...idempotency, atMs: batch.nowMs, answer: toKeep(answer) });
    return answer;
  }
  if (first.bodyHash === idempotency.bodyHash) return fromKept(first);
  const answer = refused({
    code: "idempotency_conflict",
    message: `The idempotency key "${idempotency.key}" was used before with another body.`,
    hint: "Use a new key for a new call.",
  });
  record(batch, call, answer);
  return answer;
}

export function keyOf({ scope, key }: { readonly scope: string; readonly key: string }): string {
  return `${scope}\0${key}`;
}

/** Decides what the leader itself wants. Undefined if the engine refused it. */
export function decideOwn(batch: Batch, decider: Decider, command: Command): readonly Event[] | undefined {
  const answer = decideInEngine(batch, decider, command, { actor: LEADER });
  return answer.outcome === "accepted" ? answer.events : undefined;
}

export const LEADER = "berth";

function decideAnew(batch: Batch, decider: Decider, lookups: Lookups, call: Call): Answer {
  const objection = call.context.precondition?.(batch.view);
  const answer = objection === undefined ? carryOut(batch, decider, lookups, call) : refused(objection);
  if (answer.outcome === "accepted") batch.attachments.push(...(call.context.attachments ?? []));
  record(batch, call, answer);
  return answer;
}

function carryOut(batch: Batch, decider: Decider, lookups: Lookups, { command, context }: Call): Answer {
  switch (command.kind) {
    case "putToken":
      batch.tokens.push(command.token);
      return accepted(batch, decider, context, []);
    case "deleteToken":
      batch.deletedTokenIds.push(command.tokenId);
      return accepted(batch, decider, context, []);
    case "putTargets":
      batch.targets.push(...command.targets);
      return accepted(batch, decider, context, []);
    case "deleteTarget":
      batch.deletedTargets.push(command.name);
      return accepted(batch, decider, context, []);
    case "deleteRequest":
      // Ended and no longer in memory: only its record is left to delete (Q6).
      if (lookups.records.has(command.requestId) && !decider.memory.numbers.has(command.requestId)) {
        batch.deletedRequestIds.add(command.requestId);
        return accepted(batch, decider, context, []);
      }
      return decideInEngine(batch, decider, withoutHolder(decider.leases, command), context);
    case "resumeExpiry":
      resumeExpiry(decider, command.name);
      return accepted(batch, decider, context, []);
    default:
      return decideInEngine(batch, decider, withoutHolder(decider.leases, command), context);
  }
}

/** Refused for what passes by itself: the same call may be accepted later. */
function isFinal(answer: Answer): boolean {
  return answer.outcome === "accepted" || !PASSING.has(answer.refusal.code);
}

const PASSING: ReadonlySet<LeaderRefusal["code"]> = new Set(["engine_error", "mixed_versions"]);

function decideInEngine(batch: Batch, decider: Decider, command: Command, context: CallContext): Answer {
  const { memory, log, observer, measureMs } = decider;
  const form = decider.eventForm();
  if (form < NEWEST_FORM && !canBeSaid(batch, decider, command, form)) return refused(MIXED_VERSIONS);
  const startMs = measureMs();
  const isTimeUp = () => form >= FORM_WITH_SLICES && measureMs() - startMs > SLICE_MS;
  const decision = decide(memory.state, command, batch.nowMs, isTimeUp);
  observer.decided?.(command.kind, measureMs() - startMs);
  if (decision.outcome === "accepted") {
    include(batch, memory, decision.events);
    return accepted(batch, decider, context, decision.events);
  }
  if ("bug" in decision) {
    batch.engineErrors++;
    log.error({ err: decision.bug, command, actor: context.actor }, decision.refusal.message);
    batch.audit.push({
      actor: context.actor,
      action: "engine_error",
      target: targetOf(command),
      outcome: "engine_error",
      body: { command, error: String(decision.bug) },
    });
  }
  return refused(decision.refusal);
}

/** Whether servers of the version before could read what comes of this. Asked only while there are some (C12). */
function canBeSaid({ nowMs }: Batch, { memory }: Decider, command: Command, form: number): boolean {
  const outcome = preview(memory.state, command, nowMs);
  return outcome.outcome === "refused" || outcome.events.every((event) => firstFormOf(event) <= form);
}

const MIXED_VERSIONS: LeaderRefusal = {
  code: "mixed_versions",
  message: "Servers of an older version are part of this cluster, and could not read this change.",
  hint: "Upgrade them all; a minute later it is accepted. `berth cluster status` shows their versions.",
};

function include(batch: Batch, memory: Memory, events: readonly Event[]): void {
  let seq = memory.state.seq - events.length;
  for (const event of events) {
    const committed: CommittedEvent = { seq: ++seq, atMs: batch.nowMs, event };
    note(memory, event, committed);
    batch.events.push(committed);
    for (const decision of decisionsOf(event, seq)) batch.decisions.push(decision);
    for (const id of touchedBy(event)) batch.touched.add(id);
    if (event.kind === "requestDeleted") batch.deletedRequestIds.add(event.requestId);
  }
}

function accepted(
  batch: Batch,
  { memory, log }: Decider,
  { present }: CallContext,
  events: readonly Event[],
): Answer {
  let body: unknown = null;
  try {
    body = present?.(batch.view, events) ?? null;
  } catch (error) {
    // The command stands, whatever became of the words about it.
    log.error({ err: error }, "an answer could not be presented");
  }
  return { outcome: "accepted", body, seq: memory.state.seq, atMs: batch.nowMs, events, replayed: false };
}

function refused(refusal: LeaderRefusal): Answer {
  return { outcome: "refused", refusal, replayed: false };
}

/** Every change and every refusal of one leaves a trace, in the same commit. */
function record(batch: Batch, { command, context }: Call, answer: Answer): void {
  if (context.audit === false) return;
  const { action = command.kind, target = targetOf(command), detail = null } = context.audit ?? {};
  const outcome = answer.outcome === "accepted" ? "accepted" : answer.refusal.code;
  batch.audit.push({ actor: context.actor, action, target, outcome, body: detail });
}

function targetOf(command: LeaderCommand): string {
  switch (command.kind) {
    case "submitRequest":
      return command.spec.id;
    case "attachPolicy":
    case "updatePolicy":
      return `${command.policy.pool}/${command.policy.component}`;
    case "detachPolicy":
      return `${command.pool}/${command.component}`;
    case "createGroup":
    case "updateGroup":
      return `${command.pool}/${command.group.name}`;
    case "deleteGroup":
      return `${command.pool}/${command.name}`;
    case "putNode":
      return command.node.name;
    case "putToken":
      return command.token.id;
    case "deleteToken":
      return command.tokenId;
    case "putTargets":
      return command.targets.map(({ name }) => name).join(" ");
    default:
      if ("requestId" in command) return command.requestId;
      return "name" in command ? command.name : "";
  }
}

// --- answers as they are kept with their key -----------------------------------------------------------

type KeptAnswer =
  | { readonly outcome: "accepted"; readonly body: unknown; readonly seq: number; readonly atMs: number }
  | { readonly outcome: "refused"; readonly refusal: LeaderRefusal };

function toKeep(answer: Answer): KeptAnswer {
  if (answer.outcome === "refused") return { outcome: "refused", refusal: answer.refusal };
  const { outcome, body, seq, atMs } = answer;
  return { outcome, body, seq, atMs };
}

function fromKept({ answer }: IdempotencyRecord): Answer {
  const kept = answer as KeptAnswer;
  return kept.outcome === "accepted" ? { ...kept, events: [], replayed: true } : { ...kept, replayed: true };
}

/** Whether a record is that of a request which can be deleted from the store alone. */
export function isEnded(record: RequestRecord): boolean {
  return TERMINAL_STATUSES.has(record.status as never);
}
