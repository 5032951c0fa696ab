// The boundary between what Berth wants and what runs it. On this side `loop.ts`: it speaks to the server, compares what is
// wanted with what is, and repeats. On the other side an executor: processes of this machine, Slurm, or Kubernetes.
//
// The loop may assume
//   1. `list` is the whole truth: everything that was started and not forgotten, and an end only when nothing of the attempt
//      runs any more and the end is durable.
//   2. Everything may be repeated at any time: what is done already is not done again.
// An executor may assume
//   3. `start` comes after the order is durable, and for every order that was not forgotten when a new process begins.

import type { WireNodeSyncAnswer, WireRunningPart, WireWantedPart } from "../protocol/index.ts";
import type { CheckpointAnswer } from "../runner/index.ts";
import type { Entry, NumberedReport, Order, StoredEnd } from "./journal.ts";
import type { LogReader } from "./log-reader.ts";

/** An answer of the server, as far as executors of all kinds have it. */
export type SyncAnswer = Omit<WireNodeSyncAnswer, "state">;

/** What an answer grants to all that it wants. */
export interface Terms {
  readonly answer: SyncAnswer;
  /** When the sync was sent that it answers, in seconds since the machine was started. */
  readonly sentAt: number;
  /** When the answer came, by the same clock: deadlines count from here. */
  readonly answeredAt: number;
}

export interface Executor<O extends Order> {
  /** What to write down before it is started; `end`: why it can never be started here. */
  order(part: WireWantedPart, terms: Terms): { readonly order: O; readonly end?: StoredEnd };
  /** Starts it, unless it was started before: then it is found again. */
  start(entry: Entry<O>): void;
  list(): Promise<readonly WireRunningPart[]>;
  /** It is wanted and runs: to carry on, to checkpoint, or to stop by a deadline, and signals to be delivered once each. */
  instruct(part: WireWantedPart, terms: Terms): void;
  /** Its grant is over: ends it at once. */
  stop(token: string): void;
  /** The server has taken note of its end. */
  forget(entry: Entry<O>): void;
  /** All that is wanted was started: what else runs in Berth's name is an orphan. */
  settle?(): Promise<void>;
  /** Below zero: that many bytes before the end. Undefined: there is no output. */
  openLog(entry: Entry<O>, from: number): LogReader | undefined;
  /** What runs goes on. */
  close(): void;
}

/** What an executor makes known of its own accord. */
export interface ExecutorEvents {
  /** Something of the list is different. */
  onChange(): void;
  onLogGrown(): void;
  /** A report about a checkpoint, for the server. Rejects if the server could not be asked: then it is asked again. */
  passOn(order: Order, report: NumberedReport): Promise<CheckpointAnswer>;
}

/** How far a deadline of an instruction is, however long ago it was given. Below zero: it has passed. */
export function leftMs(
  { instruction }: WireWantedPart,
  { answeredAt }: Terms,
  uptimeSeconds: number,
): number {
  return ((instruction.left_seconds ?? 0) - (uptimeSeconds - answeredAt)) * 1000;
}
