// What happens to every call: host, rate, token, permission, query, body, route, answer. The order is the same
// for all of them, and it is only written here.

import { randomUUID } from "node:crypto";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { type Context, Hono } from "hono";
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
import { readJson } from "./body.ts";
import type { Call, Handlers, Reply, Services } from "./call.ts";
import { NOT_TAKEN } from "./forwarding.ts";
import { SECURITY_HEADERS } from "./headers.ts";
import type { HostCheck } from "./hosts.ts";
import type { Identity } from "./identity.ts";
import { URL_LENGTH_MAX } from "./limits.ts";
import type { Pages } from "./pages.ts";
import { checkPermission, methodsOf, parseBody, parseParams, parseQuery, takesBody } from "./parsing.ts";
import { ProblemError, problemError } from "./problems.ts";
import type { Replicated } from "./replicated.ts";
import { sessionSecretOf } from "./sessions.ts";

type Env = { Bindings: HttpBindings };

export interface Pipeline {
  readonly services: Services;
  readonly handlers: Handlers;
  readonly checkHost: HostCheck;
  readonly extraHeaders: Readonly<Record<string, string>>;
  readonly pages: Pages;
  /** Of a server that is one of several. */
  readonly replicated?: Replicated;
}

/** A route without a permission does not start. */
export function createApp(pipeline: Pipeline): Hono<Env> {
  const app = new Hono<Env>();
  const headers = { ...SECURITY_HEADERS, ...pipeline.extraHeaders };
  const jsonHeaders = { ...headers, "content-type": "application/json" };
  for (const [name, route] of Object.entries(ROUTES) as [RouteName, Route][]) {
    if (route.permission === undefined || pipeline.handlers[name] === undefined) {
      throw new Error(`the route ${name} has no permission or nobody who serves it`);
    }
    const path = route.path.replaceAll(/\{(\w+)\}/g, ":$1");
    app.on(route.method, path, (context) => serve(context, name, route));
  }
  for (const path of pipeline.pages.paths) app.get(path, servePage);
  app.notFound((context) => serve(context, undefined, unknownRoute(context)));
  // Whatever escapes from the pipeline itself; a caller never sees more than an id.
  app.onError((error) => send(failure(error, pipeline.services), "unknown"));
  return app;

  async function serve(context: Context<Env>, name: RouteName | undefined, route: Route): Promise<Response> {
    const { incoming } = context.env;
    const { replicated } = pipeline;
    const address = replicated?.clientAddress(incoming) ?? incoming.socket.remoteAddress ?? "";
    let identity: Identity | undefined;
    try {
      pipeline.checkHost(incoming);
      // What takes long lets those go first who wait for a commit (X4).
      if (route.rateCost !== undefined) await pipeline.services.leader.giveWay();
      if (context.req.url.length > URL_LENGTH_MAX)
        throw problemError("url_too_long", "The address is too long.");
      if (!isDecodable(context.req.url)) throw undecodable();
      const isForwarded = replicated?.clientAddress(incoming) !== undefined;
      const session = sessionSecretOf(incoming, { isForwarded });
      if (replicated !== undefined && (route.permission !== "public" || route.method !== "GET")) {
        if (await replicated.isServedElsewhere(context.env, { address, method: context.req.method, name }))
          return RESPONSE_ALREADY_SENT;
      }
      identity = await identify(pipeline, route, {
        authorization: incoming.headers.authorization,
        session,
        address,
      });
      if (identity.isSession === true && name !== "renewSession") noteUse(identity, incoming, address);
      checkPermission(identity, route.permission);
      if (name === undefined) throw notServed(context);
      const call = await toCall(context, name, route, identity, address);
      // The types of the call and of its handler come from the same row of the table.
      const handle = pipeline.handlers[name] as (call: Call, services: Services) => Promise<Reply> | Reply;
      const reply = await handle(call, pipeline.services);
      return reply === "sent" ? RESPONSE_ALREADY_SENT : send(reply, name);
    } catch (error) {
      if (error instanceof ProblemError && error.isDenial) {
        // Whoever fails to sign in is a stranger, too: everybody may try.
        if (identity === undefined || identity === ANYBODY) pipeline.services.strangers.count(address, name);
        else {
          const target = context.req.path;
          await pipeline.services.denials.write(error, { route: name, identity, address, target });
        }
      }
      return send(failure(error, pipeline.services), name ?? "unknown");
    }
  }

  /** Only the leader writes it down. */
  function noteUse(identity: Identity, incoming: HttpBindings["incoming"], address: string): void {
    const { services, replicated } = pipeline;
    const elsewhere = () => replicated?.tellLeader(incoming, { address, path: "/v1/sessions/current/renew" });
    const isFollower = services.replica?.role() === "follower";
    void services.sessions.touch(identity, isFollower ? elsewhere : undefined);
  }

  /** The page is everybody's; what it shows, it asks for like any client. */
  function servePage({ env: { incoming }, req }: Context<Env>): Response {
    try {
      pipeline.checkHost(incoming);
    } catch (error) {
      return send(failure(error, pipeline.services), "page");
    }
    const {
      status,
      headers: own,
      body,
    } = pipeline.pages.answer(req.path, incoming.headers["accept-encoding"]);
    pipeline.services.metrics.countCall("page", status);
    return new Response(body, { status, headers: { ...own, ...pipeline.extraHeaders } });
  }

  function send(reply: Exclude<Reply, "sent">, route: string): Response {
    pipeline.services.metrics.countCall(route, reply.status);
    const { status, body, text, contentType = "application/json" } = reply;
    const content = text ?? (body === undefined ? null : JSON.stringify(body));
    const position = pipeline.replicated?.position();
    // Most answers are JSON without headers of their own.
    if (contentType === "application/json" && position === undefined && reply.headers === undefined) {
      return new Response(content, { status, headers: content === null ? headers : jsonHeaders });
    }
    const type = content === null ? {} : { "content-type": contentType };
    return new Response(content, {
      status,
      headers: Object.assign({}, headers, type, position, reply.headers),
    });
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

async function identify(
  { services }: Pipeline,
  { permission, rateCost = 1 }: Route,
  {
    authorization,
    session,
    address,
  }: { authorization: string | undefined; session: string | undefined; address: string },
): Promise<Identity> {
  const { rates } = services;
  if (permission === "public") {
    await rates.checkStranger(address);
    return ANYBODY;
  }
  const secret = /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1];
  const identity =
    session === undefined
      ? secret && services.tokens.authenticate(secret, services.leader.nowMs())
      : await sessionOf(services, session);
  if (identity === undefined || identity === "") {
    await rates.checkGuesses(address);
    await rates.checkStranger(address);
    await rates.checkStrangers();
    if (secret !== undefined) await rates.countGuess(address);
    if (session !== undefined) throw sessionOver();
    throw unauthenticated(secret === undefined ? "missing" : "not known, expired or revoked");
  }
  await rates.checkToken(identity.countsAs, rateCost);
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
  context: Context<Env>,
  name: RouteName,
  route: Route,
  identity: Identity,
  address: string,
): Promise<Call> {
  const { incoming, outgoing } = context.env;
  const { headers } = incoming;
  return {
    route: name,
    identity,
    address,
    incoming,
    outgoing: outgoing,
    params: parseParams(context.req.param() as Record<string, string>),
    // Fields of a query are optional everywhere, so an empty one needs no look.
    query: context.req.url.includes("?") ? parseQuery(context.req.query(), route) : {},
    body: await readBody(incoming, route),
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

async function readBody(incoming: HttpBindings["incoming"], route: Route): Promise<unknown> {
  if (!takesBody(route)) return undefined;
  const bytesMax = route.isBatch === true ? BATCH_BODY_BYTES_MAX : BODY_BYTES_MAX;
  return parseBody(await readJson(incoming, bytesMax), route);
}

function keyOf(headers: HttpBindings["incoming"]["headers"]): string | undefined {
  const key = textOf(headers["idempotency-key"] ?? headers["x-idempotency-key"]);
  if (key === undefined || idempotencyKey.safeParse(key).success) return key;
  throw problemError("invalid_request", "The idempotency key is empty, too long or not plain ASCII.");
}

function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

// --- Paths that nobody serves

/** Strangers learn nothing about which paths exist below /v1. */
function unknownRoute({ req }: Context<Env>): Route {
  const permission = req.path.startsWith("/v1/") ? "self.read" : "public";
  return { method: "GET", path: req.path, tag: "", summary: "", permission, status: 404 };
}

function notServed({ req }: Context<Env>): ProblemError {
  const allow = methodsOf(req.path);
  if (allow.length === 0) {
    return problemError("not_found", "Nothing is served at this address.", {
      hint: "GET /docs lists what is.",
    });
  }
  return problemError("method_not_allowed", `${req.method.slice(0, 20)} is not served here.`, {
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
