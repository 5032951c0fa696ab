// Servers that exist only as a `fetch`: they answer by route, and write down what they were asked.

import type { WireRequest } from "../src/protocol/index.ts";
import type { Fetch } from "../src/sdk/index.ts";

export interface Asked {
  readonly origin: string;
  /** Such as `POST /v1/resource-requests`, with the query. */
  readonly call: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** When, from the first call on. */
  readonly atMs: number;
}

/** An answer, or none: nobody listens, the connection breaks after the call was sent, or nobody ever answers. */
export type Reply = Response | "refused" | "broken" | "silence";

export function fakeServers(answer: (asked: Asked) => Reply): { fetch: Fetch; asked: Asked[] } {
  const asked: Asked[] = [];
  let beganMs: number | undefined;
  const fetch: Fetch = async (url, { method, headers, body, signal }) => {
    beganMs ??= performance.now();
    const { origin, pathname, search } = new URL(url);
    const call = `${method} ${pathname}${search}`;
    const sent = body === undefined ? undefined : (JSON.parse(body) as unknown);
    const one = { origin, call, headers, body: sent, atMs: Math.round(performance.now() - beganMs) };
    asked.push(one);
    signal.throwIfAborted();
    const reply = answer(one);
    if (reply === "broken") throw new TypeError("fetch failed", { cause: { code: "ECONNRESET" } });
    if (reply === "refused") throw new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });
    if (reply !== "silence") {
      signal.addEventListener("abort", () => interrupt.get(reply)?.(signal.reason));
      return reply;
    }
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    });
  };
  return { fetch, asked };
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers });
}

export function problem(status: number, code: string, headers: Record<string, string> = {}): Response {
  return json({ status, code, detail: `It is ${code}.`, hint: "Do otherwise." }, status, headers);
}

/** Answers that do not end by themselves end with the signal of their call. */
const interrupt = new WeakMap<Response, (reason: unknown) => void>();

/** A stream of events that a test feeds. */
export function eventStream(): {
  response: Response;
  tell: (event: { readonly seq: number } & Readonly<Record<string, unknown>>) => void;
  end: () => void;
} {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start: (given) => {
      controller = given;
    },
  });
  const encoder = new TextEncoder();
  const tell = (event: { readonly seq: number } & Readonly<Record<string, unknown>>) =>
    controller?.enqueue(encoder.encode(`id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`));
  tell({ event: "stream.opened", seq: 1 });
  const response = new Response(body);
  interrupt.set(response, (reason) => controller?.error(reason));
  return { response, tell, end: () => controller?.close() };
}

/** What a client looks at in a request. */
export function wireRequest(fields: Partial<WireRequest> = {}): WireRequest {
  const known: Partial<WireRequest> = {
    id: "r-1",
    number: 1,
    name: "",
    status: "queued",
    attempt: 1,
    resume: false,
    resources: { gpu: 1 },
    placement: [],
    attempts: [],
    pool: "lab",
    stop: null,
    requeue: "on_preemption",
    wait_timeout_seconds: null,
  };
  return { ...known, ...fields } as WireRequest;
}

export const granted = (fields: Partial<WireRequest> = {}) =>
  wireRequest({ status: "allocated", token: "7.secret", ...fields });
