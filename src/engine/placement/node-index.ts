// The nodes of a pool, arranged for placement. What is in here can be rebuilt from the nodes at any time; it is
// kept up to date by taking a node out before it changes and putting it back afterwards.

import type { Labels, NodeRecord } from "../records.ts";
import { compareIds, type Resources } from "../resources.ts";
import type { Node, Policy, Pool } from "../state.ts";
import { NodeList } from "./node-list.ts";

/** Selections are made when a request asks for their labels; the oldest is given up for a new one. */
const SELECTIONS_MAX = 64;

/** Labels that nodes must have, with a text that is the same for the same labels. */
export interface Wanted {
  readonly labels: Labels;
  readonly key: string;
}

export const ANY_NODE: Wanted = { labels: {}, key: "" };

export function wantedOf(labels: Labels): Wanted {
  const entries = Object.entries(labels).sort(([a], [b]) => compareIds(a, b));
  return entries.length === 0 ? ANY_NODE : { labels, key: JSON.stringify(entries) };
}

/** Nodes of equal capacity. */
export interface Shape {
  readonly resources: Resources;
  readonly key: string;
  /** All that are registered, and those of them that take work. */
  count: number;
  readyCount: number;
}

/** The nodes that have certain labels. */
export interface Selection {
  readonly wanted: Wanted;
  /** Ready ones by topology group. */
  readonly groups: Map<string, NodeList>;
  /** All that are registered, by shape. */
  readonly counts: Map<Shape, number>;
}

export class NodeIndex {
  readonly shapes = new Map<string, Shape>();
  /** Nodes on which more is promised to holds than is free or coming free, so that some hold may be lost (V5). */
  strained = new Set<Node>();
  /** Nodes on which enough is free for a part of some hold. */
  servable = new Set<Node>();
  /** Nodes on which something is stopping. */
  withStopping = new Set<Node>();
  /** Nodes on which something has started, ended, begun to stop or been set aside; cleared by the code that has looked. */
  readonly changed = new Set<Node>();
  /** Policies that have a home (N3). */
  homes: readonly Policy[] = [];
  readonly #selections = new Map<string, Selection>();
  #order: readonly number[] | null = null;

  /** The places of the keys in best fit, the main one first. */
  order(pool: Pool): readonly number[] {
    this.#order ??= keyOrder(pool);
    return this.#order;
  }

  select(pool: Pool, wanted: Wanted): Selection {
    const known = this.#selections.get(wanted.key);
    if (known !== undefined) return known;
    const [oldest] = this.#selections.keys();
    if (oldest !== undefined && this.#selections.size >= SELECTIONS_MAX) this.#selections.delete(oldest);
    const selection: Selection = { wanted, groups: new Map(), counts: new Map() };
    this.#selections.set(wanted.key, selection);
    const selected = [...pool.nodes.values()].filter(({ record }) => hasLabels(record, wanted.labels));
    for (const node of selected) count(selection, this.#shapeOf(node), 1);
    const ready = selected.filter(isReady);
    for (const topology of new Set(ready.map(({ record }) => record.topology))) {
      const nodes = ready.filter(({ record }) => record.topology === topology);
      selection.groups.set(topology, new NodeList(this.order(pool), nodes));
    }
    return selection;
  }

  /** The most that one of the ready nodes with these labels has left, per key. */
  mostLeft(pool: Pool, wanted: Wanted): number[] {
    const most = new Array<number>(pool.keys.length).fill(0);
    for (const list of this.select(pool, wanted).groups.values()) list.raiseToMost(most);
    return most;
  }

  /** A node was added. */
  enter(node: Node): void {
    touch(node);
    node.pool.order?.suspectHolds();
    const shape = this.#shapeOf(node);
    shape.count++;
    if (isReady(node)) shape.readyCount++;
    for (const selection of this.#selectionsWith(node)) {
      count(selection, shape, 1);
      if (isReady(node)) list(selection, node);
    }
  }

  /** A node goes, or is about to change. */
  leave(node: Node): void {
    touch(node);
    node.pool.order?.suspectHolds();
    const shape = this.#shapeOf(node);
    for (const selection of this.#selectionsWith(node)) {
      count(selection, shape, -1);
      if (isReady(node)) unlist(selection, node);
    }
    shape.count--;
    if (isReady(node)) shape.readyCount--;
    if (shape.count === 0) this.shapes.delete(shape.key);
  }

  /** What is left on a node changes, and nothing else about it. */
  shift(node: Node, change: () => void): void {
    touch(node);
    if (!isReady(node)) return change();
    const selections = this.#selectionsWith(node);
    for (const selection of selections) unlist(selection, node);
    change();
    for (const selection of selections) list(selection, node);
  }

  /** Keys, or the order of best fit, may have changed: lists are made anew when they are next used. */
  forgetSelections(): void {
    this.#selections.clear();
    this.#order = null;
  }

  #selectionsWith({ record }: Node): Selection[] {
    const found: Selection[] = [];
    for (const selection of this.#selections.values()) {
      if (hasLabels(record, selection.wanted.labels)) found.push(selection);
    }
    return found;
  }

  #shapeOf({ record }: Node): Shape {
    const key = shapeKey(record.capacity);
    let shape = this.shapes.get(key);
    if (shape === undefined) {
      shape = { resources: record.capacity, key, count: 0, readyCount: 0 };
      this.shapes.set(key, shape);
    }
    return shape;
  }
}

/** Who remembers something about nodes learns that one changes, or that a change is taken back. */
export function touch(node: Node): void {
  node.pool.places.changed.add(node);
  node.pool.order?.hopeless.noteChange(node);
}

function list({ groups }: Selection, node: Node): void {
  const { topology } = node.record;
  let list = groups.get(topology);
  if (list === undefined) {
    list = new NodeList(node.pool.places.order(node.pool));
    groups.set(topology, list);
  }
  list.insert(node);
}

function unlist({ groups }: Selection, node: Node): void {
  const { topology } = node.record;
  const list = groups.get(topology) as NodeList;
  list.remove(node);
  if (list.size === 0) groups.delete(topology);
}

function count({ counts }: Selection, shape: Shape, more: 1 | -1): void {
  const now = (counts.get(shape) ?? 0) + more;
  if (now === 0) counts.delete(shape);
  else counts.set(shape, now);
}

export function isReady({ record }: Node): boolean {
  return record.state === "ready";
}

export function hasLabels({ labels }: NodeRecord, wanted: Labels): boolean {
  for (const label of Object.keys(wanted)) {
    if (!Object.hasOwn(labels, label) || labels[label] !== wanted[label]) return false;
  }
  return true;
}

function shapeKey(capacity: Resources): string {
  let key = "";
  for (const name of Object.keys(capacity).sort(compareIds)) key += `${name}=${capacity[name]},`;
  return key;
}

/** The place of the key that matters most: `main_key`, else gpu, else mcpu, else the first by name (10.6). */
export function mainKeyIndex({ record, keys }: Pool): number {
  const { mainKey } = record.settings;
  if (mainKey !== null) return keys.indexOf(mainKey);
  for (const key of ["gpu", "mcpu"]) if (keys.includes(key)) return keys.indexOf(key);
  return keys.length === 0 ? -1 : 0;
}

function keyOrder(pool: Pool): number[] {
  const main = mainKeyIndex(pool);
  const others = pool.keys.map((_, i) => i).filter((i) => i !== main);
  return main < 0 ? others : [main, ...others];
}
