// Inputs of all kinds against a real server: some almost right, built from the schemas and then damaged; some raw bytes
// on the wire. No answer may be a 5xx, nothing may end the server, and what is answered must be a problem or fit its
// schema, and what is refused must have changed nothing. They are sent by callers of every role, half of them to a server
// with its data in memory, half to one with a store on the disk; at the end every list is read, and the store looks for
// damage. A server that answers 500 on purpose must be found out.
// Usage: npm run prove:fuzz -- [INPUTS] [SEED] [--store=memory|sqlite] [--canaries]

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { problem, ROUTES, type Route, type RouteName } from "../src/protocol/index.ts";
import { type OpenedServer, openServer } from "../src/server/index.ts";
import { type Fault, tell } from "./proving/canaries.ts";
import { lookAtEnd } from "./proving/fuzz-end.ts";
import { createFuzzWorld, type FuzzWorld, PLAIN_BODIES, PLANNED_CHANGES } from "./proving/fuzz-world.ts";
import { seededRandom } from "./proving/random.ts";
import { NO_LIMITS } from "./proving/rates.ts";
import { bundle } from "./proving/start.ts";

const STORES = ["memory", "sqlite"] as const;
const args = process.argv.slice(2);
const numbers = args.filter((argument) => !argument.startsWith("--"));
const stores = STORES.filter(
  (store) => !args.some((each) => each.startsWith("--store=")) || args.includes(`--store=${store}`),
);
if (stores.length === 0) throw new Error(`The stores are ${STORES.join(" and ")}.`);
const [INPUTS = 50_000, SEED = Date.now() % 1_000_000] = numbers.map(Number);
if (!(INPUTS > 0 && SEED >= 0)) throw new Error(`Not a number of inputs and a seed: ${numbers.join(" ")}`);
/** To each server. */
const INPUTS_EACH = Math.ceil(INPUTS / stores.length);
/** So many changes are sent to it one after the other, to see what each has done. */
const ALONE = Math.ceil(Math.max(1_000, INPUTS / 20) / stores.length);
/** Enough inputs to find a server with a fault. */
const CANARY_INPUTS = 2_000;
/** One in this many is sent as raw bytes. */
const RAW_EVERY = 10;
const AT_ONCE = 16;
/** A call without an answer within this time is a failure. */
const PATIENCE_MS = 20_000;
/** So many answers may say that there is no plan at the moment. */
const LATE_FORESIGHT_MAX = Math.ceil(INPUTS / 1_000);
/** A proof that does not come to an end has found nothing. */
const CANARY_MS_MAX = 300_000;

/** What only a call causes; the rest may come with time. */
const OF_CALLS = new Set([
  ...["poolSet", "groupSet", "policySet", "nodeSet", "groupDeleted", "policyDetached", "nodeRemoved"],
  ...["serverSettingsChanged", "requestSubmitted", "requestChanged", "deletionPlanned"],
]);

const FAULTS: readonly Fault[] = [
  {
    what: "a route that fails",
    file: "src/server/routes/pools.ts",
    text: "const body = { ...(pool.body as object), ...pauseOf(services.leader, name) };",
    instead: "const body = JSON.parse(name);",
  },
  {
    what: "an answer that breaks its schema",
    file: "src/server/routes/pools.ts",
    text: "const body = { ...(pool.body as object), ...pauseOf(services.leader, name) };",
    instead: "const body = { ...(pool.body as object), name: 7 };",
  },
  {
    what: "a call that is refused after it was done",
    file: "src/server/routes/policies.ts",
    text: 'putGroupAs("createGroup", call, services, { pool, group, status: 201 }),',
    instead:
      'putGroupAs("createGroup", call, services, { pool, group, status: 201 }).then(() => Promise.reject(notFound("group", name))),',
  },
  {
    what: "a row that keeps a column which its checksum counts as changed",
    file: "src/store/rows.ts",
    text: 'requests: ["id", "component", "operation"],',
    instead: 'requests: ["id", "component", "operation", "submitted_at_ms"],',
  },
];

const draw = seededRandom(SEED);
const between = (min: number, max: number) => min + Math.floor(draw() * (max - min + 1));
const pick = <Item>(items: readonly Item[]): Item => items[between(0, items.length - 1)] as Item;
const chance = (percent: number) => between(1, 100) <= percent;

/** Parameters with which an answer may take its time. */
const HOLDING = new Set(["wait", "follow"]);
const KEYS = ["gpu", "mcpu", "memory_mb", "step_run", "licence", "cpu"];
const NAMES = ["a", "b", "c", "gpus", "fair", "classes", "x", "team-1"];

const TEXTS = [
  ..."|a|__proto__|constructor|prototype|toString|hasOwnProperty|null|undefined|NaN|0|-1|1e9|true|../..|%00|%2e|'; drop table requests; --".split(
    "|",
  ),
  ..."$(id)|<script>|{{7*7}}|\u0000|\uD800|\uFFFF|é|日本|🚢|\u202E|a b|a/b|a\\b|a\nb|\r\nx: y|#1|##|9007199254740993".split(
    "|",
  ),
  "x".repeat(300),
  "x".repeat(70_000),
  "[".repeat(200),
];

/** Of changes in plans: no paths of a server, or no text. */
const PATHS = ["/v1/pools/%E0", "/v1/pools/%", "http://[", "http://elsewhere/v1/pools/gpus", "//", "?", "#"];

/** Nobody listens at the first two. */
const URLS = [
  ...["http://127.0.0.1:9/", "http://localhost:9/x", "http://10.0.0.1/", "https://[::1]/", "https://a:b@c/"],
  ...["file:///etc/passwd", "https://", "http://0x7f.1:9", "https://xn--/", "javascript:1"],
];

console.log(`seed ${SEED}`);
const failures: string[] = [];

const schemas = new Map<z.ZodType, JsonSchema>();
/** Schemas with a name of their own, to which others refer. */
const definitions = new Map<string, JsonSchema>();
const statuses = new Map<number, number>();
/** Routes that were answered with success: what lies behind the checks of the others was not tried. */
const accepted = new Set<string>();
/** Requests and jobs are what the server is about, so they come more often, and above all what makes and changes requests. */
const OFTEN: Partial<Record<RouteName, number>> = { submitRequest: 24, updateRequest: 24 };
const names = (Object.keys(ROUTES) as RouteName[]).flatMap((name) => {
  const length = OFTEN[name] ?? (["requests", "jobs"].includes(ROUTES[name].tag) ? 6 : 1);
  return Array.from({ length }, () => name);
});
/** Routes that change something, each as often. */
const changing = (Object.keys(ROUTES) as RouteName[]).filter((name) => ROUTES[name].method !== "GET");

// The server that inputs are sent to now, and what it holds.
let server: OpenedServer;
let world: FuzzWorld;
/** Names and ids that exist, so that not everything ends with "not found". */
let known: Known;
let sent = 0;
let refused = 0;
let deaths = 0;
let lateForesight = 0;
for (const store of stores) await prove(store);

const summary = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`);
console.log(`${sent} inputs by callers of ${world!.secrets.length + 1} kinds  ${summary.join("  ")}`);
const serverErrors = [...statuses].reduce((sum, [status, count]) => sum + (status >= 500 ? count : 0), 0);
console.log(`answers of 5xx: ${serverErrors}, crashes: ${deaths}, failures of any kind: ${failures.length}`);
const untried = Object.keys(ROUTES).filter((name) => !accepted.has(name));
console.log(`routes that accepted something: ${accepted.size}; none of: ${untried.join(", ") || "nothing"}`);
for (const failure of new Set(failures.slice(0, 20))) console.log(`  ${failure}`);
const isAlert = judge("healthz", ROUTES.healthz, 500, "{}") !== undefined;
console.log(`canary: an answer of 500 is ${isAlert ? "found out" : "NOT FOUND OUT"}`);
console.log(
  `${ALONE * stores.length} changes one after the other, of which ${refused} were refused: none of those may have changed anything`,
);
if (failures.length > 0 || !isAlert) process.exitCode = 1;

if (args.includes("--canaries")) {
  const sound = await findOut(undefined);
  console.log(
    `the same program on the source as it is: ${sound === 0 ? "no failure" : `${sound} failures, so that canaries mean nothing`}`,
  );
  if (sound !== 0) process.exitCode = 1;
  for (const fault of FAULTS) if (!tell(fault.what, await findOut(fault))) process.exitCode = 1;
}

/** How many failures this program sees on a copy of the source with a fault. */
async function findOut(fault: Fault | undefined): Promise<number> {
  const program = await bundle("prove-fuzz", ...(fault === undefined ? [] : [fault]));
  const { stdout, stderr } = spawnSync(process.execPath, [program, String(CANARY_INPUTS), String(SEED)], {
    encoding: "utf8",
    timeout: CANARY_MS_MAX,
  });
  const found = /failures of any kind: (\d+)/.exec(stdout)?.[1];
  if (found === undefined) throw new Error(`The program did not come to its end: ${stderr}`);
  return Number(found);
}

/** Sends inputs to a server of its own. */
async function prove(store: (typeof STORES)[number]): Promise<void> {
  const directory = store === "memory" ? undefined : mkdtempSync(join(tmpdir(), "berth-fuzz-"));
  server = await openServer({
    data: directory === undefined ? "memory" : { directory },
    listen: "127.0.0.1:0",
    rates: NO_LIMITS,
    log: {
      info: () => undefined,
      warn: () => undefined,
      // Without an error it is an alert: a holder may say what it likes about its job.
      error: (fields, message) => {
        const { err } = fields as { err?: Error };
        if (err !== undefined) failures.push(`${message}: ${String(err.stack)}`);
      },
    },
    onFatal: (error) => failures.push(`fatal: ${String((error as Error).stack)}`),
  });
  known = { requests: [], tokens: [], grants: [] };
  world = await createFuzzWorld(server.url, server.firstToken?.secret as string);
  const inputsMax = sent + INPUTS_EACH;
  await Promise.all(Array.from({ length: AT_ONCE }, () => work(inputsMax)));
  await sendAlone();
  if ((await fetch(`${server.url}/readyz`)).status !== 200) {
    deaths++;
    failures.push("the server is not ready any more");
  }
  const end = await lookAtEnd(server, world);
  failures.push(...end.failures);
  console.log(
    `${store}: ${end.listed} of ${end.requests} requests are listed, ${end.pages} pages of lists were read`,
  );
  await server.close();
  if (directory !== undefined) rmSync(directory, { recursive: true });
}

async function sendAlone(): Promise<void> {
  for (let each = 0; each < ALONE && failures.length < 100; each++) {
    if (each % 250 === 0) await world.refresh();
    const { seq } = await server.store.head();
    let status = 0;
    const failure = await sendCall({
      name: pick(changing),
      damagedPercent: 10,
      note: (answered) => {
        status = answered;
      },
    });
    if (failure !== undefined) failures.push(failure);
    if (status < 400) continue;
    refused++;
    const done = (await server.store.readEvents(seq + 1, 100)).map(({ event }) => String(event.kind));
    const caused = done.filter((kind) => OF_CALLS.has(kind));
    if (caused.length > 0) failures.push(`a call was refused with ${status}, but ${caused.join(", ")}`);
  }
}

async function work(inputsMax: number): Promise<void> {
  while (sent < inputsMax && failures.length < 100) {
    sent++;
    // What was deleted comes back, so that there is always something to hit.
    if (sent % 250 === 0) await world.refresh();
    const failure = sent % RAW_EVERY === 0 ? await sendRaw() : await sendCall();
    if (failure !== undefined) failures.push(failure);
  }
}

// --- Calls that are almost right

async function sendCall({
  name = pick(names),
  damagedPercent = 50,
  note = count,
} = {}): Promise<string | undefined> {
  const route: Route = ROUTES[name];
  const grant = pick([...known.grants, undefined]);
  const isHeld = route.permission !== "requests.cancel"; // What runs can hardly be changed.
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_match, parameter: string) =>
    encoded(
      parameter === "id" && grant !== undefined && chance(isHeld ? 60 : 10) ? grant.id : someName(parameter),
    ),
  );
  const body = bodyFor(name, grant, damagedPercent);
  const abort = new AbortController();
  // A call without an answer is a failure too.
  const patience = setTimeout(() => abort.abort(), PATIENCE_MS);
  const request = {
    method: chance(97) ? route.method : pick(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    headers: headersFor(route),
  };
  const hasBody = body !== undefined && request.method !== "GET";
  const url = server.url + path + queryFor(route);
  try {
    const answer = await fetch(url, { ...request, signal: abort.signal, ...(hasBody && { body }) });
    note(answer.status);
    if (answer.ok && request.method === route.method) accepted.add(name);
    if (answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      abort.abort();
      return undefined;
    }
    const text = await answer.text();
    if (request.method !== route.method && answer.status < 500) return undefined; // Another route's answer.
    remember(name, text);
    const complaint = judge(name, route, answer.status, text);
    return (
      complaint &&
      `${complaint}\n    ${request.method} ${url.slice(0, 300)} ${String(body).slice(0, 500)}\n    ${text.slice(0, 300)}`
    );
  } catch (error) {
    // A header or an address that the client itself does not send is no input.
    if (
      error instanceof TypeError &&
      /header|Invalid|URL|ByteString/.test(`${error.message} ${String(error.cause)}`)
    )
      return undefined;
    return `${request.method} ${url} ${String(body).slice(0, 500)}: ${String(error)} ${String((error as Error).cause)}`;
  } finally {
    clearTimeout(patience);
  }
}

function judge(name: string, route: Route, status: number, text: string): string | undefined {
  // The nodes of this proof run nothing, and so their logs stay silent.
  if (status === 503 && text.includes('"node_silent"')) return undefined;
  // On a busy machine the thread that makes plans may come late; it must not stay away.
  if (status === 503 && text.includes('"foresight_unavailable"') && ++lateForesight <= LATE_FORESIGHT_MAX)
    return undefined;
  if (status >= 500) return `${name} was answered with ${status}`;
  try {
    if (status >= 400) problem.parse(JSON.parse(text));
    else if (status < 300 && status !== 204 && route.answer !== undefined && name !== "openapi") {
      route.answer.parse(JSON.parse(text));
    }
    return undefined;
  } catch (error) {
    return `${name} with ${status} is not what the table says: ${String(error).slice(0, 300)}`;
  }
}

function count(status: number): void {
  statuses.set(status, (statuses.get(status) ?? 0) + 1);
}

function remember(name: RouteName, text: string): void {
  if (name !== "submitRequest" && name !== "submitJob" && name !== "createToken") return;
  const id = /"id":"([^"]+)"/.exec(text)?.[1];
  if (id === undefined) return;
  const list = name === "createToken" ? known.tokens : known.requests;
  list.push(id);
  if (list.length > 50) list.shift();
  const token = /"token":"([^"]+)"/.exec(text)?.[1];
  if (token !== undefined) known.grants.push({ id, token });
  if (known.grants.length > 50) known.grants.shift();
}

function someName(parameter: string): string {
  if (chance(10)) return someText();
  if (parameter === "id") return chance(30) ? String(between(0, 50)) : pick([...known.requests, "1"]);
  if (parameter === "token") return pick([...known.tokens, "nobody"]);
  if (parameter === "pool") return pick(world.pools);
  if (parameter === "node") return pick(world.nodes);
  return pick(["a", "b", "c", "x"]);
}

/** Half a character cannot be sent in an address. */
function encoded(text: string): string {
  return encodeURIComponent(text.replaceAll(/\p{Surrogate}/gu, "\ufffd"));
}

function headersFor(route: Route): Record<string, string> {
  const usual = chance(60) ? world.secretFor(route.permission) : pick([world.admin, ...world.secrets]);
  const headers: Record<string, string> = { authorization: `Bearer ${usual}` };
  if (chance(2))
    headers.authorization = pick([
      "",
      "Bearer",
      `Bearer ${someText()}`,
      "Basic YTpi",
      `Bearer berth_${"A".repeat(43)}`,
    ]);
  if (route.body !== undefined)
    headers["content-type"] = chance(98) ? "application/json" : pick(["text/plain", "application/xml", ""]);
  if (chance(10)) headers["idempotency-key"] = chance(80) ? `key-${between(0, 200)}` : someText();
  if (chance(10)) headers["if-match"] = chance(50) ? "*" : someText();
  if (chance(3)) headers.prefer = pick(["wait=0", "wait=abc", "respond-async, wait=0", someText()]);
  if (chance(3)) headers["last-event-id"] = pick(["0", "1", "-1", "99999999999999999999", someText()]);
  return headers;
}

function queryFor(route: Route): string {
  const shape = Object.entries(route.query?.shape ?? {}).filter(([field]) => !HOLDING.has(field));
  const fields = shape
    .filter(() => chance(30))
    .map(([field, schema]) => {
      const value = chance(80) ? likelyValue(jsonSchema(schema as z.ZodType), 0) : someValue(0);
      return `${field}=${encoded(typeof value === "string" ? value : (JSON.stringify(value) ?? ""))}`;
    });
  if (chance(3)) fields.push(`${encoded(someText())}=${encoded(someText())}`);
  return fields.length === 0 ? "" : `?${fields.join("&")}`;
}

function bodyFor(name: RouteName, grant: Grant | undefined, damagedPercent: number): string | undefined {
  const route: Route = ROUTES[name];
  if (route.body === undefined) return chance(5) ? JSON.stringify(someValue(0)) : undefined;
  if (chance(2)) return undefined;
  if (chance(4)) return someText();
  if (route === ROUTES.createSession && chance(50))
    return JSON.stringify({ token: pick([world.admin, ...world.secrets]) });
  const plain = chance(50) ? PLAIN_BODIES[name] : undefined;
  if (plain !== undefined) return JSON.stringify(plain(between));
  const value = likelyValue(jsonSchema(route.body), 0);
  if (grant !== undefined && hasToken(value)) value.token = grant.token;
  const damaged = chance(damagedPercent) ? damage(value) : value;
  const text = JSON.stringify(damaged) ?? "null";
  return chance(3) ? text.slice(0, between(0, text.length)) : text;
}

interface Grant {
  readonly id: string;
  readonly token: string;
}

interface Known {
  readonly requests: string[];
  readonly tokens: string[];
  readonly grants: Grant[];
}

function hasToken(value: unknown): value is { token: string } {
  return typeof value === "object" && value !== null && "token" in value;
}

interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
}

function jsonSchema(schema: z.ZodType): JsonSchema {
  const found =
    schemas.get(schema) ??
    (z.toJSONSchema(schema, { unrepresentable: "any", reused: "inline" }) as unknown as JsonSchema);
  schemas.set(schema, found);
  for (const [id, definition] of Object.entries(found.$defs ?? {}))
    definitions.set(`#/$defs/${id}`, definition);
  return found;
}

/** A value that the schema may well accept. */
function likelyValue(schema: JsonSchema, depth: number): unknown {
  if (schema.$ref !== undefined) return likelyValue(definitions.get(schema.$ref) ?? {}, depth);
  if ("const" in schema) return schema.const;
  if (schema.enum !== undefined) return pick(schema.enum);
  if (schema.anyOf !== undefined) return likelyValue(pick(schema.anyOf), depth);
  switch (typeof schema.type === "object" ? pick(schema.type) : schema.type) {
    case "object": {
      if (schema.properties === undefined) {
        const entries = Array.from({ length: between(0, 3) }, () => [
          pick(KEYS),
          likelyValue((schema.additionalProperties ?? {}) as JsonSchema, depth + 1),
        ]);
        return Object.fromEntries(entries);
      }
      // About four that may be left out: with more of them hardly any value would be accepted.
      const all = Object.entries(schema.properties);
      const part = Math.min(35, Math.ceil(400 / all.length));
      const fields = all.filter(([field]) => schema.required?.includes(field) || chance(part));
      return Object.fromEntries(fields.map(([field, inner]) => [field, fieldValue(field, inner, depth)]));
    }
    case "array":
      return Array.from({ length: between(0, 4) }, () => likelyValue(schema.items ?? {}, depth + 1));
    case "string":
      return chance(85) ? pick(NAMES) : someText();
    case "integer":
      return chance(80) ? between(0, 12) : someNumber();
    case "number":
      return chance(80) ? between(0, 20) : someNumber();
    case "boolean":
      return chance(50);
    case "null":
      return null;
    default:
      return someValue(depth);
  }
}

/** Fields that must name something are given names that exist, mostly. */
function fieldValue(field: string, schema: JsonSchema, depth: number): unknown {
  if (field === "component" && chance(90)) return pick(["a", "b"]);
  if (field === "pool" && chance(90)) return pick(world.pools);
  if (field === "resources" && chance(80)) return { gpu: between(1, 10) };
  if (field === "settings" && depth === 0 && chance(90)) return undefined;
  if (field === "capacity" && chance(80)) return { gpu: between(1, 20) };
  if (field === "run" && chance(80))
    return { command: ["true"], ...(chance(30) && { directory: someText() }) };
  if (field === "changes" && chance(80))
    return Array.from({ length: between(1, 3) }, () => {
      const change = pick(PLANNED_CHANGES);
      return chance(20) ? { ...change, path: chance(50) ? change.path + pick(TEXTS) : pick(PATHS) } : change;
    });
  if (field === "signal" && chance(80)) return pick(["SIGUSR1", "SIGTERM", "SIGKILL"]);
  if (field === "request_id" && chance(80)) return pick([...known.requests, "1"]);
  if (field === "seen" || field === "wait_seconds") return undefined;
  if (field === "memory" && chance(70)) return pick(["16GiB", "1MB", "0.5TB", "1", "-1GB", "1e9GB", "GiB"]);
  if (field === "url" && chance(80)) return pick(URLS);
  if (field === "id" && chance(80)) return pick([...known.requests, "1", "2"]);
  return likelyValue(schema, depth + 1);
}

/** One place of the value becomes something else. */
function damage(value: unknown): unknown {
  if (typeof value !== "object" || value === null || chance(15)) return someValue(0);
  if (Array.isArray(value)) {
    if (value.length === 0) return [someValue(0)];
    const at = between(0, value.length - 1);
    return value.map((item, index) => (index === at ? damage(item) : item));
  }
  const entries = Object.entries(value);
  if (entries.length === 0 || chance(15)) return { ...value, [someText()]: someValue(0) };
  const at = between(0, entries.length - 1);
  if (chance(20)) return Object.fromEntries(entries.filter((_, index) => index !== at));
  return Object.fromEntries(
    entries.map(([key, inner], index) => [key, index === at ? damage(inner) : inner]),
  );
}

function someValue(depth: number): unknown {
  const kind = between(0, depth > 4 ? 5 : 8);
  if (kind <= 1) return someText();
  if (kind <= 3) return someNumber();
  if (kind === 4) return null;
  if (kind === 5) return chance(50);
  if (kind === 6) return Array.from({ length: between(0, 4) }, () => someValue(depth + 1));
  return Object.fromEntries(Array.from({ length: between(0, 4) }, () => [someText(), someValue(depth + 1)]));
}

function someNumber(): number {
  return pick([
    0,
    -1,
    1,
    0.5,
    1e21,
    -0,
    1e-7,
    2 ** 53,
    2 ** 53 - 1,
    -(2 ** 53),
    2 ** 31,
    1.7e308,
    10,
    11,
    1_000_000_007,
  ]);
}

function someText(): string {
  if (chance(70)) return pick(TEXTS);
  return String.fromCharCode(...Array.from({ length: between(0, 12) }, () => between(0, 0x2fff)));
}

// --- Bytes that are hardly HTTP

function sendRaw(): Promise<string | undefined> {
  const { port } = new URL(server.url);
  return new Promise((resolve) => {
    const bytes = rawBytes();
    const socket = connect(Number(port), "127.0.0.1", () => socket.end(bytes));
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (text.length > 1_000_000) socket.destroy();
    });
    // The server may well hang up on such a caller.
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => {
      const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
      count(status);
      resolve(
        status >= 500
          ? `raw bytes were answered with ${status}: ${bytes.toString("latin1").slice(0, 200)}`
          : undefined,
      );
    });
    socket.setTimeout(1_000, () => socket.destroy());
  });
}

function rawBytes(): Buffer {
  const { host } = new URL(server.url);
  const good = `${pick(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "CONNECT", "BREW"])} ${pick(["/v1/pools", "/v1/resource-requests", "*", "//", "/%", "/../etc", "http://evil/", `/${"a".repeat(9_000)}`])} HTTP/1.1\r\nHost: ${chance(80) ? host : pick(["", "evil", "[::1", "a b", "127.0.0.1:99999"])}\r\nAuthorization: Bearer ${world.admin}\r\nConnection: close\r\n${pick(["", "Content-Length: 5\r\n", "Content-Length: -1\r\n", "Content-Length: 99\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "Expect: 100-continue\r\n", `X: ${"y".repeat(20_000)}\r\n`, "Content-Type: application/json\r\n"])}\r\n${pick(["", "{}", '5\r\n{"a":\r\n0\r\n\r\n', "zz\r\n", "\u0000\u0000"])}`;
  const bytes = Buffer.from(good, "latin1");
  if (chance(50)) return bytes;
  // Some bytes are changed, cut off or put in.
  const changed = Buffer.from(bytes);
  for (let times = between(1, 8); times > 0; times--)
    changed[between(0, changed.length - 1)] = between(0, 255);
  return chance(20) ? changed.subarray(0, between(0, changed.length)) : changed;
}
