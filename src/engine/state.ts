// The state in memory: the records of `records.ts`, and indexes over them that `evolve` keeps up to date with the
// functions of `indexes/`, always through the undo log.
//
// Invariants (checked by `invariants.fixture.ts`)
//   1. Every index can be rebuilt from the records alone.
//   2. A waiting request is in exactly one place: in its line, among the holders, or delayed.
//   3. Usage, stopping units and shares are sums over the allocations.

import type { Operation, PoolTree, Shape } from "./disciplines/fair_share/tree.ts";
import type { QueueOrder } from "./disciplines/queue/queue-order.ts";
import type { StarvationChange } from "./events.ts";
import { Few } from "./few.ts";
import type { NodeIndex } from "./placement/node-index.ts";
import type { Ask } from "./placement/room.ts";
import type {
  ComponentName,
  GroupName,
  GroupRecord,
  NodeName,
  NodeRecord,
  PolicyRecord,
  PoolName,
  PoolRecord,
  RejectionReason,
  RequestId,
  RequestProgress,
  RequestSpec,
} from "./records.ts";
import { RequestsById } from "./requests-by-id.ts";
import { compareIds, type Vector } from "./resources.ts";
import { SortedList, type Summaries } from "./sorted-list.ts";
import { UndoLog } from "./undo.ts";

export interface EngineState {
  /** Position in the journal: the number of events applied. */
  seq: number;
  /** The time of the last event. */
  lastEventAtMs: number;
  unmanaged: "reject" | "allow";
  readonly pools: Map<PoolName, Pool>;
  readonly nodes: Map<NodeName, Node>;
  /** Nodes to be drained by a certain time. */
  readonly draining: Set<Node>;
  readonly components: Map<ComponentName, Component>;
  readonly requests: RequestsById;
  /** Requests in a terminal status that are still remembered, oldest end first. */
  readonly ended: SortedList<Request>;
  readonly lines: Map<string, Line>;
  /** All remembered requests of each operation: it is as old as the first of them (9.11). */
  readonly operations: Map<string, SortedList<Request>>;
  /** Blocked requests by what they wait for (J9). */
  readonly dependents: Map<RequestId, Set<Request>>;
  /** Arrays with live members, by operation (J9). */
  readonly arrays: Map<string, ArrayState>;
  /** Requests with something to do at a known time, soonest first. */
  readonly timers: SortedList<Request>;
  /** Pools that remember who displaced whom (V6). */
  readonly guarded: Set<Pool>;
  /** Pools in which something changed since they were last looked at; none, unless scheduling is paused. */
  readonly unsettled: Few<Pool>;
  /** Lines that some pool has ceased to admit, until the change that did it is complete (P9). */
  dismissed: Set<Line>;
  /** A fixed point was cut: the next tick goes on with the unsettled pools, before anything else. */
  isPaused: boolean;
  /** Pools whose order time moves (10.6), by when it next may; found by looking, so not part of the records. */
  readonly moving: SortedList<Pool>;
  /** The latest time that `decide` was given: timers up to it have fired. Not part of the records. */
  clockMs: number;
  readonly undo: UndoLog;
}

export interface ArrayState {
  /** Members in the queue or running. */
  active: number;
  readonly blocked: SortedList<Request>;
}

export interface Component {
  readonly name: ComponentName;
  readonly policies: Map<PoolName, Policy>;
  readonly lines: Set<Line>;
  /** The highest class that one of its policies allows (A5). */
  classMax: number;
  /** One of its pools has shares: operations are served one by one, and their requests are lines of their own (9). */
  isServedByOperation: boolean;
  /** The line that was last joined; it counts as long as it is alive. Not part of the records. */
  joinedLast: Line | null;
}

export interface Pool {
  record: PoolRecord;
  /** How often a request may be preempted within 24 hours: the pool's setting, or else what its discipline says (V6). */
  preemptionsMax: number;
  /** The metered keys, sorted; all vectors below follow this order. */
  keys: readonly string[];
  capacity: number[];
  /** Held by allocations, stopping ones included. */
  usage: number[];
  /** The part of `usage` that is on its way out. */
  stopping: number[];
  /** Whether some policy reserves the key. */
  isReserved: readonly boolean[];
  readonly groups: Map<GroupName, Group>;
  readonly policies: Map<ComponentName, Policy>;
  readonly nodes: Map<NodeName, Node>;
  /** The nodes, arranged for placement. */
  readonly places: NodeIndex;
  /** Lines with members that this pool admits. */
  readonly waiting: Set<PoolLine>;
  /** Waiting requests that hold units here (V5). */
  readonly promised: Set<Request>;
  /** Waiting requests that this pool admits and that hold units elsewhere (G5). */
  readonly passers: Set<Request>;
  /** Who displaced whom here since the last new event of this pool (V6). */
  displaced: Map<RequestId, Set<RequestId>>;
  /** Kinds of running work, not stopping, that fill gaps, so that any head may preempt them (G4). */
  gapKinds: Few<RunKind>;
  /** How many kinds of running work, not stopping, there are of each class. */
  kindsOfClass: number[];
  /** Runs with a walltime that are not stopping, soonest end first. */
  ends: SortedList<Run>;
  /** Runs that are not stopping, by what they cost but for their start and walltime; none where costs do not count (10.4). */
  runsByPrice: Map<string, SortedList<Run>>;
  runCount: number;
  /** Fair-share elements that are not normal (9.3, 9.4). */
  readonly starvation: Map<string, StarvationChange>;
  /** The order of the queue as of the last look; null: to be made when it is next used, or the discipline keeps none. */
  order: QueueOrder | null;
  /** Until when time alone leaves the order of the queue as it was last seen; infinite: for ever. */
  orderUntilMs: number;
  /** When a preemptive stage last started something, per node; "" in a pool without nodes (9.7). */
  readonly preemptiveStartAtMs: Map<string, number>;
  /** Since when a node has held more than it has (9.9). */
  readonly overcommittedSinceMs: Map<NodeName, number>;
  /** What the records give for section 9; null: to be built anew when it is next used. */
  shareTree: PoolTree | null;
  /** Requests of which the tree may not know where they are, and those of which something was taken back. */
  readonly staleRequests: Few<Request>;
  readonly takenBackRequests: Few<Request>;
}

export interface Node {
  record: NodeRecord;
  readonly pool: Pool;
  /** Infinite for what the node does not meter (R4). */
  capacity: number[];
  usage: number[];
  /** The part of `usage` that is on its way out. */
  stopping: number[];
  /** Capacity less usage; below zero after a shrink. */
  free: number[];
  /** Set aside for the holds on this node (V5). */
  promised: number[];
  /** Free units less those set aside: what is left for everybody else. */
  left: number[];
  runs: Set<Run>;
  /** Waiting requests that hold units here (V5). */
  holders: Set<Request>;
  /** Device indices in use (N2). */
  devices: Set<number>;
}

export interface Group {
  record: GroupRecord;
  parent: Group | null;
  limit: number[];
  usage: number[];
}

export interface Policy {
  record: PolicyRecord;
  readonly pool: Pool;
  group: Group | null;
  reserved: number[];
  /** The pool's capacity where the policy gives none (P5). */
  limit: number[];
  usage: number[];
  /** Usage by work that may live inside reserved only (NP, and 10.8). */
  firmUsage: number[];
  /** All runs in the order in which they fill the share (G6). */
  runs: SortedList<Run>;
  /** Its waiting requests that hold units in this pool (V5). */
  readonly holders: Set<Request>;
  /** Kinds of its running work that is not stopping. */
  runKinds: Few<RunKind>;
  /** How many of them hold nothing of a key. */
  kindsWithout: number[];
}

/** Waiting requests that no rule tells apart, except by their place. */
export interface Line {
  readonly key: string;
  readonly component: Component;
  /** Any member: all have the same shape. */
  readonly shape: RequestSpec;
  /** The same for all lines of that shape, whatever operation they belong to. */
  readonly shapeKey: string;
  /** Members that wait and hold nothing, by original submission. */
  readonly members: SortedList<Request>;
  /** One for every pool in which the component has a policy. */
  poolLines: readonly PoolLine[];
  /** The same by pool. */
  readonly pools: PoolsOfLine;
  /** Live requests of this line, waiting or running. */
  liveCount: number;
}

/** Few: a table of them would be larger than the line, and there are very many lines. */
export class PoolsOfLine {
  readonly #line: Pick<Line, "poolLines">;

  constructor(line: Pick<Line, "poolLines">) {
    this.#line = line;
  }

  get(name: PoolName): PoolLine | undefined {
    for (const poolLine of this.#line.poolLines) if (poolLine.pool.record.name === name) return poolLine;
    return undefined;
  }

  get size(): number {
    return this.#line.poolLines.length;
  }
}

/** What a line means in one pool. */
export interface PoolLine {
  readonly line: Line;
  readonly policy: Policy;
  readonly pool: Pool;
  need: number[];
  /** What it wants of each node; null in a pool without nodes (N2). */
  ask: Ask | null;
  /** `null`: the pool admits it. */
  verdict: RejectionReason | null;
  /** Class and sensitivity in this pool (10.7). */
  preemptionClass: number;
  sensitive: boolean;
  /** Lives inside reserved only: NP, and in discipline `class` class 10 and sensitive work (10.8). */
  firm: boolean;
  /** Where its runs stand when the share is filled: 0 firm, 1 class ≥ 7 without checkpoint (10.8), 2 the rest (G6). */
  reserveRank: number;
  /** Kinds of runs of this line that are not stopping. The last one stays when its last run goes: mostly the next is alike. */
  runKinds: readonly RunKind[];
  /** What the share tree of its pool makes of what it asks for. Not part of the records. */
  share: Shape | null;
  /** Runs of this line that were asked to stop; `NO_RUNS` until there are some. */
  stoppingRuns: Set<Run>;
}

/** Shared by all lines with nothing in them, so that they have no lists of their own. */
export const NO_KINDS: readonly RunKind[] = [];
export const NO_RUNS: Set<Run> = new Set();
/** The same for requests. */
export const NO_OPERATIONS: readonly Operation[] = [];

/** Running work of one line that differs in nothing but its start. */
export interface RunKind {
  readonly poolLine: PoolLine;
  readonly opportunistic: boolean;
  /** When the shield ends of what was preempted too often (V6); minus infinity: it has none. */
  readonly shieldEndsAtMs: number;
  /** Told apart in discipline `class` only, whose costs depend on them (10.4). */
  readonly hasWalltime: boolean;
  /** Has saved its work without being asked, though it says that it cannot. */
  readonly hasCheckpoint: boolean;
  /** Runs, at least in part, on home nodes of others, and so borrows (N3). */
  readonly isAway: boolean;
  /** Where its runs are among the `runsByPrice` of the pool; null: nowhere. */
  readonly priceKey: string | null;
  /** By grant, oldest first; ranked by walltime, the longest lowest. Stopping runs are not in here. */
  readonly runs: SortedList<Run>;
}

/** An allocation in a pool, as the indexes see it. */
export interface Run {
  readonly request: Request;
  poolLine: PoolLine;
  kind: RunKind;
  readonly token: number;
  readonly startedAtMs: number;
  /** End by walltime; infinite without one. */
  readonly endMs: number;
  isStopping: boolean;
  /** Where it runs, in the order of its placement; none in a pool without nodes. */
  readonly nodes: readonly Node[];
  /** What it holds on home nodes of others, over the keys of the pool; null: nothing (N3). */
  away: readonly number[] | null;
}

export interface Request {
  spec: RequestSpec;
  readonly progress: RequestProgress;
  line: Line;
  run: Run | null;
  /** When its next timer fires; infinite: none. */
  wakeAtMs: number;
  /** What it belongs to in share trees. Not part of the records. */
  operations: readonly Operation[];
}

export function createState(): EngineState {
  return {
    seq: 0,
    lastEventAtMs: 0,
    unmanaged: "reject",
    pools: new Map(),
    nodes: new Map(),
    draining: new Set(),
    components: new Map(),
    requests: new RequestsById(),
    ended: new SortedList(byEndOfRequest, { key: ({ progress }) => progress.endedAtMs as number }),
    lines: new Map(),
    operations: new Map(),
    dependents: new Map(),
    arrays: new Map(),
    timers: new SortedList(compareTimers, { key: ({ wakeAtMs }) => wakeAtMs }),
    guarded: new Set(),
    unsettled: new Few(),
    dismissed: new Set(),
    isPaused: false,
    moving: new SortedList(compareMoving, { key: ({ orderUntilMs }) => orderUntilMs }),
    clockMs: 0,
    undo: new UndoLog(),
  };
}

function compareTimers(a: Request, b: Request): number {
  return a.wakeAtMs - b.wakeAtMs || a.progress.seq - b.progress.seq;
}

function compareMoving(a: Pool, b: Pool): number {
  return a.orderUntilMs - b.orderUntilMs || compareIds(a.record.name, b.record.name);
}

function byEndOfRequest(a: Request, b: Request): number {
  return (a.progress.endedAtMs as number) - (b.progress.endedAtMs as number) || bySubmission(a, b);
}

export function bySubmission(a: Request, b: Request): number {
  return a.progress.seq - b.progress.seq;
}

/** The order in which runs fill the share of their component (G6). */
export function byReserveOrder(a: Run, b: Run): number {
  return a.poolLine.reserveRank - b.poolLine.reserveRank || a.token - b.token;
}

export function byGrant(a: Run, b: Run): number {
  return a.token - b.token;
}

function tokenOf({ token }: Run): number {
  return token;
}

export function submissionOf({ progress }: Request): number {
  return progress.seq;
}

/** By grant, oldest first; ranked by walltime, the longest lowest. */
export function runsByGrant(): SortedList<Run> {
  return new SortedList<Run>(byGrant, GRANTS);
}

const GRANTS: Summaries<Run> = { key: tokenOf, rank: longestFirst };

function longestFirst({ startedAtMs, endMs }: Run): number {
  return startedAtMs - endMs;
}

/** By end, soonest first, with what they need together. */
export function runsByEnd(): SortedList<Run> {
  return new SortedList(byEnd, { key: ({ endMs }) => endMs, weigh: needOf });
}

export function byEnd(a: Run, b: Run): number {
  return a.endMs - b.endMs || a.token - b.token;
}

/** In the order in which they fill the reserve of their component (G6). */
export function runsByReserve(): SortedList<Run> {
  return new SortedList(byReserveOrder, { key: reserveKeyOf, weigh: reserveNeedOf });
}

/** 2^50: no journal is longer. */
const RANK_DISTANCE = 1_125_899_906_842_624;

/** Rank and token in one number. */
function reserveKeyOf({ poolLine, token }: Run): number {
  return poolLine.reserveRank * RANK_DISTANCE + token;
}

function needOf(run: Run): readonly number[] {
  return run.poolLine.need;
}

/** What of a run may fill its component's share: nothing that it holds on home nodes of others (G6, N3). */
export function reserveNeedOf({ poolLine, away }: Run): readonly number[] {
  return away === null ? poolLine.need : poolLine.need.map((amount, i) => amount - (away[i] as number));
}

/** Units that nobody uses; below zero after a shrink (P7). */
export function freeOf(pool: Pool, index: number): number {
  return (pool.capacity[index] as number) - (pool.usage[index] as number);
}

/** Whether so much is free, holds left out of account. */
export function fitsFree(pool: Pool, need: Vector): boolean {
  for (let i = 0; i < need.length; i++) {
    const amount = need[i] as number;
    if (amount > 0 && amount > freeOf(pool, i)) return false;
  }
  return true;
}

/** Kinds of running work in a pool that is not stopping. */
export function* runKindsOf({ policies }: Pool): Generator<RunKind> {
  for (const { runKinds } of policies.values()) yield* runKinds;
}

/** Tells the kinds of a line apart. */
export function kindKeyOf({ opportunistic, shieldEndsAtMs, ...kind }: RunKind): string {
  const shield = shieldEndsAtMs === Number.NEGATIVE_INFINITY ? "" : shieldEndsAtMs;
  return `${opportunistic ? "o" : ""}${shield}${kind.hasWalltime ? "w" : ""}${kind.hasCheckpoint ? "c" : ""}${kind.isAway ? "a" : ""}`;
}

/** Where no policy says anything else (A5). */
export const CLASS_MAX = 10;

/** One for each class (A5). */
export function noKinds(): number[] {
  return new Array<number>(CLASS_MAX + 1).fill(0);
}

/** How many requests wait in a pool, whether or not they are promised something. */
export function queueLengthOf({ waiting, promised, passers }: Pool): number {
  let length = promised.size + passers.size;
  for (const { line } of waiting) length += line.members.size;
  return length;
}

export function requireRequest(state: EngineState, id: RequestId): Request {
  const request = state.requests.get(id);
  if (request === undefined) throw new Error(`no request ${id}`);
  return request;
}

export function requirePool(state: EngineState, name: PoolName): Pool {
  const pool = state.pools.get(name);
  if (pool === undefined) throw new Error(`no pool ${name}`);
  return pool;
}

/** What the pool promised to a holder: the need of its line there. */
export function holdNeed(holder: Request, pool: Pool): readonly number[] {
  return (holder.line.pools.get(pool.record.name) as PoolLine).need;
}

/** Pools by name: the order in which they are served (G5). */
export function poolsByName(pools: Iterable<Pool>): Pool[] {
  const sorted = pools instanceof Few ? pools.toArray() : [...pools];
  if (sorted.length > 1) sorted.sort((a, b) => compareIds(a.record.name, b.record.name));
  return sorted;
}
