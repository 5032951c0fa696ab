// Victims on nodes (N2, 10.5): every node makes the choice of `choice.ts` for itself, and the nodes with the best
// choices are taken until the waiter can be placed.
//
// Candidates are walked in the order in which they would be taken, and each brings its nodes. A node that none of
// them is on has only later candidates, so the walk ends when enough nodes are known that no such node could precede.

import { covers } from "../../placement/node-list.ts";
import { type Ask, mayServe } from "../../placement/room.ts";
import { compareIds } from "../../resources.ts";
import { coverFor, type NodeCover, partOf, Sum } from "../../scheduling/cover.ts";
import { shortKeys } from "../../scheduling/victims.ts";
import type { Node, Pool, Run } from "../../state.ts";
import { type Candidate, candidateOf, permissionsBy } from "./candidates.ts";
import {
  type Field,
  inOrder,
  isWithinBounds,
  type Pass,
  passesOf,
  rankIn,
  type Source,
  sizeOf,
  take,
  totalMs,
} from "./choice.ts";

interface Chosen {
  readonly victims: readonly Candidate[];
  /** Where the waiter will go. */
  readonly nodes: readonly Node[];
}

export function chooseOnNodes(field: Field): Chosen | null {
  for (const pass of passesOf(field)) {
    const cover = coverFor(field.search) as NodeCover;
    const taken = new Map<Run, Candidate>();
    for (const { victims } of new NodeWalk(field, pass, cover).best()) {
      for (const victim of victims) if (!taken.has(victim.run)) taken.set(victim.run, victim);
    }
    const victims = take(taken.values(), cover);
    if (victims !== null && isWithinBounds(victims, pass)) return { victims, nodes: cover.places() };
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

class NodeWalk {
  readonly #field: Field;
  readonly #pass: Pass;
  readonly #cover: NodeCover;
  readonly #ask: Ask;

  constructor(field: Field, pass: Pass, cover: NodeCover) {
    this.#field = field;
    this.#pass = pass;
    this.#cover = cover;
    this.#ask = field.search.head.poolLine.ask as Ask;
  }

  /** The best choices, first to last, of as many nodes as must get room; fewer if there are not so many. */
  best(): NodeChoice[] {
    const best: NodeChoice[] = [];
    const countMin = this.#victimsPerNodeMin();
    if (countMin === null) return best;
    const { missing } = this.#cover;
    /** Those that were chosen for, and those that cannot serve. */
    const seen = new Set<Node>();
    const isNew = (node: Node) => {
      if (seen.has(node)) return false;
      if (mayServe(node, this.#ask)) return true;
      seen.add(node);
      return false;
    };
    const isUseful = ({ nodes }: Run) => nodes.some(isNew);
    const { search } = this.#field;
    for (const { run, costMs } of inOrder(search, this.#pass, sourcesOf(search.pool), isUseful)) {
      const least: Price = {
        highest: run.poolLine.preemptionClass,
        costMs: countMin * costMs,
        count: countMin,
        latest: run.token,
      };
      const last = best.length === missing ? best.at(-1) : undefined;
      if (last !== undefined && this.#compare(last, least) < 0) break;
      for (const node of run.nodes.filter(isNew)) {
        seen.add(node);
        const choice = this.#choiceOn(node);
        if (choice === null) continue;
        const place = best.findIndex((other) => this.#precedes(choice, other));
        best.splice(place < 0 ? best.length : place, 0, choice);
        if (best.length > missing) best.pop();
      }
    }
    return best;
  }

  /** How many must go at least for a node to get room, if each held the most that any holds; null: too many. */
  #victimsPerNodeMin(): number | null {
    const { need } = this.#ask;
    const most = need.map(() => 0);
    for (const { kind } of permissionsBy(this.#pass.judge, this.#field)) {
      partOf(kind.poolLine).forEach((amount, i) => {
        most[i] = Math.max(most[i] as number, amount);
      });
      if (covers(most, need)) break; // One may be enough, whatever the others hold.
    }
    const parts = need.map((amount, i) => (most[i] === 0 ? 0 : amount / (most[i] as number)));
    const countMax = Math.min(this.#pass.victimsMax, Math.ceil(Math.max(...parts)));
    for (let count = 1; count <= countMax; count++) {
      const rest = need.map((amount, i) => Math.max(0, amount - count * (most[i] as number)));
      if (this.#cover.couldServe(rest)) return count;
    }
    return null;
  }

  /** The node's own choice; null: there is none within the bounds, or it has room already. */
  #choiceOn(node: Node): NodeChoice | null {
    const left = this.#cover.leftOn(node);
    const lacking = this.#ask.need.map((amount, i) => (amount === 0 ? 0 : amount - (left[i] as number)));
    const short = shortKeys(lacking);
    if (short.length === 0) return null;
    const candidates: (Candidate & { readonly rank: number })[] = [];
    for (const run of node.runs) {
      const verdict = run.isStopping ? "V2" : this.#pass.judge(run.kind);
      const candidate = typeof verdict === "string" ? null : candidateOf(run, verdict, this.#field.search);
      if (candidate === null || candidate.costMs >= this.#pass.costMsMax) continue;
      const rank = rankIn(this.#pass, run.poolLine, sizeOf(partOf(run.poolLine), lacking, short));
      candidates.push({ ...candidate, rank });
    }
    candidates.sort((a, b) => a.rank - b.rank || a.costMs - b.costMs || b.run.token - a.run.token);
    const victims = take(candidates, new Sum(lacking, partOf));
    if (victims === null || !isWithinBounds(victims, this.#pass)) return null;
    return {
      node,
      victims,
      highest: Math.max(...victims.map(({ run }) => run.poolLine.preemptionClass)),
      costMs: totalMs(victims),
      count: victims.length,
      latest: Math.max(...victims.map(({ run }) => run.token)),
    };
  }

  #precedes(a: NodeChoice, b: NodeChoice): boolean {
    return (this.#compare(a, b) || compareIds(a.node.record.name, b.node.record.name)) < 0;
  }

  #compare(a: Price, b: Price): number {
    const byCount = a.count - b.count;
    const byPrice = a.highest - b.highest || a.costMs - b.costMs;
    return (this.#pass.isLargestFirst ? byCount || byPrice : byPrice || byCount) || b.latest - a.latest;
  }
}

/** By class: how much a run covers differs from node to node. */
function sourcesOf({ runsByPrice }: Pool): Source[] {
  return Array.from(runsByPrice.values(), (runs) => {
    return { rank: (runs.first() as Run).poolLine.preemptionClass, runs, from: 0 };
  });
}
