// What an executor keeps on its disk about attempts (J5): a directory each, named by the grant token.
//
//   order.json  what was ordered; durable before anything starts
//   end.json    how it ended, when nothing of it runs any more; durable before it is reported
//
// Invariants
//   1. An attempt with an order is known for ever, or until it is thrown away long after its end was acknowledged.
//   2. A reader sees a whole file or none.

import { createHash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { WireRunningPart } from "../protocol/index.ts";
import type { CheckpointReport } from "../runner/index.ts";

/** What is written down before anything starts. Each executor adds what it needs to find the attempt again. */
export interface Order {
  readonly requestId: string;
  readonly token: string;
  /** What to run. Absent once the attempt has ended: its environment may contain secrets. */
  readonly job?: unknown;
}

export type PartEnd = NonNullable<WireRunningPart["end"]>;

/** What a job says about its checkpoint, and the server must hear. */
export interface NumberedReport {
  readonly id: number;
  readonly report: Exclude<CheckpointReport, { kind: "failed" | "finished" }>;
}

/** How it ended, and what the server must hear before. */
export interface StoredEnd {
  readonly end: Omit<PartEnd, "log_tail" | "log_bytes">;
  readonly reports: readonly NumberedReport[];
}

/** One attempt on the disk. */
export interface Entry<O extends Order = Order> {
  readonly directory: string;
  readonly order: O;
}

export interface Journal<O extends Order> {
  /** Attempts whose end was not acknowledged. */
  open(): Entry<O>[];
  /** Durable on return; `end`: it can never be started here. Fails as a whole: then the attempt is as unknown as before. */
  write(order: O, end?: StoredEnd): Entry<O>;
  /** Its end was acknowledged: the log stays, and the token stays known. */
  archive(entry: Entry<O>): void;
  /** The directory of the attempt, whatever became of it. */
  find(token: string): { readonly entry: Entry<O>; readonly isArchived: boolean } | undefined;
  /** Deletes the oldest logs. */
  prune(nowMs: number): void;
}

const ARCHIVE_MS_MAX = 7 * 24 * 3_600_000;
const ARCHIVE_ENTRIES_MAX = 5_000;

export function openJournal<O extends Order>(directory: string): Journal<O> {
  const jobs = join(directory, "jobs");
  const archive = join(directory, "archive");
  for (const path of [directory, jobs, archive]) mkdirSync(path, { recursive: true, mode: 0o711 });

  const entryAt = (path: string): Entry<O> | undefined => {
    const order = readJson<O>(join(path, "order.json"));
    return order && { directory: path, order };
  };

  return {
    open: () =>
      readdirSync(jobs).flatMap((name) => {
        const entry = entryAt(join(jobs, name));
        // Its writer died before the order was whole: nothing was started.
        if (entry === undefined) rmSync(join(jobs, name), { recursive: true, force: true });
        return entry ?? [];
      }),
    write(order, end) {
      const path = join(jobs, keyOf(order.token));
      try {
        mkdirSync(path, { recursive: true, mode: 0o700 });
        if (end !== undefined) writeEnd(path, end);
        writeDurably(join(path, "order.json"), order);
        syncDirectory(jobs);
      } catch (error) {
        rmSync(path, { recursive: true, force: true }); // Nothing was started.
        throw error;
      }
      return { directory: path, order };
    },
    archive({ directory: path, order: { job: _, ...order } }) {
      const target = join(archive, keyOf(order.token));
      writeDurably(join(path, "order.json"), order);
      renameSync(path, target);
      syncDirectory(archive);
    },
    find(token) {
      const current = entryAt(join(jobs, keyOf(token)));
      if (current !== undefined) return { entry: current, isArchived: false };
      const old = entryAt(join(archive, keyOf(token)));
      return old && { entry: old, isArchived: true };
    },
    prune(nowMs) {
      const entries = readdirSync(archive)
        .map((name) => ({ path: join(archive, name), atMs: statSync(join(archive, name)).mtimeMs }))
        .toSorted((a, b) => b.atMs - a.atMs);
      const isOld = ({ atMs }: { atMs: number }) => nowMs - atMs > ARCHIVE_MS_MAX;
      for (const [index, entry] of entries.entries()) {
        if (index >= ARCHIVE_ENTRIES_MAX || isOld(entry))
          rmSync(entry.path, { recursive: true, force: true });
      }
    },
  };
}

export function readEnd(directory: string): StoredEnd | undefined {
  return readJson(join(directory, "end.json"));
}

/** Durable on return. */
export function writeEnd(directory: string, end: StoredEnd): void {
  writeDurably(join(directory, "end.json"), end);
}

/** Names a directory: tokens are long, and may have characters that no file name has. */
export function keyOf(token: string): string {
  return createHash("sha256").update(token).digest("hex").slice(0, 20);
}

/** Readable by its owner only. Durable on return. */
export function writeDurably(path: string, content: unknown): void {
  writeWhole(path, JSON.stringify(content), true);
  syncDirectory(join(path, ".."));
}

export function readJson<T>(path: string): T | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  return JSON.parse(text) as T;
}

export function writeWhole(path: string, text: string, flush: boolean): void {
  const draft = `${path}.${process.pid}.new`;
  writeFileSync(draft, text, { mode: 0o600, flush });
  renameSync(draft, path);
}

function syncDirectory(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
