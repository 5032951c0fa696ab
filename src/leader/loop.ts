// Turn after turn: all waiting calls become one batch, which is decided, committed, and only then answered. Where the store
// writes elsewhere, the next batch is decided while one is written.
//
// Invariants
//   1. One batch at a time is decided: nothing waits between its first decision and the beginning of its commit.
//   2. Callers are answered, and listeners called, after the commit, in the order of the events.
//   3. After a commit that failed nothing is decided before memory is what the store has.

import { type Batch, commitOf, type Decider, decideCall, isEmpty, openBatch } from "./batch.ts";
import type { Chores } from "./chores.ts";
import type { Hand, Inbox } from "./inbox.ts";
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

/** A batch on its way to the disk. */
interface Written {
  readonly batch: Batch;
  readonly hand: Hand;
  readonly answers: readonly Answer[];
  readonly written: Promise<void>;
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
    readonly chores: Pick<Chores, "needsRest" | "look">;
  },
): Loop {
  const { ledger, inbox, reads, stream, own, decider, trouble, chores } = parts;
  /** A batch is being decided. */
  let isTurning = false;
  /** Batches that are being written, the oldest first. */
  const underWay: Written[] = [];
  /** Until all of them are. */
  let finishing: Promise<void> | undefined;
  let failures = 0;
  let isMending = false;
  let isPlanned = false;
  let engineErrors = 0;
  let cancelTimer = () => {};
  const resting: (() => void)[] = [];
  const isBusy = () => isTurning || isPlanned || isMending || underWay.length > 0;
  const isLeading = () => trouble.condition.kind === "leading";

  function plan(): void {
    if (isPlanned || !mayTurn()) return;
    isPlanned = true;
    // Not at once, so that all calls that have arrived by now share one commit.
    clock.soon(() => {
      isPlanned = false;
      if (mayTurn()) void turn(); // If not, what is under way will go on with it.
    });
  }

  function mayTurn(): boolean {
    return !isTurning && !isMending && isLeading() && hasPlace();
  }

  /** Whether a further batch may be decided now. Beside one that is written it should be half as large at least. */
  function hasPlace(): boolean {
    const last = underWay.at(-1);
    if (last === undefined) return true;
    if (underWay.length >= store.commitsAtOnce || chores.needsRest) return false;
    return inbox.waitingCalls * 2 >= last.answers.length;
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
    const mine = failures;
    try {
      const hand = inbox.take();
      const lookups = await lookUpFor(hand);
      // What was in hand when a commit failed was answered with that.
      if (mine === failures && isLeading()) write(hand, lookups);
    } catch (error) {
      await finishing;
      if (mine === failures) await mend(error);
    }
    isTurning = false;
    goOn(false);
  }

  function lookUpFor({ calls }: Hand): Promise<Lookups> {
    return lookUp(
      store,
      ledger.memory,
      calls,
      underWay.map(({ batch }) => batch.answers),
    );
  }

  /** Decides what is in hand, and begins to write it. */
  function write(hand: Hand, lookups: Lookups): void {
    try {
      const batch = openBatch(reads.view(nowMs()));
      batch.audit.push(...hand.audit);
      own.decideTime(batch);
      const answers = decideCalls(batch, lookups, hand.calls);
      own.decideLosses(batch);
      engineErrors += batch.engineErrors;
      hand.giveBack(answers.length);
      const written = isEmpty(batch) ? Promise.resolve() : commit(batch, answers.length);
      written.catch(() => undefined); // Looked at in its turn.
      underWay.push({ batch, hand, answers, written });
      finishing ??= finishInTurn();
    } catch (error) {
      trouble.end(error);
    }
  }

  async function finishInTurn(): Promise<void> {
    for (let next = underWay[0]; next !== undefined; next = underWay[0]) {
      let hadOthersTurn = false;
      clock.soon(() => {
        hadOthersTurn = true;
      });
      try {
        await next.written;
      } catch (error) {
        finishing = undefined;
        return mend(error);
      }
      underWay.shift();
      // If it stepped down meanwhile, its callers have been answered, and followers read the rest.
      if (isLeading()) finish(next);
      goOn(hadOthersTurn);
    }
    finishing = undefined;
  }

  function finish({ batch, hand, answers }: Written): void {
    own.keepLeases(batch, hand.calls.slice(0, answers.length));
    hand.settle(answers);
    if (batch.events.length > 0) stream.publish({ events: batch.events, requestIds: batch.touched });
    reads.serve();
  }

  /** The store has failed: what follows on a failed commit fails, too, and then memory is what the store has. */
  async function mend(error: unknown): Promise<void> {
    failures++;
    isMending = true;
    await Promise.allSettled(underWay.splice(0).map(({ written }) => written));
    await trouble.survive(error).catch(trouble.end);
    isMending = false;
    goOn(false);
  }

  /** What comes next, after a batch was decided or written. */
  function goOn(hadOthersTurn: boolean): void {
    for (const proceed of resting.splice(0)) proceed();
    if (isTurning || isMending || !isLeading()) return;
    if (underWay.length === 0) {
      chores.look();
      if (inbox.isEmpty) return planTimer();
    }
    if (inbox.isEmpty || !mayTurn()) return;
    // At once, so that the callers of this batch are answered while the store writes the next one.
    if (hadOthersTurn) void turn();
    else plan();
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
      while (isBusy()) {
        await new Promise<void>((resolve) => {
          if (isPlanned) clock.soon(resolve);
          else resting.push(resolve);
        });
      }
    },
    get isBusy() {
      return isBusy();
    },
    get engineErrors() {
      return engineErrors;
    },
  };
}
