// What is promised to waiting requests in a fair-share pool, in the order of the decisions (9.7): kept with the tree,
// and made anew when an operation that is promised something changes.

import { isReady } from "../../placement/node-index.ts";
import { Promises } from "../../scheduling/quotas.ts";
import { freeOf, type Node, type Pool, type PoolLine, type Request } from "../../state.ts";

export interface Held {
  readonly request: Request;
  readonly poolLine: PoolLine;
  readonly nodes: readonly Node[];
  /** What earlier ones are promised in the same places: on each of the nodes, or in the pool as a whole. */
  readonly before: readonly (readonly number[])[];
}

export interface Holds {
  readonly list: readonly Held[];
  /** For limits each counts against all that have no hold. */
  readonly promises: Promises;
  /** What is promised on nodes. */
  readonly onNodes: ReadonlyMap<Node, readonly number[]>;
}

export function holdsOf(pool: Pool): Holds {
  const promises = new Promises(pool.keys.length);
  const onNodes = new Map<Node, number[]>();
  const list = [...pool.promised].sort(byDecision).map((request): Held => {
    const poolLine = lineIn(pool, request);
    const placement = pool.record.nodeBacked ? (request.progress.hold?.placement ?? []) : [];
    const nodes = placement.map(({ node }) => pool.nodes.get(node) as Node);
    const before = pool.record.nodeBacked
      ? nodes.map((node) => claim(onNodes, node, poolLine.ask?.need ?? []))
      : [[...promises.claimed]];
    promises.add(poolLine);
    return { request, poolLine, nodes, before };
  });
  return { list, promises, onNodes };
}

export function lineIn(pool: Pool, request: Request): PoolLine {
  return request.line.pools.get(pool.record.name) as PoolLine;
}

function byDecision(a: Request, b: Request): number {
  return (a.progress.hold?.seq ?? 0) - (b.progress.hold?.seq ?? 0);
}

/** Answers what was promised there before. */
function claim(onNodes: Map<Node, number[]>, node: Node, need: readonly number[]): number[] {
  const claimed = onNodes.get(node) ?? need.map(() => 0);
  onNodes.set(
    node,
    claimed.map((amount, i) => amount + need[i]!),
  );
  return claimed;
}

/** Whether all units of a hold are free: those that are go to the holds in the order of the decisions. */
export function isServed(pool: Pool, { poolLine, nodes, before }: Held): boolean {
  const { need, ask } = poolLine;
  if (!pool.record.nodeBacked) {
    return need.every((amount, i) => amount === 0 || amount + before[0]![i]! <= freeOf(pool, i));
  }
  return nodes.every((node, place) => isReady(node) && hasFree(node, ask?.need ?? [], before[place]!));
}

function hasFree({ free }: Node, need: readonly number[], before: readonly number[]): boolean {
  for (let i = 0; i < need.length; i++) if (need[i]! > 0 && need[i]! + before[i]! > free[i]!) return false;
  return true;
}
