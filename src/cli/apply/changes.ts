// What has to change so that pools, groups, nodes and policies are as the files say.

import type {
  WireGroup,
  WireGroupAnswer,
  WireNode,
  WireNodeAnswer,
  WirePlan,
  WirePolicy,
  WirePolicyAnswer,
  WirePool,
  WirePoolAnswer,
} from "../../protocol/index.ts";
import type { Client } from "../../sdk/index.ts";
import { gather } from "../session.ts";
import type { Wanted } from "./document.ts";

export interface Present {
  readonly pools: readonly WirePoolAnswer[];
  readonly groups: readonly WireGroupAnswer[];
  readonly nodes: readonly WireNodeAnswer[];
  readonly policies: readonly WirePolicyAnswer[];
}

export interface PerformOptions {
  readonly dryRun: boolean;
  readonly force: boolean;
}

export interface Change {
  readonly verb: "create" | "change" | "delete";
  readonly what: string;
  /** Such as `priority 1 → 5`. */
  readonly differences: readonly string[];
  /** Carries it out, or with `dryRun` asks what it would do. */
  readonly perform: (options: PerformOptions) => Promise<WirePlan | undefined>;
}

export async function readPresent(client: Client): Promise<Present> {
  const pools = await gather(client.pools.all());
  const inPools = await Promise.all(
    pools.map(async ({ name }) => ({
      groups: (await client.groups.list(name, { limit: 1000 })).items,
      policies: await gather(client.policies.all(name)),
    })),
  );
  return {
    pools,
    groups: inPools.flatMap(({ groups }) => groups),
    nodes: await gather(client.nodes.all()),
    policies: inPools.flatMap(({ policies }) => policies),
  };
}

/** In an order that usually works; what is refused is tried again after the others. */
export function changesFor(client: Client, wanted: Wanted, present: Present, isPruning: boolean): Change[] {
  return [
    ...wanted.pools.flatMap((pool) => poolChange(client, pool, present)),
    ...wanted.pools.flatMap((pool) =>
      (pool.groups ?? []).flatMap((group) => groupChange(client, pool, group, present)),
    ),
    ...(wanted.nodes ?? []).flatMap((node) => nodeChange(client, node, present)),
    ...(isPruning ? surplusPolicies(client, wanted, present) : []),
    ...wanted.policies.flatMap((policy) => policyChange(client, policy, present)),
    ...(isPruning ? surplusGroups(client, wanted, present) : []),
    ...(isPruning ? surplusNodes(client, wanted, present) : []),
    ...(isPruning ? surplusPools(client, wanted, present) : []),
  ];
}

function poolChange(client: Client, { groups: _, ...pool }: WirePool, present: Present): Change[] {
  const { name } = pool;
  const current = present.pools.find((one) => one.name === name);
  if (current === undefined) {
    const perform: Change["perform"] = async ({ dryRun }) =>
      dryRun ? client.pools.create(pool, { dryRun: true }) : void (await client.pools.create(pool, {}));
    return [{ verb: "create", what: `pool ${name}`, differences: [], perform }];
  }
  // A key that the file leaves out is gone.
  const goneKeys = current.node_backed
    ? []
    : Object.keys(current.capacity).filter((key) => !(key in (pool.capacity ?? {})));
  const capacity = pool.capacity && {
    ...pool.capacity,
    ...Object.fromEntries(goneKeys.map((key) => [key, 0])),
  };
  const fields = { ...pool, description: pool.description ?? "", ...(capacity && { capacity }) };
  const differences = differencesOf(
    { ...fields, capacity: pool.capacity, labels: pool.labels ?? {} },
    current as unknown as Record<string, unknown>,
  );
  const perform: Change["perform"] = async ({ dryRun, force }) =>
    dryRun
      ? client.pools.put(name, fields, { dryRun: true, force })
      : void (await client.pools.put(name, fields, { force }));
  return differences.length === 0 ? [] : [{ verb: "change", what: `pool ${name}`, differences, perform }];
}

/** What a group has that a file says nothing about. */
export const GROUP_DEFAULTS = {
  parent: null,
  weight: 1,
  reserved: null,
  limit: {},
  mode: "fair_share",
  settings: {},
} as const;

function groupChange(client: Client, { name: pool }: WirePool, group: WireGroup, present: Present): Change[] {
  const whole = { ...GROUP_DEFAULTS, ...group };
  const current = present.groups.find((one) => one.pool === pool && one.name === group.name);
  const differences =
    current === undefined ? [] : differencesOf(whole, current as unknown as Record<string, unknown>);
  if (current !== undefined && differences.length === 0) return [];
  const perform: Change["perform"] = async ({ dryRun, force }) =>
    dryRun
      ? client.groups.put(pool, group.name, whole, { dryRun: true, force })
      : void (await client.groups.put(pool, group.name, whole, { force }));
  return [
    {
      verb: current === undefined ? "create" : "change",
      what: `group ${pool}/${group.name}`,
      differences,
      perform,
    },
  ];
}

/** What a node has that a file says nothing about. */
export const NODE_DEFAULTS = { labels: {}, topology: "" } as const;

/** Of a node with an agent the capacity is the most that the agent may offer: what it offers now may be less. */
export function declaredCapacity({ capacity, enrolled }: WireNodeAnswer): Record<string, number> {
  return enrolled ?? capacity;
}

function nodeChange(client: Client, node: WireNode, present: Present): Change[] {
  const { name, ...body } = { ...NODE_DEFAULTS, ...node };
  const current = present.nodes.find((one) => one.name === name);
  const shown = current && { ...current, capacity: declaredCapacity(current) };
  const isMoved = current !== undefined && current.pool !== node.pool;
  const differences =
    shown === undefined
      ? []
      : [
          ...(isMoved ? [`pool ${current.pool} → ${node.pool}`] : []),
          ...differencesOf(body, shown as unknown as Record<string, unknown>),
        ];
  if (current !== undefined && differences.length === 0) return [];
  const perform: Change["perform"] = async ({ dryRun }) =>
    dryRun ? client.nodes.put(name, body, { dryRun: true }) : void (await client.nodes.put(name, body, {}));
  return [{ verb: current === undefined ? "create" : "change", what: `node ${name}`, differences, perform }];
}

/** Where files speak of nodes at all, they name all of them, of the pools that they name. */
function surplusNodes(client: Client, { nodes, pools }: Wanted, present: Present): Change[] {
  if (nodes === undefined) return [];
  return present.nodes
    .filter(({ pool }) => pools.some(({ name }) => name === pool))
    .filter(({ name }) => !nodes.some((one) => one.name === name))
    .map(({ name }) => deletion(`node ${name}`, (options) => client.nodes.remove(name, options)));
}

/** What a policy has that a file says nothing about. */
export const POLICY_DEFAULTS = {
  priority: 0,
  reserved: {},
  limit: {},
  weight: 1,
  kind: "batch",
  max_class: 10,
  group: null,
  home: null,
} as const;

function policyChange(client: Client, policy: WirePolicy, present: Present): Change[] {
  const { pool, component } = policy;
  const current = present.policies.find((one) => one.pool === pool && one.component === component);
  const whole = { ...POLICY_DEFAULTS, ...policy };
  const differences =
    current === undefined ? [] : differencesOf(whole, current as unknown as Record<string, unknown>);
  if (current !== undefined && differences.length === 0) return [];
  const perform: Change["perform"] = async ({ dryRun, force }) =>
    dryRun
      ? client.policies.put(pool, component, whole, { dryRun: true, force })
      : void (await client.policies.put(pool, component, whole, { force }));
  return [
    {
      verb: current === undefined ? "create" : "change",
      what: `policy ${pool}/${component}`,
      differences,
      perform,
    },
  ];
}

function surplusPolicies(client: Client, { policies }: Wanted, present: Present): Change[] {
  return present.policies
    .filter(
      ({ pool, component }) => !policies.some((one) => one.pool === pool && one.component === component),
    )
    .map(({ pool, component }) =>
      deletion(`policy ${pool}/${component}`, (options) => client.policies.detach(pool, component, options)),
    );
}

function surplusGroups(client: Client, { pools }: Wanted, present: Present): Change[] {
  return present.groups
    .filter(({ pool, name }) =>
      pools.some((one) => one.name === pool && !(one.groups ?? []).some((group) => group.name === name)),
    )
    .map(({ pool, name }) =>
      deletion(`group ${pool}/${name}`, (options) => client.groups.delete(pool, name, options)),
    );
}

function surplusPools(client: Client, { pools }: Wanted, present: Present): Change[] {
  return present.pools
    .filter(({ name }) => !pools.some((one) => one.name === name))
    .map(({ name }) => deletion(`pool ${name}`, (options) => client.pools.delete(name, options)));
}

function deletion(what: string, remove: (options: PerformOptions) => Promise<WirePlan | undefined>): Change {
  return { verb: "delete", what, differences: [], perform: remove };
}

/** Field by field, of those that are wanted; settings one by one. */
function differencesOf(wanted: object, current: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(wanted).flatMap(([field, value]) => {
    if (value === undefined || field === "name" || field === "pool" || field === "component") return [];
    if (field === "settings") {
      const settings = (current.settings ?? {}) as Record<string, unknown>;
      return Object.entries(value as object)
        .filter(([name, setting]) => !isSame(setting, settings[name]))
        .map(([name, setting]) => `${name} ${textOf(settings[name])} → ${textOf(setting)}`);
    }
    return isSame(value, current[field]) ? [] : [`${field} ${textOf(current[field])} → ${textOf(value)}`];
  });
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value || '""' : JSON.stringify(value ?? null);
}
