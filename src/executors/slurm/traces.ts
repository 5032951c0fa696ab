// What the script of an attempt leaves on the disk that it shares with the adapter. It is the script's own word: no controller
// that crashes can forget it.

import { existsSync, readFileSync } from "node:fs";

export interface Trace {
  readonly hasBegun: boolean;
  /** How the command ended; undefined: it has not, or could not say so. */
  readonly exit?: {
    readonly code: number;
    /** SIGTERM came before: the command may have ended because of that. */
    readonly wasTold: boolean;
  };
}

/** A directory that the script makes when it begins: only one can. */
export function startedMarkOf(exitFile: string): string {
  return `${exitFile}.started`;
}

/** Behind the exit code. */
export const TOLD = "+TERM";

export function readTrace(exitFile: string): Trace {
  const [code, ...told] = readText(exitFile)?.trim().split("+") ?? [];
  if (code !== undefined && /^\d{1,3}$/.test(code))
    return { hasBegun: true, exit: { code: Number(code), wasTold: told.length > 0 } };
  return { hasBegun: existsSync(startedMarkOf(exitFile)) };
}

/** Undefined: it is not there. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
