// The operations of a share tree: what their lines amount to, and which of them are alike (9).
//
// Many operations are alike: requests that name no operation are one each. Operations that have the same path to their
// demand are one leaf of the tree, and those of them that stand alike are peers, so that the cost of a look follows
// the number of different operations.

import { operationKey, shapeKeyOf } from "../../lines.ts";
import { SortedList } from "../../sorted-list.ts";
import { type EngineState, type Pool, type PoolLine, requireRequest } from "../../state.ts";
import { comesBack } from "../../stopping.ts";
import { dropNeed, hideNeeds, needOf, showNeeds } from "./needs.ts";
import { fraction } from "./satisfaction.ts";
import { hopeFor, noteRuns, RIGHT_FOR, STAGES } from "./search.ts";
import { addMember, removeMember, ShareNode, setClaim } from "./share-tree.ts";
import type { Branch, Leaf, LineEntry, Operation, Peers, PoolTree, Right } from "./tree.ts";

/** The operation that a line belongs to, made if it is the first. Nobody's below a policy that is removed by force (P8). */
export function operationOf(tree: PoolTree, poolLine: PoolLine): Operation | undefined {
  const entry = tree.entries.get(poolLine);
  if (entry !== undefined) return entry.operation;
  const { shape } = poolLine.line;
  const key = operationKey(shape);
  let operation = tree.operations.get(key);
  if (operation === undefined) {
    const parent = tree.policies.get(poolLine.policy);
    if (parent === undefined) return undefined;
    operation = {
      key,
      name: shape.operation ?? shape.id,
      parent,
      lines: new Set(),
      order: 0,
      peers: null,
      occupied: [],
      promisedCount: 0,
      allocations: null,
      right: 0,
      wakeAtMs: Number.POSITIVE_INFINITY,
    };
    tree.operations.set(key, operation);
  }
  operation.lines.add(poolLine);
  tree.entries.set(poolLine, { operation, need: needOf(tree, poolLine), shape: shapeNumber(tree, poolLine) });
  return operation;
}

/** Takes an operation anew from its lines, puts it among its like, and adds the difference to those above it. */
export function refresh(state: EngineState, tree: PoolTree, operation: Operation, pool: Pool): void {
  const before = operation.peers;
  const after = describeLines(tree, operation, pool);
  if (operation.occupied.some((units, i) => units > after.occupied[i]!)) tree.hasNewRoom = true;
  if (operation.promisedCount + after.promisedCount > 0) tree.holds = null;
  operation.allocations = null;
  if (before !== null && before.needs.length > 1) before.groups = null; // Their order may be another one (9.5).
  noteRuns(tree, operation);
  operation.occupied = after.occupied;
  operation.promisedCount = after.promisedCount;
  const hasGone = operation.lines.size === 0;
  const order = hasGone ? operation.order : orderOf(state, operation);
  const isSame =
    before?.leaf.key === after.leafKey && before.key === after.peersKey && operation.order === order;
  if (isSame && !hasGone) return; // A run has saved its work, for example, and is fresher now (9.5).
  addDifference(tree, operation.parent, before, after);
  leavePeers(tree, operation);
  if (hasGone) {
    tree.operations.delete(operation.key);
    tree.moved.delete(operation);
    tree.gone.add(operation.key);
    wakeAt(tree, operation, Number.POSITIVE_INFINITY);
    countRights(tree, operation.right, 0);
    return;
  }
  operation.order = order;
  joinPeers(tree, operation, after);
  tree.moved.add(operation);
}

function orderOf(state: EngineState, { key, lines }: Operation): number {
  const first = state.operations.get(key)?.first();
  if (first !== undefined) return first.progress.seq;
  const [line] = lines;
  return requireRequest(state, (line as PoolLine).line.shape.id).progress.seq;
}

/** What the lines of an operation amount to. */
interface Described {
  readonly demand: number[];
  readonly usage: number[];
  /** The part of the usage that bends the path to the demand. */
  readonly pathUsage: readonly number[];
  readonly waitingCount: number;
  readonly runCount: number;
  readonly isGang: boolean;
  readonly occupied: number[];
  readonly promisedCount: number;
  /** The same for operations with the same path, and for those of them that stand alike. */
  readonly leafKey: string;
  readonly peersKey: string;
}

function describeLines(tree: PoolTree, { key, lines, parent }: Operation, pool: Pool): Described {
  const demand = tree.keys.map(() => 0);
  const usage = tree.keys.map(() => 0);
  const occupied = pool.keys.map(() => 0);
  let waitingCount = 0;
  let [runCount, promisedCount] = [0, 0];
  let isGang = false;
  let [leafKey, peersKey] = [key, ""];
  let isStraight = true;
  for (const poolLine of lines) {
    const { line, need } = poolLine;
    const { waiting, promised, passing, running, returning } = countsOf(pool, poolLine);
    const wanted = waiting + running + returning;
    if (wanted + poolLine.stoppingRuns.size === 0) {
      lines.delete(poolLine);
      dropEntry(tree, poolLine);
      continue;
    }
    waitingCount += waiting;
    runCount += running;
    promisedCount += promised;
    if (line.shape.gang || line.shape.nodes > 1) isGang = true;
    addTimes(occupied, need, running + promised + poolLine.stoppingRuns.size);
    let keysAskedFor = 0;
    for (let i = 0; i < tree.keys.length; i++) {
      const amount = need[tree.keys[i]!]!;
      if (amount > 0) keysAskedFor++;
      demand[i]! += wanted * amount;
      usage[i]! += (running + promised) * amount;
    }
    // On one key every path is straight, whatever is in use.
    const used = keysAskedFor > 1 ? running + promised : 0;
    if (used > 0) isStraight = false;
    const { shape } = tree.entries.get(poolLine) as LineEntry;
    leafKey = `${shape}|${wanted}|${used}`;
    peersKey += `${shape}: ${waiting} ${promised} ${passing} ${running}|`;
  }
  if (lines.size !== 1 || isGang || parent.isInLine) {
    leafKey = `${key}|${demand}|${isGang ? "gang" : usage}`;
    isStraight = isGang;
  }
  const pathUsage = isStraight ? usage.map(() => 0) : usage;
  return {
    demand,
    usage,
    pathUsage,
    waitingCount,
    runCount,
    promisedCount,
    isGang,
    occupied,
    leafKey,
    peersKey,
  };
}

function dropEntry(tree: PoolTree, poolLine: PoolLine): void {
  dropNeed(tree, (tree.entries.get(poolLine) as LineEntry).need);
  tree.entries.delete(poolLine);
}

interface Counts {
  /** Requests that wait in this pool, wherever they are promised units. */
  readonly waiting: number;
  /** Those of them that are promised units here, and elsewhere. */
  readonly promised: number;
  readonly passing: number;
  readonly running: number;
  /** Stopping and coming back. */
  readonly returning: number;
}

function countsOf(pool: Pool, poolLine: PoolLine): Counts {
  const { line, verdict, runKinds, stoppingRuns } = poolLine;
  const promised = countOf(pool.promised, poolLine);
  const passing = verdict === null ? countOf(pool.passers, poolLine) : 0;
  const waiting = (verdict === null ? line.members.size : 0) + passing + promised;
  let running = 0;
  for (const { runs } of runKinds.values()) running += runs.size;
  let returning = 0;
  for (const { request } of stoppingRuns) if (comesBack(request)) returning++;
  return { waiting, promised, passing, running, returning };
}

function countOf(requests: ReadonlySet<{ readonly line: unknown }>, { line }: PoolLine): number {
  let count = 0;
  if (requests.size > 0) for (const request of requests) if (request.line === line) count++;
  return count;
}

function addTimes(sum: number[], need: readonly number[], times: number): void {
  if (times > 0) for (let i = 0; i < sum.length; i++) sum[i]! += need[i]! * times;
}

/** Requests of one shape are alike to every rule; the number stands for a long text. */
function shapeNumber({ shapes }: PoolTree, { line }: PoolLine): number {
  const key = shapeKeyOf(line.shape);
  let number = shapes.get(key);
  if (number === undefined) {
    number = shapes.size;
    shapes.set(key, number);
  }
  return number;
}

/** Invariant 1 of the tree. */
function addDifference(tree: PoolTree, policy: Branch, before: Peers | null, after: Described): void {
  const { total } = tree;
  for (let above: Branch | null = policy; above !== null; above = above.parent) {
    const { demand, usage, demandShare, usageShare } = above;
    for (let key = 0; key < total.length; key++) {
      demand[key]! += after.demand[key]! - (before?.leaf.demand[key] ?? 0);
      usage[key]! += after.usage[key]! - (before?.usage[key] ?? 0);
      demandShare[key] = fraction(demand[key]!, total[key]!);
      usageShare[key] = fraction(usage[key]!, total[key]!);
    }
    above.waitingCount += after.waitingCount - (before?.waitingCount ?? 0);
    above.satisfaction = Number.NaN;
    above.age = Number.NaN;
    tree.touched.add(above);
  }
}

function joinPeers(tree: PoolTree, operation: Operation, described: Described): void {
  const leaf = leafFor(tree, operation, described);
  const { parent, order } = operation;
  const { peersKey: key, usage, waitingCount, runCount } = described;
  let peers = leaf.peers.get(key);
  if (peers === undefined) {
    peers = {
      kind: "peers",
      key,
      leaf,
      settings: leaf.parent.settings,
      usage,
      usageShare: usage.map((units, i) => fraction(units, tree.total[i]!)),
      demandShare: leaf.demandShare,
      fairShare: leaf.shareOfEach,
      waitingCount,
      runCount,
      satisfaction: Number.NaN,
      operations: new SortedList(byAge),
      isBelow: false,
      starvingCount: 0,
      aggressiveCount: 0,
      needs: Array.from(operation.lines, (poolLine) => (tree.entries.get(poolLine) as LineEntry).need),
      groups: null,
    };
    leaf.peers.set(key, peers);
    tree.touched.add(peers);
    if (waitingCount > 0) showNeeds(tree, peers);
    if (runCount > 0) tree.running.add(peers);
  }
  if (leaf.isGang || parent.isInLine) leaf.order = order; // Then it is the only one.
  operation.peers = peers;
  peers.operations.insert(operation);
  leaf.operationCount++;
  tree.claims.add(leaf);
  countRight(operation, 1);
  hopeFor(tree, peers);
}

function leafFor(tree: PoolTree, { parent }: Operation, described: Described): Leaf {
  const known = parent.leaves.get(described.leafKey);
  if (known !== undefined) return known;
  const leaf = new LeafNode(tree, parent, described);
  parent.leaves.set(leaf.key, leaf);
  addMember(parent, leaf);
  return leaf;
}

class LeafNode extends ShareNode implements Leaf {
  declare readonly parent: Branch;
  readonly kind = "operations";
  readonly key: string;
  readonly demand: readonly number[];
  readonly demandShare: readonly number[];
  readonly pathUsage: readonly number[];
  readonly shareOfEach: number[];
  readonly peers = new Map<string, Peers>();
  operationCount = 0;
  claimedOrder = 0;

  constructor({ total, root }: PoolTree, parent: Branch, described: Described) {
    super({ parent, weight: 1, isFifo: false, reserved: undefined, limit: root.limit });
    const { leafKey, demand, isGang, pathUsage } = described;
    this.key = leafKey;
    this.isGang = isGang;
    this.demand = demand;
    this.demandShare = demand.map((units, i) => fraction(units, total[i]!));
    this.pathUsage = pathUsage.map((units, i) => fraction(units, total[i]!));
    this.shareOfEach = demand.map(() => 0);
  }
}

function leavePeers(tree: PoolTree, operation: Operation): void {
  const { peers } = operation;
  if (peers === null) return;
  const { leaf } = peers;
  countRight(operation, -1);
  operation.peers = null;
  peers.operations.remove(operation);
  leaf.operationCount--;
  tree.claims.add(leaf);
  if (peers.operations.size > 0) return;
  leaf.peers.delete(peers.key);
  hideNeeds(tree, peers);
  tree.running.delete(peers);
  tree.touched.delete(peers);
}

/** Leaves claim what their operations want together; those without any go. */
export function settleClaims(tree: PoolTree): void {
  for (const leaf of tree.claims) {
    const { demandShare, pathUsage, isGang, order, operationCount: weight, parent } = leaf;
    if (weight === 0) {
      parent.leaves.delete(leaf.key);
      removeMember(parent, leaf);
      tree.changed.delete(leaf);
      continue;
    }
    const times = (shares: readonly number[]) =>
      weight === 1 ? shares : shares.map((each) => each * weight);
    const isAsBefore = leaf.path !== null && leaf.weight === weight && leaf.claimedOrder === order;
    if (isAsBefore) continue;
    leaf.claimedOrder = order;
    setClaim(leaf, { demand: times(demandShare), usage: times(pathUsage), isGang, order, weight });
    tree.changed.add(leaf); // What each of them has may be another part now.
  }
  tree.claims.clear();
}

function byAge(a: Operation, b: Operation): number {
  return a.order - b.order;
}

/** What an operation may do because it starves itself. */
export function setRight(tree: PoolTree, operation: Operation, right: Right): void {
  if (operation.right === right) return;
  countRight(operation, -1);
  countRights(tree, operation.right, right);
  operation.right = right;
  countRight(operation, 1);
  noteRuns(tree, operation);
  hopeFor(tree, operation.peers as Peers);
}

/** What a group or a policy passes on to those below it because it starves itself (9.4). */
export function setRightBelow(tree: PoolTree, branch: Branch, right: Right): void {
  if (branch.right === right) return;
  countRights(tree, branch.right, right);
  branch.right = right;
  if (right > 0) hopeBelow(tree, branch);
}

function countRights({ rights }: PoolTree, before: Right, after: Right): void {
  for (const stage of STAGES) {
    rights[stage] += Number(after >= RIGHT_FOR[stage]) - Number(before >= RIGHT_FOR[stage]);
  }
}

function hopeBelow(tree: PoolTree, branch: Branch): void {
  for (const member of branch.members) {
    if (member.kind !== "operations") hopeBelow(tree, member);
    else for (const peers of member.peers.values()) hopeFor(tree, peers);
  }
}

function countRight({ peers, right }: Operation, more: 1 | -1): void {
  if (peers === null || right === 0) return;
  peers.starvingCount += more;
  if (right > 1) peers.aggressiveCount += more;
}

/** The status of an element may not be what the last look found. Answers whether there is such an element. */
export function lookAgain({ branches, operations, touched, moved }: PoolTree, key: string): boolean {
  const branch = branches.get(key);
  if (branch !== undefined) touched.add(branch);
  const operation = operations.get(key);
  if (operation !== undefined) moved.add(operation);
  return branch !== undefined || operation !== undefined;
}

/** What the last look found may have been taken back. */
export function forgetFindings(tree: PoolTree): void {
  tree.hasNewRoom = true;
}

/** When time alone changes a status next; infinite: never. */
export function wakeAt({ wakes }: PoolTree, element: Branch | Operation, atMs: number): void {
  if (element.wakeAtMs === atMs) return;
  if (element.wakeAtMs < Number.POSITIVE_INFINITY) wakes.remove(element);
  element.wakeAtMs = atMs;
  if (atMs < Number.POSITIVE_INFINITY) wakes.insert(element);
}
