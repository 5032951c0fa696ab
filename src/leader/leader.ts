// The leader loop: the only code that changes the state of a running cluster.
//
// It takes all waiting commands as one batch, decides them in order, commits their events in one
// transaction, and only then answers the callers and tells the watchers.
//
// Invariants
//   1. One batch at a time: nothing waits between the first `decide` and the commit.
//   2. Nobody outside sees an event before it is durable: while a commit is in flight, memory is ahead of the
//      disk, and whoever wants to read waits for it.
//   3. After a failed commit memory is thrown away: it is loaded anew from the store, or the process ends.
//   4. Time given to the engine never runs backwards.

import { hostname } from "node:os";
import {
  type ComponentName,
  nextWakeMs,
  preview,
  type RequestId,
  requestIds,
  waitingCountOf,
} from "../engine/index.ts";
import { type AuditEntry, type Head, isStoreError } from "../store/index.ts";
import {
  type Batch,
  commitOf,
  decideCall,
  decideOwn,
  isEmpty,
  isEnded,
  keyOf,
  LEADER,
  type Lookups,
  openBatch,
  type Surroundings,
} from "./batch.ts";
import { clusterTime, systemClock } from "./clock.ts";
import {
  type Answer,
  type Call,
  type CommittedEvent,
  type Leader,
  LeaderError,
  type LeaderErrorCode,
  type LeaderOptions,
  type LeaderSettings,
  type LeaderStatus,
  type Log,
  type View,
} from "./interface.ts";
import { createLeases } from "./leases.ts";
import { touchedBy } from "./projections.ts";
import { encodeSnapshot, fromStored, recover } from "./recovery.ts";
import { leaseOf, renewalOf } from "./renewals.ts";
import { grantSecretOf } from "./secret.ts";
import { createEventStream } from "./stream.ts";

const DAY_MS = 24 * 3_600_000;

export const DEFAULT_LEADER_SETTINGS: LeaderSettings = {
  holder: `${hostname()}:${process.pid}`,
  retention: {
    journalMs: 30 * DAY_MS,
    endedRequestsMs: 90 * DAY_MS,
    idempotencyMs: DAY_MS,
    auditMs: 365 * DAY_MS,
  },
  endedInMemoryMs: 30_000,
  endedInMemoryMax: 5_000,
  snapshotEveryEvents: 50_000,
  snapshotEveryMs: 10 * 60_000,
  pruneEveryMs: 3_600_000,
  batchCommandsMax: 1_000,
  waitingCommandsMax: 20_000,
  waitingRequestsPerComponentMax: 100_000,
};

/** The loop turns at least this often, and so it notices when it did not. */
const TURN_MS_MAX = 5_000;
/** Frozen, starved or without a store for this long: the silence of the holders may have been our deafness. */
const ABSENCE_MS = 15_000;
/** After an engine error in a timer the same timer is not tried again at once. */
const TICK_RETRY_MS = 60_000;
const FORGET_EVERY_MS = 5_000;
/** In a crowd they leave sooner, and more often, so that it is never many at once. */
const CROWD_IN_MEMORY_MS = 2_000;
const FORGET_CROWD_EVERY_MS = 500;
const PROBE_MS = 1_000;
const WAITING_AUDIT_MAX = 10_000;
/** What callers are told. Where the store is, and what exactly it says, is for the log. */
const TOLD: Readonly<Record<LeaderErrorCode, string>> = {
  disk_full: "The disk is full: nothing can be written now.",
  unavailable: "The store does not answer.",
  overloaded: "Too many commands wait already.",
  queue_full: "Too many requests of this component wait already.",
  stopped: "The leader has stopped.",
};
const SHORT_OF_ROOM =
  "The disk is full: the reserve that is left is for ending and administering work, not for new requests.";

const silentLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Calls that were made together are answered together, though they may be decided in several batches. */
interface WaitingCalls {
  readonly answers: Answer[];
  open: number;
  resolve(answers: readonly Answer[]): void;
  reject(error: LeaderError): void;
}

interface WaitingCall {
  readonly call: Call;
  readonly index: number;
  readonly together: WaitingCalls;
}

interface WaitingEntry {
  readonly entry: AuditEntry;
  /** Told when it is on disk, or cannot be for now. */
  settle(): void;
}

/** Takes over, loads the state, and leads. Rejects when the store cannot be read or taken over. */
export async function startLeader(options: LeaderOptions): Promise<Leader> {
  const { store, clock = systemClock, log = silentLog, observer = {}, onFatal } = options;
  const settings = { ...DEFAULT_LEADER_SETTINGS, ...options.settings };

  const beganMs = clock.monotonicMs();
  let head: Head = await store.takeOver({ holder: settings.holder });
  const nowMs = clusterTime(clock, head.atMs);
  const startedAtMs = nowMs();
  const grantSecret = await grantSecretOf(store, head, startedAtMs);
  const { memory: firstMemory, snapshotSeq: firstSnapshotSeq, replayedEvents } = await recover(store, head);
  const recovery = { events: replayedEvents, ms: clock.monotonicMs() - beganMs };

  let memory = firstMemory;
  let condition: LeaderStatus["condition"] = "leading";
  let trouble: { readonly code: LeaderErrorCode; readonly message: string } | null = null;
  /** Memory holds what the disk does not have yet (invariant 2). */
  let isAhead = false;
  let isTurning = false;
  let isTurnPlanned = false;
  let isClosing = false;
  let hadRoom = true;
  let cancelTimer = () => {};
  let lastTurnMs = startedAtMs;
  let tickNotBeforeMs = 0;
  let forgetNotBeforeMs = 0;
  let commits = 0;
  let engineErrors = 0;
  let snapshotSeq = firstSnapshotSeq;
  let snapshotAtMs = startedAtMs;
  let prunedAtMs = startedAtMs;
  /** What goes on beside the loop: a snapshot or a pruning, one at a time. */
  let chore: Promise<void> | null = null;

  const waiting: WaitingCall[] = [];
  let deciding: readonly WaitingCall[] = [];
  const waitingAudit: WaitingEntry[] = [];
  const waitingReads: (() => void)[] = [];
  const turnEnded: (() => void)[] = [];
  const stream = createEventStream(store, log, head.seq);
  const leases = createLeases(nowMs);
  const around: Surroundings = {
    get memory() {
      return memory;
    },
    log,
    observer,
    measureMs: () => clock.monotonicMs(),
  };

  restartLeases();
  log.info({ epoch: head.epoch, seq: head.seq, ...recovery }, "leading");
  planTimer();

  // --- the loop ------------------------------------------------------------------------------------------

  function planTurn(): void {
    if (isTurning || isTurnPlanned || condition !== "leading") return;
    isTurnPlanned = true;
    // Not at once, so that all calls that have arrived by now share one commit.
    clock.soon(() => {
      isTurnPlanned = false;
      if (condition === "leading") void turn();
    });
  }

  async function turn(): Promise<void> {
    isTurning = true;
    cancelTimer();
    try {
      await runBatch();
    } catch (error) {
      die(error);
    }
    isTurning = false;
    for (const proceed of turnEnded.splice(0)) proceed();
    if (condition !== "leading") return;
    doChores();
    if (waiting.length > 0 || waitingAudit.length > 0) planTurn();
    else planTimer();
  }

  function planTimer(): void {
    cancelTimer();
    const { state } = memory;
    const oldestEnded = state.ended.values().next().value;
    const endedAtMs = oldestEnded?.progress.endedAtMs ?? Number.POSITIVE_INFINITY;
    const dueMs = Math.min(
      Math.max(nextWakeMs(state) ?? Number.POSITIVE_INFINITY, tickNotBeforeMs),
      leases.nextCheckMs() ?? Number.POSITIVE_INFINITY,
      Math.max(endedAtMs + forgetting().afterMs, forgetNotBeforeMs),
    );
    // A moment that has passed already gets a little time, lest a mistake should turn the loop without end.
    const delayMs = Math.min(Math.max(dueMs - nowMs(), 1), TURN_MS_MAX);
    cancelTimer = clock.after(delayMs, planTurn);
  }

  async function runBatch(): Promise<void> {
    deciding = waiting.splice(0, settings.batchCommandsMax);
    const calls = deciding.map(({ call }) => call);
    let lookups: Lookups;
    try {
      lookups = await lookUp(calls);
    } catch (error) {
      return survive(error);
    }

    const batch = openBatch(view(nowMs()));
    if (batch.nowMs - lastTurnMs > ABSENCE_MS) leases.amnesty();
    lastTurnMs = batch.nowMs;
    const entries = waitingAudit.splice(0);
    batch.audit.push(...entries.map(({ entry }) => entry));
    decideTime(batch);
    const answers = calls.map((call) => decideCall(batch, around, lookups, call));
    decideLosses(batch); // Last, because whoever has just called is not lost.
    engineErrors += batch.engineErrors;

    if (!isEmpty(batch)) {
      const hasCommitted = await commit(batch, calls.length);
      settleAudit(entries);
      if (!hasCommitted) {
        waitingAudit.unshift(...entries);
        return;
      }
    }
    const hasNewTerms = batch.events.some(({ event }) => event.kind === "poolSet");
    for (const id of hasNewTerms ? requestIds(memory.state) : batch.touched) {
      leases.keep(id, leaseOf(memory.state, id));
    }
    deciding.forEach(({ call, index, together }, at) => {
      noteSignOfLife(call);
      together.answers[index] = answers[at] as Answer;
      if (--together.open === 0) together.resolve(together.answers);
    });
    deciding = [];
    if (batch.events.length > 0) stream.publish({ events: batch.events, requestIds: batch.touched });
    serveReads();
  }

  /** False if nothing was written: memory is as the store has it, and the calls were told. */
  async function commit(batch: Batch, commands: number): Promise<boolean> {
    const beganMs = clock.monotonicMs();
    isAhead = true;
    try {
      head = await store.commit(commitOf(batch, memory, { epoch: head.epoch, expectedSeq: head.seq }));
    } catch (error) {
      await survive(error);
      return false;
    }
    isAhead = false;
    commits++;
    const ms = clock.monotonicMs() - beganMs;
    observer.committed?.({ ms, commands, events: batch.events.length });
    return true;
  }

  /** What must be known from the store before anything is decided. */
  async function lookUp(calls: readonly Call[]): Promise<Lookups> {
    const keys = calls.flatMap(({ context }) => context.idempotency ?? []);
    const found = keys.length === 0 ? [] : await store.findAnswers(keys);
    const answers = new Map(found.flatMap((record) => (record ? [[keyOf(record), record]] : [])));

    const records: Map<string, Awaited<ReturnType<typeof store.getRequest>> & {}> = new Map();
    for (const { command } of calls) {
      if (command.kind !== "deleteRequest" || memory.numbers.has(command.requestId)) continue;
      const record = await store.getRequest(command.requestId);
      if (record !== undefined && isEnded(record)) records.set(record.id, record);
    }
    return { answers, records };
  }

  function decideTime(batch: Batch): void {
    const { state } = memory;
    const wakeMs = nextWakeMs(state);
    if (wakeMs !== null && wakeMs <= batch.nowMs && batch.nowMs >= tickNotBeforeMs) {
      const events = decideOwn(batch, around, { kind: "tick" });
      if (events === undefined) tickNotBeforeMs = batch.nowMs + TICK_RETRY_MS;
    }
    const oldestEnded = state.ended.values().next().value;
    const { afterMs, everyMs } = forgetting();
    const endedBeforeMs = batch.nowMs - afterMs;
    if (
      batch.nowMs >= forgetNotBeforeMs &&
      (oldestEnded?.progress.endedAtMs ?? batch.nowMs) < endedBeforeMs
    ) {
      decideOwn(batch, around, { kind: "forgetEnded", endedBeforeMs });
      forgetNotBeforeMs = batch.nowMs + everyMs;
    }
  }

  /** Ended requests stay a while, because memory can say more about them than their record. */
  function forgetting(): { readonly afterMs: number; readonly everyMs: number } {
    const { endedInMemoryMs, endedInMemoryMax } = settings;
    return memory.state.ended.size <= endedInMemoryMax
      ? { afterMs: endedInMemoryMs, everyMs: FORGET_EVERY_MS }
      : { afterMs: Math.min(endedInMemoryMs, CROWD_IN_MEMORY_MS), everyMs: FORGET_CROWD_EVERY_MS };
  }

  function decideLosses(batch: Batch): void {
    const { lost, alerts } = leases.expired();
    for (const { requestId, token } of lost) {
      const command = { kind: "loseHolder", requestId, ...(token !== null && { token }) } as const;
      const events = decideOwn(batch, around, command);
      // It has ended by itself, or the engine failed on it: either way not again before another lease.
      if (events === undefined) leases.renew(requestId, token);
    }
    for (const { group, silent, holders, untilMs } of alerts) {
      log.error({ group, silent, holders, untilMs }, "many holders fell silent at once: expiry is paused");
      const body = { silent, holders, untilMs };
      batch.audit.push({ actor: LEADER, action: "pause_expiry", target: group, outcome: "alert", body });
    }
  }

  /** A report that carries the token shows that the holder is there. */
  function noteSignOfLife({ command }: Call): void {
    if (command.kind === "reportCheckpoint" && command.token !== undefined) {
      leases.renew(command.requestId, command.token);
    }
  }

  function restartLeases(): void {
    const { state } = memory;
    for (const id of requestIds(state)) leases.keep(id, leaseOf(state, id));
    leases.amnesty();
  }

  // --- reading -------------------------------------------------------------------------------------------

  function view(atMs: number): View {
    const { state, numbers, ids, attempts } = memory;
    return {
      state,
      nowMs: atMs,
      get seq() {
        return state.seq;
      },
      numberOf: (id) => numbers.get(id),
      idOf: (number) => ids.get(number),
      attemptsOf: (id) => attempts.get(id) ?? [],
      leaseExpiresAtMs(id) {
        const wanted = leaseOf(state, id);
        if (wanted === null) return undefined;
        return leases.expiresAtMs(id, wanted.token) ?? atMs + wanted.terms.leaseMs;
      },
    };
  }

  function read<T>(look: (view: View) => T): Promise<T> {
    if (condition === "stopped") return Promise.reject(errorOf("stopped"));
    return new Promise((resolve, reject) => {
      const serve = () => {
        if (condition === "stopped") return reject(errorOf("stopped"));
        try {
          resolve(look(view(nowMs())));
        } catch (error) {
          reject(error);
        }
      };
      if (isAhead) waitingReads.push(serve);
      else serve();
    });
  }

  function serveReads(): void {
    for (const serve of waitingReads.splice(0)) serve();
  }

  // --- when the store fails ------------------------------------------------------------------------------

  /** Nothing was acknowledged. Goes on from what the store has, where that can be known; throws where it cannot. */
  async function survive(error: unknown): Promise<void> {
    const isFull = isStoreError(error, "disk_full");
    // A file that failed may hold anything: only a restart reads it anew. A database that is away comes back.
    const isAway = isStoreError(error, "unavailable") && store.meta.kind === "postgres";
    if (!isFull && !isAway) throw error;

    trouble = { code: isFull ? "disk_full" : "unavailable", message: error.message };
    condition = "read_only";
    log.error({ err: error }, "the store takes nothing: read only until it does");
    failCalls([...deciding, ...waiting.splice(0)], trouble.code);
    deciding = [];
    settleAudit(waitingAudit);
    if (isFull) {
      memory = (await recover(store, head)).memory;
      isAhead = false;
      serveReads();
    }
    clock.after(PROBE_MS, () => void probe(isFull ? resumeAfterFull : resumeAfterAbsence));
  }

  async function probe(resume: () => Promise<void>): Promise<void> {
    if (condition !== "read_only") return;
    try {
      await resume();
    } catch (error) {
      if (!isStoreError(error, "disk_full") && !isStoreError(error, "unavailable")) return die(error);
      clock.after(PROBE_MS, () => void probe(resume));
      return;
    }
    log.info({ seq: head.seq }, "the store works again");
    isAhead = false;
    trouble = null;
    condition = "leading";
    lastTurnMs = nowMs();
    restartLeases();
    serveReads();
    planTurn();
  }

  /** Nothing was written, so we still lead; the proof that there is room is the note about it. */
  async function resumeAfterFull(): Promise<void> {
    const audit = [note("disk_full"), ...waitingAudit.map(({ entry }) => entry)];
    head = await store.commit({ epoch: head.epoch, expectedSeq: head.seq, atMs: nowMs(), audit });
    waitingAudit.splice(0, audit.length - 1);
  }

  /**
   * The last commit may have been made, or may even be under way still. A new epoch ends that doubt; then the
   * journal says what happened.
   */
  async function resumeAfterAbsence(): Promise<void> {
    const { epoch, seq } = head;
    const found = await store.head();
    const { holder } = await store.lease();
    if (found.epoch !== epoch && holder !== settings.holder) {
      throw new Error(`another server leads since epoch ${found.epoch}`);
    }
    const taken = await store.takeOver({ holder: settings.holder });
    memory = (await recover(store, taken)).memory;
    head = taken;
    if (taken.seq === seq) return;
    const stored = await store.readEvents(seq + 1, taken.seq - seq);
    const events: CommittedEvent[] = stored.map(({ seq, atMs, event }) => ({
      seq,
      atMs,
      event: fromStored(event),
    }));
    const touched = new Set<RequestId>(events.flatMap(({ event }) => touchedBy(event)));
    stream.publish({ events, requestIds: touched });
  }

  function note(outcome: string): AuditEntry {
    return { actor: LEADER, action: "resume_writing", target: "store", outcome, body: trouble };
  }

  /** Memory cannot be trusted any more, or somebody else leads (invariant 3). */
  function die(error: unknown): void {
    if (condition === "stopped") return;
    stop(error instanceof Error ? error.message : String(error));
    log.error({ err: error }, "the leader ends");
    onFatal(error);
  }

  function stop(reason: string): void {
    condition = "stopped";
    trouble = { code: "stopped", message: reason };
    cancelTimer();
    failCalls([...deciding, ...waiting.splice(0)], "stopped");
    deciding = [];
    settleAudit(waitingAudit);
    serveReads();
    stream.close();
  }

  function settleAudit(entries: readonly WaitingEntry[]): void {
    for (const { settle } of entries) settle();
  }

  function failCalls(calls: readonly WaitingCall[], code: LeaderErrorCode): void {
    for (const { together } of calls) together.reject(errorOf(code));
  }

  function errorOf(code: LeaderErrorCode): LeaderError {
    return new LeaderError(code, TOLD[code]);
  }

  // --- chores --------------------------------------------------------------------------------------------

  function doChores(): void {
    watchRoom();
    if (chore !== null) return;
    const sinceSnapshot = memory.state.seq - snapshotSeq;
    const atMs = nowMs();
    // The larger the state, the rarer the snapshots: their cost stays a small part of the whole.
    const isBig = sinceSnapshot >= Math.max(settings.snapshotEveryEvents, memory.state.requests.size);
    const isOld = sinceSnapshot > 0 && atMs - snapshotAtMs >= settings.snapshotEveryMs;
    if (isBig || isOld) beginChore("snapshot", saveSnapshot);
    else if (atMs - prunedAtMs >= settings.pruneEveryMs) beginChore("pruning", prune);
  }

  function watchRoom(): void {
    const hasRoom = store.hasRoom();
    if (hasRoom === hadRoom) return;
    hadRoom = hasRoom;
    if (hasRoom) log.info({ seq: head.seq }, "the disk has room again: new requests are taken");
    else log.error({ seq: head.seq }, SHORT_OF_ROOM);
  }

  function beginChore(what: string, work: () => Promise<void>): void {
    const done = () => {
      chore = null;
    };
    chore = work().then(done, (error: unknown) => {
      done();
      log.error({ err: error }, `the ${what} failed`); // The journal is whole without it.
    });
  }

  /** Called between batches only, when memory is what the disk has. */
  async function saveSnapshot(): Promise<void> {
    snapshotAtMs = nowMs();
    snapshotSeq = memory.state.seq;
    const snapshot = await encodeSnapshot(memory, head.atMs);
    await store.saveSnapshot(snapshot);
    log.info({ seq: snapshot.seq, bytes: snapshot.body.length }, "snapshot saved");
  }

  async function prune(): Promise<void> {
    prunedAtMs = nowMs();
    log.info(await store.prune(settings.retention, prunedAtMs), "old records removed");
  }

  /** Resolves when nothing is under way and nothing is about to be. */
  async function rest(): Promise<void> {
    while (isTurning || isTurnPlanned || chore !== null) {
      if (isTurning) await new Promise<void>((resolve) => turnEnded.push(resolve));
      else await (chore ?? new Promise<void>((resolve) => clock.soon(resolve)));
    }
  }

  /** Why new requests cannot be taken now, though other commands can. */
  function objectionToNew(calls: readonly Call[]): LeaderError | undefined {
    const { requests } = memory.state;
    const max = settings.waitingRequestsPerComponentMax;
    const hasRoom = store.hasRoom();
    if (hasRoom && requests.size < max) return undefined;
    const components = new Set<ComponentName>();
    for (const { command } of calls)
      if (command.kind === "submitRequest") components.add(command.spec.component);
    if (components.size === 0) return undefined;
    if (!hasRoom) return new LeaderError("disk_full", SHORT_OF_ROOM);
    const isFull = [...components].some((component) => waitingCountOf(memory.state, component, max) >= max);
    return isFull ? errorOf("queue_full") : undefined;
  }

  function enqueue(calls: readonly Call[]): Promise<readonly Answer[]> {
    if (condition === "stopped" || isClosing) return Promise.reject(errorOf("stopped"));
    if (trouble !== null) return Promise.reject(errorOf(trouble.code));
    const objection = objectionToNew(calls);
    if (objection !== undefined) return Promise.reject(objection);
    if (waiting.length + calls.length > settings.waitingCommandsMax) {
      return Promise.reject(errorOf("overloaded"));
    }
    if (calls.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const together: WaitingCalls = { answers: [], open: calls.length, resolve, reject };
      calls.forEach((call, index) => void waiting.push({ call, index, together }));
      planTurn();
    });
  }

  return {
    async perform(command, context) {
      const [answer] = await enqueue([{ command, context }]);
      return answer as Answer;
    },
    performMany: enqueue,
    preview: (command) => read(({ state, nowMs }) => preview(state, command, nowMs)),
    read,
    renew(requestId, token) {
      // Heard is heard, even while the answer has to wait for the disk.
      leases.renew(requestId, token);
      return read(({ state, leaseExpiresAtMs }) => renewalOf(state, { requestId, token, leaseExpiresAtMs }));
    },
    audit(entry) {
      if (waitingAudit.length >= WAITING_AUDIT_MAX) {
        log.error({ entry }, "an audit entry was lost: too many wait for the store");
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        waitingAudit.push({ entry, settle: resolve });
        if (condition === "leading") planTurn();
        else resolve();
      });
    },
    onCommit: stream.onCommit,
    events: stream.events,
    seq: () => head.seq,
    nowMs,
    status: () => ({
      condition,
      trouble: trouble?.message ?? (store.hasRoom() ? null : SHORT_OF_ROOM),
      epoch: head.epoch,
      seq: head.seq,
      startedAtMs,
      waitingCommands: waiting.length,
      holders: leases.count,
      engineErrors,
      snapshotSeq,
      recovery,
      commits,
      brakes: leases.brakes(),
    }),
    grantSecret,
    async close() {
      if (condition === "stopped" || isClosing) return;
      isClosing = true;
      await rest();
      const isWhole = condition === "leading";
      stop("it was closed.");
      if (!isWhole) return;
      if (memory.state.seq > snapshotSeq) await saveSnapshot();
      await store.releaseLease(head.epoch);
    },
  };
}
