// What the leader decides by itself: timers that are due, ended requests that leave the memory, holders that were
// silent for too long. All of it goes into the batch of the moment, beside the calls.

import {
  type Command,
  type Event,
  nextWakeMs,
  type RequestId,
  requestIds,
  requestOf,
} from "../engine/index.ts";
import { createAlerts } from "./alerts.ts";
import { type Batch, type Decider, decideOwn, LEADER } from "./batch.ts";
import type { Call } from "./interface.ts";
import type { Leases } from "./leases.ts";
import type { Ledger } from "./ledger.ts";
import type { NodeClocks } from "./nodes.ts";
import { leaseOf } from "./renewals.ts";
import type { Surroundings } from "./surroundings.ts";

export interface OwnCommands {
  /** First in a batch: what time has brought. */
  decideTime(batch: Batch): void;
  /** Last in a batch: a holder that has just called is not lost; then alerts about all that was decided. */
  decideLosses(batch: Batch): void;
  /** The batch is committed: leases are what its events have made of them. */
  keepLeases(batch: Batch, calls: readonly Call[]): void;
  /** Memory was loaded from the store: all leases start afresh, and what is so already is no alert. */
  restart(): void;
  /** When there may be something to decide. */
  nextDueMs(): number;
}

/** Frozen, starved or without a store for this long: the silence of the holders may have been our deafness. */
const ABSENCE_MS = 15_000;
/** After an engine error in a timer the same timer is not tried again at once. */
const TICK_RETRY_MS = 60_000;
const FORGET_EVERY_MS = 5_000;
/** In a crowd they leave sooner, and more often, so that it is never many at once. */
const CROWD_IN_MEMORY_MS = 2_000;
const FORGET_CROWD_EVERY_MS = 500;

const CHANGES_NODES: ReadonlySet<Event["kind"]> = new Set([
  ...(["poolSet", "poolDeleted", "nodeSet", "nodeStateChanged", "nodeRemoved"] as const),
]);

export function createOwnCommands(
  surroundings: Surroundings,
  parts: {
    readonly ledger: Ledger;
    readonly leases: Leases;
    readonly nodes: NodeClocks;
    readonly decider: Decider;
  },
): OwnCommands {
  const { nowMs, log, settings } = surroundings;
  const { ledger, leases, nodes, decider } = parts;
  const alerts = createAlerts(surroundings, ledger);
  let lastTurnMs = nowMs();
  let tickNotBeforeMs = 0;
  let forgetNotBeforeMs = 0;

  function decideTick(batch: Batch): void {
    const wakeMs = nextWakeMs(ledger.memory.state);
    if (wakeMs === null || wakeMs > batch.nowMs || batch.nowMs < tickNotBeforeMs) return;
    const events = decideOwn(batch, decider, { kind: "tick" });
    if (events === undefined) tickNotBeforeMs = batch.nowMs + TICK_RETRY_MS;
  }

  function decideForgetting(batch: Batch): void {
    const { afterMs, everyMs } = forgetting();
    const endedBeforeMs = batch.nowMs - afterMs;
    if (batch.nowMs < forgetNotBeforeMs || oldestEndMs() >= endedBeforeMs) return;
    decideOwn(batch, decider, { kind: "forgetEnded", endedBeforeMs });
    forgetNotBeforeMs = batch.nowMs + everyMs;
  }

  /** Ended requests stay a while, because memory can say more about them than their record. */
  function forgetting(): { readonly afterMs: number; readonly everyMs: number } {
    const { endedInMemoryMs, endedInMemoryMax } = settings;
    return ledger.memory.state.ended.size <= endedInMemoryMax
      ? { afterMs: endedInMemoryMs, everyMs: FORGET_EVERY_MS }
      : { afterMs: Math.min(endedInMemoryMs, CROWD_IN_MEMORY_MS), everyMs: FORGET_CROWD_EVERY_MS };
  }

  /** The client of a job that runs is gone: its executor stops it, and then its units come free (J8). */
  function lossOf(requestId: RequestId, token: number | null, untaken: boolean): Command {
    const isJob = requestOf(ledger.memory.state, requestId)?.spec.isJob === true;
    if (isJob && token !== null) return { kind: "cancelRequest", requestId };
    return { kind: "loseHolder", requestId, untaken, ...(token !== null && { token }) };
  }

  function oldestEndMs(): number {
    const oldest = ledger.memory.state.ended.first();
    return oldest?.progress.endedAtMs ?? Number.POSITIVE_INFINITY;
  }

  return {
    decideTime(batch) {
      if (batch.nowMs - lastTurnMs > ABSENCE_MS) {
        leases.amnesty();
        nodes.amnesty();
      }
      lastTurnMs = batch.nowMs;
      decideTick(batch);
      decideForgetting(batch);
    },
    decideLosses(batch) {
      const { lost, alerts: pauses } = leases.expired();
      const silence = nodes.expired(ledger.memory.state);
      for (const command of silence.commands) decideOwn(batch, decider, command);
      for (const { requestId, token, untaken } of lost) {
        const events = decideOwn(batch, decider, lossOf(requestId, token, untaken));
        // It has ended by itself, or the engine failed on it: either way not again before another lease.
        if (events === undefined || events.length === 0) leases.renew(requestId, token);
      }
      for (const { group, silent, clients, untilMs } of [...pauses, ...silence.alerts]) {
        log.error({ group, silent, clients, untilMs }, "many clients fell silent at once: expiry is paused");
        const body = { silent, clients, untilMs };
        batch.audit.push({ actor: LEADER, action: "pause_expiry", target: group, outcome: "alert", body });
      }
      alerts.raise(batch);
    },
    keepLeases(batch, calls) {
      const { state } = ledger.memory;
      for (const id of batch.touched) leases.keep(id, leaseOf(state, id));
      const hasNewTerms = batch.events.some(({ event }) => event.kind === "poolSet");
      if (batch.events.some(({ event }) => CHANGES_NODES.has(event.kind))) nodes.keep(state);
      for (const id of hasNewTerms ? leases.requestIds() : []) leases.keep(id, leaseOf(state, id));
      // A report that carries the token is a sign of life of its holder.
      for (const { command } of calls) {
        if (command.kind !== "reportCheckpoint" || command.token === undefined) continue;
        leases.renew(command.requestId, command.token);
      }
    },
    restart() {
      alerts.restart();
      const { state } = ledger.memory;
      for (const id of requestIds(state)) leases.restore(id, leaseOf(state, id));
      leases.amnesty();
      nodes.keep(state);
      nodes.amnesty();
      lastTurnMs = nowMs();
    },
    nextDueMs() {
      return Math.min(
        Math.max(nextWakeMs(ledger.memory.state) ?? Number.POSITIVE_INFINITY, tickNotBeforeMs),
        leases.nextCheckMs() ?? Number.POSITIVE_INFINITY,
        nodes.nextCheckMs() ?? Number.POSITIVE_INFINITY,
        Math.max(oldestEndMs() + forgetting().afterMs, forgetNotBeforeMs),
      );
    },
  };
}
