// How much processor time was spent so far.

import { existsSync, openSync, readSync } from "node:fs";

const THREAD_FILE = `/proc/self/task/${process.pid}/schedstat`;
const threadFile = existsSync(THREAD_FILE) ? openSync(THREAD_FILE, "r") : null;
const text = Buffer.alloc(64);

/**
 * The processor time of the thread that decides: compilers and collectors beside it hold nobody up. Where the system does
 * not say it, that of all threads.
 */
export function threadMs(): number {
  const allMs = cpuMs(); // Also brings what the system says of this thread up to date.
  if (threadFile === null) return allMs;
  const length = readSync(threadFile, text, 0, text.length, 0);
  return Number.parseInt(text.toString("latin1", 0, length), 10) / 1e6;
}

export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
