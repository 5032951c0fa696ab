// Vector fair share: which part of a pool everybody is entitled to (9.1, 9.2).
//
// From the leaves up, every element gets a curve: what it holds at each level of the water. From the root
// down, every group finds the level inside that its own share allows and hands it to its members. Break
// points are sorted, never searched by trial, so all of it is exact up to rounding.

import { beginTrace, type Curve, lineTo, placeAt, sumCurve } from "./curves.ts";
import { setGuarantees } from "./guarantees.ts";
import { SHARE_EPSILON } from "./satisfaction.ts";

/** Units per share key, in the order of `ShareInput.total`. */
export type Units = readonly number[];

interface ElementFields {
  /** For people. No rule looks at it. */
  readonly name: string;
  readonly weight?: number;
  /** Undefined for a key that is not given: the guarantee is inferred, the limit is the capacity. */
  readonly reserved?: readonly (number | undefined)[];
  readonly limit?: readonly (number | undefined)[];
}

/** A group, or a policy: both divide what they have among their members. */
export interface ShareGroup extends ElementFields {
  readonly kind: "group";
  readonly mode?: "fair_share" | "fifo";
  readonly members: readonly ShareElement[];
}

export interface ShareOperation extends ElementFields {
  readonly kind: "operation";
  readonly isGang: boolean;
  readonly demand: Units;
  readonly usage: Units;
  /** Its place among the operations of the pool by original submission. */
  readonly order: number;
}

export type ShareElement = ShareGroup | ShareOperation;

export interface ShareInput {
  readonly total: Units;
  /** The index of the key from which guarantees are inferred. */
  readonly mainKey: number;
  readonly root: ShareGroup;
}

/** Fractions of the pool, per share key. */
export interface ElementShare {
  readonly fairShare: readonly number[];
  readonly guarantee: readonly number[];
}

export interface FairShares {
  readonly shares: ReadonlyMap<ShareElement, ElementShare>;
  /** Groups whose members are promised more than there is, so that all were scaled down: an alert. */
  readonly overcommitted: readonly ShareGroup[];
}

export function computeFairShares({ total, mainKey, root }: ShareInput): FairShares {
  const tree = buildTree(root, total);
  setGuarantees(tree, mainKey);
  drawAll(tree);
  if (tree.hasGangs) settleGangs(tree);

  const shares = new Map<ShareElement, ElementShare>();
  assignShares(tree, 0, false, shares);
  const overcommitted: ShareGroup[] = [];
  collectOvercommitted(tree, overcommitted);
  return { shares, overcommitted };
}

interface Node {
  readonly element: ShareElement;
  /** The members among whom it divides its share by level and weight. */
  readonly claimants: readonly Node[];
  /** Instead, the operations that it serves one after another: those of a FIFO group, or itself alone. */
  line: readonly Leaf[] | undefined;
  readonly weight: number;
  readonly reserved: readonly (number | undefined)[] | undefined;
  readonly limit: readonly number[];
  readonly hasGangs: boolean;
  parent: Node | undefined;
  guarantee: number[];
  isOvercommitted: boolean;
  curve: Curve;
}

/**
 * An operation and its path. The first half is its usage, equally on every key and each up to its own; the
 * second half leads from there straight to the demand. Without usage all of it is one straight line.
 */
interface Leaf {
  readonly operation: ShareOperation;
  readonly demand: readonly number[];
  readonly usage: readonly number[];
  readonly usageMax: number;
  /** The part of the path that a limit of its own leaves; 1 without one. */
  readonly reach: number;
}

const NOT_DRAWN: Curve = { levels: [], positions: [], isBelow: [], values: [], isComplete: true };

function buildTree(element: ShareElement, total: Units): Node {
  const isLine = element.kind === "operation" || element.mode === "fifo";
  const claimants = isLine ? [] : element.members.map((member) => buildTree(member, total));
  const line = isLine ? lineOf(element, total) : undefined;
  const node: Node = {
    element,
    claimants,
    line,
    weight: element.weight ?? 1,
    reserved: element.reserved?.map((units, key) => fraction(units, total[key]!)),
    limit: total.map((units, key) => Math.min(1, fraction(element.limit?.[key], units) ?? 1)),
    hasGangs: line?.some(({ operation }) => operation.isGang) ?? claimants.some(({ hasGangs }) => hasGangs),
    parent: undefined,
    guarantee: total.map(() => 0),
    isOvercommitted: false,
    curve: NOT_DRAWN,
  };
  for (const claimant of claimants) claimant.parent = node;
  return node;
}

/** A pool without units of a key has no fractions of it, whatever is asked for. */
function fraction<T extends number | undefined>(units: T, total: number): T | number {
  if (units === undefined) return units;
  return total > 0 ? units / total : 0;
}

function lineOf(element: ShareElement, total: Units): Leaf[] {
  const operations: ShareOperation[] = [];
  collectOperations(element, operations);
  return operations
    .sort((a, b) => a.order - b.order)
    .map((operation) => leafOf(operation, total, element))
    .filter(({ operation, reach }) => !operation.isGang || reach === 1);
}

function collectOperations(element: ShareElement, operations: ShareOperation[]): void {
  if (element.kind === "operation") operations.push(element);
  else for (const member of element.members) collectOperations(member, operations);
}

function leafOf(operation: ShareOperation, total: Units, owner: ShareElement): Leaf {
  const demand = operation.demand.map((units, key) => fraction(units, total[key]!));
  const usage = operation.isGang
    ? demand.map(() => 0)
    : operation.usage.map((units, key) => Math.min(fraction(units, total[key]!), demand[key]!));
  const leaf = { operation, demand, usage, usageMax: Math.max(0, ...usage), reach: 1 };
  // Outside a FIFO group the curve of the operation itself ends at its limit.
  if (owner === operation || operation.limit === undefined) return leaf;
  return {
    ...leaf,
    reach: reachWithin(
      leaf,
      operation.limit.map((units, key) => fraction(units, total[key]!)),
    ),
  };
}

/** The value of a path between its beginning, 0, and its end, 1. */
function pathAt({ demand, usage, usageMax, reach }: Leaf, at: number): number[] {
  const place = at * reach;
  if (usageMax === 0) return demand.map((share) => share * place);
  if (place <= 0.5) return usage.map((share) => Math.min(share, 2 * place * usageMax));
  return usage.map((share, key) => share + (2 * place - 1) * (demand[key]! - share));
}

/** Where a path bends, and its end. */
function bendsOf({ usage, usageMax, reach }: Leaf): number[] {
  if (usageMax === 0) return [1];
  const bends = usage.map((share) => share / usageMax / 2 / reach).filter((at) => at > 0 && at < 1);
  return [...new Set(bends)].sort((a, b) => a - b).concat(1);
}

function reachWithin(leaf: Leaf, limit: readonly (number | undefined)[]): number {
  let reach = 1;
  for (const [key, bound] of limit.entries()) {
    const { demand, usage, usageMax } = leaf;
    if (bound === undefined || demand[key]! <= bound) continue;
    if (usageMax === 0) reach = Math.min(reach, bound / demand[key]!);
    else if (usage[key]! > bound) reach = Math.min(reach, bound / usageMax / 2);
    else reach = Math.min(reach, 0.5 + (bound - usage[key]!) / (demand[key]! - usage[key]!) / 2);
  }
  return reach;
}

function drawAll(node: Node): void {
  for (const claimant of node.claimants) drawAll(claimant);
  draw(node);
}

function draw(node: Node): void {
  const { claimants, line, guarantee, limit } = node;
  node.curve = line ? lineCurve(line, guarantee, limit) : sumCurve(claimants, guarantee, limit);
}

/** The paths of all operations in line, one behind the other; position i + p is place p of operation i. */
function lineCurve(line: readonly Leaf[], guarantee: readonly number[], limit: readonly number[]): Curve {
  let start = limit.map(() => 0);
  const trace = beginTrace(start, guarantee, limit);
  for (let index = 0; index < line.length && !trace.isStopped; index++) {
    const leaf = line[index]!;
    for (const bend of bendsOf(leaf)) {
      if (trace.isStopped) break;
      const value = pathAt(leaf, bend);
      for (let key = 0; key < value.length; key++) value[key]! += start[key]!;
      lineTo(trace, index + bend, value);
    }
    start = [...trace.value];
    if (leaf.reach < 1) trace.curve.isComplete = false;
  }
  if (trace.isStopped) trace.curve.isComplete = false;
  return trace.curve;
}

interface PartialGang {
  readonly leaf: Leaf;
  readonly node: Node;
  readonly part: number;
}

/** While a gang has a part of its demand, the one with the smallest gives up, and the water flows anew. */
function settleGangs(tree: Node): void {
  for (;;) {
    const partial = smallestPart(tree, 0, false, undefined);
    if (partial === undefined) return;
    partial.node.line = partial.node.line!.filter((leaf) => leaf !== partial.leaf);
    for (let node: Node | undefined = partial.node; node !== undefined; node = node.parent) draw(node);
  }
}

function smallestPart(
  node: Node,
  level: number,
  isBelow: boolean,
  found: PartialGang | undefined,
): PartialGang | undefined {
  const { curve, line } = node;
  if (!node.hasGangs || (curve.isComplete && level > curve.levels.at(-1)!)) return found;
  const place = placeAt(curve, level, isBelow);
  if (line !== undefined) {
    const index = Math.floor(place.position);
    const leaf = line[index];
    if (leaf === undefined || !leaf.operation.isGang) return found;
    const part = place.position - index;
    if (part <= SHARE_EPSILON || part >= 1 - SHARE_EPSILON) return found;
    return found === undefined || givesUpBefore(leaf, part, found) ? { leaf, node, part } : found;
  }
  let smallest = found;
  for (const claimant of node.claimants) {
    smallest = smallestPart(claimant, claimant.weight * place.position, place.isBelow, smallest);
  }
  return smallest;
}

/** The smaller part, or of equal ones the gang that was submitted later. */
function givesUpBefore(leaf: Leaf, part: number, other: PartialGang): boolean {
  if (Math.abs(part - other.part) > SHARE_EPSILON) return part < other.part;
  return leaf.operation.order > other.leaf.operation.order;
}

/** Hands the level down and sums the shares up. */
function assignShares(
  node: Node,
  level: number,
  isBelow: boolean,
  shares: Map<ShareElement, ElementShare>,
): void {
  const { element, claimants, line, guarantee } = node;
  const place = placeAt(node.curve, level, isBelow);
  if (line !== undefined) {
    for (const [index, leaf] of line.entries()) {
      const part = Math.max(0, Math.min(1, place.position - index));
      const fairShare = pathAt(leaf, leaf.operation.isGang ? Math.round(part) : part);
      shares.set(leaf.operation, { fairShare, guarantee: guarantee.map(() => 0) });
    }
  } else {
    for (const claimant of claimants) {
      assignShares(claimant, claimant.weight * place.position, place.isBelow, shares);
    }
  }
  const fairShare = sumOfShares(element, guarantee.length, shares);
  shares.set(element, { fairShare, guarantee });
}

function sumOfShares(
  element: ShareElement,
  keyCount: number,
  shares: Map<ShareElement, ElementShare>,
): readonly number[] {
  const known = shares.get(element);
  if (known !== undefined) return known.fairShare;
  const fairShare = new Array<number>(keyCount).fill(0);
  if (element.kind === "operation") return fairShare;
  for (const member of element.members) {
    const share = sumOfShares(member, keyCount, shares);
    for (let key = 0; key < keyCount; key++) fairShare[key]! += share[key]!;
  }
  shares.set(element, { fairShare, guarantee: fairShare.map(() => 0) });
  return fairShare;
}

function collectOvercommitted(node: Node, groups: ShareGroup[]): void {
  if (node.isOvercommitted && node.element.kind === "group") groups.push(node.element);
  for (const claimant of node.claimants) collectOvercommitted(claimant, groups);
}
