// One call to one of the servers: tried again after failures of the world, never after an answer that is final.
//
// Invariants
//   1. All tries of a call carry the same idempotency key and the same body, so that it takes effect once.
//   2. Every server of the list gets its turn before the client gives up.
//   3. What was seen at one server is not missed at another: a read waits for the events that this client has seen (C8).

import type { z } from "zod";
import type { ROUTES, RouteName } from "../protocol/index.ts";
import { type Answer, BerthError, errorOfAnswer } from "./errors.ts";
import { IDEMPOTENT, PATHS } from "./paths.ts";
import { anySignal, fullJitter, monotonicMs, sleep } from "./timing.ts";

export interface ClientOptions {
  readonly url?: string;
  /** Servers that share one store: any of them may answer. */
  readonly urls?: readonly string[];
  readonly token?: string;
  /** How long a call is tried again when nobody answers. */
  readonly retryForMs?: number;
  /** How long one try may take. */
  readonly timeoutMs?: number;
  /** Told about every try that fails, and that there will be another. */
  readonly onRetry?: (error: BerthError) => void;
  readonly fetch?: Fetch;
  readonly random?: () => number;
}

/** As much of `fetch` as is needed here; a program may bring its own. */
export type Fetch = (
  url: string,
  init: { method: string; headers: Record<string, string>; body?: string; signal: AbortSignal },
) => Promise<Answer>;

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly retryForMs?: number | undefined;
  readonly timeoutMs?: number | undefined;
  readonly idempotencyKey?: string | undefined;
  /** Refuses the change unless the thing still has this ETag. */
  readonly ifMatch?: string | undefined;
}

type Table = typeof ROUTES;
type Inferred<Name extends RouteName, Field extends string> =
  Table[Name] extends Record<Field, infer Schema extends z.ZodType> ? z.infer<Schema> : undefined;
export type BodyOf<Name extends RouteName> = Inferred<Name, "body">;
export type QueryOf<Name extends RouteName> = Inferred<Name, "query">;
export type AnswerOf<Name extends RouteName> = Inferred<Name, "answer">;

export interface CallInput {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
}

export interface Received<Body> {
  readonly body: Body;
  readonly status: number;
  readonly headers: Answer["headers"];
  /** When the try that was answered began: whatever the answer says was true no earlier. */
  readonly sentAtMs: number;
}

export interface Transport {
  readonly urls: readonly string[];
  readonly random: () => number;
  send<Name extends RouteName>(
    route: Name,
    input?: CallInput,
    options?: CallOptions,
  ): Promise<Received<AnswerOf<Name>>>;
  /** Opens an answer that does not end by itself. Tried once on every server. */
  open(
    route: RouteName,
    input: CallInput,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Answer>;
  /** A call in plain data, for another process to make it. */
  describe(
    route: RouteName,
    input?: CallInput,
  ): { urls: string[]; method: string; headers: Record<string, string>; body?: string };
}

type Message = Omit<ReturnType<Transport["describe"]>, "urls">;

/** A position begins with the number of its history. */
const HISTORY_LENGTH = 5;
const RETRY_FOR_MS = 30_000;
const TIMEOUT_MS = 10_000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5_000;
/** Another server of the list may lead, or will soon. */
const leaderless: ReadonlySet<string> = new Set(["not_leader", "no_leader"]);
/** Answers after which the same call may succeed. */
const passingStatuses: ReadonlySet<number> = new Set([0, 408, 425, 429, 502, 503, 504, 507]);

/** Names this process, so that its silence is not taken for that of many (L3). */
const CLIENT_ID = newKey(Math.random);

export function createTransport(options: ClientOptions): Transport {
  const urls = serverUrls(options);
  const { token, onRetry, fetch: fetchIt = fetch, random = Math.random } = options;
  /** The server that answered last is asked first. */
  let preferred = 0;
  /** What the answers so far reflected: the last event, and the server's word for it. Nothing where a server is alone. */
  let seen = { seq: 0, position: "" };

  const identification: Record<string, string> = {
    "berth-client": CLIENT_ID,
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };

  function messageOf(method: string, { body }: CallInput): Message {
    const headers: Record<string, string> = { accept: "application/json", ...identification };
    if (body === undefined) return { method, headers };
    headers["content-type"] = "application/json";
    return { method, headers, body: JSON.stringify(body) };
  }

  /** At every try anew: the one before may have taught us something. */
  function reportSeen({ method, headers }: Pick<Message, "method" | "headers">): void {
    if (seen.seq > 0 && method === "GET") headers["berth-min-seq"] = String(seen.seq);
    if (seen.position !== "") headers["berth-known"] = seen.position;
  }

  function see(headers: Answer["headers"]): void {
    const position = headers.get("berth-position") ?? "";
    const seq = Number(headers.get("berth-seq") ?? 0);
    // In another history the same numbers mean something else.
    const isOther = position.slice(0, HISTORY_LENGTH) !== seen.position.slice(0, HISTORY_LENGTH);
    if (seq > seen.seq || (isOther && position !== "")) seen = { seq, position };
  }

  async function tryOnce(
    url: string,
    message: Message,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal | undefined },
  ): Promise<{ response: Answer; text: string }> {
    const timeout = AbortSignal.timeout(Math.ceil(timeoutMs)); // Whole numbers only: anything else is thrown back.
    try {
      reportSeen(message);
      const response = await fetchIt(url, { ...message, signal: anySignal(timeout, signal) });
      see(response.headers);
      if (!response.ok) throw await errorOfAnswer(response).then((error) => withDelay(error, response));
      return { response, text: await response.text() };
    } catch (error) {
      if (error instanceof BerthError) throw error;
      signal?.throwIfAborted();
      throw noAnswer(url, error);
    }
  }

  return {
    urls,
    random,
    async send(route, input = {}, call = {}) {
      const { method, path } = locate(route, input);
      const message = messageOf(method, input);
      if (call.ifMatch !== undefined) message.headers["if-match"] = call.ifMatch;
      if (route in IDEMPOTENT) message.headers["idempotency-key"] = call.idempotencyKey ?? newKey(random);

      const timeoutMs = call.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS;
      const endMs = monotonicMs() + (call.retryForMs ?? options.retryForMs ?? RETRY_FOR_MS);
      for (let tries = 0; ; tries++) {
        call.signal?.throwIfAborted();
        const server = (preferred + tries) % urls.length;
        const sentAtMs = monotonicMs();
        try {
          const { response, text } = await tryOnce(urls[server] + path, message, {
            timeoutMs,
            signal: call.signal,
          });
          preferred = server;
          const { status, headers } = response;
          return { body: (text === "" ? undefined : JSON.parse(text)) as never, status, headers, sentAtMs };
        } catch (error) {
          if (!(error instanceof BerthError) || !isPassing(error, route)) throw error;
          const isRoundOver = (tries + 1) % urls.length === 0;
          const round = Math.floor(tries / urls.length);
          const jitter = fullJitter(round, { minMs: RETRY_MS_MIN, maxMs: RETRY_MS_MAX, random });
          const delayMs = isRoundOver ? Math.max(delayOf(error), jitter) : 0;
          if (isRoundOver && monotonicMs() + delayMs > endMs) throw error;
          onRetry?.(error);
          await sleep(delayMs, call.signal);
        }
      }
    },
    async open(route, input, headers, signal) {
      const { method, path } = locate(route, input);
      let failure: unknown;
      for (let tries = 0; tries < urls.length; tries++) {
        const url = urls[(preferred + tries) % urls.length] as string;
        try {
          const message = { method, headers: { ...identification, ...headers } };
          reportSeen(message);
          const response = await fetchIt(url + path, { ...message, signal });
          see(response.headers);
          if (!response.ok) throw await errorOfAnswer(response);
          return response;
        } catch (error) {
          signal.throwIfAborted();
          failure = error instanceof BerthError ? error : noAnswer(url, error);
        }
      }
      throw failure;
    },
    describe(route, input = {}) {
      const { method, path } = locate(route, input);
      return { urls: urls.map((url) => url + path), ...messageOf(method, input) };
    },
  };
}

function serverUrls({ url, urls = [] }: ClientOptions): string[] {
  const all = [...(url === undefined ? [] : [url]), ...urls];
  if (all.length === 0) throw new TypeError("A client needs the url of a server.");
  return all.map((one) => {
    const parsed = new URL(one);
    if (!/^https?:$/.test(parsed.protocol)) throw new TypeError(`"${one}" is not an http or https address.`);
    return parsed.href.replace(/\/+$/, "");
  });
}

function locate(route: RouteName, { params = {}, query = {} }: CallInput): { method: string; path: string } {
  const [method = "", pattern = ""] = PATHS[route].split(" ");
  const path = pattern.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
  return { method, path: search.size === 0 ? path : `${path}?${search}` };
}

/**
 * A token made twice would leave one that nobody knows, so such a call is not repeated unless it was turned away, or never got
 * as far as a server.
 */
function isPassing(error: BerthError, route: RouteName): boolean {
  if (route === "createToken" || route === "joinNode") return error.status === 429 || wasNeverSent(error);
  return passingStatuses.has(error.status) || leaderless.has(error.code);
}

const UNREACHABLE: ReadonlySet<unknown> = new Set([
  ...["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"],
]);

function wasNeverSent({ cause }: BerthError): boolean {
  const { code, cause: inner } = (cause ?? {}) as { code?: string; cause?: { code?: string } };
  return UNREACHABLE.has(inner?.code ?? code);
}

function noAnswer(url: string, cause: unknown): BerthError {
  const { name, cause: inner } = cause as { name?: string; cause?: { code?: string; message?: string } };
  if (name === "TimeoutError") {
    return new BerthError("timeout", `${url} did not answer in time.`, { cause });
  }
  const why = inner?.code ?? inner?.message ?? (cause as Error).message;
  return new BerthError("unavailable", `${new URL(url).origin} cannot be reached (${why}).`, {
    hint: "Check the address, and whether the server runs.",
    cause,
  });
}

const delays = new WeakMap<BerthError, number>();
const DELAY_MS_MAX = 60_000;

/** Remembers when the server wants to be asked again. */
function withDelay(error: BerthError, { headers }: Answer): BerthError {
  const seconds = Number(headers.get("retry-after"));
  if (seconds > 0) delays.set(error, Math.min(seconds * 1000, DELAY_MS_MAX));
  return error;
}

function delayOf(error: BerthError): number {
  return delays.get(error) ?? 0;
}

/** `randomUUID` exists on secure pages only. */
function newKey(random: () => number): string {
  return globalThis.crypto?.randomUUID?.() ?? `${Date.now()}-${random()}-${random()}`;
}
