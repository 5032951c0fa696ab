// The operations of a share tree: what their lines amount to, and which of them are alike (9).
//
// Many operations are alike: requests that name no operation are one each. Those that stand alike are peers, one leaf of the
// tree with one curve, so that the cost of a look follows the number of different operations.

import { empty } from "../../few.ts";
import { operationKey } from "../../lines.ts";
import type { EngineState, Pool, PoolLine, Request } from "../../state.ts";
import { comesBack } from "../../stopping.ts";
import {
  type Branch,
  type Key,
  LineEntry,
  Operation,
  Peers,
  type PoolTree,
  type Right,
  type Shape,
} from "./elements.ts";
import { forgetOperation, knowOperation, operationBy, operationWith } from "./entries.ts";
import { forgetMargin } from "./margins.ts";
import { hideNeeds, needOf, showNeeds } from "./needs.ts";
import { ageOf } from "./order.ts";
import { fraction } from "./satisfaction.ts";
import { hopeFor, noteRuns, RIGHT_FOR, STAGES } from "./search.ts";
import { addMember, removeMember, setClaim, setCount } from "./share-tree.ts";

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
  const entry = new LineEntry(poolLine, shapeOf(tree, poolLine), operation);
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
  const operation = new Operation(tree, {
    key: operationKey(spec),
    name: spec.operation ?? spec.id,
    parent,
    request: spec.operation === null ? request : null,
  });
  if (operation.request === null) tree.named.set(operation.key, operation);
  knowOperation(request, operation);
  return operation;
}

/** Takes an operation anew from its requests, puts it among its like, and adds the difference to those above it. */
export function refresh(state: EngineState, tree: PoolTree, operation: Operation, pool: Pool): void {
  operation.isStale = false;
  for (const entry of operation.lines) countAgain(tree, entry, pool);
  dropIdle(operation);
  const before = operation.peers;
  operation.allocations = null;
  if (before !== null && before.needs.length > 1) forgetGroups(tree, before);
  noteRuns(tree, operation);
  if (operation.lines.length === 0) return dropOperation(tree, operation);
  const order = orderOf(state, operation);
  const key = peersKeyOf(operation);
  const isSame = before?.key === key && operation.order === order;
  if (isSame) return; // A run has saved its work, for example, and is fresher now (9.5).
  leavePeers(tree, operation);
  operation.order = order;
  joinPeers(tree, operation, key);
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
function dropIdle({ lines }: Operation): void {
  for (let index = lines.length - 1; index >= 0; index--) {
    const entry = lines[index]!;
    if (wantedBy(entry) + entry.stopping === 0) lines.splice(index, 1);
  }
}

/** Counts below this fit side by side into one number: a key that is much cheaper than a text. */
const COUNT_END = 32;

/** The same for operations that stand alike. */
export function peersKeyOf(operation: Operation): Key {
  const isShared = mayBeShared(operation);
  if (isShared) {
    const { shape, waiting, promised, passing, running, returning } = operation.lines[0] as LineEntry;
    if (Math.max(waiting, promised, passing, running, returning) < COUNT_END) {
      const waits = ((shape.number * COUNT_END + waiting) * COUNT_END + promised) * COUNT_END + passing;
      return (waits * COUNT_END + running) * COUNT_END + returning;
    }
  }
  let key = isShared ? "" : `${operation.key}|`;
  for (const { shape, waiting, promised, passing, running, returning } of operation.lines)
    key += `${shape.number}: ${waiting} ${promised} ${passing} ${running} ${returning}|`;
  return key;
}

/** Whether others may be its peers: those of gangs, and in a line, have a place of their own. */
function mayBeShared(operation: Operation): boolean {
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
    const { gang, nodes } = line.shape;
    const need = needOf(tree, poolLine);
    shape = { tree, number: tree.shapes.size, need, units, isGang: gang || nodes > 1 };
    tree.shapes.set(line.shapeKey, shape);
  }
  poolLine.share = shape;
  return shape;
}

/** Invariant 1 of the tree. */
function addDifference(tree: PoolTree, policy: Branch, before: Peers | null, after: Peers | null): void {
  const { total } = tree;
  for (let above: Branch | null = policy; above !== null; above = above.parent) {
    const { demand, usage, demandShare, usageShare } = above;
    for (let key = 0; key < total.length; key++) {
      demand[key]! += (after?.demand[key] ?? 0) - (before?.demand[key] ?? 0);
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

function joinPeers(tree: PoolTree, operation: Operation, key: Key): void {
  const peers = operation.parent.peers.get(key) ?? newPeers(tree, operation, key);
  operation.peers = peers;
  peers.operations.insert(operation);
  noteRecounted(tree, peers);
  countRight(operation, 1);
  hopeFor(tree, peers);
}

function newPeers(tree: PoolTree, operation: Operation, key: Key): Peers {
  const { parent, lines } = operation;
  let [waitingCount, runCount] = [0, 0];
  for (const { waiting, running } of lines) {
    waitingCount += waiting;
    runCount += running;
  }
  const [demand, usage] = [unitsOf(tree, lines, wantedBy), unitsOf(tree, lines, usedBy)];
  const needs = lines.map(({ shape }) => shape.need);
  const each = { key, demand, usage, waitingCount, runCount, needs, isGang: isGang(operation) };
  const peers = new Peers(tree, parent, each);
  parent.peers.set(key, peers);
  addMember(parent, peers);
  touch(tree, peers);
  if (waitingCount > 0) showNeeds(tree, peers);
  if (runCount > 0) tree.running.add(peers);
  return peers;
}

function leavePeers(tree: PoolTree, operation: Operation): void {
  const { peers } = operation;
  if (peers === null) return;
  countRight(operation, -1);
  operation.peers = null;
  peers.operations.remove(operation);
  noteRecounted(tree, peers);
  if (peers.operations.size > 0) return;
  peers.parent.peers.delete(peers.key);
  removeMember(peers.parent, peers);
  hideNeeds(tree, peers);
  tree.running.delete(peers);
  peers.isTouched = false;
  peers.isChanged = false;
}

function noteRecounted({ recounted }: PoolTree, peers: Peers): void {
  if (peers.isRecounted) return;
  peers.isRecounted = true;
  recounted.push(peers);
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

/** Shares learn how many operations peers are. */
export function settleCounts(tree: PoolTree): void {
  for (const peers of tree.recounted) {
    peers.isRecounted = false;
    const { parent, operations, path, isGang, demandShare: demand, usageShare: usage } = peers;
    if (operations.size === 0) continue; // They have gone.
    // A place of its own, so that it matters which one it is.
    const order = isGang || parent.isInLine ? ageOf(peers) : 0;
    if (path === null || peers.order !== order) setClaim(peers, { demand, usage, isGang, order });
    if (peers.count !== operations.size) setCount(peers, operations.size);
  }
  empty(tree.recounted);
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
    if (member.kind === "peers") hopeFor(tree, member);
    else hopeBelow(tree, member);
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
