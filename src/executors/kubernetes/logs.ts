// What pods write (J6). A pod's log is gone with the pod, which a stop deletes, so the adapter follows it and keeps a copy
// beside its note of the attempt: `log.*`, and the time of the last line in `log-time`, from where it goes on after a break.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type LogWriter, openLogWriter } from "../log-files.ts";
import type { Kubernetes } from "./client.ts";

export interface LogCopies {
  /** Follows the log of this pod from now on, into this directory. */
  follow(pod: { readonly uid: string; readonly name: string }, directory: string): void;
  /** Whether all that the pod has written is in the copy. */
  isComplete(uid: string): boolean;
  /** Its attempt is over. */
  forget(uid: string): void;
  close(): void;
}

interface Copy {
  readonly ending: AbortController;
  isComplete: boolean;
}

const RETRY_MS = 1_000;
const TRIES_MAX = 3;
/** A log ends with its pod: one that is silent for so long after it will not. */
const SILENT_MS_MAX = 10_000;
const LINE_BYTES_MAX = 1 << 20;
/** Such as "2026-01-01T00:00:00.123456789Z the line". */
const STAMP = /^(\d{4}-\d\d-\d\dT\S+?)(?: |$)/;

export function createLogCopies(
  kubernetes: Kubernetes,
  { onGrown, isOver }: { readonly onGrown: () => void; readonly isOver: (uid: string) => boolean },
): LogCopies {
  const copies = new Map<string, Copy>();

  async function run(uid: string, pod: string, directory: string, copy: Copy): Promise<void> {
    const { signal } = copy.ending;
    let writer: LogWriter | undefined;
    const stamps = openStamps(directory, uid);
    const take = (text: string) => {
      writer ??= openLogWriter(directory);
      writer.write("stdout", Buffer.from(text));
      onGrown();
    };
    for (let tries = 0; !signal.aborted && tries < TRIES_MAX; ) {
      const wasOver = isOver(uid); // Asked first: what follows is then all that there is.
      const lines = createLines(stamps, take);
      const patience = createPatience(signal, () => isOver(uid));
      const push = (data: Buffer) => {
        patience.renew();
        lines.push(data);
      };
      try {
        await kubernetes.followLog(pod, stamps.last(), push, patience.signal);
        lines.end();
        if (wasOver) break;
      } catch {
        if (wasOver) tries++; // Its log may be gone with the pod or its node.
      } finally {
        patience.end();
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
    writer?.close();
    copy.isComplete = true;
    onGrown();
  }

  return {
    follow({ uid, name }, directory) {
      if (copies.has(uid)) return;
      const copy: Copy = { ending: new AbortController(), isComplete: false };
      copies.set(uid, copy);
      void run(uid, name, directory, copy);
    },
    isComplete: (uid) => copies.get(uid)?.isComplete ?? true,
    forget(uid) {
      copies.get(uid)?.ending.abort();
      copies.delete(uid);
    },
    close() {
      for (const { ending } of copies.values()) ending.abort();
    },
  };
}

/** Runs out when the pod is over and nothing more is heard: so is a connection whose other end has lost its power. */
function createPatience(ending: AbortSignal, isOver: () => boolean) {
  const dead = new AbortController();
  let heardAtMs = performance.now();
  const timer = setInterval(() => {
    if (!isOver()) heardAtMs = performance.now();
    else if (performance.now() - heardAtMs > SILENT_MS_MAX) dead.abort();
  }, RETRY_MS);
  return {
    signal: AbortSignal.any([ending, dead.signal]),
    renew() {
      heardAtMs = performance.now();
    },
    end: () => clearInterval(timer),
  };
}

interface Stamps {
  /** From when on to read, inclusive. */
  last(): string | undefined;
  /** False: this line was read before. */
  take(stamp: string): boolean;
  save(): void;
}

function openStamps(directory: string, uid: string): Stamps {
  const path = join(directory, `log-time-${uid}`);
  let last = readText(path);
  let saved = last;
  return {
    last: () => last,
    take(stamp) {
      if (last !== undefined && compareStamps(stamp, last) <= 0) return false;
      last = stamp;
      return true;
    },
    save() {
      if (last === undefined || last === saved) return;
      writeFileSync(path, last, { mode: 0o600 });
      saved = last;
    },
  };
}

/** Times of one clock in UTC, whose fractions may have been cut at the last zero. */
export function compareStamps(a: string, b: string): number {
  const [left, right] = [a, b].map((stamp) => {
    const [, whole = stamp, fraction = ""] = /^([^.Z]+)(?:\.(\d+))?/.exec(stamp) ?? [];
    return `${whole}.${fraction.padEnd(9, "0")}`;
  }) as [string, string];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** Whole lines without their times; the last one may have no end. */
export function createLines(
  stamps: Pick<Stamps, "take" | "save">,
  take: (text: string) => void,
): { push(data: Buffer): void; end(): void } {
  let rest: Buffer = Buffer.alloc(0);
  const line = (text: string, ending: string): string => {
    const [head, stamp] = STAMP.exec(text) ?? [];
    if (head === undefined || stamp === undefined) return text + ending;
    return stamps.take(stamp) ? text.slice(head.length) + ending : "";
  };
  const give = (text: string) => {
    if (text !== "") take(text);
    stamps.save();
  };
  return {
    push(data) {
      rest = Buffer.concat([rest, data]);
      const end = rest.lastIndexOf(10);
      if (end < 0 && rest.length < LINE_BYTES_MAX) return;
      const whole = end < 0 ? rest : rest.subarray(0, end);
      rest = end < 0 ? Buffer.alloc(0) : rest.subarray(end + 1);
      give(
        whole
          .toString()
          .split("\n")
          .map((text) => line(text, "\n"))
          .join(""),
      );
    },
    end() {
      if (rest.length > 0) give(line(rest.toString(), ""));
      rest = Buffer.alloc(0);
    },
  };
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8") || undefined;
  } catch {
    return undefined;
  }
}
