// What a server holds while inputs of all kinds are sent to it: pools of every discipline, a pool with a machine whose agent
// has joined, a pool of an adapter, and the tokens of both, so that inputs get beyond "not found" and "forbidden". The others
// who call are of every role, for all that there is or for a part of it.

import type { Permission, RouteName } from "../../src/protocol/index.ts";

export interface FuzzWorld {
  readonly pools: readonly string[];
  readonly nodes: readonly string[];
  /** An administrator of everything. */
  readonly admin: string;
  /** Of those who may do less. */
  readonly secrets: readonly string[];
  /** A token that may make calls which need this permission. */
  secretFor(permission: Permission | "public"): string;
  /** What was deleted comes back. */
  refresh(): Promise<void>;
}

const PATIENCE_MS = 20_000;
const AGENTS_POOL = "machines";
const ADAPTER_POOL = "cluster";
const NODE = "n1";

/** Each of them may list requests. Administrators are never bounded. */
const CALLERS = [
  { name: "operator", role: "operator" },
  { name: "submitter", role: "user", components: ["a", "b"], permissions: ["class10", "sensitive"] },
  { name: "viewer", role: "viewer" },
  { name: "auditor", role: "auditor" },
  { name: "operator of a component", role: "operator", components: ["a"] },
  { name: "operator of a pool", role: "operator", pools: ["fair", ADAPTER_POOL] },
  { name: "submitter of a component", role: "user", components: ["b"] },
  { name: "submitter in a pool", role: "user", components: ["a", "b"], pools: ["gpus", AGENTS_POOL] },
  { name: "viewer of a component", role: "viewer", components: ["a"] },
  { name: "viewer of a pool", role: "viewer", pools: ["classes"] },
];

export async function createFuzzWorld(url: string, admin: string): Promise<FuzzWorld> {
  const secrets: Partial<Record<Permission | "public", string>> = {};

  /** May be refused, such as when a pool is just being deleted. */
  async function make(method: string, path: string, body: object, secret = admin): Promise<Made> {
    const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const answer = await fetch(url + path, { method, headers, body: JSON.stringify(body), signal });
    const text = await answer.text();
    return answer.ok ? (JSON.parse(text || "{}") as Made) : {};
  }

  async function refresh(): Promise<void> {
    await make("PUT", "/v1/pools/gpus", { capacity: { gpu: 8, mcpu: 64_000 } });
    await make("PUT", "/v1/pools/fair", { capacity: { gpu: 8 }, discipline: "fair_share" });
    await make("PUT", "/v1/pools/classes", { capacity: { gpu: 8 }, discipline: "class" });
    await make("PUT", `/v1/pools/${AGENTS_POOL}`, { settings: { executor: "agents" } });
    await make("PUT", `/v1/pools/${ADAPTER_POOL}`, { settings: { executor: "slurm" } });
    for (const pool of ["gpus", "fair", "classes", AGENTS_POOL, ADAPTER_POOL]) {
      for (const component of ["a", "b"])
        await make("PUT", `/v1/pools/${pool}/policies/${component}`, { priority: 1 });
    }
    const enrolled = await make("POST", `/v1/nodes/${NODE}/enrol`, { pool: AGENTS_POOL });
    const joined = await make(
      ...(["POST", `/v1/nodes/${NODE}/join`, { capacity: { gpu: 8 } }, enrolled.join_token ?? ""] as const),
    );
    secrets["nodes.sync"] = joined.node_token ?? secrets["nodes.sync"] ?? admin;
    secrets["nodes.join"] =
      (await make("POST", `/v1/nodes/${NODE}/enrol`, { pool: AGENTS_POOL })).join_token ?? admin;
    await make("POST", `/v1/nodes/${NODE}/undrain`, {});
  }

  const adapter = { name: "the adapter", role: "executor", pools: [ADAPTER_POOL] };
  await refresh();
  secrets["pools.sync"] = (await make("POST", "/v1/tokens", adapter)).secret ?? admin;
  const callers: string[] = [];
  for (const caller of CALLERS) {
    const { secret } = await make("POST", "/v1/tokens", caller);
    if (secret === undefined) throw new Error(`There is no token for the ${caller.name}.`);
    callers.push(secret);
  }
  return {
    admin,
    secrets: callers,
    pools: ["gpus", "fair", "classes", AGENTS_POOL, ADAPTER_POOL],
    nodes: [NODE, "n2"],
    secretFor: (permission) => secrets[permission] ?? admin,
    refresh,
  };
}

interface Made {
  readonly secret?: string;
  readonly join_token?: string;
  readonly node_token?: string;
}

/** Changes that a plan may hold. */
export const PLANNED_CHANGES = [
  { method: "PUT", path: "/v1/pools/gpus", body: { capacity: { gpu: 4 } } },
  { method: "PUT", path: "/v1/pools/fair/policies/a", body: { priority: 2 } },
  { method: "DELETE", path: "/v1/pools/gpus/policies/b?force=true" },
  { method: "POST", path: "/v1/resource-requests", body: { component: "a", resources: { gpu: 1 } } },
  { method: "POST", path: `/v1/nodes/${NODE}/drain`, body: {} },
];

/** Bodies that are accepted where there is something to change: most of those that a schema allows are not. */
export const PLAIN_BODIES: Partial<
  Record<RouteName, (between: (min: number, max: number) => number) => object>
> = {
  submitRequest: (between) => ({
    component: between(0, 1) === 0 ? "a" : "b",
    resources: { gpu: between(1, 6) },
  }),
  updateRequest: (between) => (between(0, 3) === 0 ? { note: "n" } : { resources: { gpu: between(1, 8) } }),
  putPolicy: (between) => ({ priority: between(0, 3), reserved: { gpu: between(0, 2) } }),
};
