// One attempt, as the adapter of a cluster knows it: what is written down about it, what is wanted of it, and what is to be
// said about it. Each cluster adds what it sees.

import { join } from "node:path";
import type { WireRunningPart, WireWantedPart } from "../protocol/index.ts";
import { endedPart } from "./ends.ts";
import { type ExecutorEvents, leftMs, type Terms } from "./executor.ts";
import {
  type Entry,
  type NumberedReport,
  type Order,
  readEnd,
  readJson,
  type StoredEnd,
  writeDurably,
  writeEnd,
} from "./journal.ts";

/** A grant that the cluster has not started for so long is given back (S3, K3). */
export const START_MS_MAX = 600_000;

/** What the server wants of an attempt; `end`: its grant is over. */
export interface Wish {
  readonly do: "carry_on" | "checkpoint" | "stop" | "end";
  readonly isOverdue: boolean;
}

/** Durable beside the order. */
interface Kept<Note> {
  readonly note: Note;
  readonly reportCount: number;
  /** Reports that the server has not taken yet. */
  readonly reports: readonly NumberedReport[];
  /** The ids of the signals that were delivered. */
  readonly signals: readonly number[];
}

export abstract class KeptAttempt<O extends Order, Note extends object> {
  readonly entry: Entry<O>;
  /** Signals to be delivered. */
  signals: readonly { readonly id: number; readonly signal: string }[] = [];
  /** Why and by when a checkpoint or an end is asked for. */
  question = { deadlineAtMs: 0, reason: "" };
  protected phase: WireRunningPart["phase"] = "starting";
  protected progress: string | undefined;
  readonly #file: string;
  #wanted: Wish["do"] = "carry_on";
  /** By the clock of this process. */
  #deadlineMs = Number.POSITIVE_INFINITY;
  #kept: Kept<Note>;
  #end: StoredEnd["end"] | undefined;
  #listing: WireRunningPart | undefined;

  constructor(entry: Entry<O>, file: string, nothing: Note) {
    this.entry = entry;
    this.#file = join(entry.directory, file);
    this.#kept = readJson<Kept<Note>>(this.#file) ?? {
      ...{ note: nothing, reportCount: 0, reports: [], signals: [] },
    };
    this.#end = readEnd(entry.directory)?.end;
  }

  /** The last of its output, and how much there was in all, where that is known. */
  protected abstract tail(): { readonly data: Buffer; readonly bytes?: number };

  get note(): Note {
    return this.#kept.note;
  }

  /** Nothing is left to be done, or to be said, but its end. */
  get isOver(): boolean {
    return this.#end !== undefined;
  }

  /** Asked anew at every look: while something moves, looks come sooner than answers that say nothing new. */
  get wish(): Wish {
    const isOverdue = this.#wanted === "stop" && performance.now() >= this.#deadlineMs;
    return { do: this.#wanted, isOverdue: isOverdue || this.#wanted === "end" };
  }

  get reports(): readonly NumberedReport[] {
    return this.#kept.reports;
  }

  hear({ instruction, signals }: WireWantedPart, left: number): void {
    const { do: what, reason = "" } = instruction;
    this.#wanted = what;
    this.#deadlineMs = performance.now() + left;
    this.question = { deadlineAtMs: Date.now() + left, reason };
    this.signals = signals;
  }

  /** Its grant is over. */
  disown(): void {
    this.#wanted = "end";
  }

  hasDelivered(id: number): boolean {
    return this.#kept.signals.includes(id);
  }

  /** Durable on return. */
  keepNote(note: Note): void {
    this.#keep({ ...this.#kept, note });
  }

  keepSignal(id: number): void {
    this.#keep({ ...this.#kept, signals: [...this.#kept.signals, id].slice(-64) });
  }

  /** Together with the note that it belongs to. */
  keepReport(report: NumberedReport["report"], note: Note): void {
    const { reportCount, reports } = this.#kept;
    const id = reportCount + 1;
    this.#keep({ ...this.#kept, note, reportCount: id, reports: [...reports, { id, report }] });
  }

  keepEnd(end: StoredEnd["end"]): void {
    writeEnd(this.entry.directory, { end, reports: [] });
    this.#end = end;
  }

  /** Reports that the server does not answer are sent again later. */
  async passReports(passOn: ExecutorEvents["passOn"]): Promise<void> {
    for (const report of this.reports) {
      try {
        await passOn(this.entry.order, report);
      } catch {
        return;
      }
      const reports = this.reports.filter(({ id }) => id !== report.id);
      this.#keep({ ...this.#kept, reports });
    }
  }

  /** What the cluster said when it would not do something. */
  complain(message: string): void {
    if (this.phase === "starting") this.progress = message.slice(0, PROGRESS_CHARS_MAX);
  }

  listing(): WireRunningPart {
    const { requestId: request_id, token } = this.entry.order;
    // An end comes after the reports that it rests on.
    if (this.#end !== undefined && this.reports.length === 0) {
      const { data, bytes } = this.#listing === undefined ? this.tail() : { data: Buffer.alloc(0) };
      this.#listing ??= endedPart({ request_id, token }, this.#end, data, bytes);
      return this.#listing;
    }
    const { signals } = this.#kept;
    return {
      ...{ request_id, token, phase: this.phase },
      ...(this.progress !== undefined && { progress: this.progress.slice(0, PROGRESS_CHARS_MAX) }),
      ...(signals.length > 0 && { signals: [...signals] }),
    };
  }

  /** Something is on its way, so that the next look should come soon. */
  get isInMotion(): boolean {
    if (this.isOver) return false;
    return this.phase === "starting" || this.wish.do !== "carry_on" || this.reports.length > 0;
  }

  #keep(kept: Kept<Note>): void {
    writeDurably(this.#file, kept);
    this.#kept = kept;
  }
}

const PROGRESS_CHARS_MAX = 256;

/** Hands what is wanted to the attempt that it is wanted of. */
export function instructAttempt<A extends KeptAttempt<Order, object>>(
  attempts: ReadonlyMap<string, A>,
  part: WireWantedPart,
  terms: Terms,
  uptimeSeconds: number,
): void {
  attempts.get(part.token)?.hear(part, leftMs(part, terms, uptimeSeconds));
}

/** A few at a time: each costs a process or a connection. */
export async function inTurn<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
