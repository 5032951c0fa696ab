// Room on the disk for bad times: a file that is given up when the disk is full, so that work can still be ended,
// reported and administered, and the server can still start.

import { randomFillSync } from "node:crypto";
import { closeSync, openSync, rmSync, statfsSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";

export type Reserve = {
  /** What was given up is taken back as soon as there is enough. */
  isHeld(): boolean;
  /** True if that made room. */
  giveUp(): boolean;
};

/** Enough for a great many ends of work. */
export const RESERVE_BYTES = 16 << 20;

export const NO_RESERVE: Reserve = { isHeld: () => true, giveUp: () => false };

const noRoom: ReadonlySet<string | undefined> = new Set(["ENOSPC", "EDQUOT"]);
const RETRY_MS = 1_000;
const BLOCK_BYTES = 1 << 20;

/** The world as it is, unless a test brings another. */
type Surroundings = { readonly nowMs: () => number; readonly disk: (path: string) => Disk };
type Disk = { readonly totalBytes: number; readonly freeBytes: number };

export function keepReserve(
  path: string,
  wantedBytes: number,
  { nowMs, disk }: Surroundings = { nowMs: () => performance.now(), disk: diskOf },
): Reserve {
  // A small disk is for the store, not for its reserve.
  const bytes = Math.min(wantedBytes, Math.floor(disk(path).totalBytes / 4));
  // Only when as much again stays free: a reserve that leaves nothing would have to be given up at once.
  const take = () => disk(path).freeBytes >= 2 * bytes && fill(path, bytes);
  let isHeld = bytesOf(path) === bytes || take();
  let retryAtMs = nowMs() + RETRY_MS;
  return {
    isHeld() {
      if (isHeld || nowMs() < retryAtMs) return isHeld;
      retryAtMs = nowMs() + RETRY_MS;
      isHeld = take();
      return isHeld;
    },
    giveUp() {
      const gained = bytesOf(path);
      rmSync(path, { force: true });
      isHeld = false;
      return gained > 0;
    },
  };
}

function diskOf(path: string): Disk {
  const { blocks, bavail, bsize } = statfsSync(dirname(path));
  return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
}

/** Not half: false if there is too little room after all. */
function fill(path: string, bytes: number): boolean {
  try {
    writeNoise(path, bytes);
    return true;
  } catch (error) {
    rmSync(path, { force: true });
    if (noRoom.has((error as NodeJS.ErrnoException).code)) return false;
    throw error;
  }
}

/** Which no file system can store in less room. */
function writeNoise(path: string, bytes: number): void {
  const block = randomFillSync(Buffer.alloc(Math.min(bytes, BLOCK_BYTES)));
  const handle = openSync(path, "w", 0o600);
  try {
    for (let left = bytes; left > 0; ) left -= writeSync(handle, block, 0, Math.min(left, block.length));
  } finally {
    closeSync(handle);
  }
}

function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
