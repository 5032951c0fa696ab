// The operations of a share tree: what their lines amount to, and which of them are alike (9).
//
// Many operations are alike: requests that name no operation are one each. Operations that have the same path to their
// demand are one leaf of the tree, and those of them that stand alike are peers, so that the cost of a look follows
// the number of different operations.

import { empty } from "../../few.ts";
import { operationKey } from "../../lines.ts";
import { SortedList, type Summaries } from "../../sorted-list.ts";
import type { EngineState, Pool, PoolLine, Request } from "../../state.ts";
import { comesBack } from "../../stopping.ts";
import { forgetOperation, knowOperation, operationBy, operationWith } from "./entries.ts";
import { forgetMargin } from "./margins.ts";
import { dropNeed, hideNeeds, type Need, needOf, showNeeds } from "./needs.ts";
import { ageOf } from "./order.ts";
import { fraction } from "./satisfaction.ts";
import { hopeFor, noteRuns, RIGHT_FOR, STAGES } from "./search.ts";
import { addMember, removeMember, ShareNode, setClaim, setCount } from "./share-tree.ts";
import type { Branch, Key, Leaf, LineEntry, Operation, Peers, PoolTree, Right, Shape } from "./tree.ts";

/**
 * The operation that a request belongs to, with a place for it, made if it is the first. Nobody's if there is neither, as
 * below a policy that is removed by force (P8).
 */
export function operationOf(pool: Pool, tree: PoolTree, request: Request): Operation | undefined {
  const known = operationWith(tree, request);
  const poolLine = request.line.pools.get(pool.record.name);
  if (poolLine === undefined || (known !== undefined && hasEntryOf(known, poolLine))) return known;
  if (request.run === null && request.progress.status !== "queued") return known;
  const operation = known ?? newOperation(tree, poolLine, request);
  if (operation === undefined) return undefined;
  const { lines } = operation;
  const entry = newEntry(tree, poolLine, operation);
  if (lines.length === 0)
    operation.lines = [entry]; // Mostly the only one: it needs no room for others.
  else lines.push(entry);
  return operation;
}

function hasEntryOf({ lines }: Operation, poolLine: PoolLine): boolean {
  for (const entry of lines) if (entry.poolLine === poolLine) return true;
  return false;
}

function newOperation(tree: PoolTree, { policy }: PoolLine, request: Request): Operation | undefined {
  const parent = tree.policies.get(policy);
  if (parent === undefined) return undefined;
  const { spec } = request;
  const operation: Operation = {
    key: operationKey(spec),
    name: spec.operation ?? spec.id,
    tree,
    parent,
    request: spec.operation === null ? request : null,
    lines: NO_LINES,
    order: 0,
    peers: null,
    isMoved: false,
    isStale: false,
    allocations: null,
    right: 0,
    wakeAtMs: Number.POSITIVE_INFINITY,
    judgedIn: 0,
    record: null,
  };
  if (operation.request === null) tree.named.set(operation.key, operation);
  knowOperation(request, operation);
  return operation;
}

const NO_LINES: LineEntry[] = [];

function newEntry(tree: PoolTree, poolLine: PoolLine, operation: Operation): LineEntry {
  const shape = shapeOf(tree, poolLine);
  const { need } = shape;
  need.lineCount++;
  return {
    poolLine,
    shape,
    need,
    operation,
    waiting: 0,
    promised: 0,
    passing: 0,
    running: 0,
    stopping: 0,
    returning: 0,
  };
}

/** Takes an operation anew from its requests, puts it among its like, and adds the difference to those above it. */
export function refresh(state: EngineState, tree: PoolTree, operation: Operation, pool: Pool): void {
  operation.isStale = false;
  for (const entry of operation.lines) countAgain(tree, entry, pool);
  dropIdle(tree, operation);
  const before = operation.peers;
  operation.allocations = null;
  if (before !== null && before.needs.length > 1) forgetGroups(tree, before);
  noteRuns(tree, operation);
  if (operation.lines.length === 0) return dropOperation(tree, operation);
  const order = orderOf(state, operation);
  const leafKey = leafKeyOf(tree, operation);
  const peersKey = peersKeyOf(operation);
  const isSame = before?.leaf.key === leafKey && before.key === peersKey && operation.order === order;
  if (isSame) return; // A run has saved its work, for example, and is fresher now (9.5).
  leavePeers(tree, operation);
  operation.order = order;
  joinPeers(tree, operation, leafKey, peersKey);
  addDifference(tree, operation.parent, before, operation.peers);
  noteMoved(tree, operation);
}

/** The order of runs that differ may be another one (9.5). */
function forgetGroups(tree: PoolTree, peers: Peers): void {
  forgetMargin(peers);
  hopeFor(tree, peers);
}

function dropOperation(tree: PoolTree, operation: Operation): void {
  addDifference(tree, operation.parent, operation.peers, null);
  leavePeers(tree, operation);
  if (operation.request === null) tree.named.delete(operation.key);
  else forgetOperation(operation.request, operation);
  operation.tree = null;
  operation.isMoved = false;
  tree.gone.push(operation);
  wakeAt(tree, operation, Number.POSITIVE_INFINITY);
  countRights(tree, operation.right, 0);
}

function orderOf(state: EngineState, { key, request }: Operation): number {
  const first = request ?? state.operations.get(key)?.first();
  return (first as Request).progress.seq;
}

/** Takes over where the requests of an entry are, and notes what has come free by that. */
function countAgain(tree: PoolTree, entry: LineEntry, pool: Pool): void {
  const { promised: promisedBefore } = entry;
  const { request } = entry.operation;
  const occupied = occupiedBy(entry);
  if (request === null) countAll(entry, pool);
  else countOne(entry, request, pool);
  if (occupiedBy(entry) < occupied) tree.hasNewRoom = true;
  if (entry.promised !== promisedBefore) tree.promises.add(entry.poolLine, entry.promised - promisedBefore);
}

function countOne(entry: LineEntry, request: Request, pool: Pool): void {
  const { poolLine } = entry;
  const { progress, run, line } = request;
  const isHere = line === poolLine.line;
  const isRunningHere = isHere && run?.poolLine.pool === pool;
  const isWaiting = isHere && progress.status === "queued" && !progress.delayed;
  const isPromised = isWaiting && progress.hold?.pool === pool.record.name;
  const isAdmitted = isWaiting && poolLine.verdict === null;
  entry.promised = Number(isPromised);
  entry.passing = Number(isAdmitted && !isPromised && progress.hold !== null);
  entry.waiting = Number(isAdmitted || isPromised);
  entry.running = Number(isRunningHere && !run.isStopping);
  entry.stopping = Number(isRunningHere && run.isStopping);
  entry.returning = Number(isRunningHere && run.isStopping && comesBack(request));
}

function countAll(entry: LineEntry, pool: Pool): void {
  const { poolLine } = entry;
  const { line, verdict, runKinds, stoppingRuns } = poolLine;
  entry.promised = countOf(pool.promised, poolLine);
  entry.passing = verdict === null ? countOf(pool.passers, poolLine) : 0;
  entry.waiting = (verdict === null ? line.members.size : 0) + entry.passing + entry.promised;
  entry.running = 0;
  for (const { runs } of runKinds) entry.running += runs.size;
  entry.stopping = stoppingRuns.size;
  entry.returning = 0;
  if (entry.stopping > 0) for (const { request } of stoppingRuns) if (comesBack(request)) entry.returning++;
}

function countOf(requests: ReadonlySet<Request>, { line }: PoolLine): number {
  let count = 0;
  if (requests.size > 0) for (const request of requests) if (request.line === line) count++;
  return count;
}

/** How many times its need is taken in the pool. */
function occupiedBy({ running, promised, stopping }: LineEntry): number {
  return running + promised + stopping;
}

/** How many times its need is asked for, and how many times in use, as shares count it (9). */
function wantedBy({ waiting, running, returning }: LineEntry): number {
  return waiting + running + returning;
}

function usedBy({ running, promised }: LineEntry): number {
  return running + promised;
}

/** Lines without requests in the pool go. */
function dropIdle(tree: PoolTree, operation: Operation): void {
  const { lines } = operation;
  for (let index = lines.length - 1; index >= 0; index--) {
    const entry = lines[index]!;
    if (wantedBy(entry) + entry.stopping > 0) continue;
    dropNeed(tree, entry.need);
    lines.splice(index, 1);
  }
}

/** Counts below this fit side by side into one number: a key that is much cheaper than a text. */
const COUNT_END = 64;

/** The same for operations with the same path. */
export function leafKeyOf(tree: PoolTree, operation: Operation): Key {
  const { key, lines } = operation;
  if (isAlone(operation)) {
    const entry = lines[0] as LineEntry;
    const wanted = wantedBy(entry);
    const { isBent, number } = entry.shape;
    const used = isBent ? usedBy(entry) : 0;
    if (wanted < COUNT_END && used < COUNT_END) return (number * COUNT_END + wanted) * COUNT_END + used;
    return `${number}|${wanted}|${used}`;
  }
  const usage = isGang(operation) ? "gang" : unitsOf(tree, lines, usedBy);
  return `${key}|${unitsOf(tree, lines, wantedBy)}|${usage}`;
}

/** The same for operations of a leaf that stand alike. A leaf that may be shared has one shape. */
export function peersKeyOf(operation: Operation): Key {
  const { lines } = operation;
  if (isAlone(operation)) {
    const { waiting, promised, passing, running } = lines[0] as LineEntry;
    if (waiting < COUNT_END && promised < COUNT_END && passing < COUNT_END && running < COUNT_END)
      return ((waiting * COUNT_END + promised) * COUNT_END + passing) * COUNT_END + running;
  }
  let key = "";
  for (const { shape, waiting, promised, passing, running } of lines) {
    key += `${shape.number}: ${waiting} ${promised} ${passing} ${running}|`;
  }
  return key;
}

/** Whether it may share a leaf: those of gangs, and in a line, have a place of their own. */
function isAlone(operation: Operation): boolean {
  return operation.lines.length === 1 && !operation.parent.isInLine && !isGang(operation);
}

function isGang({ lines }: Operation): boolean {
  for (const { shape } of lines) if (shape.isGang) return true;
  return false;
}

/** Over the share keys. */
function unitsOf(
  { keys }: PoolTree,
  lines: readonly LineEntry[],
  timesOf: (entry: LineEntry) => number,
): number[] {
  const sum = keys.map(() => 0);
  for (const entry of lines) {
    const times = timesOf(entry);
    for (let i = 0; i < keys.length; i++) sum[i]! += times * entry.shape.units[i]!;
  }
  return sum;
}

function shapeOf(tree: PoolTree, poolLine: PoolLine): Shape {
  const { share, line } = poolLine;
  let shape = share?.tree === tree ? share : tree.shapes.get(line.shapeKey);
  if (shape === undefined) {
    const units = tree.keys.map((key) => poolLine.need[key]!);
    const isBent = units.filter((amount) => amount > 0).length > 1;
    const { gang, nodes } = line.shape;
    const need = needOf(tree, poolLine);
    shape = { tree, number: tree.shapes.size, need, units, isBent, isGang: gang || nodes > 1 };
    tree.shapes.set(line.shapeKey, shape);
  }
  poolLine.share = shape;
  if (shape.need.lineCount === 0) shape.need = needOf(tree, poolLine); // The one that was known has gone.
  return shape;
}

/** Invariant 1 of the tree. */
function addDifference(tree: PoolTree, policy: Branch, before: Peers | null, after: Peers | null): void {
  const { total } = tree;
  for (let above: Branch | null = policy; above !== null; above = above.parent) {
    const { demand, usage, demandShare, usageShare } = above;
    for (let key = 0; key < total.length; key++) {
      demand[key]! += (after?.leaf.demand[key] ?? 0) - (before?.leaf.demand[key] ?? 0);
      usage[key]! += (after?.usage[key] ?? 0) - (before?.usage[key] ?? 0);
      demandShare[key] = fraction(demand[key]!, total[key]!);
      usageShare[key] = fraction(usage[key]!, total[key]!);
    }
    above.waitingCount += (after?.waitingCount ?? 0) - (before?.waitingCount ?? 0);
    above.satisfaction = Number.NaN;
    above.age = Number.NaN;
    touch(tree, above);
  }
}

function joinPeers(tree: PoolTree, operation: Operation, leafKey: Key, peersKey: Key): void {
  const { parent } = operation;
  const leaf = parent.leaves.get(leafKey) ?? newLeaf(tree, operation, leafKey);
  const peers = leaf.peers.get(peersKey) ?? newPeers(tree, operation, leaf, peersKey);
  operation.peers = peers;
  peers.operations.insert(operation);
  leaf.operationCount++;
  noteRecounted(tree, leaf);
  countRight(operation, 1);
  hopeFor(tree, peers);
}

function newPeers(tree: PoolTree, { lines }: Operation, leaf: Leaf, key: Key): Peers {
  const usage = unitsOf(tree, lines, usedBy);
  let [waitingCount, runCount] = [0, 0];
  for (const { waiting, running } of lines) {
    waitingCount += waiting;
    runCount += running;
  }
  const needs = lines.map(({ need }) => need);
  const peers = new PeersNode(tree, { key, leaf, usage, waitingCount, runCount, needs });
  leaf.peers.set(key, peers);
  touch(tree, peers);
  if (waitingCount > 0) showNeeds(tree, peers);
  if (runCount > 0) tree.running.add(peers);
  return peers;
}

class PeersNode implements Peers {
  readonly kind = "peers";
  readonly key: Key;
  readonly leaf: Leaf;
  readonly settings: Peers["settings"];
  readonly usage: readonly number[];
  readonly usageShare: readonly number[];
  readonly demandShare: readonly number[];
  waitingCount: number;
  readonly runCount: number;
  readonly needs: readonly Need[];
  readonly operations = new SortedList<Operation>(byAge, AGES);
  readonly fairShare: readonly number[];
  satisfaction = Number.NaN;
  isTouched = false;
  askedIn = 0;
  fitsIn = 0;
  isBelow = false;
  starvingCount = 0;
  aggressiveCount = 0;
  groups: Peers["groups"] = null;
  margin: Peers["margin"] = null;

  constructor(
    tree: PoolTree,
    {
      key,
      leaf,
      usage,
      waitingCount,
      runCount,
      needs,
    }: Pick<Peers, "key" | "leaf" | "usage" | "waitingCount" | "runCount" | "needs">,
  ) {
    this.key = key;
    this.leaf = leaf;
    this.settings = leaf.parent.settings;
    this.usage = usage;
    this.usageShare = usage.map((units, i) => fraction(units, tree.total[i]!));
    this.demandShare = leaf.demandShare;
    this.waitingCount = waitingCount;
    this.runCount = runCount;
    this.needs = needs;
    this.fairShare = leaf.fairShare;
  }
}

function newLeaf(tree: PoolTree, operation: Operation, key: Key): Leaf {
  const { parent } = operation;
  const leaf = new LeafNode(tree, operation, key);
  parent.leaves.set(key, leaf);
  addMember(parent, leaf);
  return leaf;
}

class LeafNode extends ShareNode implements Leaf {
  declare readonly parent: Branch;
  readonly kind = "operations";
  readonly key: Key;
  readonly demand: readonly number[];
  readonly demandShare: readonly number[];
  readonly pathUsage: readonly number[];
  readonly peers = new Map<Key, Peers>();
  operationCount = 0;
  isRecounted = false;

  constructor(tree: PoolTree, operation: Operation, key: Key) {
    const { total, root } = tree;
    const { parent, lines } = operation;
    super({ parent, weight: 1, isFifo: false, reserved: undefined, limit: root.limit });
    this.key = key;
    this.isGang = isGang(operation);
    this.demand = unitsOf(tree, lines, wantedBy);
    this.demandShare = this.demand.map((units, i) => fraction(units, total[i]!));
    const isStraight = this.isGang || (isAlone(operation) && !(lines[0] as LineEntry).shape.isBent);
    this.pathUsage = unitsOf(tree, lines, usedBy).map((units, i) =>
      isStraight ? 0 : fraction(units, total[i]!),
    );
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
  noteRecounted(tree, leaf);
  if (peers.operations.size > 0) return;
  leaf.peers.delete(peers.key);
  hideNeeds(tree, peers);
  tree.running.delete(peers);
  peers.isTouched = false;
}

function noteRecounted({ recounted }: PoolTree, leaf: Leaf): void {
  if (leaf.isRecounted) return;
  leaf.isRecounted = true;
  recounted.push(leaf);
}

/** An element stands otherwise than at the last look. */
export function touch({ touched }: PoolTree, element: Branch | Peers): void {
  if (element.isTouched) return;
  element.isTouched = true;
  touched.push(element);
}

/** So does an operation. */
export function noteMoved({ moved }: PoolTree, operation: Operation): void {
  if (operation.isMoved) return;
  operation.isMoved = true;
  moved.push(operation);
}

/** Shares learn how many operations leaves have; those without any go. */
export function settleCounts(tree: PoolTree): void {
  for (const leaf of tree.recounted) {
    leaf.isRecounted = false;
    const { parent, operationCount, path } = leaf;
    if (operationCount === 0) {
      parent.leaves.delete(leaf.key);
      removeMember(parent, leaf);
      leaf.isChanged = false;
      continue;
    }
    const isOneOnly = leaf.isGang || parent.isInLine; // A place of its own, so that it matters which one it is.
    const order = isOneOnly ? orderIn(leaf) : 0;
    if (path === null || leaf.order !== order) {
      const { demandShare: demand, pathUsage: usage, isGang } = leaf;
      setClaim(leaf, { demand, usage, isGang, order });
    }
    if (leaf.count !== operationCount) setCount(leaf, operationCount);
  }
  empty(tree.recounted);
}

function orderIn({ peers }: Leaf): number {
  const [only] = peers.values();
  return ageOf(only as Peers);
}

function byAge(a: Operation, b: Operation): number {
  return a.order - b.order;
}

const AGES: Summaries<Operation> = { key: ageOfOne };

function ageOfOne({ order }: Operation): number {
  return order;
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

/** The status of an element may not be what the last look found, nor its record. Answers whether there is such an element. */
export function lookAgain(state: EngineState, tree: PoolTree, key: string): boolean {
  const branch = tree.branches.get(key);
  const operation = operationBy(state, tree, key);
  if (branch !== undefined) touch(tree, branch);
  if (operation !== undefined) noteMoved(tree, operation);
  const element = branch ?? operation;
  if (element !== undefined) element.record = null;
  return element !== undefined;
}

/** What the last look found may have been taken back. */
export function forgetFindings(tree: PoolTree): void {
  tree.hasNewRoom = true;
  tree.areHoldsChecked = false;
}

/** When time alone changes a status next; infinite: never. */
export function wakeAt({ wakes }: PoolTree, element: Branch | Operation, atMs: number): void {
  if (element.wakeAtMs === atMs) return;
  if (element.wakeAtMs < Number.POSITIVE_INFINITY) wakes.remove(element);
  element.wakeAtMs = atMs;
  if (atMs < Number.POSITIVE_INFINITY) wakes.insert(element);
}
