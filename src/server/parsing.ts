// From what was sent to what a route is given: the parameters of the path, the query and the body, each held to the schema of
// its route. The same for calls over HTTP and for the changes of a plan.

import {
  BODY_LIMITS,
  issuesOf,
  name as nameSchema,
  type Permission,
  ROUTES,
  type Route,
  type RouteName,
  shapeProblem,
  toPointer,
} from "../protocol/index.ts";
import type { Identity } from "./identity.ts";
import { forbidden, problemError, schemaProblem } from "./problems.ts";
import { createRouter } from "./router.ts";

export function checkPermission({ role, permissions }: Identity, permission: Permission | "public"): void {
  if (permission === "public" || permissions.has(permission)) return;
  throw forbidden(
    `The role ${role} does not have the permission ${permission}.`,
    "Use a token with another role; GET /v1/whoami shows what this one may do.",
  );
}

/** Names in the path are held to what names in a body are held to. */
export function parseParams(params: Record<string, string>): Record<string, string> {
  for (const [field, given] of Object.entries(params)) {
    const { error } = nameSchema.safeParse(given);
    if (error === undefined) continue;
    const [issue] = issuesOf(error);
    throw problemError("invalid_request", `The ${field} in the path ${issue?.message ?? "cannot be read"}.`);
  }
  return params;
}

export function parseQuery(given: Record<string, string>, { query }: Route): unknown {
  const found = shapeProblem(given, BODY_LIMITS);
  if (found !== undefined)
    throw problemError("invalid_request", `${toPointer(found.path)} in the query ${found.message}.`);
  if (query === undefined) {
    const unknown = Object.keys(given)[0];
    if (unknown === undefined) return {};
    throw problemError("invalid_request", `The parameter ${unknown.slice(0, 100)} is not known here.`);
  }
  const parsed = query.safeParse(given);
  if (!parsed.success) throw schemaProblem(parsed.error, "query");
  return parsed.data;
}

export function takesBody({ envelope, body }: Route): boolean {
  return (envelope ?? body) !== undefined;
}

export function parseBody(sent: unknown, { envelope, body, isBodyOptional }: Route): unknown {
  const schema = envelope ?? body;
  if (schema === undefined) return undefined;
  const given = sent ?? (isBodyOptional === true ? {} : undefined);
  if (given === undefined) throw problemError("malformed_body", "The call needs a body, and there is none.");
  const parsed = schema.safeParse(given);
  if (!parsed.success) throw schemaProblem(parsed.error, "body");
  return parsed.data;
}

export interface MatchedRoute {
  readonly name: RouteName;
  readonly route: Route;
  readonly params: Record<string, string>;
}

const ROUTER = createRouter(
  (Object.entries(ROUTES) as [RouteName, Route][]).map(([name, route]) => ({
    ...{ name, row: route, method: route.method, path: route.path },
  })),
);

/** The methods that a path takes. */
export const methodsOf = ROUTER.methodsOf;

/** The route of a method and a path, and the parameters of the path. */
export function matchRoute(method: string, path: string): MatchedRoute | undefined {
  const match = ROUTER.match(method, path);
  return match && { name: match.route.name, route: match.route.row, params: match.params };
}
