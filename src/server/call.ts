// One call: what the pipeline hands to a route, what the route hands back, and how it speaks to the leader.

import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "zod";
import type { Command } from "../engine/index.ts";
import type { Foresight } from "../foresight/index.ts";
import type {
  Answer,
  CallContext,
  Leader,
  LeaderCommand,
  LeaderRefusal,
  Log,
  View,
} from "../leader/index.ts";
import type { ROUTES, RouteName } from "../protocol/index.ts";
import type { Replica } from "../replica/index.ts";
import type { Store } from "../store/index.ts";
import type { Agents } from "./agents/agents.ts";
import type { Denials } from "./denials.ts";
import type { Grants } from "./grants.ts";
import type { Hear } from "./hearing.ts";
import type { Identity } from "./identity.ts";
import type { Metrics } from "./metrics.ts";
import type { Destinations } from "./notices/destinations.ts";
import type { Notices } from "./notices/notices.ts";
import { ProblemError, refusalProblem } from "./problems.ts";
import type { QueueRows } from "./queue-rows.ts";
import type { RateLimits } from "./rates.ts";
import type { Rejections } from "./rejections.ts";
import type { Sessions } from "./sessions.ts";
import type { Strangers } from "./strangers.ts";
import type { Streams } from "./streams.ts";
import type { TokenBook } from "./tokens.ts";
import type { Waiting } from "./waiting.ts";

/** What every route may use. */
export interface Services {
  readonly agents: Agents;
  readonly leader: Leader;
  readonly hear: Hear;
  /** The same, of a server that is one of several. */
  readonly replica: Replica | undefined;
  readonly store: Store;
  readonly foresight: Foresight;
  readonly tokens: TokenBook;
  readonly sessions: Sessions;
  readonly grants: Grants;
  readonly waiting: Waiting;
  readonly streams: Streams;
  readonly metrics: Metrics;
  readonly rates: RateLimits;
  readonly queueRows: QueueRows;
  readonly rejections: Rejections;
  readonly strangers: Strangers;
  readonly denials: Denials;
  readonly notices: Notices;
  /** Where notices may be sent. */
  readonly destinations: Destinations;
  readonly log: Log;
  readonly version: string;
}

type Table = typeof ROUTES;
type Parsed<R extends RouteName, Field extends string> =
  Table[R] extends Record<Field, infer Schema extends z.ZodType> ? z.infer<Schema> : undefined;
export type BodyOf<R extends RouteName> = Table[R] extends { envelope: infer Schema extends z.ZodType }
  ? z.infer<Schema>
  : Parsed<R, "body">;
export type QueryOf<R extends RouteName> = Parsed<R, "query">;

/** One change of a plan: the commands that would make it, the first possible one counts. */
export interface PlannedStep {
  readonly commands: Command[];
  /** What looks like a slip in what is asked for. */
  readonly slips: string[];
}

export interface Call {
  readonly route: RouteName;
  readonly identity: Identity;
  readonly params: Readonly<Record<string, string>>;
  readonly query: unknown;
  readonly body: unknown;
  readonly ifMatch: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** Only planned (X1): commands are collected here instead of being carried out. */
  readonly planned?: PlannedStep;
  /** Of the caller. */
  readonly address: string;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}

/** A call of one route: its query and body have passed the schemas of its row in the table. */
export interface CallOf<R extends RouteName> extends Call {
  readonly route: R;
  readonly query: QueryOf<R>;
  readonly body: BodyOf<R>;
}

export type Reply =
  | {
      readonly status: number;
      /** Becomes JSON; absent: no content. */
      readonly body?: unknown;
      readonly text?: string;
      readonly contentType?: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The route has taken the connection over. */
  | "sent";

export type Handler<R extends RouteName> = (call: CallOf<R>, services: Services) => Promise<Reply> | Reply;
export type Handlers = { readonly [R in RouteName]: Handler<R> };

export function ok(body: unknown, headers?: Readonly<Record<string, string>>): Reply {
  return headers === undefined ? { status: 200, body } : { status: 200, body, headers };
}

// --- Speaking to the leader

/** A refusal because of who asks; it goes to the audit log. */
export interface Denial extends LeaderRefusal {
  readonly isDenial: true;
}

export function denial(code: "forbidden" | "not_found", message: string, hint: string): Denial {
  return { code, message, hint, isDenial: true };
}

export interface Change {
  readonly command: LeaderCommand;
  readonly target: string;
  readonly detail?: Readonly<Record<string, unknown>>;
  /** Looked at right before the decision. */
  readonly guard?: (view: View) => Denial | LeaderRefusal | undefined;
  readonly present?: NonNullable<CallContext["present"]>;
  readonly attachments?: CallContext["attachments"];
  /** Overrides what the header of the call says. */
  readonly idempotency?: CallContext["idempotency"];
}

export type Accepted = Extract<Answer, { outcome: "accepted" }>;

/** Changes something, or throws the problem that says why not. */
export async function perform(call: Call, services: Services, change: Change): Promise<Accepted> {
  const answer = await services.leader.perform(change.command, contextOf(call, change));
  if (answer.outcome === "accepted") return answer;
  throw new ProblemError(refusalProblem(answer.refusal)); // In the audit log already, with the same commit.
}

/** For refusals that the leader has not seen. */
export function refused(refusal: LeaderRefusal | Denial): ProblemError {
  return new ProblemError(refusalProblem(refusal), {}, "isDenial" in refusal);
}

export function contextOf(call: Call, change: Change): CallContext {
  const { identity, address, route } = call;
  const { target, detail, guard, present, attachments } = change;
  // Not by a spread, which costs more than the rest of it.
  const told = Object.assign({ token: identity.tokenId, from: address }, detail);
  return {
    actor: identity.name,
    audit: { action: route, target, detail: told },
    idempotency: change.idempotency ?? idempotencyOf(call),
    precondition: guard,
    present,
    attachments,
  };
}

function idempotencyOf(call: Call): CallContext["idempotency"] {
  const { idempotencyKey } = call;
  return idempotencyKey === undefined ? undefined : idempotencyFor(call, idempotencyKey, call.body);
}

/** The same key of the same caller means the same call; the hash tells whether it is. */
export function idempotencyFor(
  call: Call,
  key: string,
  body: unknown,
): NonNullable<CallContext["idempotency"]> {
  return { scope: `${call.identity.name} ${call.route}`, key, bodyHash: bodyHashOf(call, body) };
}

/** The items of a bulk call share one body, which is hashed once. */
const bodyHashes = new WeakMap<object, string>();

function bodyHashOf({ params, query }: Call, body: unknown): string {
  const known = typeof body === "object" && body !== null ? bodyHashes.get(body) : undefined;
  if (known !== undefined) return known;
  const bodyHash = hash("sha256", JSON.stringify([params, query, body]), "hex");
  if (typeof body === "object" && body !== null) bodyHashes.set(body, bodyHash);
  return bodyHash;
}
