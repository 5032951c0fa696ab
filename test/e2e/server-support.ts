// A real server on a real port, and a client that holds every answer against the schema of its route.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { problem, ROUTES, type Role, type Route } from "../../src/protocol/index.ts";
import { type OpenedServer, type OpenServerOptions, openServer } from "../../src/server/index.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // Answers are looked at field by field; what they must be is checked against the schemas.
  // biome-ignore lint/suspicious/noExplicitAny: tests read what they expect.
  readonly body: any;
}

export type Caller = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<Answer>;

export interface TestServer extends OpenedServer {
  readonly admin: Caller;
  readonly adminSecret: string;
  as(secret: string | undefined): Caller;
  /** Makes a token and the caller that uses it. */
  token(role: Role, scope?: object): Promise<{ call: Caller; secret: string; id: string; name: string }>;
}

export const UNLIMITED = {
  perToken: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  perStranger: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  allStrangers: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  failedLoginsPerMinute: 1_000_000,
};

export async function openTestServer(
  data: OpenServerOptions["data"] = "memory",
  options: Partial<OpenServerOptions> = {},
): Promise<TestServer> {
  const server = await openServer({
    data,
    listen: "127.0.0.1:0",
    rates: UNLIMITED,
    onFatal: (error) => {
      throw error;
    },
    ...options,
  });
  const adminSecret =
    server.firstToken?.secret ?? (await server.makeAdminToken(`test ${Math.random()}`)).secret;
  const as = (secret: string | undefined) => callerOf(server.url, secret);
  const admin = as(adminSecret);
  let count = 0;
  return {
    ...server,
    admin,
    adminSecret,
    as,
    async token(role, scope = {}) {
      const name = `${role}-${++count}`;
      const { status, body } = await admin("POST", "/v1/tokens", { name, role, ...scope });
      expect(status).toBe(201);
      return { call: as(body.secret), secret: body.secret, id: body.id, name };
    },
  };
}

export function callerOf(url: string, secret: string | undefined): Caller {
  return async (method, path, body, headers = {}) => {
    const answer = await fetch(url + path, {
      method,
      headers: {
        ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    const isJson = answer.headers.get("content-type")?.includes("json") === true;
    const told = { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
    check(method, path, told);
    return told;
  };
}

/** What is answered must be what the table promises: the schema of the route, or a problem. */
function check(method: string, path: string, { status, headers, body }: Answer): void {
  if (status >= 400 && status !== 503) {
    expect(headers.get("content-type")).toBe("application/problem+json");
    expect(problem.parse(body)).toMatchObject({ status });
    return;
  }
  const route = routeOf(method, path.split("?")[0] as string);
  if (route?.answer !== undefined && status < 300) expect(() => route.answer?.parse(body)).not.toThrow();
}

export function routeOf(method: string, path: string): Route | undefined {
  return (Object.values(ROUTES) as Route[]).find(
    (route) =>
      route.method === method && new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(path),
  );
}

/** Runs with a directory of its own, which is gone afterwards. */
export async function temporaryDirectory(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), "berth-server-"));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/** One pool of two GPUs, which two components may use. */
export async function smallWorld({ admin }: TestServer): Promise<void> {
  await admin("POST", "/v1/pools", { name: "gpus", capacity: { gpu: 2 } });
  await admin("POST", "/v1/pools/gpus/policies", { component: "vision", priority: 1 });
  await admin("POST", "/v1/pools/gpus/policies", { component: "speech", priority: 1 });
}

export interface Told {
  readonly event: string;
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read what they expect.
  readonly data: any;
}

/** Reads an event stream message by message. */
export async function openStream(
  url: string,
  secret: string,
  { query = "", headers = {} }: { query?: string; headers?: Record<string, string> } = {},
): Promise<{ next(): Promise<Told | undefined>; until(event: string): Promise<Told>; close(): void }> {
  const abort = new AbortController();
  const answer = await fetch(`${url}/v1/events${query}`, {
    headers: { authorization: `Bearer ${secret}`, ...headers },
    signal: abort.signal,
  });
  expect(answer.status).toBe(200);
  const reader = (answer.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const next = async (): Promise<Told | undefined> => {
    for (;;) {
      const end = text.indexOf("\n\n");
      if (end >= 0) {
        const block = text.slice(0, end);
        text = text.slice(end + 2);
        const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
        if (field("data") === "") continue;
        return { event: field("event"), id: field("id"), data: JSON.parse(field("data")) };
      }
      const { done, value } = await reader.read().catch(() => ({ done: true, value: undefined }));
      if (done) return undefined;
      text += value;
    }
  };
  return {
    next,
    async until(event) {
      for (;;) {
        const told = await next();
        if (told === undefined) throw new Error(`the stream ended before ${event}`);
        if (told.event === event) return told;
      }
    },
    close: () => abort.abort(),
  };
}
