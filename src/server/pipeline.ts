// What happens to every call: host, rate, token, permission, query, body, route, answer. The order is the same
// for all of them, and it is only written here.

import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { ForesightError } from "../foresight/index.ts";
import { LeaderError } from "../leader/index.ts";
import {
  BATCH_BODY_BYTES_MAX,
  BODY_BYTES_MAX,
  idempotencyKey,
  ROUTES,
  type Route,
  type RouteName,
  toProblem,
} from "../protocol/index.ts";
import { isStoreError } from "../store/index.ts";
import { flat, setHeader, writeAnswer } from "./answering.ts";
import { bearerOf } from "./bearer.ts";
import { readJson } from "./body.ts";
import type { Call, Handlers, Reply, Services } from "./call.ts";
import { NOT_TAKEN } from "./forwarding.ts";
import { SECURITY_HEADERS } from "./headers.ts";
import type { HostCheck } from "./hosts.ts";
import type { Identity } from "./identity.ts";
import { URL_LENGTH_MAX } from "./limits.ts";
import type { Pages } from "./pages.ts";
import {
  checkPermission,
  type MatchedRoute,
  matchRoute,
  methodsOf,
  parseBody,
  parseParams,
  parseQuery,
  takesBody,
} from "./parsing.ts";
import { ProblemError, problemError } from "./problems.ts";
import type { Replicated } from "./replicated.ts";
import { pathOf, queryOf } from "./router.ts";
import { sessionSecretOf } from "./sessions.ts";

export interface Pipeline {
  readonly services: Services;
  readonly handlers: Handlers;
  readonly checkHost: HostCheck;
  readonly extraHeaders: Readonly<Record<string, string>>;
  readonly pages: Pages;
  /** Of a server that is one of several. */
  readonly replicated?: Replicated;
}

/** A call on its way, as HTTP has brought it. */
interface Arrival {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly url: string;
  readonly path: string;
  readonly method: string;
  /** Of the caller. */
  readonly address: string;
}

/** What clients put before the path that take a server for a proxy. */
const WHOLE_ADDRESS = /^https?:\/\/[^/?]*/i;

/** A route without a permission does not start. */
export function createListener(pipeline: Pipeline): (...call: [IncomingMessage, ServerResponse]) => void {
  const headers = { ...SECURITY_HEADERS, ...pipeline.extraHeaders };
  const bareHeaders = flat(headers);
  const jsonHeaders = flat({ ...headers, "content-type": "application/json" });
  for (const [name, route] of Object.entries(ROUTES) as [RouteName, Route][]) {
    if (route.permission === undefined || pipeline.handlers[name] === undefined) {
      throw new Error(`the route ${name} has no permission or nobody who serves it`);
    }
  }
  return (incoming, outgoing) => {
    const { url: given = "/" } = incoming;
    const url = given.startsWith("/") ? given : given.replace(WHOLE_ADDRESS, "");
    const address = pipeline.replicated?.clientAddress(incoming) ?? incoming.socket.remoteAddress ?? "";
    const arrival = { incoming, outgoing, url, path: pathOf(url), method: incoming.method ?? "GET", address };
    // Whatever escapes from the pipeline itself; a caller never sees more than an id.
    serve(arrival).catch((error: unknown) => send(arrival, failure(error, pipeline.services), "unknown"));
  };

  async function serve(arrival: Arrival): Promise<void> {
    const { incoming, outgoing, path, method, address } = arrival;
    const servedMethod = method === "HEAD" ? "GET" : method;
    const match = matchRoute(servedMethod, path);
    if (match === undefined && servedMethod === "GET" && servePage(arrival)) return;
    const name = match?.name;
    const route = match?.route ?? unknownRoute(path);
    let identity: Identity | undefined;
    try {
      pipeline.checkHost(incoming);
      // What takes long lets those go first who wait for a commit (X4).
      if (route.rateCost !== undefined) await pipeline.services.leader.giveWay();
      if (arrival.url.length > URL_LENGTH_MAX) throw problemError("url_too_long", "The address is too long.");
      if (!isDecodable(arrival.url)) throw undecodable();
      const { replicated } = pipeline;
      const isForwarded = replicated?.clientAddress(incoming) !== undefined;
      const session = sessionSecretOf(incoming, { isForwarded });
      if (replicated !== undefined && (route.permission !== "public" || route.method !== "GET")) {
        if (await replicated.isServedElsewhere({ incoming, outgoing }, { address, method, name })) return;
      }
      identity = await identify(pipeline, route, { incoming, session, address });
      if (identity.isSession === true && name !== "renewSession") noteUse(identity, incoming, address);
      checkPermission(identity, route.permission);
      if (match === undefined) throw notServed(arrival);
      const call = await toCall(arrival, match, identity);
      // The types of the call and of its handler come from the same row of the table.
      const handle = pipeline.handlers[match.name] as (
        call: Call,
        services: Services,
      ) => Promise<Reply> | Reply;
      const reply = await handle(call, pipeline.services);
      if (reply !== "sent") send(arrival, reply, match.name);
    } catch (error) {
      if (error instanceof ProblemError && error.isDenial) {
        // Whoever fails to sign in is a stranger, too: everybody may try.
        if (identity === undefined || identity === ANYBODY) pipeline.services.strangers.count(address, name);
        else await pipeline.services.denials.write(error, { route: name, identity, address, target: path });
      }
      send(arrival, failure(error, pipeline.services), name ?? "unknown");
    }
  }

  /** Only the leader writes it down. */
  function noteUse(identity: Identity, incoming: IncomingMessage, address: string): void {
    const { services, replicated } = pipeline;
    const elsewhere = () => replicated?.tellLeader(incoming, { address, path: "/v1/sessions/current/renew" });
    const isFollower = services.replica?.role() === "follower";
    void services.sessions.touch(identity, isFollower ? elsewhere : undefined);
  }

  /** The page is everybody's; what it shows, it asks for like any client. False: there is none at this address. */
  function servePage(arrival: Arrival): boolean {
    const { incoming, outgoing, path } = arrival;
    const page = pipeline.pages.answer(path, incoming.headers["accept-encoding"]);
    if (page === undefined) return false;
    try {
      pipeline.checkHost(incoming);
    } catch (error) {
      send(arrival, failure(error, pipeline.services), "page");
      return true;
    }
    pipeline.services.metrics.countCall("page", page.status);
    const pageHeaders = flat({ ...page.headers, ...pipeline.extraHeaders });
    writeAnswer(incoming, outgoing, { status: page.status, headers: pageHeaders, content: page.body });
    return true;
  }

  function send({ incoming, outgoing }: Arrival, reply: Exclude<Reply, "sent">, route: string): void {
    pipeline.services.metrics.countCall(route, reply.status);
    const { status, body, text, contentType, headers: own } = reply;
    const content = text ?? (body === undefined ? undefined : JSON.stringify(body));
    const written = [...(content === undefined ? bareHeaders : jsonHeaders)];
    if (contentType !== undefined && content !== undefined) setHeader(written, "content-type", contentType);
    pipeline.replicated?.addPosition(written);
    for (const name in own) setHeader(written, name, own[name] as string);
    writeAnswer(incoming, outgoing, { status, headers: written, content });
  }
}

// --- Who calls

/** For routes that are open to everybody. */
const ANYBODY: Identity = {
  tokenId: "",
  countsAs: "",
  name: "anybody",
  role: "viewer",
  components: new Set(),
  pools: new Set(),
  permissions: new Set(),
  extra: new Set(),
  expiresAtMs: null,
};

interface Caller {
  readonly incoming: IncomingMessage;
  readonly session: string | undefined;
  readonly address: string;
}

function identify({ services }: Pipeline, route: Route, caller: Caller): Identity | Promise<Identity> {
  const { incoming, session, address } = caller;
  if (route.permission === "public") {
    services.rates.checkStranger(address);
    return ANYBODY;
  }
  if (session !== undefined) {
    return sessionOf(services, session).then((identity) => {
      return admitted(services, identity, route, { address, otherwise: sessionOver });
    });
  }
  const bearer = bearerOf(incoming);
  const identity = services.tokens.authenticate(bearer?.tokenHash, services.leader.nowMs());
  return admitted(services, identity, route, {
    address,
    otherwise() {
      if (bearer !== undefined) services.rates.countGuess(address);
      return unauthenticated(bearer === undefined ? "missing" : "not known, expired or revoked");
    },
  });
}

/** One that is known and does not call too often. */
function admitted(
  { rates }: Services,
  identity: Identity | undefined,
  { rateCost = 1 }: Route,
  { address, otherwise }: { readonly address: string; readonly otherwise: () => ProblemError },
): Identity {
  if (identity === undefined) {
    rates.checkGuesses(address);
    rates.checkStranger(address);
    rates.checkStrangers();
    throw otherwise();
  }
  rates.checkToken(identity.countsAs, rateCost);
  return identity;
}

/** A server that follows may not have heard yet that a session began, or was used elsewhere. */
async function sessionOf(
  { tokens, leader, replica }: Services,
  secret: string,
): Promise<Identity | undefined> {
  const known = tokens.authenticateSession(secret, leader.nowMs());
  if (known !== undefined || replica?.role() !== "follower") return known;
  await tokens.reloadSoon();
  return tokens.authenticateSession(secret, leader.nowMs());
}

function sessionOver(): ProblemError {
  const problem = toProblem("unauthenticated", "The session is over.", {
    hint: "Sign in again: type berth dashboard, or paste a token.",
  });
  return new ProblemError(problem, {}, true);
}

function unauthenticated(what: string): ProblemError {
  const problem = toProblem("unauthenticated", `The token is ${what}.`, {
    hint: "Send the header Authorization: Bearer berth_…; an administrator makes tokens.",
  });
  return new ProblemError(problem, { "www-authenticate": 'Bearer realm="berth"' }, true);
}

// --- What is asked

async function toCall(
  { incoming, outgoing, url, address }: Arrival,
  { name, route, params }: MatchedRoute,
  identity: Identity,
): Promise<Call> {
  const { headers } = incoming;
  return {
    route: name,
    identity,
    address,
    incoming,
    outgoing,
    params: parseParams(params),
    // Fields of a query are optional everywhere, so an empty one needs no look.
    query: url.includes("?") ? parseQuery(queryOf(url), route) : {},
    body: takesBody(route) ? parseBody(await readJson(incoming, bodyBytesMax(route)), route) : undefined,
    ifMatch: route.hasEtag === true ? textOf(headers["if-match"]) : undefined,
    idempotencyKey: route.isIdempotent === true ? keyOf(headers) : undefined,
  };
}

/** Percent signs in front of anything but the bytes of UTF-8 would be taken for themselves, so that one thing had two addresses. */
function isDecodable(url: string): boolean {
  if (!url.includes("%")) return true;
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

function undecodable(): ProblemError {
  return problemError(
    "invalid_request",
    "What stands behind the percent signs of the address is not UTF-8.",
    {
      hint: "Write a percent sign itself as %25.",
    },
  );
}

function bodyBytesMax({ isBatch }: Route): number {
  return isBatch === true ? BATCH_BODY_BYTES_MAX : BODY_BYTES_MAX;
}

function keyOf(headers: IncomingHttpHeaders): string | undefined {
  const key = textOf(headers["idempotency-key"] ?? headers["x-idempotency-key"]);
  if (key === undefined || idempotencyKey.safeParse(key).success) return key;
  throw problemError("invalid_request", "The idempotency key is empty, too long or not plain ASCII.");
}

function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

// --- Paths that nobody serves

/** Strangers learn nothing about which paths exist below /v1. */
function unknownRoute(path: string): Route {
  const permission = path.startsWith("/v1/") ? "self.read" : "public";
  return { method: "GET", path, tag: "", summary: "", permission, status: 404 };
}

function notServed({ method, path }: Arrival): ProblemError {
  const allow = methodsOf(path);
  if (allow.length === 0) {
    return problemError("not_found", "Nothing is served at this address.", {
      hint: "GET /docs lists what is.",
    });
  }
  return problemError("method_not_allowed", `${method.slice(0, 20)} is not served here.`, {
    hint: `Use ${allow.join(" or ")}.`,
    headers: { allow: allow.join(", ") },
  });
}

// --- What went wrong

function failure(error: unknown, { log }: Services): Exclude<Reply, "sent"> {
  if (error instanceof ProblemError) return problemReply(error);
  if (error instanceof LeaderError) return problemReply(leaderProblem(error));
  if (error instanceof ForesightError) {
    const extra = { hint: "Nothing was changed; try again soon.", headers: { "retry-after": "1" } };
    return problemReply(problemError(error.code, error.message, extra));
  }
  if (isStoreError(error, "unavailable")) {
    log.error({ err: error }, "a call could not be served: the store does not answer");
    const extra = { hint: "Try again soon.", headers: { "retry-after": "1" } };
    return problemReply(problemError("unavailable", "The store does not answer.", extra));
  }
  const id = randomUUID();
  log.error({ err: error, id }, "a call failed");
  const detail = `Something failed inside Berth; the log has more under ${id}.`;
  return problemReply(problemError("internal_error", detail));
}

function problemReply({ problem, headers }: ProblemError): Exclude<Reply, "sent"> {
  return { status: problem.status, body: problem, contentType: "application/problem+json", headers };
}

function leaderProblem({ code, message }: LeaderError): ProblemError {
  const headers = { "retry-after": "1" };
  switch (code) {
    case "disk_full":
      return problemError(code, message, {
        headers,
        hint: "Nothing was changed. Make room on the disk of the server.",
      });
    case "unavailable":
      return problemError(code, message, {
        headers,
        hint: "Send it again with the same Idempotency-Key: the answer tells whether it took effect.",
      });
    case "queue_full":
      return problemError(code, message, { headers, hint: "Cancel some, or wait until some have started." });
    case "not_leader":
      return problemError(code, message, NOT_TAKEN);
    case "overloaded":
    case "stopped":
      return problemError("unavailable", message, { headers, hint: "Nothing was changed; try again soon." });
  }
}
