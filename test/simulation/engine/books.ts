// The books of the auditors: who asked, who runs where and what there is, folded from the events alone. Every sum
// is added up anew when it is asked for, so that nothing here can be wrong in the way that the engine's indexes can.

import type {
  ComponentName,
  Event,
  NodeName,
  NodeRecord,
  Placement,
  PolicyRecord,
  PoolName,
  PoolRecord,
  RequestId,
  RequestSpec,
  Resources,
} from "../../../src/engine/index.ts";

/** One attempt that holds units. */
export interface Run {
  readonly pool: PoolName | null;
  readonly placement: readonly Placement[];
  readonly startedAtMs: number;
  /** Later grants have higher numbers. */
  readonly grant: number;
  readonly isOpportunistic: boolean;
  isStopping: boolean;
}

export interface Entry {
  readonly spec: RequestSpec;
  run: Run | null;
  /** The pool in which units are promised to it (V5). */
  holdsIn: PoolName | null;
  lastCheckpointAtMs: number | null;
  /** When its attempts ended by preemption (V6). */
  preemptedAtMs: readonly number[];
  /** Why it was told to stop. */
  stopReason: string | null;
}

/** An entry that holds units in a pool. */
export type Running = Entry & { readonly run: Run };

/** Keys that a pool or node without a row for them does not meter (R4). */
const UNMETERED_WHEN_MISSING: ReadonlySet<string> = new Set(["mcpu", "memory_mb", "step_run"]);

const DAY_MS = 86_400_000;

/** What the auditors know of a discipline. */
interface DisciplineRules {
  /** How often a request may be preempted within 24 hours where its pool does not say (V6). */
  readonly preemptionsMax: number;
  /** Class 10 and sensitive work has a rank of its own (10). */
  readonly hasClasses: boolean;
  /** Operations have fair shares, and starve (9). */
  readonly hasShares: boolean;
}

const RULES: Readonly<Record<PoolRecord["discipline"], DisciplineRules>> = {
  priority: { preemptionsMax: 5, hasClasses: false, hasShares: false },
  class: { preemptionsMax: 5, hasClasses: true, hasShares: false },
  fair_share: { preemptionsMax: Number.POSITIVE_INFINITY, hasClasses: false, hasShares: true },
};

export function rulesOf({ discipline }: Pick<PoolRecord, "discipline">): DisciplineRules {
  return RULES[discipline];
}

export class Books {
  readonly pools = new Map<PoolName, PoolRecord>();
  readonly nodes = new Map<NodeName, NodeRecord>();
  readonly requests = new Map<RequestId, Entry>();
  readonly #policies = new Map<string, PolicyRecord>();
  #grants = 0;

  enter(event: Event): void {
    switch (event.kind) {
      case "poolSet":
        this.pools.set(event.pool.name, event.pool);
        break;
      case "poolDeleted":
        this.#deletePool(event.name);
        break;
      case "policySet":
        this.#policies.set(policyKey(event.policy.pool, event.policy.component), event.policy);
        break;
      case "policyDetached":
        this.#policies.delete(policyKey(event.pool, event.component));
        break;
      case "nodeSet":
        this.nodes.set(event.node.name, event.node);
        break;
      case "nodeStateChanged":
        this.nodes.set(event.name, { ...(this.nodes.get(event.name) as NodeRecord), state: event.state });
        break;
      case "nodeRemoved":
        this.nodes.delete(event.name);
        break;
      default:
        this.#enterRequest(event);
    }
  }

  #enterRequest(event: Event): void {
    switch (event.kind) {
      case "requestSubmitted":
        this.requests.set(event.spec.id, {
          spec: event.spec,
          run: null,
          holdsIn: null,
          lastCheckpointAtMs: null,
          preemptedAtMs: [],
          stopReason: null,
        });
        break;
      case "requestAllocated": {
        const { pool, placement, opportunistic, atMs } = event;
        const run = { pool, placement, startedAtMs: atMs, grant: ++this.#grants };
        this.#update(event.requestId, {
          run: { ...run, isOpportunistic: opportunistic, isStopping: false },
          holdsIn: null,
        });
        break;
      }
      case "holdTaken":
        this.#update(event.requestId, { holdsIn: event.pool });
        break;
      case "preemptionDecided":
        if (event.waiter !== null) this.#update(event.waiter, { holdsIn: event.pool });
        for (const { requestId, reason } of event.victims) {
          this.#stop(requestId);
          this.#update(requestId, { stopReason: reason });
        }
        break;
      case "stopChanged":
        this.#stop(event.requestId);
        break;
      case "checkpointCompleted":
        this.#update(event.requestId, { lastCheckpointAtMs: event.atMs });
        break;
      case "attemptEnded":
        this.#endAttempt(event);
        break;
      case "holdEnded":
      case "requestCancelled":
      case "requestExpired":
      case "requestRejected":
        this.#update(event.requestId, { holdsIn: null });
        break;
      case "requestDeleted":
        this.requests.delete(event.requestId);
        break;
      case "endedForgotten":
        for (const id of event.requestIds) this.requests.delete(id);
        break;
      default:
    }
  }

  #update(id: RequestId, change: Partial<Entry>): void {
    Object.assign(this.requests.get(id) ?? {}, change);
  }

  #endAttempt({ requestId, outcome, atMs }: Extract<Event, { kind: "attemptEnded" }>): void {
    const entry = this.requests.get(requestId);
    if (entry === undefined) return;
    entry.run = null;
    if (outcome === "preempted" && entry.stopReason !== "administration")
      entry.preemptedAtMs = [...entry.preemptedAtMs, atMs];
  }

  /** Preempted so often within 24 hours that only some rules may stop it again (V6). */
  isShielded(pool: PoolRecord, { preemptedAtMs }: Entry, nowMs: number): boolean {
    const recent = preemptedAtMs.filter((atMs) => nowMs - atMs < DAY_MS);
    return recent.length >= (pool.settings.maxPreemptions ?? rulesOf(pool).preemptionsMax);
  }

  #stop(id: RequestId): void {
    const run = this.requests.get(id)?.run;
    if (run != null) run.isStopping = true;
  }

  #deletePool(name: PoolName): void {
    this.pools.delete(name);
    for (const node of [...this.nodes.values()]) if (node.pool === name) this.nodes.delete(node.name);
    for (const [key, { pool }] of [...this.#policies]) if (pool === name) this.#policies.delete(key);
  }

  running(): Running[] {
    return [...this.requests.values()].filter(isRunning);
  }

  runsIn(pool: PoolName): Running[] {
    return this.running().filter(({ run }) => run.pool === pool);
  }

  runsOn(node: NodeName): Running[] {
    return this.running().filter(({ run }) => run.placement.some((place) => place.node === node));
  }

  policiesIn(pool: PoolName): PolicyRecord[] {
    return [...this.#policies.values()].filter((policy) => policy.pool === pool);
  }

  policyOf(pool: PoolName, component: ComponentName): PolicyRecord | undefined {
    return this.#policies.get(policyKey(pool, component));
  }

  nodesOf(pool: PoolName): NodeRecord[] {
    return [...this.nodes.values()].filter((node) => node.pool === pool);
  }

  /** What a request takes of a pool: only of keys that it meters, and of each for all its nodes but `step_run` (N2). */
  takenOf(pool: PoolRecord, { resources, nodes }: RequestSpec): Resources {
    const rows = pool.nodeBacked ? this.nodesOf(pool.name).map(({ capacity }) => capacity) : [pool.capacity];
    const isMetered = (key: string) => rows.some((row) => Object.hasOwn(row, key));
    return Object.fromEntries(
      Object.entries(resources)
        .filter(([key]) => isMetered(key))
        .map(([key, amount]) => [key, key === "step_run" ? amount : amount * nodes]),
    );
  }
}

function policyKey(pool: PoolName, component: ComponentName): string {
  return `${pool}/${component}`;
}

export function isRunning(entry: Entry): entry is Running {
  return entry.run !== null;
}

/** What is left when some are served. */
export function leftOf(capacity: Resources, taken: readonly Resources[]): Resources {
  const left: Record<string, number> = { ...capacity };
  for (const amounts of taken) {
    for (const [key, amount] of Object.entries(amounts)) if (Object.hasOwn(left, key)) left[key]! -= amount;
  }
  return left;
}

/** Whether there is enough of every key; what is not metered is never short (R4). */
export function isEnough(left: Resources, wanted: Resources): boolean {
  return Object.entries(wanted).every(
    ([key, amount]) =>
      amount === 0 || amount <= (left[key] ?? (UNMETERED_WHEN_MISSING.has(key) ? amount : 0)),
  );
}

export function hasLabels(labels: Readonly<Record<string, string>>, wanted: typeof labels): boolean {
  return Object.entries(wanted).every(([label, value]) => labels[label] === value);
}
