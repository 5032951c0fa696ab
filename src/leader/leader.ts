// The leader: the only code that changes the state of a running cluster. This file wires its parts; each owns one
// piece of the state, and its header says what it keeps true.
//
//   inbox         calls and audit entries that wait           → every call is answered exactly once
//   loop          batch, commit, answer                       → one batch at a time, answers after the commit
//   own-commands  timers, leases, ended requests              → a holder that has just called is not lost
//   ledger        memory and the head that it stands at       → memory is ahead only while a commit is under way
//   reads         looks at memory                             → nobody sees an event before it is durable
//   trouble       the condition: leading, read only, stopped  → after a failed commit memory is thrown away
//   chores        snapshots and pruning                       → never in the way of a batch
//   clock         the time of the cluster                     → never runs backwards

import { hostname } from "node:os";
import type { Decider } from "./batch.ts";
import { createChores } from "./chores.ts";
import { checkClock, clusterTime, systemClock } from "./clock.ts";
import { NEWEST_FORM } from "./event-forms.ts";
import { grantKeysOf } from "./grant-keys.ts";
import { createInbox, SHORT_OF_ROOM } from "./inbox.ts";
import type { LeaderOptions, LeaderSettings, LeaderStatus, Log, ReplicatedLeader } from "./interface.ts";
import { createLeases } from "./leases.ts";
import { createLedger } from "./ledger.ts";
import { createLoop, type Loop } from "./loop.ts";
import { createNodeClocks } from "./nodes.ts";
import { createOwnCommands } from "./own-commands.ts";
import { createReads } from "./reads.ts";
import { recover } from "./recovery.ts";
import { renewalOf, withoutHolder } from "./renewals.ts";
import { createEventStream } from "./stream.ts";
import type { Condition, Surroundings } from "./surroundings.ts";
import { createTroubleKeeper, type TroubleKeeper } from "./trouble.ts";

const DAY_MS = 24 * 3_600_000;

export const DEFAULT_LEADER_SETTINGS: LeaderSettings = {
  holder: `${hostname()}:${process.pid}`,
  retention: {
    journalMs: 30 * DAY_MS,
    endedRequestsMs: 90 * DAY_MS,
    idempotencyMs: DAY_MS,
    auditMs: 365 * DAY_MS,
    samplesMs: 14 * DAY_MS,
    daysMs: 5 * 365 * DAY_MS,
  },
  endedInMemoryMs: 30_000,
  endedInMemoryMax: 5_000,
  snapshotEveryEvents: 20_000,
  snapshotEveryMs: 10 * 60_000,
  pruneEveryMs: 3_600_000,
  batchCommandsMax: 1_000,
  waitingCommandsMax: 20_000,
  waitingRequestsPerComponentMax: 100_000,
};

const silentLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Takes over, loads the state, and leads. Rejects when the store cannot be read or taken over. */
export async function startLeader(options: LeaderOptions): Promise<ReplicatedLeader> {
  const { store, clock = systemClock, log = silentLog, observer = {}, onFatal, replica } = options;
  const settings = { ...DEFAULT_LEADER_SETTINGS, ...options.settings };

  const beganMs = clock.monotonicMs();
  if (replica === undefined) {
    await checkClock(
      { store, clock, log },
      { head: await store.head(), isAccepted: options.acceptClock === true },
    );
  }
  const head = replica?.taken.head ?? (await store.takeOver({ holder: settings.holder }));
  const nowMs = clusterTime(clock, head.atMs);
  const startedAtMs = nowMs();
  const isAfterLoss = replica?.taken.isAfterLoss === true;
  const grantKeys = await grantKeysOf(store, head, { nowMs: startedAtMs, isAfterLoss });
  const recovered = replica?.taken.recovered ?? (await recover(store, head));
  const recovery = { events: recovered.replayedEvents, ms: clock.monotonicMs() - beganMs };

  const surroundings: Surroundings = { store, clock, nowMs, log, observer, settings };
  const ledger = createLedger(surroundings, { memory: recovered.memory, head });
  const leases = createLeases(nowMs);
  const nodes = createNodeClocks(nowMs);
  const eventForm = replica?.eventForm ?? (() => NEWEST_FORM);
  const decider: Decider = {
    get memory() {
      return ledger.memory;
    },
    log,
    observer,
    measureMs: () => clock.monotonicMs(),
    leases,
    nodes,
    eventForm,
  };
  const condition = () => trouble.condition;
  const stream = replica?.stream ?? createEventStream(store, log, head.seq);
  const mayAnswer = replica?.mayAnswer ?? (() => true);
  const reads = createReads(surroundings, { ledger, leases, nodes, condition, mayAnswer });
  const inbox = createInbox(surroundings, { ledger, condition, onArrival: () => loop.plan() });
  const own = createOwnCommands(surroundings, { ledger, leases, nodes, decider });
  const chores = createChores(surroundings, { ledger, recovered, eventForm });
  const trouble: TroubleKeeper = createTroubleKeeper(surroundings, {
    ...{ ledger, inbox, reads, own, stream, onFatal },
    isReplica: replica !== undefined,
    onResume: () => loop.plan(),
    onStop: () => loop.cancelTimer(),
  });
  const loop: Loop = createLoop(surroundings, {
    ...{ ledger, inbox, reads, stream, own, decider, trouble, chores },
  });

  /** A server that had nothing to do for long ends with its time in the store: the next start compares clocks with it. */
  async function noteTime(): Promise<void> {
    const { epoch, seq, atMs } = ledger.head;
    if (seq === 0 || nowMs() - atMs < DAY_MS) return;
    await store.commit({ epoch, expectedSeq: seq, atMs: nowMs() });
  }

  /** False: it had stopped already, or cannot write. */
  async function finish(restOfChores: () => Promise<void>): Promise<boolean> {
    if (condition().kind === "stopped") return false;
    inbox.close();
    // A chore may begin when a turn ends, and a turn while a chore goes on.
    do {
      await loop.rest();
      await restOfChores();
    } while (loop.isBusy);
    const isWhole = condition().kind === "leading";
    trouble.stop("it was closed.");
    return isWhole;
  }

  own.restart();
  log.info({ epoch: head.epoch, seq: head.seq, ...recovery }, "leading");
  loop.planTimer();

  return {
    perform: (command, context) => inbox.perform({ command, context }),
    performMany: inbox.performMany,
    completed: (command) => withoutHolder(leases, command),
    read: reads.read,
    renew(requestId, token, client) {
      // Heard is heard, even while the answer has to wait for the disk.
      leases.renew(requestId, token, client);
      return reads.read(({ state, leaseExpiresAtMs }) =>
        renewalOf(state, { requestId, token, leaseExpiresAtMs }),
      );
    },
    hear: (requestId, client) => void leases.renew(requestId, null, client),
    hearNode: nodes.hear,
    giveWay: loop.giveWay,
    audit: inbox.audit,
    onCommit: stream.onCommit,
    events: stream.events,
    seq: () => ledger.head.seq,
    nowMs,
    status: () => ({
      condition: conditionNames[condition().kind],
      trouble: troubleOf(condition()) ?? (store.hasRoom() ? null : SHORT_OF_ROOM),
      epoch: ledger.head.epoch,
      seq: ledger.head.seq,
      startedAtMs,
      waitingCommands: inbox.waitingCalls,
      holders: leases.count,
      engineErrors: loop.engineErrors,
      snapshotSeq: chores.snapshotSeq,
      recovery,
      commits: ledger.commits,
      brakes: [...leases.brakes(), ...nodes.brakes()],
    }),
    grantKeys,
    epoch: () => ledger.head.epoch,
    position: () => ledger.head,
    leaseRenewed: () => reads.serve(),
    stepDown(why) {
      chores.stop();
      // What a commit in flight has come to, nobody knows yet; the rest was not even tried.
      trouble.stop(why, ledger.isAhead ? "unavailable" : "not_leader");
    },
    async retire(to) {
      chores.stop(); // What is under way gives up by itself: others need not wait for it.
      if (await finish(async () => undefined)) await store.releaseLease(ledger.head.epoch, to);
    },
    async close() {
      if (!(await finish(chores.rest))) return;
      await chores.snapshot();
      await noteTime();
      await store.releaseLease(ledger.head.epoch);
    },
  };
}

const conditionNames: Readonly<Record<Condition["kind"], LeaderStatus["condition"]>> = {
  leading: "leading",
  readOnly: "read_only",
  stopped: "stopped",
};

function troubleOf(condition: Condition): string | null {
  switch (condition.kind) {
    case "leading":
      return null;
    case "readOnly":
    case "stopped":
      return condition.why;
  }
}
