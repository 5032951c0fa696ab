// Victims on nodes (N2, 10.5): every node makes the choice of `choice.ts` for itself, and the nodes with the best
// choices are taken until the waiter can be placed.
//
// Candidates are walked in the order in which they would be taken, and each brings its nodes. A node that none of
// them is on has only later candidates, so the walk ends when enough nodes are known that no such node could precede.

import { compareIds } from "../../resources.ts";
import { coverFor, type NodeCover, partOf, Sum } from "../../scheduling/cover.ts";
import { shortKeys } from "../../scheduling/victims.ts";
import type { Node, Pool, Run } from "../../state.ts";
import { type Candidate, candidateOf, type Field, inOrder, type Source, take } from "../queue/victims.ts";
import { chooseBySum, isWithinBounds, type Pass, passesOf, rankIn, sizeOf, totalMs } from "./choice.ts";

interface Chosen {
  readonly victims: readonly Candidate[];
  /** Where the waiter will go. */
  readonly nodes: readonly Node[];
}

/** Who has to stop (10.5). */
export function choose(field: Field): Chosen | null {
  if (field.search.head.poolLine.ask !== null) return chooseOnNodes(field);
  const victims = chooseBySum(field);
  return victims && { victims, nodes: [] };
}

function chooseOnNodes(field: Field): Chosen | null {
  for (const pass of passesOf(field)) {
    const cover = coverFor(field.search) as NodeCover;
    const taken = new Map<Run, Candidate>();
    for (const { victims } of bestChoices(pass, cover)) {
      for (const victim of victims) if (!taken.has(victim.run)) taken.set(victim.run, victim);
    }
    const victims = take(taken.values(), cover);
    if (victims !== null && isWithinBounds(victims, pass.field.bounds))
      return { victims, nodes: cover.places() };
  }
  return null;
}

/** What the order of nodes rests on. */
interface Price {
  /** The highest class among the victims. */
  readonly highest: number;
  readonly costMs: number;
  readonly count: number;
  /** The latest grant among them. */
  readonly latest: number;
}

/** The victims that would give one node room. */
interface NodeChoice extends Price {
  readonly node: Node;
  readonly victims: readonly Candidate[];
}

/** The best choices, first to last, of as many nodes as must get room; fewer if there are not so many. */
function bestChoices(pass: Pass, cover: NodeCover): NodeChoice[] {
  const best: NodeChoice[] = [];
  const { missing } = cover;
  /** Those that were chosen for. */
  const seen = new Set<Node>();
  const isNew = (node: Node) => !seen.has(node) && cover.mayServe(node);
  const isUseful = ({ nodes }: Run) => nodes.some(isNew);
  const { field } = pass;
  for (const { run, costMs } of inOrder(field, sourcesOf(field.search.pool), isUseful)) {
    const least: Price = { highest: run.poolLine.preemptionClass, costMs, count: 1, latest: run.token };
    const last = best.length === missing ? best.at(-1) : undefined;
    if (last !== undefined && comparePrices(pass, last, least) < 0) break;
    for (const node of run.nodes.filter(isNew)) {
      seen.add(node);
      const choice = choiceOn(node, pass, cover);
      if (choice === null) continue;
      const place = best.findIndex((other) => precedes(pass, choice, other));
      best.splice(place < 0 ? best.length : place, 0, choice);
      if (best.length > missing) best.pop();
    }
  }
  return best;
}

/** The node's own choice; null: there is none within the bounds, or it has room already. */
function choiceOn(node: Node, pass: Pass, cover: NodeCover): NodeChoice | null {
  const { field } = pass;
  const lacking = cover.lackingOn(node);
  const short = shortKeys(lacking);
  if (short.length === 0) return null;
  const candidates: (Candidate & { readonly rank: number })[] = [];
  for (const run of node.runs) {
    const candidate = run.isStopping ? null : candidateOf(field, run, field.judge(run.kind));
    if (candidate === null || candidate.costMs >= field.bounds.costMsMax) continue;
    const rank = rankIn(pass, run.poolLine, sizeOf(partOf(run.poolLine), lacking, short));
    candidates.push({ ...candidate, rank });
  }
  candidates.sort((a, b) => a.rank - b.rank || a.costMs - b.costMs || b.run.token - a.run.token);
  const victims = take(candidates, new Sum(lacking, partOf));
  if (victims === null || !isWithinBounds(victims, field.bounds)) return null;
  return {
    node,
    victims,
    highest: Math.max(...victims.map(({ run }) => run.poolLine.preemptionClass)),
    costMs: totalMs(victims),
    count: victims.length,
    latest: Math.max(...victims.map(({ run }) => run.token)),
  };
}

function precedes(pass: Pass, a: NodeChoice, b: NodeChoice): boolean {
  return (comparePrices(pass, a, b) || compareIds(a.node.record.name, b.node.record.name)) < 0;
}

function comparePrices({ isLargestFirst }: Pass, a: Price, b: Price): number {
  const byCount = a.count - b.count;
  const byPrice = a.highest - b.highest || a.costMs - b.costMs;
  return (isLargestFirst ? byCount || byPrice : byPrice || byCount) || b.latest - a.latest;
}

/** By class: how much a run covers differs from node to node. */
function sourcesOf({ runsByPrice }: Pool): Source[] {
  return Array.from(runsByPrice.values(), (runs) => {
    return { rank: (runs.first() as Run).poolLine.preemptionClass, runs, from: 0 };
  });
}
