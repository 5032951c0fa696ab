// Plain HTTP to the servers under proof, and what every answer is held against: nothing that an earlier leader says may
// arrive after a later one has spoken (C6). Shares no code with the product.
//
// Staleness is judged by what was known when the call was sent: an answer may be as old as that, and no older.

import { Agent, type IncomingHttpHeaders, request } from "node:http";
import type { Replica } from "./cluster.ts";

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the server says; the judge looks at it field by field.
  readonly body: any;
  readonly role: string;
  readonly epoch: number;
  readonly seq: number;
  readonly sentMs: number;
  readonly receivedMs: number;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly key?: string;
  readonly minSeq?: number;
  readonly timeoutMs?: number;
}

export interface Witness {
  /** The latest that a leader has said of itself in an answer that has arrived. */
  readonly epoch: number;
  readonly seq: number;
  readonly stale: readonly string[];
  /** A part of the history was lost: what later leaders speak of may be shorter. */
  forgetSeq(): void;
  /** To be called when a call is sent; what it returns, when its answer has arrived. */
  watch(what: string): (answer: Answer) => void;
}

export function createWitness(): Witness {
  const known = { epoch: 0, seq: 0, lostEpoch: 0 };
  const stale: string[] = [];
  return {
    get epoch() {
      return known.epoch;
    },
    get seq() {
      return known.seq;
    },
    stale,
    forgetSeq() {
      known.seq = 0;
      known.lostEpoch = known.epoch;
    },
    watch(what) {
      const { epoch, seq, lostEpoch } = known;
      return (answer) => {
        if (answer.role !== "leader" || answer.status >= 500) return;
        const isBehind = lostEpoch === known.lostEpoch && answer.seq < seq;
        if (answer.epoch < epoch || isBehind) {
          const said = `epoch ${answer.epoch}, event ${answer.seq}`;
          stale.push(`${what}: answered at ${said} after epoch ${epoch}, event ${seq} had been heard`);
        }
        known.epoch = Math.max(known.epoch, answer.epoch);
        if (answer.epoch > known.lostEpoch) known.seq = Math.max(known.seq, answer.seq);
      };
    },
  };
}

export type Caller = (
  replica: Pick<Replica, "name" | "url">,
  method: "GET" | "POST" | "PUT" | "DELETE",
  path: string,
  options?: CallOptions,
) => Promise<Answer>;

/** Rejects when the connection breaks, or when there is no answer in time. */
export function createCaller(token: string, witness: Witness): Caller & { close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: 500 });
  const call: Caller = ({ name, url }, method, path, { body, key, minSeq, timeoutMs = 3_000 } = {}) =>
    new Promise((resolve, reject) => {
      const sentMs = performance.now();
      const arrived = witness.watch(`${method} ${path} at ${name}`);
      const text = body === undefined ? undefined : JSON.stringify(body);
      const headers = {
        authorization: `Bearer ${token}`,
        ...(text !== undefined && {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(text),
        }),
        ...(key !== undefined && { "idempotency-key": key }),
        ...(minSeq !== undefined && { "berth-min-seq": String(minSeq) }),
      };
      const sent = request(url + path, { method, agent, headers });
      const timer = setTimeout(() => sent.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      sent.on("error", (error) => {
        clearTimeout(timer);
        reject(error);
      });
      sent.on("response", (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("error", reject);
        response.on("end", () => {
          clearTimeout(timer);
          if (!response.complete) return reject(new Error("the answer was cut off"));
          const answer = toAnswer(response.statusCode ?? 0, response.headers, Buffer.concat(parts), sentMs);
          arrived(answer);
          resolve(answer);
        });
      });
      sent.end(text);
    });
  return Object.assign(call, { close: () => agent.destroy() });
}

export function toAnswer(
  status: number,
  headers: IncomingHttpHeaders | Readonly<Record<string, string>>,
  bytes: Buffer,
  sentMs: number,
): Answer {
  const text = bytes.toString("utf8");
  let body: unknown = text;
  try {
    body = text === "" ? null : JSON.parse(text);
  } catch {
    // Not JSON, such as the metrics: stays text.
  }
  return {
    status,
    body,
    role: String(headers["berth-role"] ?? ""),
    epoch: Number(headers["berth-epoch"] ?? 0),
    seq: Number(headers["berth-seq"] ?? 0),
    sentMs,
    receivedMs: performance.now(),
  };
}
