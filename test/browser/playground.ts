// A real server whose past can be written: it begins hours ago, and its clock is moved on by hand until it is now.

import { startLeader } from "../../src/leader/index.ts";
import { type Client, createClient } from "../../src/sdk/index.ts";
import { startServer } from "../../src/server/index.ts";
import { openMemoryStore } from "../../src/store/index.ts";
import { UNLIMITED } from "../e2e/server-support.ts";

export interface Playground {
  readonly url: string;
  readonly client: Client;
  readonly adminSecret: string;
  /** Lets time pass, for the server alone. */
  pass(minutes: number): Promise<void>;
  /** Whatever of the time before now has not passed yet. */
  passTheRest(): Promise<void>;
  /** Another client, with a token of this role. */
  as(
    role: "viewer" | "user" | "operator",
    scope?: object,
  ): Promise<{ client: Client; secret: string; id: string }>;
  /** The server only: the page loses it, and finds it again on the same port. */
  stopServing(): Promise<void>;
  serveAgain(): Promise<void>;
  /** From now on every look at the state fails inside the server, until it is mended. */
  breakReads(): void;
  mendReads(): void;
  close(): Promise<void>;
}

export async function openPlayground({ hoursAgo = 0 }: { hoursAgo?: number } = {}): Promise<Playground> {
  const wholeMs = hoursAgo * 3_600_000;
  let passedMs = 0;
  const clock = {
    monotonicMs: () => performance.now() + passedMs,
    wallMs: () => Date.now() - wholeMs + passedMs,
    after(delayMs: number, run: () => void) {
      const timer = setTimeout(run, delayMs);
      return () => clearTimeout(timer);
    },
    soon: (run: () => void) => void setImmediate(run),
  };
  const onFatal = (error: unknown) => {
    throw error;
  };
  const store = await openMemoryStore();
  const sound = await startLeader({ store, clock, onFatal });
  let isBroken = false;
  const leader: typeof sound = {
    ...sound,
    read: (look) => (isBroken ? Promise.reject(new Error("broken for a test")) : sound.read(look)),
  };
  const serve = (listen: string) => startServer({ leader, store, listen, rates: UNLIMITED });
  let server = await serve("127.0.0.1:0");
  const { url } = server;
  const admin = await server.makeFirstToken("admin");
  if (admin === undefined) throw new Error("A new store has no first token.");
  // A busy machine is no fault of the page.
  const client = createClient({ url, token: admin.secret, timeoutMs: 120_000 });
  let tokens = 0;
  const pass = async (minutes: number) => {
    passedMs = Math.min(wholeMs, passedMs + minutes * 60_000);
    await new Promise((resolve) => setTimeout(resolve, 20)); // Timers that are due now have their turn.
  };
  return {
    url,
    client,
    adminSecret: admin.secret,
    pass,
    passTheRest: () => pass(Number.POSITIVE_INFINITY),
    async as(role, scope = {}) {
      const { secret = "", id } = await client.tokens.create({ name: `${role}-${++tokens}`, role, ...scope });
      return { client: createClient({ url, token: secret }), secret, id };
    },
    stopServing: () => server.close(),
    async serveAgain() {
      server = await serve(new URL(url).host);
    },
    breakReads() {
      isBroken = true;
    },
    mendReads() {
      isBroken = false;
    },
    async close() {
      await server.close();
      await leader.close();
      await store.close();
    },
  };
}
