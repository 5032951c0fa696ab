// Which server to talk to, and as whom: options, then the environment, then the saved context.

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { isErrorCode } from "../protocol/index.ts";
import { isBerthError } from "../sdk/index.ts";
import { CliError } from "./context.ts";

export interface Connection {
  /** Any of these servers may answer. */
  readonly urls: readonly string[];
  readonly token: string | undefined;
  /** Who asks, unless a command says otherwise. */
  readonly component: string | undefined;
}

export interface ConnectionFlags {
  readonly url?: string;
  readonly context?: string;
  readonly component?: string;
}

export interface SavedContext {
  readonly url: string;
  readonly token?: string;
  readonly component?: string;
}

export interface ContextFile {
  readonly current?: string;
  readonly contexts: Readonly<Record<string, SavedContext>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

export function resolveConnection(flags: ConnectionFlags = {}, env: Environment = process.env): Connection {
  const file = readContexts(env);
  const name = flags.context ?? (env.BERTH_CONTEXT || file.current);
  const saved = name === undefined ? undefined : file.contexts[name];
  if (name !== undefined && saved === undefined && (flags.context !== undefined || env.BERTH_CONTEXT)) {
    const known = Object.keys(file.contexts).join(", ");
    throw new CliError(
      "not_found",
      `There is no context "${name}".`,
      known === "" ? "" : `Known are ${known}.`,
    );
  }
  const url = flags.url ?? (env.BERTH_URL || saved?.url);
  if (url === undefined) {
    throw new CliError(
      "usage",
      "No server is known.",
      "Start one with `berth up`, save one with `berth login URL`, or set BERTH_URL and BERTH_API_TOKEN.",
    );
  }
  // A saved token is for the saved server only: no other one shall see it.
  const savedToken = url === saved?.url ? saved.token : undefined;
  return {
    urls: url.split(",").map((one) => one.trim()),
    token: env.BERTH_API_TOKEN || savedToken,
    component: flags.component ?? (env.BERTH_COMPONENT || saved?.component),
  };
}

export function contextFilePath(env: Environment = process.env): string {
  return join(env.XDG_CONFIG_HOME || join(homedir(), ".config"), "berth", "contexts.json");
}

export function readContexts(env: Environment = process.env): ContextFile {
  const path = contextFilePath(env);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { contexts: {} };
    throw new CliError(
      "file_unreadable",
      `The contexts in ${path} cannot be read.`,
      "Check who may read it.",
    );
  }
  try {
    const { current, contexts = {} } = JSON.parse(text) as Partial<ContextFile>;
    return current === undefined ? { contexts } : { current, contexts };
  } catch {
    throw new CliError(
      "invalid_syntax",
      `The contexts in ${path} are not JSON.`,
      "Repair or remove that file.",
    );
  }
}

/** What a server answered, in the form that the command line shows. */
export function toCliError(error: unknown): unknown {
  if (!isBerthError(error) || !isErrorCode(error.code)) return error;
  return new CliError(error.code, error.message, error.hint);
}
