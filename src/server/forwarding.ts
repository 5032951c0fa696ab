// A follower passes changes on to the leader (C9): forwarded, not redirected, since clients drop their token when a
// redirect leads to another host. The leader authenticates again.
//
// Invariants
//   1. A call is forwarded at most once: a server that receives a forwarded call and does not lead refuses it.
//   2. What may have arrived is repeated only where a repetition does no harm.

import { createHmac, timingSafeEqual } from "node:crypto";
import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { pipeline } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { BATCH_BODY_BYTES_MAX } from "../protocol/index.ts";
import type { Replica } from "../replica/index.ts";
import { keepBytes, readBytes } from "./body.ts";
import { problemError } from "./problems.ts";

const FORWARDED = "berth-forwarded";
/** Of the page that made the call: the host that it belongs to is that of the server that passes it on. */
const ORIGIN = "berth-origin";
/** How long a call waits for a leader. */
const PATIENCE_MS = 5_000;
const RETRY_MS = 100;
/** How soon a call that waits for an answer notices that another server leads. */
const LOOK_MS = 250;
/** Longer than a leader takes to commit on a slow database, or to give up. Calls that wait are reads, which are not passed on. */
const ANSWER_MS_MAX = 15_000;
/** Of this connection alone, so not passed on. */
const HOP_HEADERS = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
  "host",
  "te",
  "trailer",
  ORIGIN,
]);

/** Who calls, and from which program or page. */
const IDENTIFYING = new Set(["authorization", "cookie", "sec-fetch-site", "berth-client"]);

export interface Forwarding {
  /** False: this server leads by now, and serves the call itself. */
  forward(incoming: IncomingMessage, outgoing: ServerResponse, call: ForwardedCall): Promise<boolean>;
  /** This server follows. */
  readonly isNeeded: boolean;
  /** Sends the leader a call of our own in the name of a client, and waits for nothing. */
  tellLeader(incoming: IncomingMessage, call: { readonly address: string; readonly path: string }): void;
  /** The address of the client, if a follower that knows our secret passed the call on. */
  clientAddress(incoming: IncomingMessage): string | undefined;
}

export interface ForwardedCall {
  readonly address: string;
  /** The same call twice has one effect. */
  readonly isRepeatable: boolean;
}

export function createForwarding(replica: Replica): Forwarding {
  const sign = (address: string) =>
    createHmac("sha256", replica.grantKeys.at(-1)?.secret ?? "")
      .update(`forwarded ${address}`)
      .digest("hex");

  return {
    async forward(incoming, outgoing, { address, isRepeatable }) {
      if (incoming.headers[FORWARDED] !== undefined) {
        throw problemError("not_leader", "This server does not lead any more.", NOT_TAKEN);
      }
      const body = await readBytes(incoming, BATCH_BODY_BYTES_MAX);
      const { origin, ...rest } = endToEnd(incoming.headers);
      const headers = {
        ...rest,
        ...(origin !== undefined && { [ORIGIN]: origin }),
        [FORWARDED]: `${address} ${sign(address)}`,
      };
      let untilMs = performance.now() + PATIENCE_MS;
      for (;;) {
        if (replica.role() === "leader") {
          keepBytes(incoming, body);
          return false;
        }
        const url = replica.leaderUrl();
        const outcome =
          url === undefined
            ? "no leader"
            : await passOn(new URL(incoming.url ?? "/", url), incoming, headers, body, outgoing, () => {
                return replica.leaderUrl() === url;
              });
        if (outcome === "answered") return true;
        if (outcome === "unknown") {
          if (!isRepeatable) throw outcomeUnknown();
          untilMs = Math.max(untilMs, performance.now() + PATIENCE_MS); // Until now there was one.
        }
        if (performance.now() > untilMs)
          throw problemError("no_leader", "No server leads at the moment.", RETRY_SOON);
        await delay(RETRY_MS);
      }
    },
    get isNeeded() {
      return replica.role() === "follower";
    },
    tellLeader({ headers }, { address, path }) {
      const url = replica.leaderUrl();
      if (url === undefined) return;
      const sent = requestTo(new URL(path, url), "POST", {
        ...Object.fromEntries(Object.entries(headers).filter(([name]) => IDENTIFYING.has(name))),
        "content-type": "application/json",
        "content-length": "2",
        "berth-session": "1", // A page asks of us what it need not know of.
        [FORWARDED]: `${address} ${sign(address)}`,
      });
      sent.on("error", () => undefined);
      sent.on("response", (answer) => answer.resume());
      sent.end("{}");
    },
    clientAddress(incoming) {
      const forwarded = incoming.headers[FORWARDED];
      if (forwarded === undefined) return undefined;
      const [address, signature] = String(forwarded).split(" ");
      if (address === undefined || signature === undefined) return undefined;
      const [given, wanted] = [Buffer.from(signature), Buffer.from(sign(address))];
      return given.length === wanted.length && timingSafeEqual(given, wanted) ? address : undefined;
    },
  };
}

const RETRY_SOON = { hint: "Try again soon.", headers: { "retry-after": "1" } };
/** By the header a follower knows, without reading the body, that nothing was done. */
export const NOT_TAKEN = {
  hint: "Nothing was changed; try again, or another server.",
  headers: { "retry-after": "1", "berth-problem": "not_leader" },
};

function outcomeUnknown() {
  return problemError("outcome_unknown", "The leader went away after it had received the call.", {
    hint: "Look whether it took effect before you send it again; with an Idempotency-Key it can be repeated safely.",
  });
}

type Outcome = "answered" | "not taken" | "unknown" | "no leader";

function passOn(
  url: URL,
  { method }: IncomingMessage,
  headers: IncomingMessage["headers"],
  body: Buffer,
  outgoing: ServerResponse,
  stillLeads: () => boolean,
): Promise<Outcome> {
  return new Promise((resolve) => {
    let mayHaveArrived = false;
    // A leader that is frozen keeps its connections: its end is learnt of from the lease.
    const watch = setInterval(() => {
      if (!stillLeads() && !outgoing.headersSent) passed.destroy(new Error("another server leads"));
    }, LOOK_MS);
    const passed = requestTo(url, method, { ...headers, "content-length": String(body.length) });
    passed.on("socket", (socket) => {
      if (!socket.connecting) mayHaveArrived = true;
      else socket.once("connect", () => (mayHaveArrived = true));
    });
    const hangUp = () => passed.destroy(); // The caller has gone.
    outgoing.once("close", hangUp);
    passed.on("close", () => {
      clearInterval(watch);
      outgoing.off("close", hangUp);
    });
    passed.on("error", () => {
      if (outgoing.headersSent) outgoing.destroy();
      resolve(outgoing.headersSent ? "answered" : mayHaveArrived ? "unknown" : "not taken");
    });
    passed.on("response", (answer) => {
      // It has stepped down meanwhile: nothing was done, and another server may lead.
      if (answer.statusCode === 503 && answer.headers["berth-problem"] === "not_leader") {
        answer.resume();
        return resolve("not taken");
      }
      outgoing.writeHead(answer.statusCode ?? 502, endToEnd(answer.headers));
      pipeline(answer, outgoing, () => resolve("answered"));
    });
    passed.end(body);
  });
}

/** A call that is destroyed when there is no answer in time. */
function requestTo(
  url: URL,
  method: string | undefined,
  headers: IncomingMessage["headers"],
): ReturnType<typeof httpRequest> {
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  const sent = send(url, { method, headers, timeout: ANSWER_MS_MAX });
  sent.on("timeout", () => sent.destroy(new Error("no answer in time")));
  return sent;
}

function endToEnd(headers: IncomingMessage["headers"]): IncomingMessage["headers"] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_HEADERS.has(name)));
}

/** The origin of the page that made a call. Only asked where the call is known to be ours. */
export function originOf({ headers }: IncomingMessage): string | undefined {
  const origin = headers.origin ?? headers[ORIGIN];
  return typeof origin === "string" ? origin : undefined;
}
