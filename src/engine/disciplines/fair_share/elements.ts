// What the share tree of a pool consists of (9): root, groups, policies, and operations that are alike, with demand, usage
// and fair share of each. `tree.ts` says who changes what, and what must hold.

import type { StarvationChange } from "../../events.ts";
import { Promises } from "../../scheduling/quotas.ts";
import type { PoolSettings } from "../../settings.ts";
import { SortedList, type Summaries } from "../../sorted-list.ts";
import type { Group, Policy, PoolLine, Request, Run } from "../../state.ts";
import type { AllocationGroup } from "./allocation-groups.ts";
import type { Allocation } from "./allocations.ts";
import type { Margin } from "./margins.ts";
import type { Need } from "./needs.ts";
import { fraction } from "./satisfaction.ts";
import type { Search, Stage } from "./search.ts";
import { ShareElement, type ShareFields, ShareTree } from "./share-tree.ts";

/** What a group may override for everything below it (P6). */
export type ShareSettings = Pick<
  PoolSettings,
  | "starvationTimeoutMs"
  | "aggressiveStarvationTimeoutMs"
  | "starvationTolerance"
  | "enableAggressiveStarvation"
  | "allowAggressivePreemption"
  | "nonPreemptibleUsageThreshold"
  | "preemptionSatisfactionThreshold"
  | "aggressivePreemptionSatisfactionThreshold"
>;

/** 0: nothing, 1: to preempt, 2: to preempt aggressively (9.7). */
export type Right = 0 | 1 | 2;

/** What tells peers apart. */
export type Key = number | string;

/** How an element stands, or each of its operations: units over the share keys, and fractions of the pool. */
abstract class Standing extends ShareElement {
  readonly settings: ShareSettings;
  abstract readonly demandShare: readonly number[];
  abstract readonly usageShare: readonly number[];
  /** Requests that wait below it, those that are promised units included. */
  waitingCount = 0;
  /** Usage ÷ fair share (9.6); NaN: to be computed when asked for. */
  satisfaction = Number.NaN;
  /** Whether it stands otherwise than at the last look. */
  isTouched = false;
  /** The number of the last walk for which it, or somebody below it, was asked for (`order.ts`). */
  askedIn = 0;

  constructor(settings: ShareSettings, fields: ShareFields) {
    super(fields);
    this.settings = settings;
  }
}

/** What can starve. */
interface Starver {
  /** Unique in the pool; starvation is recorded under it. */
  readonly key: string;
  readonly name: string;
  /** When time alone makes its status another one; infinite: never. */
  wakeAtMs: number;
  /** The number of the last look that judged it. */
  judgedIn: number;
  /** What is recorded of it; null: to be looked up. */
  record: StarvationChange | null;
  /** What its own starvation entitles it to, or those below it, as of the last look. */
  right: Right;
}

export type BranchFields = Pick<Branch, "kind" | "key" | "name" | "parent" | "group" | "policy">;

/** The root, a group or a policy. */
export class Branch extends Standing implements Starver {
  declare readonly parent: Branch | null;
  declare readonly members: (Branch | Peers)[];
  readonly kind: "root" | "group" | "policy";
  readonly key: string;
  readonly name: string;
  readonly group: Group | null;
  readonly policy: Policy | null;
  /** Whether its operations are served in one line, its own or that of the group above it. */
  readonly isInLine: boolean;
  readonly demand: number[];
  readonly usage: number[];
  readonly demandShare: number[];
  readonly usageShare: number[];
  /** Of a policy: its operations, by what they are alike in. */
  readonly peers = new Map<Key, Peers>();
  /** Of its oldest operation with something waiting (9.11); NaN: to be computed when asked for. */
  age = Number.NaN;
  right: Right = 0;
  wakeAtMs = Number.POSITIVE_INFINITY;
  judgedIn = 0;
  record: StarvationChange | null = null;

  constructor(own: BranchFields, settings: ShareSettings, shares: Omit<ShareFields, "parent">) {
    const { parent } = own;
    super(settings, { ...shares, parent });
    this.kind = own.kind;
    this.key = own.key;
    this.name = own.name;
    this.group = own.group;
    this.policy = own.policy;
    this.isInLine = shares.isFifo || (parent?.isInLine ?? false);
    this.demand = shares.limit.map(() => 0);
    this.usage = shares.limit.map(() => 0);
    this.demandShare = shares.limit.map(() => 0);
    this.usageShare = shares.limit.map(() => 0);
  }
}

/** Operations of a policy that no rule tells apart, except by their age. All amounts are those of each one of them. */
export class Peers extends Standing {
  declare readonly parent: Branch;
  readonly kind = "peers";
  readonly key: Key;
  readonly demand: readonly number[];
  readonly demandShare: readonly number[];
  readonly usage: readonly number[];
  readonly usageShare: readonly number[];
  /** Runs that are not stopping, of each. */
  readonly runCount: number;
  /** What the lines of each of them ask for. */
  readonly needs: readonly Need[];
  /** The oldest first. */
  readonly operations = new SortedList<Operation>(byAge, AGES);
  /** Whether they may be more or fewer than shares know, or others. */
  isRecounted = false;
  /** Whether they were below their fair share at the last look. */
  isBelow = false;
  /** How many of them may preempt, and how many of these aggressively, because they starve themselves. */
  starvingCount = 0;
  aggressiveCount = 0;
  /** The groups of the runs of each (9.5); null: to be found when asked for. */
  groups: readonly AllocationGroup[] | null = null;
  /** Between which shares nothing is found otherwise about them; null: to be found when asked for. */
  margin: Margin | null = null;
  /** The number of the last walk of the regular stage in which each of them fitted. */
  fitsIn = 0;

  constructor(
    { total, root }: PoolTree,
    parent: Branch,
    each: Pick<Peers, "key" | "demand" | "usage" | "waitingCount" | "runCount" | "needs" | "isGang">,
  ) {
    super(parent.settings, { parent, weight: 1, isFifo: false, reserved: undefined, limit: root.limit });
    this.key = each.key;
    this.demand = each.demand;
    this.demandShare = each.demand.map((units, i) => fraction(units, total[i]!));
    this.usage = each.usage;
    this.usageShare = each.usage.map((units, i) => fraction(units, total[i]!));
    this.waitingCount = each.waitingCount;
    this.runCount = each.runCount;
    this.needs = each.needs;
    this.isGang = each.isGang;
  }
}

function byAge(a: Operation, b: Operation): number {
  return a.order - b.order;
}

const AGES: Summaries<Operation> = { key: ({ order }) => order };

export class Operation implements Starver {
  readonly key: string;
  readonly name: string;
  /** Null: it has gone. */
  tree: PoolTree | null;
  readonly parent: Branch;
  /** What it consists of if it is a request that names no operation; null: any number of them may belong to it. */
  readonly request: Request | null;
  lines: LineEntry[] = NO_LINES;
  /** Its place by original submission: that of its first request (9.11). */
  order = 0;
  /** Null until it is first looked at, and when it has gone. */
  peers: Peers | null = null;
  /** Whether it is new, stands elsewhere, or must be looked at again. */
  isMoved = false;
  /** Whether one of its requests has changed. */
  isStale = false;
  /** Its runs by the groups that its peers had then; null: to be made anew when asked for. */
  allocations: AllocationsOf | null = null;
  right: Right = 0;
  wakeAtMs = Number.POSITIVE_INFINITY;
  judgedIn = 0;
  record: StarvationChange | null = null;

  constructor(tree: PoolTree, own: Pick<Operation, "key" | "name" | "parent" | "request">) {
    this.key = own.key;
    this.name = own.name;
    this.tree = tree;
    this.parent = own.parent;
    this.request = own.request;
  }
}

const NO_LINES: LineEntry[] = [];

export interface AllocationsOf {
  readonly groups: readonly AllocationGroup[];
  readonly byRun: ReadonlyMap<Run, Allocation>;
}

/** Requests of one shape are alike to every rule; the number stands for a long text. */
export interface Shape {
  readonly tree: PoolTree;
  readonly number: number;
  readonly need: Need;
  /** Over the share keys. */
  readonly units: readonly number[];
  readonly isGang: boolean;
}

/** The requests of an operation that are of one line, and how many of them were where when they were last counted. */
export class LineEntry {
  readonly poolLine: PoolLine;
  readonly shape: Shape;
  readonly operation: Operation;
  /** Requests that wait in this pool, wherever they are promised units. */
  waiting = 0;
  /** Those of them that are promised units here, and elsewhere. */
  promised = 0;
  passing = 0;
  running = 0;
  /** Stopping, and those of them that come back. */
  stopping = 0;
  returning = 0;

  constructor(poolLine: PoolLine, shape: Shape, operation: Operation) {
    this.poolLine = poolLine;
    this.shape = shape;
    this.operation = operation;
  }
}

export class PoolTree extends ShareTree {
  declare readonly root: Branch;
  declare readonly changed: (Branch | Peers)[];
  /** Which keys of the pool take part, as indices into its keys. */
  readonly keys: readonly number[];
  readonly keyNames: readonly string[];
  readonly total: readonly number[];
  /** Groups and policies by key, parents before what is below them; the root comes first. */
  readonly branches = new Map<string, Branch>();
  readonly policies = new Map<Policy, Branch>();
  /** Operations that have a name of their own, by key; a request that is one knows it itself. */
  readonly named = new Map<string, Operation>();
  /** Operations that are to be taken anew from their requests. */
  readonly stale: Operation[] = [];
  /** Every need and every shape of requests that was met. */
  readonly needs = new Map<string, Need>();
  readonly shapes = new Map<string, Shape>();
  /** Needs of requests that wait, but for those that were found to fit nowhere. */
  readonly openNeeds = new Set<Need>();
  /** No need asks for less of a key. */
  readonly leastUnits: number[];
  /** All peers with something waiting, and all with runs. */
  readonly waiting = new Set<Peers>();
  readonly running = new Set<Peers>();
  /** Those that may be more or fewer than shares know, or others. */
  readonly recounted: Peers[] = [];
  /** Elements that stand otherwise than at the last look. */
  readonly touched: (Branch | Peers)[] = [];
  /** Operations that are new, stand elsewhere, or must be looked at again; and those that have gone. */
  readonly moved: Operation[] = [];
  readonly gone: Operation[] = [];
  /** Those who were found to have come below their fair share just now. */
  readonly fresh: (Branch | Operation)[] = [];
  /** Those whose status time alone changes, soonest first. */
  readonly wakes: SortedList<Branch | Operation>;
  /** What is promised to whom. */
  readonly promises: Promises;
  /** Whether no promise can be lost that a look would not find (V5). */
  areHoldsChecked = false;
  /** Units may have come free since a look found nobody who fits. */
  hasNewRoom = true;
  /** How many operations, policies and groups starve so that they have a right to each preemptive stage. */
  readonly rights: Record<Stage, number> = { preemptive: 0, aggressive: 0 };
  /** What the preemptive stages know; null: nobody has had the right to one since the tree was built. */
  readonly searches: Record<Stage, Search | null> = { preemptive: null, aggressive: null };
  /** Whether statuses were looked at since it was built. */
  isLookedAt = false;
  /** Whether somebody looks at them now. */
  isInLook = false;
  /** How many looks at statuses there were, and how many walks over those who wait. */
  lookCount = 0;
  askCount = 0;

  constructor(
    root: Branch,
    keys: Pick<PoolTree, "keys" | "keyNames" | "total" | "wakes"> & { readonly poolKeyCount: number },
  ) {
    super(root);
    this.keys = keys.keys;
    this.keyNames = keys.keyNames;
    this.total = keys.total;
    this.wakes = keys.wakes;
    this.leastUnits = new Array<number>(keys.poolKeyCount).fill(Number.POSITIVE_INFINITY);
    this.promises = new Promises(keys.poolKeyCount);
  }

  /** Groups that are promised more than there is, and "" for the pool as a whole (9.1). */
  get overcommitted(): string[] {
    return [...this.branches.values()].flatMap(({ isOvercommitted, name }) =>
      isOvercommitted ? [name] : [],
    );
  }
}
