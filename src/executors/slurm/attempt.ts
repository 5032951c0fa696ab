// One attempt, as its adapter knows it: what is written down, what is wanted of it, and what it says about its checkpoint.

import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { KeptAttempt } from "../attempt.ts";
import { TAIL_BYTES } from "../ends.ts";
import type { Entry, Order, StoredEnd } from "../journal.ts";
import type { QueuedJob } from "./commands.ts";
import { readFileTail } from "./output.ts";
import { startedMarkOf } from "./script.ts";
import { stageOf } from "./states.ts";
import type { Note } from "./steps.ts";

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

  /** The script has taken its mark. */
  get hasBegun(): boolean {
    return existsSync(startedMarkOf(this.entry.order.exitFile));
  }

  /** What the script has kept of the command's end. */
  get ownExitCode(): number | undefined {
    const code = Number.parseInt(readText(this.entry.order.exitFile) ?? "", 10);
    return code >= 0 && code <= 255 ? code : undefined;
  }

  /** Slurm's own number is that of the command only below 128. */
  exitOf({ exit_code, signal }: StoredEnd["end"]): { exit_code?: number } {
    const { ownExitCode } = this;
    const isOfCommand = exit_code !== undefined && signal === undefined && ownExitCode !== undefined;
    return isOfCommand ? { exit_code: ownExitCode } : {};
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

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
