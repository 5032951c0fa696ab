// What an agent keeps about itself: which node it is, where the servers are, and the token that proves it. Mode 0600.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { readJson, writeDurably } from "../executors/index.ts";
import { identify, isRunning, type ProcessIdentity } from "../runner/index.ts";

export interface Membership {
  readonly node: string;
  readonly pool: string;
  readonly urls: readonly string[];
  readonly token: string;
  /** Its capacity is not what was found on the machine. */
  readonly isPretended?: boolean;
}

/** The kernel's limit for the path of a socket is 107 bytes; ours are in `jobs/` and a directory of 20 letters. */
export const STATE_PATH_BYTES_MAX = 107 - "/jobs/01234567890123456789/socket".length;

export function readMembership(directory: string): Membership | undefined {
  return readJson(join(directory, "agent.json"));
}

export function writeMembership(directory: string, membership: Membership): void {
  mkdirSync(directory, { recursive: true, mode: 0o711 });
  writeDurably(join(directory, "agent.json"), membership);
}

/** The pid of another agent that works with this directory; undefined: it is ours now. */
export function takeDirectory(directory: string): number | undefined {
  mkdirSync(directory, { recursive: true, mode: 0o711 });
  const file = join(directory, "running.json");
  const other = readJson<ProcessIdentity>(file);
  if (other !== undefined && other.pid !== process.pid && isRunning(other)) return other.pid;
  writeDurably(file, identify(process.pid));
  return undefined;
}
