// The note that a running server leaves beside its data: which process it is, and where it listens.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface RunningNote {
  readonly pid: number;
  readonly url: string;
  /** Tells the process from a later one with the same number. */
  readonly birth: string;
  /** The administrator's token that `berth up` saved, so that the context can be repaired. */
  readonly token?: string;
}

const fileIn = (directory: string) => join(directory, "server.json");

export function leaveNote(directory: string, url: string, token?: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const note: RunningNote = { pid: process.pid, url, birth: birthOf(process.pid), ...(token && { token }) };
  rmSync(fileIn(directory), { force: true }); // A file that exists would keep its mode.
  writeFileSync(fileIn(directory), `${JSON.stringify(note)}\n`, { mode: 0o600 });
}

export function takeNoteAway(directory: string): void {
  if (readNote(directory)?.pid === process.pid) rmSync(fileIn(directory), { force: true });
}

/** The server that runs on this data, if its process is still the one that left the note. */
export function findRunning(directory: string): RunningNote | undefined {
  const note = readNote(directory);
  return note !== undefined && isAlive(note) ? note : undefined;
}

export function isAlive({ pid, birth }: RunningNote): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return birthOf(pid) === birth;
}

function readNote(directory: string): RunningNote | undefined {
  try {
    return JSON.parse(readFileSync(fileIn(directory), "utf8")) as RunningNote;
  } catch {
    return undefined;
  }
}

/** When the kernel started it, in ticks since boot; nothing where there is no such file. */
function birthOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A process that is dead but not yet buried runs nothing any more.
    return fields[0] === "Z" ? "dead" : (fields[19] ?? "");
  } catch {
    return "";
  }
}
