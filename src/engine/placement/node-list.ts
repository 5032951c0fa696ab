// Nodes in the order of best fit (9.11): the least of the main key left first, then of the other keys by name,
// then by name. Sorted chunks, each with the most that one of its nodes has left of every key, so that a search
// passes over whole chunks in which nothing fits.

import { compareIds, type Vector } from "../resources.ts";
import type { Node } from "../state.ts";

const CHUNK_LENGTH_MAX = 64;

interface Chunk {
  readonly nodes: Node[];
  /** Per key, the most that one of the nodes has left; null: to be computed when asked for. */
  most: number[] | null;
}

/** Whether what is left covers what is asked for; keys that are not asked for do not count. */
export function covers(left: Vector, need: Vector): boolean {
  for (let i = 0; i < need.length; i++) {
    const amount = need[i] as number;
    if (amount > 0 && amount > (left[i] as number)) return false;
  }
  return true;
}

/** Best fit first; `order` are the places of the keys, the main one first. */
export function compareFit(a: Node, aLeft: Vector, b: Node, bLeft: Vector, order: readonly number[]): number {
  for (const i of order) {
    const difference = (aLeft[i] as number) - (bLeft[i] as number);
    // What is not metered on either of two nodes is infinite, and then there is no difference to speak of.
    if (difference !== 0 && !Number.isNaN(difference)) return difference;
  }
  return compareIds(a.record.name, b.record.name);
}

/** A node must leave the list before what is left on it changes. */
export class NodeList {
  size = 0;
  readonly #chunks: Chunk[] = [];
  readonly #order: readonly number[];

  constructor(order: readonly number[], nodes: readonly Node[] = []) {
    this.#order = order;
    this.size = nodes.length;
    const sorted = nodes.toSorted((a, b) => this.#compare(a, b));
    for (let at = 0; at < sorted.length; at += CHUNK_LENGTH_MAX / 2) {
      this.#chunks.push({ nodes: sorted.slice(at, at + CHUNK_LENGTH_MAX / 2), most: null });
    }
  }

  insert(node: Node): void {
    this.size++;
    const at = this.#chunkFor(node);
    const chunk = this.#chunks[at];
    if (chunk === undefined) {
      this.#chunks.push({ nodes: [node], most: null });
      return;
    }
    chunk.nodes.splice(this.#positionIn(chunk, node), 0, node);
    if (chunk.most !== null) {
      for (let i = 0; i < chunk.most.length; i++) {
        chunk.most[i] = Math.max(chunk.most[i] as number, node.left[i] as number);
      }
    }
    if (chunk.nodes.length <= CHUNK_LENGTH_MAX) return;
    const upper = chunk.nodes.splice(CHUNK_LENGTH_MAX / 2);
    chunk.most = null;
    this.#chunks.splice(at + 1, 0, { nodes: upper, most: null });
  }

  remove(node: Node): void {
    const at = this.#chunkFor(node);
    const chunk = this.#chunks[at];
    const position = chunk === undefined ? -1 : this.#positionIn(chunk, node);
    if (chunk === undefined || chunk.nodes[position] !== node)
      throw new Error(`node ${node.record.name} is not where it should be`);
    this.size--;
    chunk.nodes.splice(position, 1);
    if (chunk.nodes.length === 0) this.#chunks.splice(at, 1);
    else if (node.left.some((amount, i) => amount === chunk.most?.[i])) chunk.most = null;
  }

  /** Up to `countMax` nodes on which the need fits, best fit first, without those to be passed over. */
  fitting(need: Vector, countMax: number, isPassedOver?: (node: Node) => boolean): Node[] {
    const found: Node[] = [];
    for (let at = this.#firstWithEnough(need); at < this.#chunks.length; at++) {
      const chunk = this.#chunks[at] as Chunk;
      chunk.most ??= this.#mostOf(chunk.nodes);
      if (!covers(chunk.most, need)) continue;
      for (const node of chunk.nodes) {
        if (!covers(node.left, need) || isPassedOver?.(node)) continue;
        found.push(node);
        if (found.length === countMax) return found;
      }
    }
    return found;
  }

  /** On how many nodes the need fits. */
  countFitting(need: Vector, isPassedOver?: (node: Node) => boolean): number {
    let count = 0;
    for (let at = this.#firstWithEnough(need); at < this.#chunks.length; at++) {
      const chunk = this.#chunks[at] as Chunk;
      chunk.most ??= this.#mostOf(chunk.nodes);
      if (!covers(chunk.most, need)) continue;
      for (const node of chunk.nodes) if (covers(node.left, need) && !isPassedOver?.(node)) count++;
    }
    return count;
  }

  /** Raises each key to the most that one of the nodes has left of it. */
  raiseToMost(most: number[]): void {
    for (const chunk of this.#chunks) {
      chunk.most ??= this.#mostOf(chunk.nodes);
      for (let i = 0; i < most.length; i++) most[i] = Math.max(most[i] as number, chunk.most[i] as number);
    }
  }

  *[Symbol.iterator](): Generator<Node> {
    for (const { nodes } of this.#chunks) for (const node of nodes) yield node;
  }

  /** The first chunk in which a node has enough left of the main key, by which they are sorted. */
  #firstWithEnough(need: Vector): number {
    const main = this.#order[0];
    if (main === undefined || need[main] === 0) return 0;
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const last = (this.#chunks[middle] as Chunk).nodes.at(-1) as Node;
      if ((last.left[main] as number) < (need[main] as number)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The chunk in which the node is, or belongs: the first whose last node does not precede it. */
  #chunkFor(node: Node): number {
    let low = 0;
    let high = this.#chunks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare((this.#chunks[middle] as Chunk).nodes.at(-1) as Node, node) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #positionIn({ nodes }: Chunk, node: Node): number {
    let low = 0;
    let high = nodes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(nodes[middle] as Node, node) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #compare(a: Node, b: Node): number {
    return compareFit(a, a.left, b, b.left, this.#order);
  }

  #mostOf(nodes: readonly Node[]): number[] {
    const most = [...(nodes[0] as Node).left];
    for (const { left } of nodes) {
      for (let i = 0; i < most.length; i++) most[i] = Math.max(most[i] as number, left[i] as number);
    }
    return most;
  }
}
