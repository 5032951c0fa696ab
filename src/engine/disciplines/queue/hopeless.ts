// What is remembered of a head on nodes for which nobody can be stopped (V3), so that the next look asks only about the
// nodes on which something changed.
//
// A head is hopeless while no node would have room for a part of it, even with all gone there that its rights could
// ever permit it to stop: shields, run times, costs and bounds are left out of account, so time cannot give it hope. What
// can is a change on a node, or in what a component borrows; both are named by whoever makes them, and again when they
// are taken back. A head with other rights, or behind other holders, is another head.

import { covers } from "../../placement/node-list.ts";
import { type Ask, mayServe } from "../../placement/room.ts";
import type { Node, Policy, PoolLine, Request } from "../../state.ts";
import type { QueueRules, VictimSearch } from "./queue-discipline.ts";

interface Remembered {
  readonly poolLine: PoolLine;
  readonly rights: string;
  readonly passed: readonly Request[];
  readonly owner: Request | undefined;
  /** `seen`: nobody could be stopped when it was last looked at; nodes were not asked yet one by one. */
  state: "seen" | "hopeless" | "hopeful";
}

export class HopelessHead {
  readonly changedNodes = new Set<Node>();
  readonly changedPolicies = new Set<Policy>();
  readonly #rules: QueueRules;
  #remembered: Remembered | null = null;

  constructor(rules: QueueRules) {
    this.#rules = rules;
  }

  /** Whether it is certain that nobody can be stopped for the head. */
  isHopeless(search: VictimSearch): boolean {
    const remembered = this.#remembered;
    if (remembered === null || !this.#isSame(remembered, search)) return false;
    if (remembered.state === "hopeful") return false;
    const nodes = remembered.state === "seen" ? search.pool.nodes.values() : this.#changed();
    const hasHope = someNode(nodes, this.#clearable(search));
    this.#forgetChanges();
    remembered.state = hasHope ? "hopeful" : "hopeless";
    return !hasHope;
  }

  /** Nobody could be stopped. */
  note(search: VictimSearch, state: "seen" | "hopeless"): void {
    if (search.head.poolLine.ask === null) return;
    if (state === "hopeless") this.#forgetChanges();
    else if (this.#remembered !== null && this.#isSame(this.#remembered, search)) return;
    const { walk, head } = search;
    this.#remembered = {
      poolLine: head.poolLine,
      rights: this.#rules.rightsOf(search),
      passed: [...walk.passed],
      owner: walk.ownerBehind(head.request),
      state,
    };
  }

  #isSame({ poolLine, rights, passed, owner }: Remembered, search: VictimSearch): boolean {
    const { walk, head } = search;
    if (head.poolLine !== poolLine || walk.ownerBehind(head.request) !== owner) return false;
    if (walk.passed.size !== passed.length || !passed.every((holder) => walk.passed.has(holder)))
      return false;
    return this.#rules.rightsOf(search) === rights;
  }

  /** Nodes on which something changed, and those of components whose borrowing may have changed. */
  *#changed(): Generator<Node> {
    yield* this.changedNodes;
    for (const { runs } of this.changedPolicies) for (const run of runs) yield* run.nodes;
  }

  #forgetChanges(): void {
    this.changedNodes.clear();
    this.changedPolicies.clear();
  }

  /** Whether a node would have room for a part of the head with all gone that its rights could permit it to stop. */
  #clearable(search: VictimSearch): (node: Node) => boolean {
    const { poolLine, request } = search.head;
    const ask = poolLine.ask as Ask;
    const room = search.walk.roomSoon(request);
    const mayStop = this.#rules.mayEverStop(search);
    return (node) => mayServe(node, ask) && covers(room.leftWithout(node, mayStop), ask.need);
  }
}

function someNode(nodes: Iterable<Node>, test: (node: Node) => boolean): boolean {
  for (const node of nodes) if (test(node)) return true;
  return false;
}
