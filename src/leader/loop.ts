// Turn after turn: all waiting calls become one batch, which is decided, committed, and only then answered.
//
// Invariants
//   1. One batch at a time: nothing waits between its first decision and its commit.
//   2. Callers are answered, and listeners called, after the commit, in the order of the events.

import { type Batch, commitOf, type Decider, decideCall, isEmpty, openBatch } from "./batch.ts";
import type { Inbox } from "./inbox.ts";
import type { Answer, Call } from "./interface.ts";
import type { Ledger } from "./ledger.ts";
import { type Lookups, lookUp } from "./lookups.ts";
import type { OwnCommands } from "./own-commands.ts";
import type { Reads } from "./reads.ts";
import type { EventStream } from "./stream.ts";
import type { Surroundings } from "./surroundings.ts";
import type { TroubleKeeper } from "./trouble.ts";

export interface Loop {
  /** The next turn comes soon, unless one is on its way. */
  plan(): void;
  /** The next turn comes when something is due. */
  planTimer(): void;
  cancelTimer(): void;
  /** Resolves when the turn that is about to begin has begun; at once if none is. */
  giveWay(): Promise<void>;
  /** Resolves when no turn is under way and none is about to be. */
  rest(): Promise<void>;
  readonly isBusy: boolean;
  readonly engineErrors: number;
}

/** The loop turns at least this often, and so it notices when it did not. */
const TURN_MS_MAX = 5_000;
/** What has not been decided by then is left for the next batch. */
const DECIDING_MS_MAX = 20;

export function createLoop(
  { store, clock, nowMs, observer }: Surroundings,
  parts: {
    readonly ledger: Ledger;
    readonly inbox: Inbox;
    readonly reads: Reads;
    readonly stream: EventStream;
    readonly own: OwnCommands;
    readonly decider: Decider;
    readonly trouble: TroubleKeeper;
    /** Between two turns, when memory is what the disk has. */
    readonly onTurnEnd: () => void;
  },
): Loop {
  const { ledger, inbox, reads, stream, own, decider, trouble, onTurnEnd } = parts;
  let isTurning = false;
  let isPlanned = false;
  let engineErrors = 0;
  let cancelTimer = () => {};
  const resting: (() => void)[] = [];
  const isLeading = () => trouble.condition.kind === "leading";

  function plan(): void {
    if (isTurning || isPlanned || !isLeading()) return;
    isPlanned = true;
    // Not at once, so that all calls that have arrived by now share one commit.
    clock.soon(() => {
      isPlanned = false;
      if (isLeading()) void turn();
    });
  }

  function planTimer(): void {
    cancelTimer();
    // A moment that has passed already gets a little time, lest a mistake should turn the loop without end.
    const delayMs = Math.min(Math.max(own.nextDueMs() - nowMs(), 1), TURN_MS_MAX);
    cancelTimer = clock.after(delayMs, plan);
  }

  async function turn(): Promise<void> {
    isTurning = true;
    cancelTimer();
    let hadOthersTurn = false;
    try {
      hadOthersTurn = await runBatch();
    } catch (error) {
      trouble.end(error);
    }
    isTurning = false;
    for (const proceed of resting.splice(0)) proceed();
    if (!isLeading()) return;
    onTurnEnd();
    if (inbox.isEmpty) planTimer();
    // At once, so that the callers of this batch are answered while the store writes the next one.
    else if (hadOthersTurn) void turn();
    else plan();
  }

  /** True if everything else has had its turn while the batch was written. */
  async function runBatch(): Promise<boolean> {
    const calls = inbox.take();
    let lookups: Lookups;
    try {
      lookups = await lookUp(store, ledger.memory, calls);
    } catch (error) {
      await trouble.survive(error);
      return false;
    }

    const batch = openBatch(reads.view(nowMs()));
    batch.audit.push(...inbox.takeAudit());
    own.decideTime(batch);
    const answers = decideCalls(batch, lookups, calls);
    own.decideLosses(batch);
    engineErrors += batch.engineErrors;

    let hadOthersTurn = false;
    clock.soon(() => {
      hadOthersTurn = true;
    });
    if (!isEmpty(batch)) {
      try {
        await commit(batch, calls.length);
      } catch (error) {
        await trouble.survive(error);
        return false;
      }
    }
    if (!isLeading()) return false; // It stepped down meanwhile: its callers have been answered, and followers read the rest.
    own.keepLeases(batch, calls.slice(0, answers.length));
    inbox.auditWritten();
    inbox.answer(answers);
    if (batch.events.length > 0) stream.publish({ events: batch.events, requestIds: batch.touched });
    reads.serve();
    return hadOthersTurn;
  }

  /** As many as there is time for: renewals and reads must not wait for all of a large bulk. */
  function decideCalls(batch: Batch, lookups: Lookups, calls: readonly Call[]): readonly Answer[] {
    const untilMs = clock.monotonicMs() + DECIDING_MS_MAX;
    const answers: Answer[] = [];
    for (const call of calls) {
      if (clock.monotonicMs() > untilMs) break;
      answers.push(decideCall(batch, decider, lookups, call));
    }
    return answers;
  }

  async function commit(batch: Batch, commands: number): Promise<void> {
    const beganMs = clock.monotonicMs();
    await ledger.commit(commitOf(batch, ledger.memory, decider.eventForm()));
    const ms = clock.monotonicMs() - beganMs;
    observer.committed?.({ ms, commands, events: batch.events.length });
  }

  return {
    plan,
    planTimer,
    cancelTimer: () => cancelTimer(),
    async giveWay() {
      // What was planned earlier comes first, with all that follows from it without waiting.
      if (isPlanned) await new Promise<void>((resolve) => clock.soon(resolve));
    },
    async rest() {
      while (isTurning || isPlanned) {
        await new Promise<void>((resolve) => {
          if (isTurning) resting.push(resolve);
          else clock.soon(resolve);
        });
      }
    },
    get isBusy() {
      return isTurning || isPlanned;
    },
    get engineErrors() {
      return engineErrors;
    },
  };
}
