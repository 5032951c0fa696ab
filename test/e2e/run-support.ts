// A real server, and `berth` as it is installed: built, in a process of its own.

import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { afterAll } from "vitest";
import type { WirePolicy, WirePoolSettings, WireRequest } from "../../src/protocol/index.ts";
import { type Client, createClient } from "../../src/sdk/index.ts";
import { type OpenedServer, type OpenServerOptions, openServer } from "../../src/server/index.ts";
import { buildCommandLine } from "./run-build.ts";
import { readOrEmpty, temporaryDirectory } from "./runner-support.ts";

/** As it is installed; gone after the tests of this file. */
export async function buildBerth(): Promise<string> {
  const { berth, remove } = await buildCommandLine();
  afterAll(remove);
  return berth;
}

export interface World {
  readonly client: Client;
  readonly url: string;
  readonly token: string;
  readonly server: () => OpenedServer;
  /** Ends the server as an administrator would. Holders notice that nobody answers. */
  stopServer(): Promise<void>;
  /** The same data, the same address. */
  startServer(): Promise<void>;
  close(): Promise<void>;
}

/** Nobody in these tests is slowed down on purpose. */
const UNLIMITED = {
  perToken: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  perStranger: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  allStrangers: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  failedLoginsPerMinute: 1_000_000,
};

/** Quick, so that tests do not wait: what takes minutes in a pool of people takes a second here. */
export const QUICK: WirePoolSettings = { grace_seconds: 20, renewal_seconds: 2, lease_seconds: 60 };

export async function openWorld({
  gpu = 2,
  settings = QUICK,
  policies = [],
  data = { directory: temporaryDirectory() },
}: {
  gpu?: number;
  settings?: WirePoolSettings;
  policies?: Omit<WirePolicy, "pool">[];
  data?: OpenServerOptions["data"];
} = {}): Promise<World> {
  const open = (listen: string) =>
    openServer({
      data,
      listen,
      rates: UNLIMITED,
      onFatal: (error) => {
        throw error;
      },
    });
  let server = await open("127.0.0.1:0");
  let isOpen = true;
  const { url, firstToken } = server;
  const token = firstToken?.secret ?? "";
  const client = createClient({ url, token });
  await client.pools.create({ name: "lab", capacity: { gpu }, settings });
  const standard = [
    { component: "research", priority: 1 },
    { component: "urgent", priority: 100 },
  ];
  for (const policy of policies.length > 0 ? policies : standard) await client.policies.attach("lab", policy);
  const stopServer = async () => {
    if (!isOpen) return;
    isOpen = false;
    await server.close();
  };
  return {
    client,
    url,
    token,
    server: () => server,
    stopServer,
    startServer: async () => {
      server = await open(new URL(url).host);
      isOpen = true;
    },
    close: stopServer,
  };
}

export interface Running {
  readonly pid: number;
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly kill: (signal: NodeJS.Signals) => void;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

const started = new Set<ChildProcess>();
/** What a test that failed has left running; the guardians see to the rest. */
afterAll(() => {
  for (const child of started) child.kill("SIGKILL");
});

/** All that `berth` finds in its environment. */
export function environmentOf({ url, token }: Pick<World, "url" | "token">): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    HOME: temporaryDirectory(),
    BERTH_URL: url,
    BERTH_API_TOKEN: token,
    BERTH_COMPONENT: "research",
  };
}

/** Without a terminal, as a pipeline would. */
export function startBerth(
  berth: string,
  world: Pick<World, "url" | "token">,
  args: readonly string[],
  { env = {}, ...options }: SpawnOptions = {},
): Running {
  const child = spawn(process.execPath, [berth, ...args], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    ...options,
    env: { ...environmentOf(world), ...env },
  });
  started.add(child);
  child.once("exit", () => started.delete(child));
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    stdout += chunk;
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  return {
    pid: child.pid ?? -1,
    stdout: () => stdout,
    stderr: () => stderr,
    kill: (signal) => void child.kill(signal),
    // "close" rather than "exit": then all that was said has arrived.
    exited: new Promise((resolve) => {
      child.once("close", (code, signal) => resolve({ code, signal }));
    }),
  };
}

const WAIT_MS_MAX = 45_000;

/** Waits for a condition that takes a call to look at. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  for (const endMs = performance.now() + WAIT_MS_MAX; performance.now() < endMs; ) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`Waited in vain until ${what}.`);
}

/** The request of this name, when it has this status. */
export function named(
  { client }: Pick<World, "client">,
  name: string,
  status?: WireRequest["status"],
): Promise<WireRequest> {
  return eventually(`${name} is ${status ?? "there"}`, async () => {
    const { items } = await client.requests.list({ limit: 100 }, { retryForMs: 0 });
    return items.find((item) => item.name === name && (status === undefined || item.status === status));
  });
}

/** Waits for a word in a file that a job writes. */
export function written(file: string, text: string): Promise<string> {
  return eventually(`${file} has ${JSON.stringify(text)}`, () => {
    const content = readOrEmpty(file);
    return content.includes(text) && content;
  });
}
