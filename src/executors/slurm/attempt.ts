// One attempt, as its adapter knows it: what is written down, what is wanted of it, and what it says about its checkpoint.

import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { KeptAttempt } from "../attempt.ts";
import { TAIL_BYTES } from "../ends.ts";
import type { Entry, Order } from "../journal.ts";
import type { QueuedJob } from "./commands.ts";
import { readFileTail } from "./output.ts";
import { stageOf } from "./states.ts";
import type { Note } from "./steps.ts";
import { readText, readTrace, type Trace } from "./traces.ts";

export interface SlurmOrder extends Order {
  /** Its identity in Slurm (S2). */
  readonly name: string;
  /** What it writes. */
  readonly output: string;
  readonly checkpointDir: string;
  /** Appears when a checkpoint is asked for. */
  readonly preemptFile: string;
  /** How its command ended, as the script has seen it. */
  readonly exitFile: string;
  readonly job?: { readonly options: readonly string[]; readonly script: string };
}

const REPORTS = ["progress", "defer", "done", "finished"] as const;

export class Attempt extends KeptAttempt<SlurmOrder, Note> {
  missingSinceMs: number | undefined;

  constructor(entry: Entry<SlurmOrder>) {
    super(entry, "slurm.json", {});
  }

  get name(): string {
    return this.entry.order.name;
  }

  protected tail() {
    return { data: readFileTail(this.entry.order.output, TAIL_BYTES) };
  }

  /** What its script has left. */
  trace(): Trace {
    return readTrace(this.entry.order.exitFile);
  }

  /** Readable by the job's user. A reader sees the whole file or none. */
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
    const { note } = this;
    if (kind === "finished") return this.keepNote({ ...note, hasFinished: true });
    const seconds = Number(text);
    if (kind === "defer" && !(seconds > 0)) return;
    this.keepReport(
      kind === "defer" ? { kind, seconds } : { kind },
      kind === "done" ? { ...note, hasSaved: true } : note,
    );
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
    if (stage !== "over") this.phase = phases[stage];
    this.progress = stage === "waiting" ? `Slurm: ${own.reason}` : undefined;
  }
}
