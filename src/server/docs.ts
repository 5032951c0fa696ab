// The reference page: the OpenAPI document as one page of HTML, without scripts and without anything from elsewhere.

import { hash } from "node:crypto";
import { errorCodes, openApiDocument } from "../protocol/index.ts";

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly { name: string; in: string; description?: string; schema: unknown }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: unknown }>> };
  readonly responses: Readonly<Record<string, { content?: Readonly<Record<string, { schema?: unknown }>> }>>;
}

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
h2 { margin-top: 3rem; text-transform: capitalize; }
h3 { margin: 2rem 0 .25rem; font: 600 1rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: .75rem; overflow: auto; border-radius: 4px; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
nav a { margin-right: 1rem; text-transform: capitalize; }
`;

export const DOCS_CSP = `default-src 'none'; style-src 'sha256-${hash("sha256", STYLE, "base64")}'; frame-ancestors 'none'; base-uri 'none'`;

export function docsPage(version: string): string {
  const document = openApiDocument(version);
  const schemas = (document.components as { schemas: Record<string, unknown> }).schemas;
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      operation: operation as unknown as Operation,
    })),
  );
  const tags = [...new Set(operations.flatMap(({ operation }) => operation.tags))];
  const sections = tags.map((tag) => {
    const mine = operations.filter(({ operation }) => operation.tags.includes(tag));
    return `<section id="${tag}"><h2>${tag}</h2>${mine.map(describe).join("")}</section>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Berth API ${escapeHtml(version)}</title><style>${STYLE}</style></head><body>
<h1>Berth API</h1>
<p>Version ${escapeHtml(version)}. Send <code>Authorization: Bearer berth_…</code>. Times are RFC 3339 in UTC, durations are
seconds. Unknown fields are refused. The same as a document: <a href="/openapi.json">/openapi.json</a>.</p>
<nav>${[...tags, "objects", "errors"].map((tag) => `<a href="#${tag}">${tag}</a>`).join(" ")}</nav>
<main>${sections.join("\n")}
<section id="objects"><h2>Objects</h2>${Object.entries(schemas).map(describeSchema).join("")}</section>
<section id="errors"><h2>Errors</h2>${errorTable()}</section>
</main></body></html>`;
}

function describe({
  method,
  path,
  operation,
}: {
  method: string;
  path: string;
  operation: Operation;
}): string {
  const { operationId, summary, description, parameters, requestBody, responses } = operation;
  const named = parameters.filter((parameter) => parameter.in !== "path");
  const rows = named.map(
    ({ name, in: where, schema, description: about = "" }) =>
      `<tr><td><code>${escapeHtml(name)}</code></td><td>${where}</td><td>${escapeHtml(about)} <code>${escapeHtml(typeText(schema))}</code></td></tr>`,
  );
  const body = requestBody?.content["application/json"]?.schema;
  const [status, answer] = Object.entries(responses)[0] ?? ["200", {}];
  const answered = answer.content?.["application/json"]?.schema;
  return `<article id="${operationId}"><h3>${method} ${escapeHtml(path)}</h3><p>${escapeHtml(summary)} ${escapeHtml(description)}</p>
${rows.length > 0 ? `<table>${rows.join("")}</table>` : ""}
${body === undefined ? "" : `<p>Body</p><pre>${escapeHtml(typeText(body))}</pre>`}
<p>Answers ${status}${answered === undefined ? "" : ` with`}</p>${answered === undefined ? "" : `<pre>${escapeHtml(typeText(answered))}</pre>`}</article>`;
}

function describeSchema([id, schema]: [string, unknown]): string {
  return `<article id="${escapeHtml(id)}"><h3>${escapeHtml(id)}</h3><pre>${escapeHtml(typeText(schema))}</pre></article>`;
}

function errorTable(): string {
  const rows = errorCodes().map(
    ({ code, status, description }) =>
      `<tr><td><code>${code}</code></td><td>${status}</td><td>${escapeHtml(description)}</td></tr>`,
  );
  return `<table><tr><th>Code</th><th>Status</th><th>Meaning</th></tr>${rows.join("")}</table>`;
}

/** A schema in the notation that people who write TypeScript know. */
function typeText(schema: unknown, indent = ""): string {
  if (typeof schema !== "object" || schema === null) return "any";
  const {
    $ref,
    type,
    enum: values,
    anyOf,
    properties,
    items,
    required,
    additionalProperties,
  } = schema as {
    [key: string]: unknown;
    required?: string[];
    properties?: Record<string, unknown>;
  };
  if (typeof $ref === "string") return $ref.split("/").at(-1) as string;
  if ("const" in schema) return JSON.stringify(schema.const);
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(anyOf)) return anyOf.map((one) => typeText(one, indent)).join(" | ");
  if (type === "array") return `${typeText(items, indent)}[]`;
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(([name, inner]) => {
      const mark = required?.includes(name) ? "" : "?";
      return `${indent}  ${name}${mark}: ${typeText(inner, `${indent}  `)}`;
    });
    return `{\n${fields.join("\n")}\n${indent}}`;
  }
  if (type === "object") return `{ [name]: ${typeText(additionalProperties, indent)} }`;
  return typeof type === "string" ? type : "any";
}

function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
