// The API as an OpenAPI 3.1 document, generated from the table of routes and its schemas.

import { z } from "zod";
import { ROLE_PERMISSIONS } from "./access.ts";
import { ERRORS, type ErrorCode, problem } from "./errors.ts";
import { streamEvent } from "./events.ts";
import { ROUTES, type Route } from "./routes.ts";

type JsonObject = Record<string, unknown>;

export interface OpenApiDocument extends JsonObject {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>;
}

export function openApiDocument(version: string): OpenApiDocument {
  const schemas = createSchemas();
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const [name, route] of Object.entries(ROUTES) as [string, Route][]) {
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: operation(name, route, schemas),
    };
  }
  const problemReference = schemas.reference(problem, "output");
  schemas.reference(streamEvent, "output");
  return {
    openapi: "3.1.0",
    info: {
      title: "Berth",
      version,
      description:
        "Shares scarce compute between teams. Times are RFC 3339 in UTC, durations are seconds, amounts are whole units.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }],
    paths,
    components: {
      schemas: schemas.all(),
      securitySchemes: { token: { type: "http", scheme: "bearer", description: "An API token, `berth_…`." } },
      responses: {
        Problem: {
          description: "What went wrong, why, and what to do (RFC 9457).",
          content: { "application/problem+json": { schema: problemReference } },
        },
      },
    },
  };
}

function operation(name: string, route: Route, schemas: Schemas): JsonObject {
  const { summary, tag, permission, body, status, answer, contentType } = route;
  const content =
    answer === undefined
      ? contentType && { [contentType]: { schema: { type: "string" } } }
      : { "application/json": { schema: schemas.reference(answer, "output") } };
  return {
    operationId: name,
    tags: [tag],
    summary,
    description: whoMay(route),
    ...(permission === "public" && { security: [] }),
    parameters: [...pathParameters(route), ...queryParameters(route), ...headerParameters(route)],
    ...(body && {
      requestBody: {
        required: route.isBodyOptional !== true,
        content: { "application/json": { schema: schemas.reference(body, "input") } },
      },
    }),
    responses: {
      [status]: {
        description: status === 204 ? "Done; there is nothing to show." : "As asked.",
        ...(content && { content }),
      },
      default: { $ref: "#/components/responses/Problem" },
    },
    "x-permission": permission,
  };
}

function whoMay({ permission }: Route): string {
  if (permission === "public") return "Open to every caller that reaches the server.";
  const roles = Object.entries(ROLE_PERMISSIONS).filter(([, granted]) => granted.includes(permission));
  return `Needs the permission \`${permission}\` (${roles.map(([role]) => role).join(", ")}).`;
}

function pathParameters({ path }: Route): JsonObject[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

function queryParameters({ query }: Route): JsonObject[] {
  const shape = query?.shape ?? {};
  return Object.entries(shape).map(([name, schema]) => ({
    name,
    in: "query",
    required: false,
    schema: toJsonSchema(schema as z.ZodType, "output"),
  }));
}

function headerParameters({ isIdempotent, hasEtag, method }: Route): JsonObject[] {
  const header = (name: string, description: string) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: { type: "string" },
  });
  return [
    ...(isIdempotent === true
      ? [header("Idempotency-Key", "The same key and body give the same answer; another body is refused.")]
      : []),
    ...(hasEtag === true && method !== "GET" && method !== "POST"
      ? [header("If-Match", "The ETag of the version that the change is meant for.")]
      : []),
  ];
}

// --- Schemas: those with an id are listed once and referred to

interface Schemas {
  reference(schema: z.ZodType, io: "input" | "output"): JsonObject;
  all(): JsonObject;
}

function createSchemas(): Schemas {
  const known: JsonObject = {};
  return {
    reference(schema, io) {
      const { $defs, ...converted } = toJsonSchema(schema, io);
      for (const [id, definition] of Object.entries(($defs ?? {}) as JsonObject)) {
        known[id] ??= moved(definition);
      }
      const id = z.globalRegistry.get(schema)?.id;
      if (id === undefined) return moved(converted) as JsonObject;
      const { id: _id, ...definition } = moved(converted) as JsonObject;
      known[id] ??= definition;
      return { $ref: `#/components/schemas/${id}` };
    },
    all: () => Object.fromEntries(Object.entries(known).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

function toJsonSchema(schema: z.ZodType, io: "input" | "output"): JsonObject {
  const { $schema: _dialect, ...converted } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
  }) as JsonObject;
  return converted;
}

/** Definitions live in one place of the document. */
function moved(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(moved);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) =>
      key === "$ref" && typeof inner === "string"
        ? [key, inner.replace("#/$defs/", "#/components/schemas/")]
        : [key, moved(inner)],
    ),
  );
}

/** All codes that an answer may carry, for the documents. */
export function errorCodes(): { code: ErrorCode; status: number; description: string }[] {
  return (Object.keys(ERRORS) as ErrorCode[]).map((code) => ({
    code,
    status: ERRORS[code].httpStatus,
    description: ERRORS[code].description,
  }));
}
