// What other processes of the same user see of this one's environment.

import { closeSync, openSync, readFileSync, writeSync } from "node:fs";

/** Where the environment begins in the memory of a process: the 50th field of its stat (proc(5)). */
const ENV_START_FIELD = 50;

/**
 * Removes a variable, also from what `/proc/PID/environ` shows: that is the memory in which the process was given its
 * environment, and removing a variable leaves its text there. Does nothing where there is no such memory to write to.
 */
export function hideVariable(name: string): void {
  const prefix = `${name}=`;
  const value = process.env[name];
  if (value === undefined) return;
  delete process.env[name];
  try {
    const environ = readFileSync("/proc/self/environ");
    const at = offsetOf(environ, prefix);
    if (at === undefined) return;
    const memory = openSync("/proc/self/mem", "r+");
    try {
      const valueAt = envStart() + at + Buffer.byteLength(prefix);
      writeSync(memory, Buffer.alloc(Buffer.byteLength(value)), 0, Buffer.byteLength(value), valueAt);
    } finally {
      closeSync(memory);
    }
  } catch {
    // Another system, or one that forbids it: the guide says what a job can see there.
  }
}

function offsetOf(environ: Buffer, prefix: string): number | undefined {
  for (let at = 0; at < environ.length; at = environ.indexOf(0, at) + 1) {
    if (environ.subarray(at, at + prefix.length).toString() === prefix) return at;
    if (environ.indexOf(0, at) < 0) return undefined;
  }
  return undefined;
}

function envStart(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  // The name of the program, in parentheses, may contain anything; the third field follows it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[ENV_START_FIELD - 3]);
}
