// What is promised to waiting requests in a fair-share pool: units that are free go to them in the order of the
// decisions (9.7).

import { isReady } from "../../placement/node-index.ts";
import { covers } from "../../placement/node-list.ts";
import { placesOf } from "../../placement/occupancy.ts";
import { Promises, quotaBlockOf } from "../../scheduling/quotas.ts";
import { freeOf, type Node, type Pool, type PoolLine, type Request } from "../../state.ts";

export interface Held {
  readonly request: Request;
  readonly poolLine: PoolLine;
  readonly nodes: readonly Node[];
}

/** All that is promised in a pool, but to one. */
export function promisesOf(pool: Pool, but?: Request): Promises {
  const promises = new Promises(pool.keys.length);
  for (const holder of pool.promised) if (holder !== but) promises.add(lineIn(pool, holder));
  return promises;
}

export function lineIn(pool: Pool, request: Request): PoolLine {
  return request.line.pools.get(pool.record.name) as PoolLine;
}

/** The first whose units are all free and whom no quota blocks. `all` is everything that is promised in the pool. */
export function firstServed(pool: Pool, all: Promises): Held | undefined {
  if (pool.promised.size === 0) return undefined;
  for (const request of [...mayStart(pool)].sort(byDecision)) {
    const poolLine = lineIn(pool, request);
    const nodes = placesOf(pool, request.progress.hold);
    if (!isServed(request, poolLine, nodes)) continue;
    // Whom no quota blocks with all promises counted, it blocks even less with the earlier ones alone.
    const isBlocked =
      quotaBlockOf(poolLine, all, isOnNodes) !== null &&
      quotaBlockOf(poolLine, promisedBefore(pool, request), isOnNodes) !== null;
    if (!isBlocked) return { request, poolLine, nodes };
  }
  return undefined;
}

/** Those who have enough where they are promised units, or would if they came first: that others have not is certain. */
function mayStart(pool: Pool): Iterable<Request> {
  if (!pool.record.nodeBacked)
    return [...pool.promised].filter((request) => isCovered(pool, lineIn(pool, request)));
  const found = new Set<Request>();
  for (const { holders } of pool.places.servable) for (const holder of holders) found.add(holder);
  return found;
}

function isCovered(pool: Pool, { need }: PoolLine, before?: Promises): boolean {
  return need.every((amount, i) => amount === 0 || amount + (before?.claimed[i] ?? 0) <= freeOf(pool, i));
}

/** Whether all units of a hold are free, less what is promised before it in the same places. */
function isServed(request: Request, poolLine: PoolLine, nodes: readonly Node[]): boolean {
  const { pool, ask } = poolLine;
  if (!pool.record.nodeBacked) return isCovered(pool, poolLine, promisedBefore(pool, request));
  const need = ask?.need ?? [];
  return nodes.every((node) => isReady(node) && covers(freeBeside(node, request), need));
}

/** What is free on a node, less what earlier ones are promised there. */
function freeBeside(node: Node, request: Request): readonly number[] {
  let { free } = node;
  for (const other of node.holders) {
    if (byDecision(other, request) >= 0) continue;
    const need = lineIn(node.pool, other).ask?.need ?? [];
    free = free.map((amount, i) => amount - need[i]!);
  }
  return free;
}

function promisedBefore(pool: Pool, request: Request): Promises {
  const promises = new Promises(pool.keys.length);
  for (const other of pool.promised) if (byDecision(other, request) < 0) promises.add(lineIn(pool, other));
  return promises;
}

function byDecision(a: Request, b: Request): number {
  return (a.progress.hold?.seq ?? 0) - (b.progress.hold?.seq ?? 0);
}

export function isOnNodes({ ask }: PoolLine): boolean {
  return ask !== null;
}

const NOBODY: ReadonlySet<Request> = new Set();

/**
 * What could lose a promise here, another node or another verdict on a line, brings a new tree; and one that had ended
 * may be back.
 */
export function suspectHolders({ shareTree, takenBackRequests, promised }: Pool): ReadonlySet<Request> {
  return shareTree?.areHoldsChecked === true && takenBackRequests.size === 0 ? NOBODY : promised;
}
