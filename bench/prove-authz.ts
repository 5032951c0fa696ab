// Every route, called by everybody, on what is theirs, what is others', and what is not there: each answer must be
// the one that the table below says. Then tokens that nobody gave out. A server with a hole must be found out.
// Usage: npm run prove:authz [-- --canaries]

import {
  type Permission,
  ROLE_PERMISSIONS,
  ROUTES,
  type Role,
  type RouteName,
} from "../src/protocol/index.ts";
import { type OpenedServer, openServer } from "../src/server/index.ts";
import { type Fault, tell } from "./proving/canaries.ts";
import { MACHINE_CANARIES, proveMachines } from "./proving/machines.ts";
import { NO_LIMITS } from "./proving/rates.ts";
import { proveSight, SIGHT_CANARIES } from "./proving/sight.ts";
import { bundle } from "./proving/start.ts";

/** Written by hand, not read from the server: which roles have which permission. */
const MAY: Record<Permission, readonly Role[]> = {
  "self.read": ["viewer", "user", "operator", "auditor", "admin"],
  "requests.read": ["viewer", "user", "operator", "auditor", "admin"],
  "pools.read": ["viewer", "user", "operator", "auditor", "admin"],
  "events.read": ["viewer", "user", "operator", "auditor", "admin"],
  "requests.submit": ["user", "operator", "admin"],
  "requests.hold": ["user", "operator", "admin"],
  "requests.cancel": ["user", "operator", "admin"],
  "requests.delete": ["user", "operator", "admin"],
  "pools.change": ["operator", "admin"],
  "nodes.change": ["operator", "admin"],
  "nodes.join": ["join"],
  "nodes.sync": ["node"],
  "pools.sync": ["executor"],
  "notices.read": ["user", "operator", "auditor", "admin"],
  "notices.change": ["user", "operator", "admin"],
  "metrics.read": ["operator", "auditor", "admin"],
  "audit.read": ["auditor", "admin"],
  "tokens.read": ["auditor", "admin"],
  "tokens.change": ["admin"],
  "settings.change": ["admin"],
};

/** Users are bound to components; a caller that reads the log or makes tokens reaches everything anyway. */
const SCOPES: Record<Role, readonly boolean[]> = {
  viewer: [false, true],
  user: [true],
  operator: [false, true],
  auditor: [false],
  admin: [false],
  executor: [true],
  node: [true],
  join: [true],
};

/** `mine` was submitted by the caller, `team` by another user of the same component. */
type Ownership = "mine" | "team" | "foreign" | "missing";

interface Principal {
  readonly name: string;
  readonly role: Role;
  readonly secret: string;
  /** Bound to the component and the pool called `own`. */
  readonly isScoped: boolean;
}

interface Request {
  readonly id: string;
  readonly token?: string;
}

interface Things {
  readonly request: Request;
  readonly pool: string;
  readonly component: string;
  readonly group: string;
  readonly node: string;
  /** A job that waits, and the operation that it belongs to. */
  readonly job: Request;
  readonly operation: string;
  /** Where notices about the component go. */
  readonly target: string;
}

/** How each route is called on such things, and what kind of thing decides whether it is reached. */
type Kind =
  | "request"
  | "ending"
  | "pool"
  | "policy"
  | "node"
  | "named node"
  | "pool of a node"
  | "named pool"
  | "named component"
  | "component"
  | "own node"
  | "own pool"
  | "enrolled node"
  | "operation"
  | "unknown link"
  | "target"
  | "nothing";
interface Sample {
  readonly kind: Kind;
  readonly path?: (things: Things) => string;
  readonly query?: string;
  readonly body?: (things: Things) => unknown;
  /** What its contents need beyond the route (X8). */
  readonly needs?: Permission;
}

const ofRequest = ({ request }: Things) => ({ token: request.token ?? `1.${"A".repeat(43)}` });
let count = 0;
const jobOf = (component: string) => ({ component, resources: { gpu: 1 }, run: { command: ["true"] } });
/** Nobody listens there. */
const targetOf = (more: object) => ({ kind: "webhook", url: "http://127.0.0.1:9/", ...more });
const SYNC = { session: "s", boot_id: "b", agent_version: "0", jobs: [] };

const SAMPLES: Record<RouteName, Sample> = {
  submitRequest: { kind: "component", body: ({ component }) => ({ component, resources: { gpu: 1 } }) },
  submitRequests: {
    kind: "nothing",
    body: ({ component }) => ({ items: [{ component, resources: { gpu: 1 } }] }),
  },
  renewRequests: {
    kind: "nothing",
    body: (things) => ({ items: [{ id: things.request.id, ...ofRequest(things) }] }),
  },
  releaseRequests: {
    kind: "nothing",
    body: (things) => ({ items: [{ id: things.request.id, ...ofRequest(things), outcome: "succeeded" }] }),
  },
  listRequests: { kind: "nothing" },
  getRequest: { kind: "request" },
  renewRequest: { kind: "request", body: ofRequest },
  releaseRequest: { kind: "request", body: (things) => ({ ...ofRequest(things), outcome: "succeeded" }) },
  checkpointRequest: { kind: "request", body: (things) => ({ ...ofRequest(things), report: "progress" }) },
  updateRequest: { kind: "ending", body: () => ({ note: "changed" }) },
  cancelRequest: { kind: "ending" },
  deleteRequest: { kind: "ending", query: "?force=true" },
  explainRequest: { kind: "request" },
  listDecisions: { kind: "request" },
  makePlan: {
    kind: "component",
    needs: "requests.submit",
    body: ({ component }) => ({
      changes: [
        { method: "POST", path: "/v1/resource-requests", body: { component, resources: { gpu: 1 } } },
      ],
    }),
  },
  listPools: { kind: "nothing" },
  createPool: {
    kind: "named pool",
    query: "?dry_run=true",
    body: ({ pool }) => ({ name: pool, capacity: { gpu: 4 } }),
  },
  getPool: { kind: "pool" },
  putPool: { kind: "named pool", query: "?dry_run=true", body: () => ({ capacity: { gpu: 4 } }) },
  updatePool: { kind: "pool", body: () => ({ description: "changed" }) },
  deletePool: { kind: "pool", query: "?dry_run=true&force=true" },
  resumeExpiry: { kind: "pool" },
  listQueue: { kind: "pool" },
  getShares: { kind: "pool" },
  listPolicies: { kind: "pool" },
  attachPolicy: { kind: "named component", body: ({ component }) => ({ component }) },
  getPolicy: { kind: "policy" },
  putPolicy: { kind: "named component", body: () => ({ priority: 1 }) },
  updatePolicy: { kind: "policy", body: () => ({ priority: 1 }) },
  detachPolicy: { kind: "policy", query: "?dry_run=true&force=true" },
  listGroups: { kind: "pool" },
  createGroup: { kind: "pool", body: () => ({ name: `group-${++count}` }) },
  getGroup: { kind: "pool" },
  putGroup: { kind: "pool", body: () => ({ weight: 1 }) },
  updateGroup: { kind: "pool", body: () => ({ weight: 1 }) },
  deleteGroup: { kind: "pool", query: "?dry_run=true" },
  submitJob: { kind: "component", body: ({ component }) => ({ ...jobOf(component) }) },
  submitJobArray: {
    kind: "component",
    body: ({ component }) => ({ job: jobOf(component), indices: [0, 1] }),
  },
  listJobs: { kind: "nothing" },
  getJob: { kind: "request" },
  getJobLogs: { kind: "ending" },
  signalJob: { kind: "ending", body: () => ({ signal: "SIGUSR1" }) },
  listOperations: { kind: "nothing" },
  getOperation: { kind: "request" },
  cancelOperation: { kind: "operation" },
  confirmNodeLost: { kind: "node", query: "?dry_run=true" },
  enrolNode: { kind: "pool of a node", body: ({ pool }) => ({ pool: `${pool}-nodes` }) },
  joinNode: { kind: "enrolled node", body: () => ({ capacity: { gpu: 1 } }) },
  syncNode: { kind: "own node", body: () => SYNC },
  reportPartCheckpoint: {
    kind: "own node",
    body: ({ job }) => ({ request_id: job.id, token: `1.${"A".repeat(43)}`, report: "done" }),
  },
  sendLog: { kind: "own node", body: () => ({ from: 0, parts: [], is_end: true }) },
  syncPool: {
    kind: "own pool",
    path: ({ pool }) => `/v1/pools/${pool}-batch/sync`,
    body: () => ({ session: "s", agent_version: "0", jobs: [] }),
  },
  reportPoolCheckpoint: {
    kind: "own pool",
    path: ({ pool }) => `/v1/pools/${pool}-batch/checkpoint`,
    body: ({ job }) => ({ request_id: job.id, token: `1.${"A".repeat(43)}`, report: "done" }),
  },
  sendPoolLog: {
    kind: "own pool",
    path: ({ pool }) => `/v1/pools/${pool}-batch/logs/reader`,
    body: () => ({ from: 0, parts: [], is_end: true }),
  },
  listNodes: { kind: "nothing" },
  listPoolNodes: { kind: "pool" },
  createNode: {
    kind: "pool of a node",
    query: "?dry_run=true",
    body: ({ node, pool }) => ({ name: node, pool, capacity: { gpu: 1 } }),
  },
  getNode: { kind: "node" },
  putNode: { kind: "named node", query: "?dry_run=true", body: () => ({ labels: { a: "b" } }) },
  drainNode: { kind: "node", query: "?dry_run=true", body: () => ({}) },
  undrainNode: { kind: "node", query: "?dry_run=true" },
  removeNode: { kind: "node", query: "?dry_run=true" },
  getOverview: { kind: "nothing" },
  getQueue: { kind: "nothing" },
  getTimeline: { kind: "pool", query: "?pool={pool}" },
  getUsage: { kind: "nothing" },
  getHistory: { kind: "pool" },
  createLink: { kind: "nothing" },
  createSession: { kind: "unknown link", body: () => ({ once: "A".repeat(22) }) },
  getSession: { kind: "nothing" },
  renewSession: { kind: "nothing" },
  endSession: { kind: "nothing" },
  streamEvents: { kind: "nothing" },
  listTargets: { kind: "nothing" },
  createTarget: {
    kind: "component",
    body: ({ component }) => targetOf({ component, name: `made-${++count}` }),
  },
  getTarget: { kind: "target" },
  testTarget: { kind: "target" },
  deleteTarget: { kind: "target" },
  listTokens: { kind: "nothing" },
  createToken: { kind: "nothing", body: () => ({ name: `made-${++count}`, role: "viewer" }) },
  getToken: { kind: "nothing" },
  revokeToken: { kind: "nothing" },
  whoami: { kind: "nothing" },
  listAudit: { kind: "nothing" },
  getSettings: { kind: "nothing" },
  changeSettings: { kind: "nothing", body: () => ({ unmanaged: "reject" }) },
  metrics: { kind: "nothing" },
  healthz: { kind: "nothing" },
  livez: { kind: "nothing" },
  getCluster: { kind: "nothing" },
  handOver: { kind: "nothing", body: () => ({}) },
  readyz: { kind: "nothing" },
  version: { kind: "nothing" },
  openapi: { kind: "nothing" },
  docs: { kind: "nothing" },
};

const NOBODY = "01900000-0000-7000-8000-000000000000";
let cells = 0;

const sound = await prove();
console.log(`${cells} calls: ${sound.unexpected.length} unexpected`);
for (const line of sound.unexpected.slice(0, 40)) console.log(`  ${line}`);
console.log(`${sound.forged} calls with tokens that nobody gave out: ${sound.accepted.length} accepted`);
for (const line of sound.accepted.slice(0, 40)) console.log(`  ${line}`);

// The same on a server with a hole: a proof that cannot fail proves nothing.
const viewer = ROLE_PERMISSIONS.viewer as Permission[];
viewer.push("pools.change");
const holed = await prove();
viewer.pop();
console.log(
  `canary: a server whose viewers may change pools is ${holed.unexpected.length > 0 ? `found out ${holed.unexpected.length} times` : "NOT FOUND OUT"}`,
);

const sight = await onServer((server, admin) => proveSight(server, admin));
console.log(`${sight.answers} answers and streams on shared pools: ${sight.leaks.length} leaks`);
for (const line of sight.leaks.slice(0, 40)) console.log(`  ${line}`);

const machines = await proveMachines();
console.log(
  `${machines.calls} calls about users of jobs and by machines: ${machines.faults.length} unexpected`,
);
for (const line of machines.faults.slice(0, 40)) console.log(`  ${line}`);

let missed = 0;
if (process.argv.includes("--canaries")) {
  for (const fault of MACHINE_CANARIES) if (!tell(fault.what, await findMachineFault(fault))) missed++;
  for (const [what, plant] of Object.entries(SIGHT_CANARIES)) {
    const mend = plant();
    const { leaks } = await onServer((server, admin) => proveSight(server, admin)).finally(mend);
    if (leaks.length === 0) missed++;
    console.log(`canary: ${what}: ${leaks.length > 0 ? `found out ${leaks.length} times` : "NOT FOUND OUT"}`);
  }
}

const faults =
  sound.unexpected.length + sound.accepted.length + sight.leaks.length + machines.faults.length + missed;
if (faults > 0 || holed.unexpected.length === 0) process.exitCode = 1;

/** The same proof, with the fault in a copy of the source. */
async function findMachineFault(fault: Fault): Promise<number> {
  const copy = (await import(await bundle("proving/machines", fault))) as {
    proveMachines: typeof proveMachines;
  };
  return (await copy.proveMachines()).faults.length;
}

/** On a server of its own, with no limits but those that are proved. */
async function onServer<Result>(
  work: (server: OpenedServer, admin: string) => Promise<Result>,
): Promise<Result> {
  const server = await openServer({
    data: "memory",
    listen: "127.0.0.1:0",
    rates: NO_LIMITS,
    onFatal: (error) => {
      throw error;
    },
  });
  try {
    return await work(server, server.firstToken?.secret as string);
  } finally {
    await server.close();
  }
}

function prove(): Promise<{ unexpected: string[]; forged: number; accepted: string[] }> {
  return onServer(async (server, admin) => {
    await buildWorld(server, admin);
    const principals = await makePrincipals(server, admin);
    const unexpected: string[] = [];
    for (const name of Object.keys(ROUTES) as RouteName[]) {
      for (const principal of principals) {
        for (const ownership of ["mine", "team", "foreign", "missing"] as const) {
          const complaint = await tryCell(server, admin, { name, principal, ownership });
          if (complaint !== undefined) unexpected.push(complaint);
        }
      }
    }
    const { forged, accepted } = await tryForged(server, admin);
    return { unexpected, forged, accepted };
  });
}

async function buildWorld(server: OpenedServer, admin: string): Promise<void> {
  for (const name of ["own", "foreign"]) {
    await must(server, admin, "PUT", `/v1/pools/${name}`, { capacity: { gpu: 100_000 } });
    await must(server, admin, "PUT", `/v1/pools/${name}/policies/${name}`, { priority: 1 });
    await must(server, admin, "PUT", `/v1/pools/${name}/groups/${name}`, { weight: 1 });
    await must(server, admin, "PUT", `/v1/pools/${name}-nodes`, { settings: { executor: "agents" } });
    await must(server, admin, "PUT", `/v1/nodes/${name}`, { pool: `${name}-nodes`, capacity: { gpu: 8 } });
    await must(server, admin, "PUT", `/v1/pools/${name}-batch`, { settings: { executor: "slurm" } });
    // Here jobs wait.
    await must(server, admin, "PUT", `/v1/pools/${name}-jobs`, { settings: { executor: "agents" } });
    await must(server, admin, "PUT", `/v1/pools/${name}-jobs/policies/${name}`, {});
    const worker = { pool: `${name}-jobs`, capacity: { gpu: 8 } };
    await must(server, admin, "PUT", `/v1/nodes/${name}-worker`, worker);
    await must(server, admin, "POST", `/v1/nodes/${name}-worker/drain`, {});
  }
}

async function makePrincipals(server: OpenedServer, admin: string): Promise<Principal[]> {
  const principals: Principal[] = [];
  for (const role of ["viewer", "user", "operator", "auditor", "admin", "executor"] as const) {
    for (const isScoped of SCOPES[role]) {
      const scope = isScoped
        ? { components: ["own"], pools: ["own", "own-nodes", "own-jobs", "own-batch"] }
        : {};
      const name = `${isScoped ? "scoped" : "full"} ${role}`;
      const { secret } = await must(server, admin, "POST", "/v1/tokens", { name, role, ...scope });
      principals.push({ name, role, secret, isScoped });
    }
  }
  return [...principals, ...(await makeMachines(server, admin))];
}

/** The agent of node `own`, and a machine that is to join under another name. */
async function makeMachines(server: OpenedServer, admin: string): Promise<Principal[]> {
  const enrol = async (node: string) => {
    const body = { pool: "own-nodes" };
    return (await must(server, admin, "POST", `/v1/nodes/${node}/enrol`, body)).join_token as string;
  };
  const joined = await must(server, await enrol("own"), "POST", "/v1/nodes/own/join", {
    capacity: { gpu: 8 },
  });
  return [
    { name: "the agent of own", role: "node", secret: joined.node_token as string, isScoped: true },
    { name: "a machine that joins", role: "join", secret: await enrol("newcomer"), isScoped: true },
  ];
}

async function tryCell(
  server: OpenedServer,
  admin: string,
  cell: { name: RouteName; principal: Principal; ownership: Ownership },
): Promise<string | undefined> {
  const { name, principal, ownership } = cell;
  const things = await makeThings(server, admin, principal, ownership);
  if (things === undefined) return undefined;
  const { status, text } = await callRoute(server, principal.secret, name, things);
  await removeTargets(server, admin);
  cells++;
  const want = expected(name, principal, ownership);
  const got = verdictOf(status);
  const what = `${name} by ${principal.name} on ${ownership}`;
  if (got !== want) return `${what}: wanted ${want}, got ${got} (${status}) ${text.slice(0, 160)}`;
  const leaks =
    principal.isScoped && ownership !== "foreign" && status < 300 && ROUTES[name].permission !== "public";
  if (leaks && /"(component|pool|name)":"foreign(-nodes)?"/.test(text))
    return `${what}: shows what is foreign`;
  return undefined;
}

type Verdict = "allowed" | "unauthenticated" | "forbidden" | "not found" | "failed";

/** Allowed means that the rules of the thing itself decided: done, or refused for another reason than who asked. */
function verdictOf(status: number): Verdict {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "forbidden";
  if (status === 404) return "not found";
  if (status >= 500) return "failed";
  return status < 400 || [400, 409].includes(status) ? "allowed" : "failed";
}

function expected(name: RouteName, { role, isScoped }: Principal, ownership: Ownership): Verdict {
  const permission = SAMPLES[name].needs ?? ROUTES[name].permission;
  if (permission !== "public" && !MAY[permission].includes(role)) return "forbidden";
  const isOthers = ownership === "foreign" && isScoped;
  const isMissing = ownership === "missing";
  switch (SAMPLES[name].kind) {
    case "nothing":
      return "allowed";
    case "unknown link":
      return "unauthenticated";
    case "component":
    case "named pool":
      // What a call brings into the world can be refused openly: it tells nothing about what exists.
      return isOthers || (isMissing && isScoped) ? "forbidden" : "allowed";
    case "pool of a node":
      if (isScoped && (isOthers || isMissing)) return "forbidden";
      return isMissing ? "not found" : "allowed";
    case "named node":
      return isOthers ? "not found" : "allowed";
    case "named component":
      return isOthers || isMissing ? "not found" : "allowed";
    case "own node":
      return ownership === "team" ? "allowed" : "forbidden";
    case "own pool":
      return isOthers || isMissing ? "forbidden" : "allowed";
    case "enrolled node":
      return "forbidden"; // It was enrolled under another name.
    case "operation":
      // What one may not cancel is as good as not there.
      if (isOthers || isMissing) return "not found";
      return ownership === "mine" || role === "operator" || role === "admin" ? "allowed" : "not found";
    case "target":
      // A user sees those of its own token; operators and auditors all that they reach.
      if (isOthers || isMissing) return "not found";
      return ownership === "mine" || role !== "user" ? "allowed" : "not found";
    case "ending":
      if (isOthers || isMissing) return "not found";
      return ownership === "mine" || role === "operator" || role === "admin" ? "allowed" : "forbidden";
    default:
      return isOthers || isMissing ? "not found" : "allowed";
  }
}

/** The objects of a cell. Undefined where the caller cannot have any of its own. */
async function makeThings(
  server: OpenedServer,
  admin: string,
  principal: Principal,
  ownership: Ownership,
): Promise<Things | undefined> {
  const name = ownership === "missing" ? "missing" : ownership === "foreign" ? "foreign" : "own";
  const operation = `operation-${++count}`;
  const things = { pool: name, component: name, group: name, node: name, operation };
  if (ownership === "missing")
    return { ...things, request: { id: NOBODY }, job: { id: NOBODY }, target: "missing" };
  const canSubmit = MAY["requests.submit"].includes(principal.role);
  if (ownership === "mine" && !canSubmit) return undefined;
  const submitter = ownership === "mine" ? principal.secret : admin;
  const request = await must(server, submitter, "POST", "/v1/resource-requests", {
    component: name,
    resources: { gpu: 1 },
  });
  const target = `target-${count}`;
  await must(
    server,
    submitter,
    "POST",
    "/v1/notice-targets",
    targetOf({ component: name, pool: name, name: target }),
  );
  const job = await must(server, submitter, "POST", "/v1/jobs", { ...jobOf(name), operation });
  return { ...things, request, job, target };
}

async function callRoute(server: OpenedServer, secret: string | undefined, name: RouteName, things: Things) {
  const { method, path } = ROUTES[name];
  const { path: pathOf = () => path, query = "", body } = SAMPLES[name];
  const filled = (pathOf(things) + query)
    .replace("/v1/jobs/{id}", `/v1/jobs/${things.job.id}`)
    .replace("{operation}", things.operation)
    .replace("{reader}", "nobody")
    .replace("{id}", things.request.id)
    .replace("{pool}", things.pool)
    .replace("{component}", things.component)
    .replace("{group}", things.group)
    .replace("{node}", things.node)
    .replace("{target}", things.target)
    .replace("{token}", await spareToken(server, name));
  return call(server, method, filled, {
    authorization: secret === undefined ? undefined : `Bearer ${secret}`,
    body: body?.(things),
    isStream: name === "streamEvents",
  });
}

/** There may be only so many of them. */
async function removeTargets(server: OpenedServer, admin: string): Promise<void> {
  for (const { name } of await server.store.listTargets()) {
    await call(server, "DELETE", `/v1/notice-targets/${name}`, { authorization: `Bearer ${admin}` });
  }
}

/** A token to look at or to revoke that nobody needs. */
async function spareToken(server: OpenedServer, name: RouteName): Promise<string> {
  if (name !== "getToken" && name !== "revokeToken") return "";
  return (await server.makeAdminToken(`spare-${++count}`)).id;
}

async function call(
  { url }: OpenedServer,
  method: string,
  path: string,
  {
    authorization,
    body,
    isStream = false,
  }: { authorization: string | undefined; body?: unknown; isStream?: boolean },
): Promise<{ status: number; text: string }> {
  const abort = new AbortController();
  const answer = await fetch(url + path, {
    method,
    signal: abort.signal,
    headers: {
      ...(authorization !== undefined && { authorization }),
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (isStream && answer.ok) {
    abort.abort();
    return { status: answer.status, text: "" };
  }
  return { status: answer.status, text: await answer.text() };
}

/** What the proof reads of the things that it makes. */
interface Made {
  readonly id: string;
  readonly token: string;
  readonly secret: string;
  readonly join_token?: string;
  readonly node_token?: string;
}

async function must(
  server: OpenedServer,
  secret: string,
  method: string,
  path: string,
  body: unknown,
): Promise<Made> {
  const { status, text } = await call(server, method, path, { authorization: `Bearer ${secret}`, body });
  if (status >= 300) throw new Error(`${method} ${path} was answered with ${status}: ${text}`);
  return JSON.parse(text) as Made;
}

// --- Tokens that nobody gave out

async function tryForged(
  server: OpenedServer,
  admin: string,
): Promise<{ forged: number; accepted: string[] }> {
  const revoked = await must(server, admin, "POST", "/v1/tokens", { name: "revoked", role: "admin" });
  await call(server, "DELETE", `/v1/tokens/${revoked.id}`, { authorization: `Bearer ${admin}` });
  const expired = await must(server, admin, "POST", "/v1/tokens", {
    name: "expired",
    role: "admin",
    expires_in_seconds: 0,
  });
  const [stored] = await server.store.listTokens();
  const grant = await must(server, admin, "POST", "/v1/resource-requests", {
    component: "own",
    resources: { gpu: 1 },
  });
  const json = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const swapped = admin.at(-1) === "A" ? "B" : "A";
  const forgeries: Record<string, string | undefined> = {
    "no header": undefined,
    "an empty one": "",
    "Bearer alone": "Bearer",
    "an empty token": "Bearer ",
    "a token that was revoked": `Bearer ${revoked.secret}`,
    "a token that has expired": `Bearer ${expired.secret}`,
    "one character less": `Bearer ${admin.slice(0, -1)}`,
    "one character more": `Bearer ${admin}A`,
    "another last character": `Bearer ${admin.slice(0, -2)}${swapped}${admin.at(-1)}`,
    "other case": `Bearer ${admin.toUpperCase()}`,
    "the hash of a token": `Bearer ${stored?.hash}`,
    "the hash of a token in its form": `Bearer berth_${Buffer.from(stored?.hash ?? "", "hex").toString("base64url")}`,
    "the id of a token": `Bearer ${stored?.id}`,
    "the name of a token": "Bearer admin",
    "another scheme": `Basic ${Buffer.from(`admin:${admin}`).toString("base64")}`,
    "no scheme": admin,
    "two tokens": `Bearer ${admin}, Bearer ${admin}`,
    "a grant": `Bearer ${grant.token}`,
    "an unsigned web token": `Bearer ${json({ alg: "none" })}.${json({ sub: "admin", role: "admin" })}.`,
    "random bits": `Bearer berth_${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url")}`,
  };
  let forged = 0;
  const accepted: string[] = [];
  const names = { pool: "own", component: "own", group: "own", node: "own", operation: "own", target: "own" };
  const things = { request: grant, job: grant, ...names };
  for (const name of Object.keys(ROUTES) as RouteName[]) {
    if (ROUTES[name].permission === "public") continue;
    for (const [what, authorization] of Object.entries(forgeries)) {
      const { method, path } = ROUTES[name];
      const filled = path.replace("{id}", things.request.id).replaceAll(/\{\w+\}/g, "own");
      const { status } = await call(server, method, filled, {
        authorization,
        body: SAMPLES[name].body?.(things),
      });
      forged++;
      if (status !== 401) accepted.push(`${name} with ${what}: ${status}`);
    }
  }
  return { forged, accepted };
}
