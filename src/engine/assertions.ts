// Cheap assertions on the two decisions that matter most. They stay on in production, and a broken one ends
// the process: a restart replays the journal.

import { isFirmOn } from "./admission.ts";
import { assert } from "./assert.ts";
import { disciplineOf } from "./disciplines/disciplines.ts";
import type { Event } from "./events.ts";
import type { Placement } from "./records.ts";
import { amountOf, type Vector } from "./resources.ts";
import type { EngineState, PoolLine, Request } from "./state.ts";

/**
 * A grant fits the capacity, every limit above it, and for firm work the reserve (G2). Asked before it is counted. A pool
 * line of null: outside all pools (A4).
 */
export function assertGrant(request: Request, poolLine: PoolLine | null | undefined): void {
  const problem = grantProblem(request, poolLine);
  if (problem !== null) throw new Error(`${request.spec.id} is granted ${problem}`);
}

function grantProblem({ progress }: Request, poolLine: PoolLine | null | undefined): string | null {
  if (progress.status !== "queued") return `while ${progress.status}`;
  if (poolLine === null) return null;
  if (poolLine === undefined) return "by a pool in which it has no policy";
  const excess = excessOf(poolLine);
  return excess === null ? null : `by ${poolLine.pool.record.name} but ${excess}`;
}

function excessOf(poolLine: PoolLine): string | null {
  const { need, policy, pool } = poolLine;
  for (let i = 0; i < need.length; i++) {
    const amount = need[i] as number;
    if (amount === 0) continue;
    // Nodes judge the units of a node-backed pool themselves.
    if (!pool.record.nodeBacked && exceeds(amount, pool.usage, pool.capacity, i))
      return `exceeds the capacity of ${pool.keys[i]}`;
    if (exceeds(amount, policy.usage, policy.limit, i)) return `exceeds its limit of ${pool.keys[i]}`;
    for (let group = policy.group; group !== null; group = group.parent) {
      if (exceeds(amount, group.usage, group.limit, i))
        return `exceeds the limit of group ${group.record.name} on ${pool.keys[i]}`;
    }
    if (isFirmOn(poolLine, i) && exceeds(amount, policy.firmUsage, policy.reserved, i))
      return `leaves its reserve of ${pool.keys[i]}`;
  }
  return null;
}

function exceeds(amount: number, used: Vector, bound: Vector, i: number): boolean {
  return (used[i] as number) + amount > (bound[i] as number);
}

/** On nodes a grant has all its places or none, each with room, and no device is given out twice (N2). */
export function assertPlacement(request: Request, poolLine: PoolLine, placement: readonly Placement[]): void {
  if (poolLine.ask !== null || placement.length > 0) assertPlaces(request, poolLine, placement);
}

function assertPlaces(
  { spec: { id, nodes: count } }: Request,
  { pool, ask }: PoolLine,
  placement: readonly Placement[],
): void {
  const wanted = ask === null ? 0 : count;
  const different = new Set(placement.map(({ node }) => node)).size;
  assert(
    placement.length === wanted && different === wanted,
    () => `${id} is granted ${placement.length} nodes of ${wanted}`,
  );
  const gpu = pool.keys.indexOf("gpu");
  for (const { node: name, devices } of placement) {
    const node = pool.nodes.get(name);
    const need = ask?.need ?? [];
    const hasRoom =
      node?.record.state === "ready" && need.every((n, i) => n <= Math.max(0, node.free[i] as number));
    assert(hasRoom, () => `${id} is granted node ${name}, which has no room for it`);
    const isFree = devices.every((device) => !node.devices.has(device));
    assert(
      isFree && devices.length === (gpu < 0 ? 0 : need[gpu]),
      () => `${id} is granted devices ${devices.join(", ")} of node ${name}, which are not its to have`,
    );
  }
}

/** Nobody is stopped who may not be (V2), nobody twice, and no victim could be left out (V4). */
export function assertDecision(
  state: EngineState,
  decision: Extract<Event, { kind: "preemptionDecided" }>,
): void {
  const victims = decision.victims.map(({ requestId }) => state.requests.get(requestId));
  for (const [index, victim] of victims.entries()) {
    const id = decision.victims[index]?.requestId;
    assert(victim?.progress.allocation?.stop === null, () => `${id} is chosen as a victim but does not run`);
    if (decision.waiter === null) continue;
    assert(
      victim.spec.preemptible && !victim.spec.sensitive,
      () => `${id} is chosen as a victim but is protected`,
    );
    const isNeeded = Object.entries(decision.shortage).some(([key, lacking]) => {
      const others = victims.reduce(
        (sum, other) => sum + (other === victim || other === undefined ? 0 : unitsOf(other, key)),
        0,
      );
      return others < lacking;
    });
    // On nodes a victim may be needed for its place, and where there are shares whole requests are held (9.7).
    const pool = state.pools.get(decision.pool);
    const isPlain = pool?.record.nodeBacked === false && !disciplineOf(pool).hasShares;
    assert(!isPlain || isNeeded, () => `${id} is chosen as a victim but could be left out`);
  }
}

function unitsOf({ spec }: Request, key: string): number {
  return amountOf(spec.resources, key) * (key === "step_run" ? 1 : spec.nodes);
}
