// Which server to talk to, and as whom: options, then the environment, then the saved context.

import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { CliError } from "./context.ts";
import { suggestion } from "./nearest.ts";

export interface Connection {
  /** Any of these servers may answer. */
  readonly urls: readonly string[];
  readonly token: string | undefined;
  /** Who asks, unless a command says otherwise. */
  readonly component: string | undefined;
  /** Of the saved context, where the token is another one: it may not ask for this component. */
  readonly componentGuess: string | undefined;
  /** Started by `berth up` on this machine, by this user. */
  readonly isOwnServer: boolean;
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
  /** Where the server keeps its data, if `berth up` has saved this: the server stays the same when its port changes. */
  readonly store?: string;
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
    throw noContext(name, file);
  }
  const url = flags.url ?? (env.BERTH_URL || saved?.url);
  if (url === undefined) {
    throw new CliError(
      "usage",
      "No server is configured.",
      "Start one with `berth up`, save one with `berth login URL`, or set BERTH_URL and BERTH_API_TOKEN.",
    );
  }
  // A saved token is for the saved server only: no other one shall see it.
  const savedToken = url === saved?.url ? saved.token : undefined;
  const token = env.BERTH_API_TOKEN || savedToken;
  const component = flags.component ?? (env.BERTH_COMPONENT || undefined);
  const isSavedToken = token === saved?.token;
  return {
    urls: url.split(",").map((one) => one.trim()),
    token,
    component: component ?? (isSavedToken ? saved?.component : undefined),
    componentGuess: saved?.component,
    isOwnServer: saved?.store !== undefined && url === saved.url,
  };
}

export function noContext(name: string, { contexts }: ContextFile): CliError {
  return new CliError("not_found", `There is no context "${name}".`, suggestion(name, Object.keys(contexts)));
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

/** Readable by its owner only, since it holds tokens; a reader sees the old file or the new one. */
export function writeContexts(file: ContextFile, env: Environment = process.env): void {
  const path = contextFilePath(env);
  const draft = `${path}.${process.pid}.new`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(draft, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600, flush: true });
    renameSync(draft, path);
  } catch (error) {
    throw new CliError("file_unreadable", `The contexts cannot be saved: ${(error as Error).message}.`);
  }
}

/** Adds or replaces a context, and makes it the current one unless another one is to stay. */
export function saveContext(name: string, saved: SavedContext, current = name): void {
  const { contexts } = readContexts();
  writeContexts({ current, contexts: { ...contexts, [name]: saved } });
}
