// What an agent keeps on its disk about attempts (J5): a directory each, named by the grant token.
//
//   order.json  what was ordered; durable before anything starts
//   claim.json  the one shim that runs it: made once, by whoever comes first
//   plan.json   how to end it if its shim has died
//   end.json    how it ended, when nothing of it runs any more; durable before it is reported
//   log.*       its output
//
// Invariants
//   1. An attempt with an order is known for ever, or until its log is thrown away long after its end was acknowledged.
//   2. At most one process ever gets the claim, however often a shim is started.
//   3. A reader sees a whole file or none.

import { createHash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
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
import type { EnclosurePlan, JobUser, ProcessIdentity } from "../runner/index.ts";
import type { NumberedReport, OnLost } from "./messages.ts";

/** What a shim needs to know, and no server. */
export interface JobOrder {
  readonly command: readonly string[];
  readonly env: Record<string, string>;
  readonly cwd: string;
  readonly checkpointDir: string;
  readonly checkpointSignal?: string;
  readonly checkpointCommand?: readonly string[];
  readonly graceMs: number;
  readonly user?: JobUser;
}

export interface Order {
  readonly requestId: string;
  readonly token: string;
  readonly bootId: string;
  readonly onLost: OnLost;
  /** Until when it may run without another word from a server, in seconds since the machine was started. */
  readonly leaseUntil: number;
  /** Absent once it has ended: its environment is nobody's business any more. */
  readonly job?: JobOrder;
}

export type PartEnd = NonNullable<WireRunningPart["end"]>;

/** How it ended, and what the server must hear before. */
export interface StoredEnd {
  readonly end: Omit<PartEnd, "log_tail">;
  readonly reports: readonly NumberedReport[];
}

/** One attempt on the disk. */
export interface Entry {
  readonly directory: string;
  readonly order: Order;
}

export interface Journal {
  /** Attempts whose end was not acknowledged. */
  open(): Entry[];
  /** Durable on return. */
  write(order: Order): Entry;
  /** Its end was acknowledged: the log stays, and the token stays known. */
  archive(entry: Entry): void;
  /** The directory of the attempt, whatever became of it. */
  find(token: string): { readonly entry: Entry; readonly isArchived: boolean } | undefined;
  /** Throws the oldest logs away that nobody is likely to read. */
  prune(nowMs: number): void;
}

const ARCHIVE_MS_MAX = 7 * 24 * 3_600_000;
const ARCHIVE_ENTRIES_MAX = 5_000;

export function openJournal(directory: string): Journal {
  const jobs = join(directory, "jobs");
  const archive = join(directory, "archive");
  for (const path of [directory, jobs, archive]) mkdirSync(path, { recursive: true, mode: 0o711 });

  const entryAt = (path: string): Entry | undefined => {
    const order = readJson<Order>(join(path, "order.json"));
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
    write(order) {
      const path = join(jobs, keyOf(order.token));
      mkdirSync(path, { recursive: true, mode: 0o700 });
      writeDurably(join(path, "order.json"), order);
      syncDirectory(jobs);
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

export function readOrder(directory: string): Order | undefined {
  return readJson(join(directory, "order.json"));
}

export function readEnd(directory: string): StoredEnd | undefined {
  return readJson(join(directory, "end.json"));
}

/** Durable on return. */
export function writeEnd(directory: string, end: StoredEnd): void {
  writeDurably(join(directory, "end.json"), end);
}

export function readClaim(directory: string): ProcessIdentity | undefined {
  return readJson(join(directory, "claim.json"));
}

/** Whether this process is the one that may run it. */
export function claim(directory: string, identity: ProcessIdentity): boolean {
  const draft = join(directory, `claim.${identity.pid}.${identity.startTime}`);
  writeFileSync(draft, JSON.stringify(identity), { mode: 0o600 });
  try {
    linkSync(draft, join(directory, "claim.json"));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

export function readPlan(directory: string): EnclosurePlan | undefined {
  return readJson(join(directory, "plan.json"));
}

/** Needed until the machine is restarted at most. */
export function writePlan(directory: string, plan: EnclosurePlan): void {
  writeWhole(join(directory, "plan.json"), JSON.stringify(plan), false);
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

function writeWhole(path: string, text: string, flush: boolean): void {
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
