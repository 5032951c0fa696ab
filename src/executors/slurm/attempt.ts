// One attempt, as its adapter knows it: what is written down, what is wanted of it, and what it says about its checkpoint.

import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { WireRunningPart } from "../../protocol/index.ts";
import { endedPart, TAIL_BYTES } from "../ends.ts";
import {
  type Entry,
  type NumberedReport,
  type Order,
  readEnd,
  readJson,
  type StoredEnd,
  writeDurably,
  writeEnd,
} from "../journal.ts";
import type { QueuedJob } from "./commands.ts";
import { readFileTail } from "./output.ts";
import { stageOf } from "./states.ts";
import type { Note, Wish } from "./steps.ts";

export interface SlurmOrder extends Order {
  /** Its identity in Slurm (S2). */
  readonly name: string;
  /** What it writes. */
  readonly output: string;
  readonly checkpointDir: string;
  /** Appears when a checkpoint is asked for. */
  readonly preemptFile: string;
  /** The exit code of its command, as the script has seen it. */
  readonly exitFile: string;
  readonly job?: { readonly options: readonly string[]; readonly script: string };
}

/** Durable beside the order. */
interface Kept {
  readonly note: Note;
  readonly reportCount: number;
  /** Reports that the server has not taken yet. */
  readonly reports: readonly NumberedReport[];
  /** The ids of the signals that were delivered. */
  readonly signals: readonly number[];
}

const NOTHING: Kept = { note: {}, reportCount: 0, reports: [], signals: [] };
const REPORTS = ["progress", "defer", "done", "finished"] as const;

export class Attempt {
  readonly entry: Entry<SlurmOrder>;
  wish: Wish = { do: "carry_on", isOverdue: false };
  /** Signals to be delivered. */
  signals: readonly { readonly id: number; readonly signal: string }[] = [];
  /** Why and by when a checkpoint or an end is asked for. */
  question = { deadlineAtMs: 0, reason: "" };
  missingSinceMs: number | undefined;
  #kept: Kept;
  #phase: WireRunningPart["phase"] = "starting";
  #progress: string | undefined;
  #end: StoredEnd["end"] | undefined;
  #listing: WireRunningPart | undefined;

  constructor(entry: Entry<SlurmOrder>) {
    this.entry = entry;
    this.#kept = readJson<Kept>(join(entry.directory, "slurm.json")) ?? NOTHING;
    this.#end = readEnd(entry.directory)?.end;
  }

  get name(): string {
    return this.entry.order.name;
  }

  get note(): Note {
    return this.#kept.note;
  }

  /** Nothing is left to be done, or to be said, but its end. */
  get isOver(): boolean {
    return this.#end !== undefined;
  }

  get reports(): readonly NumberedReport[] {
    return this.#kept.reports;
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

  keepEnd(end: StoredEnd["end"]): void {
    writeEnd(this.entry.directory, { end, reports: [] });
    this.#end = end;
  }

  /** Slurm's own number is that of the command only below 128. */
  exitOf({ exit_code, signal }: StoredEnd["end"]): { exit_code?: number } {
    const own = Number.parseInt(readText(this.entry.order.exitFile) ?? "", 10);
    const isOfCommand = exit_code !== undefined && signal === undefined && own >= 0 && own <= 255;
    return isOfCommand ? { exit_code: own } : {};
  }

  /** The server has taken it. */
  dropReport(id: number): void {
    this.#keep({ ...this.#kept, reports: this.#kept.reports.filter((report) => report.id !== id) });
  }

  /** For the job's user, who may be somebody else; a reader sees all of it or nothing. */
  writeNotice(): void {
    const { preemptFile } = this.entry.order;
    const { deadlineAtMs, reason } = this.question;
    const notice = { deadline: new Date(deadlineAtMs).toISOString(), reason };
    writeFileSync(`${preemptFile}.new`, `${JSON.stringify(notice)}\n`, { mode: 0o644 });
    renameSync(`${preemptFile}.new`, preemptFile);
  }

  /** Files that the job has left (11.2): written down before they are removed, so that none is lost. */
  collectReports(): void {
    for (const kind of REPORTS) {
      const path = join(this.entry.order.checkpointDir, kind);
      const text = readText(path);
      if (text === undefined || (kind === "defer" && text.trim() === "")) continue;
      this.#take(kind, text);
      rmSync(path, { force: true });
    }
  }

  #take(kind: (typeof REPORTS)[number], text: string): void {
    const { note, reportCount: count, reports } = this.#kept;
    if (kind === "finished") return this.keepNote({ ...note, hasFinished: true });
    const seconds = Number(text);
    if (kind === "defer" && !(seconds > 0)) return;
    const report = kind === "defer" ? { kind, seconds } : { kind };
    const id = count + 1;
    const said = kind === "done" ? { ...note, hasSaved: true } : note;
    this.#keep({ ...this.#kept, note: said, reportCount: id, reports: [...reports, { id, report }] });
  }

  /** What Slurm shows of it now. */
  show(own: QueuedJob | undefined): void {
    if (own === undefined) return;
    const stage = stageOf(own.state);
    const { told } = this.note;
    const asked = told === undefined ? "running" : told === "checkpoint" ? "checkpointing" : "stopping";
    const phases = {
      waiting: "starting",
      running: asked,
      completing: "stopping",
      suspended: "suspended",
    } as const;
    if (stage !== "over") this.#phase = phases[stage];
    this.#progress = stage === "waiting" ? `Slurm: ${own.reason}` : undefined;
  }

  /** What Slurm said when it would not do something. */
  complain(message: string): void {
    if (this.#phase === "starting") this.#progress = message.slice(0, 256);
  }

  listing(): WireRunningPart {
    const { requestId: request_id, token, output } = this.entry.order;
    // An end comes after the reports that it rests on.
    if (this.#end !== undefined && this.reports.length === 0) {
      this.#listing ??= endedPart({ request_id, token }, this.#end, readFileTail(output, TAIL_BYTES));
      return this.#listing;
    }
    const { signals } = this.#kept;
    return {
      ...{ request_id, token, phase: this.#phase },
      ...(this.#progress !== undefined && { progress: this.#progress }),
      ...(signals.length > 0 && { signals: [...signals] }),
    };
  }

  #keep(kept: Kept): void {
    writeDurably(join(this.entry.directory, "slurm.json"), kept);
    this.#kept = kept;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
