// The server itself: events, metrics, health, version, documents.

import { openApiDocument } from "../../protocol/index.ts";
import { type Handler, ok, type Reply, type Services } from "../call.ts";
import { DOCS_CSP, docsPage } from "../docs.ts";
import { SECURITY_HEADERS } from "../headers.ts";
import { locate } from "../locate.ts";
import type { Position } from "../positions.ts";
import { problemError } from "../problems.ts";
import { reachOrRefuse } from "../replicated.ts";

export const streamEvents: Handler<"streamEvents"> = async (call, services) => {
  const { identity, outgoing, query } = call;
  const lastId = call.incoming.headers["last-event-id"] ?? query.after;
  const after = lastId === undefined || lastId === "" ? undefined : lastSeen(services, String(lastId));
  // A leader has everything: what is beyond that is of a history that is gone.
  if (services.replica?.role() === "follower" && typeof after === "object")
    await reachOrRefuse(services.replica, after.seq);
  if (call.incoming.method === "HEAD") return { status: 200, text: "", contentType: "text/event-stream" };
  const requestId =
    query.request === undefined ? undefined : (await locate(call, services, query.request)).id;
  const filter = { ...query, ...(requestId !== undefined && { requestId }) };
  services.streams.open({ identity, outgoing, filter, after, headers: SECURITY_HEADERS });
  return "sent";
};

function lastSeen({ streams }: Services, id: string): Position {
  const position = streams.positions.parse(id);
  if (position !== undefined) return position;
  throw problemError("invalid_request", "The header Last-Event-ID is not the id of an event.");
}

export const metrics: Handler<"metrics"> = async (call, services) => ({
  status: 200,
  text: await services.metrics.text(call.identity),
  contentType: services.metrics.contentType,
});

export const livez: Handler<"livez"> = () => ok({ status: "ok" });
export const healthz: Handler<"healthz"> = (_call, services) =>
  health(services, ["leading", "following", "read_only"]);
export const readyz: Handler<"readyz"> = (_call, services) => health(services, ["leading", "following"]);

function health({ leader }: Services, good: readonly string[]): Reply {
  return good.includes(leader.status().condition)
    ? ok({ status: "ok" })
    : { status: 503, body: { status: "unavailable" }, headers: { "retry-after": "1" } };
}

export const version: Handler<"version"> = (_call, services) =>
  ok({ name: "berth", version: services.version, api: "v1" });

let documentText: string | undefined;

export const openapi: Handler<"openapi"> = (_call, services) => {
  documentText ??= JSON.stringify(openApiDocument(services.version));
  return { status: 200, text: documentText, contentType: "application/json" };
};

let page: string | undefined;

export const docs: Handler<"docs"> = (_call, services) => {
  page ??= docsPage(services.version);
  const headers = { "content-security-policy": DOCS_CSP };
  return { status: 200, text: page, contentType: "text/html; charset=utf-8", headers };
};
