// Vector fair share: which part of a pool everybody is entitled to (9.1, 9.2).
//
// From the leaves up, every element gets a curve: what it holds at each level of the water. From the root
// down, every group finds the level inside that its own share allows and hands it to its members. Break
// points are sorted, never searched by trial, so all of it is exact up to rounding.

import {
  BLANK,
  type Curve,
  endOf,
  highestPlace,
  isSamePlace,
  isSatisfiedAt,
  newPaper,
  type Paper,
  type Place,
  placeAt,
  sumCurve,
} from "./curves.ts";
import { setGuarantees } from "./guarantees.ts";
import { lineCurve, type Path, pathAt, pathOf } from "./lines.ts";
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
  /** Those that are not as they were the last time. */
  readonly changed: readonly ShareElement[];
  /** Groups whose members are promised more than there is, so that all were scaled down: an alert. */
  readonly overcommitted: readonly ShareGroup[];
}

/**
 * What was drawn for the last tree of a pool. The next one takes over every element that is the same object
 * as before, so a caller that replaces only what has changed, and the groups above it, pays for little more.
 * It never changes the outcome.
 */
export interface ShareCache {
  pool: Pool | undefined;
  nodes: Map<ShareElement, Node>;
  shares: Map<ShareElement, ElementShare>;
  /** What was drawn without a gang that had to give up. */
  lacking: Node[];
  /** How much had been drawn when everything was new. */
  usedAtFirst: number;
}

export function newShareCache(): ShareCache {
  return { pool: undefined, nodes: new Map(), shares: new Map(), lacking: [], usedAtFirst: 0 };
}

/** An object may stand in a tree only once. */
export function computeFairShares({ total, mainKey, root }: ShareInput, cache?: ShareCache): FairShares {
  const pool = cache === undefined ? newPool(total) : prepareCache(cache, total);
  const tree = buildTree(root, pool, cache);
  setGuarantees(tree, mainKey);
  for (const claimant of tree.claimants) drawStale(claimant, pool);
  if (tree.hasGangs) settleGangs(tree, pool, cache);

  const shares = cache?.shares ?? new Map<ShareElement, ElementShare>();
  const changed: ShareElement[] = [];
  const update = ++pool.updates;
  assignShares(tree, placeOfRoot(tree, pool), { nothing: pool.nothing, update, shares, changed });
  if (cache?.usedAtFirst === 0) cache.usedAtFirst = pool.paper.used;
  const overcommitted: ShareGroup[] = [];
  collectOvercommitted(tree, overcommitted);
  return { shares, changed, overcommitted };
}

/** What all elements of a pool have in common. */
interface Pool {
  readonly total: Units;
  readonly nothing: readonly number[];
  readonly everything: readonly number[];
  readonly paper: Paper;
  /** How many curves have been drawn so far, and how often shares were computed. */
  drawings: number;
  updates: number;
  /** Where the root stood the last time. */
  rootPlace: Place | undefined;
}

function newPool(total: Units): Pool {
  const nothing = total.map(() => 0);
  const everything = total.map(() => 1);
  const paper = newPaper(total.length);
  return { total: [...total], nothing, everything, paper, drawings: 0, updates: 0, rootPlace: undefined };
}

/** Every gang that gave up may try again; all is forgotten if the pool has changed, or most of it is waste. */
function prepareCache(cache: ShareCache, total: Units): Pool {
  const { pool, lacking, usedAtFirst } = cache;
  cache.lacking = [];
  if (pool !== undefined && isSameVector(pool.total, total) && pool.paper.used <= 4 * usedAtFirst) {
    for (const node of lacking) restoreGangs(node, pool);
    return pool;
  }
  cache.pool = newPool(total);
  cache.nodes.clear();
  cache.shares.clear();
  cache.usedAtFirst = 0;
  return cache.pool;
}

function restoreGangs(node: Node, pool: Pool): void {
  node.line = node.fullLine;
  node.isStale = true;
  if (!mayClaim(node)) draw(node, pool);
}

function isSameVector(a: readonly number[], b: readonly number[]): boolean {
  return a === b || (a.length === b.length && a.every((value, index) => value === b[index]));
}

interface Node {
  readonly element: ShareElement;
  /** Those among whom it divides its share by level and weight. */
  readonly members: readonly Node[];
  /** Those members that may have a guarantee: all but operations that reserve nothing. */
  readonly claimants: readonly Node[];
  /** Instead of members, the operations that it serves one after another: of a FIFO group, or itself alone. */
  readonly fullLine: readonly Leaf[] | undefined;
  /** The same without gangs that gave up. */
  line: readonly Leaf[] | undefined;
  readonly weight: number;
  readonly reserved: readonly (number | undefined)[] | undefined;
  readonly limit: readonly number[];
  /** Whether there are gangs in its line or below it, and below whom. */
  readonly hasGangs: boolean;
  readonly membersWithGangs: readonly Node[];
  guarantee: readonly number[];
  isOvercommitted: boolean;
  curve: Curve;
  /** Whether the curve has to be drawn; else which drawing it is, and with which guarantee. */
  isStale: boolean;
  drawing: number;
  drawnGuarantee: readonly number[];
  /** Where it stood when shares were last handed down to it, on which drawing, and in which update. */
  assigned: { readonly place: Place; readonly drawing: number; readonly update: number } | undefined;
}

interface Leaf {
  readonly operation: ShareOperation;
  readonly path: Path;
}

const NO_MEMBERS: readonly Node[] = [];

function buildTree(element: ShareElement, pool: Pool, cache: ShareCache | undefined): Node {
  const known = cache?.nodes.get(element);
  if (known !== undefined) return known;

  const isLine = element.kind === "operation" || element.mode === "fifo";
  const members = isLine ? NO_MEMBERS : element.members.map((member) => buildTree(member, pool, cache));
  const membersWithGangs = isLine ? NO_MEMBERS : members.filter(({ hasGangs }) => hasGangs);
  const line = isLine ? lineOf(element, pool) : undefined;
  const node: Node = {
    element,
    members,
    claimants: isLine ? NO_MEMBERS : members.filter(mayClaim),
    fullLine: line,
    line,
    weight: element.weight ?? 1,
    reserved: reservedOf(element)?.map((units, key) => fraction(units, pool.total[key]!)),
    limit: limitOf(element, pool),
    hasGangs: line?.some(({ operation }) => operation.isGang) ?? membersWithGangs.length > 0,
    membersWithGangs,
    guarantee: pool.nothing,
    isOvercommitted: false,
    curve: BLANK,
    isStale: true,
    drawing: 0,
    drawnGuarantee: pool.nothing,
    assigned: undefined,
  };
  cache?.nodes.set(element, node);
  // Nothing but itself can change the curve of an operation without a guarantee.
  if (!mayClaim(node)) draw(node, pool);
  return node;
}

function mayClaim({ element }: Node): boolean {
  return element.kind === "group" || element.reserved !== undefined;
}

/** A FIFO group promises the sum of what its policies do, like any other, but they do not divide it. */
function reservedOf(element: ShareElement): readonly (number | undefined)[] | undefined {
  if (element.reserved !== undefined || element.kind === "operation" || element.mode !== "fifo") {
    return element.reserved;
  }
  let sum: (number | undefined)[] | undefined;
  for (const { kind, reserved } of element.members) {
    if (kind === "operation" || reserved === undefined) continue;
    sum = reserved.map((units, key) => (units === undefined ? sum?.[key] : (sum?.[key] ?? 0) + units));
  }
  return sum;
}

function limitOf({ limit }: ShareElement, { total, everything }: Pool): readonly number[] {
  if (limit === undefined) return everything;
  return total.map((units, key) => Math.min(1, fraction(limit[key], units) ?? 1));
}

/** A pool without units of a key has no fractions of it, whatever is asked for. */
function fraction<T extends number | undefined>(units: T, total: number): T | number {
  if (units === undefined) return units;
  return total > 0 ? units / total : 0;
}

function lineOf(element: ShareElement, pool: Pool): Leaf[] {
  if (element.kind === "operation") return [leafOf(element, pool)];
  const operations: ShareOperation[] = [];
  collectOperations(element, operations);
  return (
    operations
      .sort((a, b) => a.order - b.order)
      .map((operation) => leafOf(operation, pool, operation.limit))
      // A gang whose own limit is below its demand can never be whole.
      .filter(({ operation, path }) => !operation.isGang || path.reach === 1)
  );
}

function collectOperations(group: ShareGroup, operations: ShareOperation[]): void {
  for (const member of group.members) {
    if (member.kind === "operation") operations.push(member);
    else collectOperations(member, operations);
  }
}

/** In a line a path ends at the operation's own limit; alone, its curve does. */
function leafOf(operation: ShareOperation, { total, nothing }: Pool, limit?: ShareOperation["limit"]): Leaf {
  const demand = operation.demand.map((units, key) => fraction(units, total[key]!));
  // Gangs grow straight to their demand (9.11).
  const isStraight = operation.isGang || operation.usage.every((units) => units === 0);
  const usage = isStraight
    ? nothing
    : operation.usage.map((units, key) => Math.min(fraction(units, total[key]!), demand[key]!));
  const bounds = limit?.map((units, key) => fraction(units, total[key]!));
  return { operation, path: pathOf({ demand, usage, limit: bounds }) };
}

/** Draws what is new, has another guarantee than before, or is older than something below it. */
function drawStale(node: Node, pool: Pool): void {
  let isStale = node.isStale || !isSameVector(node.guarantee, node.drawnGuarantee);
  for (const claimant of node.claimants) {
    drawStale(claimant, pool);
    if (claimant.drawing > node.drawing) isStale = true;
  }
  if (isStale) draw(node, pool);
}

function draw(node: Node, pool: Pool): void {
  const { members, line, guarantee, limit, curve: former } = node;
  const drawing = { paper: pool.paper, guarantee, limit, former };
  node.curve = line ? lineCurve(line, drawing) : sumCurve(members, drawing);
  node.isStale = false;
  node.drawing = ++pool.drawings;
  node.drawnGuarantee = guarantee;
}

/** The root may fill the whole pool; no level of its own decides where it stands. */
function placeOfRoot(root: Node, pool: Pool): Place {
  if (root.line === undefined) {
    pool.rootPlace = highestPlace(root.members, root.limit, pool.rootPlace);
    return pool.rootPlace;
  }
  draw(root, pool);
  return endOf(root.curve);
}

/** An element and the way up to the root. */
interface Trail {
  readonly node: Node;
  readonly above: Trail | undefined;
}

interface PartialGang {
  readonly leaf: Leaf;
  readonly part: number;
  readonly trail: Trail;
}

/** While a gang has a part of its demand, the one with the smallest gives up, and the water flows anew. */
function settleGangs(tree: Node, pool: Pool, cache: ShareCache | undefined): void {
  for (;;) {
    const root = { node: tree, above: undefined };
    const partial = smallestPart(root, placeOfRoot(tree, pool), undefined);
    if (partial === undefined) return;
    const { node } = partial.trail;
    node.line = node.line!.filter((leaf) => leaf !== partial.leaf);
    for (let trail: Trail | undefined = partial.trail; trail !== undefined; trail = trail.above) {
      cache?.lacking.push(trail.node);
      if (trail.node !== tree) draw(trail.node, pool);
    }
  }
}

function smallestPart(
  trail: Trail,
  { position, isBelow }: Place,
  found: PartialGang | undefined,
): PartialGang | undefined {
  const { line, membersWithGangs } = trail.node;
  if (line !== undefined) {
    const index = Math.floor(position);
    const leaf = line[index];
    if (leaf === undefined || !leaf.operation.isGang) return found;
    const part = position - index;
    if (part <= SHARE_EPSILON || part >= 1 - SHARE_EPSILON) return found;
    return found === undefined || givesUpBefore(leaf, part, found) ? { leaf, part, trail } : found;
  }
  let smallest = found;
  for (const member of membersWithGangs) {
    const level = member.weight * position;
    if (isSatisfiedAt(member.curve, level)) continue;
    const place = placeAt(member.curve, level, isBelow);
    smallest = smallestPart({ node: member, above: trail }, place, smallest);
  }
  return smallest;
}

/** The smaller part, or of equal ones the gang that was submitted later. */
function givesUpBefore(leaf: Leaf, part: number, other: PartialGang): boolean {
  if (Math.abs(part - other.part) > SHARE_EPSILON) return part < other.part;
  return leaf.operation.order > other.leaf.operation.order;
}

interface Assigned {
  readonly nothing: readonly number[];
  readonly update: number;
  readonly shares: Map<ShareElement, ElementShare>;
  readonly changed: ShareElement[];
}

function assign(element: ShareElement, share: ElementShare, { shares, changed }: Assigned): void {
  shares.set(element, share);
  changed.push(element);
}

/** Hands the level down and sums the shares up. Whoever stands where it stood, on the same curve, has what it had. */
function assignShares(node: Node, place: Place, assigned: Assigned): readonly number[] {
  const { element, members, line, guarantee, drawing, assigned: last } = node;
  const { update, shares } = assigned;
  const isAsBefore =
    last !== undefined &&
    drawing > 0 &&
    last.drawing === drawing &&
    last.update === update - 1 && // Else somebody else may have handed something to those below it.
    isSamePlace(last.place, place);
  node.assigned = { place: isAsBefore ? last.place : place, drawing, update };
  if (isAsBefore) return shares.get(element)!.fairShare;
  if (line !== undefined) return assignLine(node, place, assigned);
  const fairShare = [...assigned.nothing];
  for (const member of members) {
    const below = placeAt(member.curve, member.weight * place.position, place.isBelow);
    const share = assignShares(member, below, assigned);
    for (let key = 0; key < share.length; key++) fairShare[key]! += share[key]!;
  }
  assign(element, { fairShare, guarantee }, assigned);
  return fairShare;
}

/** In a line, operations that were not reached have nothing, and policies the sum of their operations. */
function assignLine(
  { element, line, guarantee }: Node,
  { position }: Place,
  assigned: Assigned,
): readonly number[] {
  const { nothing } = assigned;
  const reached = new Map<ShareElement, readonly number[]>();
  for (let index = 0; index < line!.length && index < position; index++) {
    const { operation, path } = line![index]!;
    const part = Math.min(1, position - index);
    reached.set(operation, pathAt(path, operation.isGang ? Math.round(part) : part));
  }
  const assignBelow = (each: ShareElement): readonly number[] => {
    let fairShare = reached.get(each) ?? nothing;
    if (each.kind === "group") {
      const sum = [...nothing];
      for (const member of each.members) {
        const share = assignBelow(member);
        for (let key = 0; key < share.length; key++) sum[key]! += share[key]!;
      }
      fairShare = sum;
    }
    assign(each, { fairShare, guarantee: each === element ? guarantee : nothing }, assigned);
    return fairShare;
  };
  return assignBelow(element);
}

function collectOvercommitted(node: Node, groups: ShareGroup[]): void {
  if (node.isOvercommitted && node.element.kind === "group") groups.push(node.element);
  for (const claimant of node.claimants) collectOvercommitted(claimant, groups);
}
