// What a server holds while inputs of all kinds are sent to it: pools of every discipline, a pool with a machine whose agent
// has joined, a pool of an adapter, and the tokens of both, so that inputs get beyond "not found" and "forbidden".

import type { Permission } from "../../src/protocol/index.ts";

export interface FuzzWorld {
  readonly pools: readonly string[];
  readonly nodes: readonly string[];
  /** The token with which calls that need this permission are mostly made. */
  secretFor(permission: Permission | "public"): string;
  /** What was deleted comes back. */
  refresh(): Promise<void>;
}

const PATIENCE_MS = 20_000;
const AGENTS_POOL = "machines";
const ADAPTER_POOL = "cluster";
const NODE = "n1";

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
  return {
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
