// What must be true of every grant and of every promise at the moment it is made (G2, N2, N4, 10.8).

import type { Event, NodeRecord, PolicyRecord, PoolRecord } from "../../../src/engine/index.ts";
import { isFirmOn } from "./audit-class.ts";
import { type Books, type Entry, hasLabels, isEnough, leftOf, type Running } from "./books.ts";

type EventOf<Kind extends Event["kind"]> = Extract<Event, { kind: Kind }>;

/** What is wrong with a grant; the books are those of the moment before. */
export function grantProblems(books: Books, event: EventOf<"requestAllocated">): string[] {
  const entry = books.requests.get(event.requestId);
  if (entry === undefined || event.pool === null) return [];
  const pool = books.pools.get(event.pool);
  const policy = books.policyOf(event.pool, entry.spec.component);
  if (pool === undefined || policy === undefined) return [`${event.requestId} is granted without a policy`];
  const placed = pool.nodeBacked
    ? placementProblems(books, pool, entry, event)
    : unitProblems(books, pool, entry);
  return [...placed, ...quotaProblems(books, pool, policy, entry)];
}

/** What is rare about a grant that is right. */
export function grantTraits(
  books: Books,
  { requestId, pool, placement }: EventOf<"requestAllocated">,
): string[] {
  const spec = books.requests.get(requestId)?.spec;
  if (spec === undefined || pool === null) return [];
  const states = new Set(books.nodesOf(pool).map(({ state }) => state));
  const topologies = new Set(placement.map(({ node }) => books.nodes.get(node)?.topology));
  const traits: [string, boolean][] = [
    ["gang granted", placement.length > 1],
    ["gang granted across topology groups", topologies.size > 1],
    ["granted under constraints", placement.length > 0 && Object.keys(spec.constraints).length > 0],
    ["granted beside others on a node", placement.some(({ node }) => books.runsOn(node).length > 0)],
    ["granted while a node is draining", states.has("draining")],
    ["granted while a node is suspect", states.has("suspect")],
    ["granted while a node is down", states.has("down")],
    ["granted at class 10", spec.preemptionClass === 10],
    ["granted to sensitive work", spec.sensitive],
  ];
  return traits.filter(([, holds]) => holds).map(([what]) => what);
}

function unitProblems(books: Books, pool: PoolRecord, { spec }: Entry): string[] {
  const left = leftOf(
    pool.capacity,
    books.runsIn(pool.name).map((run) => books.takenOf(pool, run.spec)),
  );
  const isOver = !isEnough(left, books.takenOf(pool, spec));
  return isOver ? [`pool ${pool.name} gives ${spec.id} more than it has`] : [];
}

/** A gang has all its nodes or none; each is ready, has the labels, room, and devices that nobody has (N2, N4). */
function placementProblems(
  books: Books,
  pool: PoolRecord,
  entry: Entry,
  { placement }: EventOf<"requestAllocated">,
): string[] {
  const { spec } = entry;
  const found = placeProblems(books, pool, entry, placement);
  if (placement.length !== spec.nodes)
    found.push(`${spec.id} is granted ${placement.length} nodes of ${spec.nodes}`);
  for (const { node: name, devices } of placement) {
    const node = books.nodes.get(name);
    if (node === undefined) continue;
    const others = books.runsOn(name);
    const left = leftOf(
      node.capacity,
      others.map((run) => run.spec.resources),
    );
    if (!isEnough(left, spec.resources)) found.push(`node ${name} gives ${spec.id} more than it has`);
    found.push(...deviceProblems(node, entry, devices, others));
  }
  return found;
}

/** What is wrong with the nodes of a grant or a promise, whatever is on them. */
export function placeProblems(
  books: Books,
  pool: PoolRecord,
  { spec }: Entry,
  placement: EventOf<"requestAllocated">["placement"],
): string[] {
  const found: string[] = [];
  if (new Set(placement.map(({ node }) => node)).size < placement.length)
    found.push(`${spec.id} has a node twice`);
  for (const { node: name } of placement) {
    const node = books.nodes.get(name);
    if (node?.pool !== pool.name) found.push(`${spec.id} has node ${name}, which pool ${pool.name} has not`);
    else if (node.state !== "ready") found.push(`${spec.id} is new on node ${name}, which is ${node.state}`);
    else if (!hasLabels(node.labels, spec.constraints))
      found.push(`${spec.id} has node ${name}, which has not the labels that it asks for`);
  }
  return found;
}

function deviceProblems(
  { name, capacity }: NodeRecord,
  { spec }: Entry,
  devices: readonly number[],
  others: readonly Running[],
): string[] {
  const taken = new Set(
    others.flatMap(({ run }) => run.placement.find(({ node }) => node === name)?.devices ?? []),
  );
  const found: string[] = [];
  if (devices.length !== (spec.resources.gpu ?? 0) || new Set(devices).size < devices.length)
    found.push(
      `${spec.id} has ${devices.length} devices of node ${name} for ${spec.resources.gpu ?? 0} GPUs`,
    );
  for (const device of devices) {
    if (taken.has(device)) found.push(`device ${device} of node ${name} is in two allocations`);
    if (device >= (capacity.gpu ?? 0)) found.push(`node ${name} has no device ${device}`);
  }
  return found;
}

/** No policy gets more than its limit, and firm work stays inside the reserve (G2, 10.8). */
function quotaProblems(books: Books, pool: PoolRecord, policy: PolicyRecord, entry: Entry): string[] {
  const own = books.runsIn(pool.name).filter(({ spec }) => spec.component === policy.component);
  const found: string[] = [];
  for (const [key, amount] of Object.entries(books.takenOf(pool, entry.spec))) {
    const usageOf = (runs: readonly Entry[]) =>
      runs.reduce((sum, { spec }) => sum + (books.takenOf(pool, spec)[key] ?? 0), amount);
    if (usageOf(own) > (policy.limit[key] ?? Number.POSITIVE_INFINITY))
      found.push(`${entry.spec.id} takes ${policy.component} past its limit of ${key}`);
    const firm = own.filter((run) => isFirmOn(books, pool, run, key));
    if (isFirmOn(books, pool, entry, key) && usageOf(firm) > (policy.reserved[key] ?? 0))
      found.push(`${entry.spec.id} may live inside the reserve of ${policy.component} only, which is full`);
  }
  return found;
}

/** What must be true at rest: nothing runs where nothing can. */
export function restProblems(books: Books): string[] {
  return books.running().flatMap(({ spec, run }) =>
    run.placement.flatMap(({ node }) => {
      const state = books.nodes.get(node)?.state;
      const isGone = state === undefined || state === "down" || state === "drained";
      return isGone ? [`${spec.id} runs on node ${node}, which is ${state ?? "not there"}`] : [];
    }),
  );
}
