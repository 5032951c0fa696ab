// What would start a waiting request (Y8–Y12): single changes, each tried on the state, each as small as it can be.
//
// Invariants
//   1. Nothing is suggested that was not previewed, and that did not grant the request or promise it its units (Y9, Y10).
//   2. At most PREVIEWS_PER_KIND_MAX previews are made for one kind of change, and no more than the budget allows (Y12).

import {
  type Blocker,
  type Command,
  capacityOf,
  compareIds,
  decide,
  type EngineState,
  type Event,
  type Explanation,
  explain,
  fork,
  type NodeName,
  type NodeRecord,
  nodesOf,
  type PoolExplanation,
  type PoolName,
  type PoolRecord,
  policiesOf,
  poolsOf,
  queuePageOf,
  type RequestChange,
  type RequestSpec,
  type Resources,
  requestOf,
  usageOf,
} from "../engine/index.ts";
import type { Budget } from "./budget.ts";
import type { Suggestion, SuggestionEffects, Suggestions } from "./questions.ts";

const PREVIEWS_PER_KIND_MAX = 12;
const POOLS_MAX = 3;
const WALLTIME_STEP_MS = 60_000;
/** Nobody makes a pool larger than so many times what it is, or buys so many machines for one request. */
const MORE_CAPACITY_MAX = 8;
const MORE_NODES_MAX = 32;

export function suggestionsFor(
  state: EngineState,
  facts: Explanation,
  options: {
    readonly nowMs: number;
    readonly budget: Budget;
    /** Pools that the caller may know of. */
    readonly reaches: (pool: string) => boolean;
  },
): Suggestions {
  const spec = facts.status === "queued" ? requestOf(state, facts.requestId)?.spec : undefined;
  if (spec === undefined || facts.delayedUntilMs !== null) return { all: [], isTruncated: false };
  const search = new Search(state, spec, options);
  const pools = facts.pools.filter(({ pool }) => options.reaches(pool)).slice(0, POOLS_MAX);
  for (const pool of pools) search.inPool(pool);
  search.elsewhere();
  return { all: search.found.sort(byUse), isTruncated: options.budget.isSpent };
}

const BY = ["you", "operator", "time"] as const;

/** Those that the caller can make come first; then those that harm fewer others; then the smaller ones (Y11). */
function byUse(a: Suggestion, b: Suggestion): number {
  return (
    BY.indexOf(a.by) - BY.indexOf(b.by) ||
    harmOf(a.effects) - harmOf(b.effects) ||
    (a.starts === b.starts ? 0 : a.starts === "now" ? -1 : 1) ||
    a.size - b.size
  );
}

function harmOf({ preempted, rejected }: SuggestionEffects): number {
  return preempted.length + rejected.length;
}

/** How a change would be told and made, for a certain amount of it. */
interface Attempted {
  /** One after the other; mostly one. */
  readonly commands: readonly Command[];
  readonly suggestion: Told;
}

/** What the search knows of a suggestion before it has been tried. */
type Told = Suggestion extends infer One
  ? One extends Suggestion
    ? Omit<One, "by" | "starts" | "startsByMs" | "minimal" | "size" | "effects">
    : never
  : never;

class Search {
  readonly found: Suggestion[] = [];
  readonly #state: EngineState;
  readonly #spec: RequestSpec;
  readonly #nowMs: number;
  readonly #budget: Budget;
  readonly #reaches: (pool: string) => boolean;
  readonly #isPromised: boolean;

  constructor(
    state: EngineState,
    spec: RequestSpec,
    { nowMs, budget, reaches }: { nowMs: number; budget: Budget; reaches: (pool: string) => boolean },
  ) {
    this.#state = state;
    this.#spec = spec;
    this.#nowMs = nowMs;
    this.#budget = budget;
    this.#reaches = reaches;
    this.#isPromised = requestOf(state, spec.id)?.progress.hold !== null;
  }

  /** What could change in a pool that admits it, or in the request itself. */
  inPool(facts: PoolExplanation): void {
    this.#itself(facts);
    this.#policy(facts);
    this.#pool(facts);
    this.#others(facts);
  }

  // --- the request itself

  #itself({ pool, blockedBy, nodes }: PoolExplanation): void {
    const { resources, nodes: count, preemptible, preemptionClass, walltimeMs } = this.#spec;
    const change = (part: RequestChange): Command => ({
      kind: "updateRequest",
      requestId: this.#spec.id,
      change: part,
    });
    for (const keys of keySets(blockedBy, this.#spec)) {
      const most = Math.max(...keys.map((key) => resources[key] ?? 0));
      this.#smallest(
        "you",
        most - 1,
        (fewer) => {
          const less = Object.fromEntries(
            keys.map((key) => [key, Math.max(1, (resources[key] ?? 0) - fewer)]),
          );
          const { step_run: _, ...shown } = { ...resources, ...less };
          return {
            commands: [change({ resources: { ...resources, ...less } })],
            suggestion: { change: "fewer_units", pool, resources: shown },
          };
        },
        lackOf(blockedBy, keys),
      );
    }
    if (count > 1 && nodes !== null) {
      this.#smallest("you", count - 1, (fewer) => ({
        commands: [change({ nodes: count - fewer })],
        suggestion: { change: "fewer_nodes", pool, nodes: count - fewer },
      }));
    }
    if (!preemptible) {
      this.#once("you", {
        commands: [change({ preemptible: true })],
        suggestion: { change: "preemptible", pool },
      });
    }
    this.#smallest("you", 10 - preemptionClass, (more) => ({
      commands: [change({ preemptionClass: preemptionClass + more })],
      suggestion: { change: "higher_class", pool, preemptionClass: preemptionClass + more },
    }));
    this.#walltime(pool, walltimeMs, change);
  }

  /** The longest that still lets it pass: what ends in time may start before the head (G4). */
  #walltime(pool: PoolName, walltimeMs: number | null, change: (part: RequestChange) => Command): void {
    const attempted = (steps: number): Attempted => ({
      commands: [change({ walltimeMs: steps * WALLTIME_STEP_MS })],
      suggestion: { change: "walltime", pool, walltimeMs: steps * WALLTIME_STEP_MS },
    });
    const stepsMax = walltimeMs === null ? 1 << 14 : Math.ceil(walltimeMs / WALLTIME_STEP_MS) - 1;
    if (stepsMax < 1) return;
    const tries = new Tries(this, attempted);
    if (!tries.at(1)) return;
    let most = 1;
    while (most * 2 <= stepsMax && tries.at(most * 2)) most *= 2;
    const isTooLong = most * 2 <= stepsMax && tries.at(most * 2) === null;
    const { good, bad } = tries.closest(most, isTooLong ? most * 2 : stepsMax + 1);
    this.#add("you", attempted(good), tries.at(good), stepsMax - good, bad - good === 1);
  }

  // --- its policy and the groups above it

  #policy({ pool, blockedBy }: PoolExplanation): void {
    const { component } = this.#spec;
    const policy = policiesOf(this.#state, pool).find((one) => one.component === component);
    if (policy === undefined) return;
    const update = (part: object): Command => ({
      kind: "updatePolicy",
      policy: { pool, component, ...part },
    });
    this.#raise("limit", pool, blockedBy, (limit) => ({
      commands: [update({ limit: { ...policy.limit, ...limit } })],
      suggestion: { change: "higher_limit", pool, limit },
    }));
    const group = blockedBy.rule === "group_limit" ? blockedBy.group : null;
    if (group !== null) {
      const present = this.#state.pools.get(pool)?.groups.get(group)?.record.limit;
      this.#raise("group_limit", pool, blockedBy, (limit) => ({
        commands: [{ kind: "updateGroup", pool, group: { name: group, limit: { ...present, ...limit } } }],
        suggestion: { change: "higher_group_limit", pool, group, limit },
      }));
    }
    for (const [key, asked] of Object.entries(this.#spec.resources)) {
      if (key === "step_run") continue;
      const present = policy.reserved[key] ?? 0;
      this.#smallest("operator", asked * this.#spec.nodes + present, (more) => ({
        commands: [update({ reserved: { ...policy.reserved, [key]: present + more } })],
        suggestion: { change: "more_reserved", pool, reserved: { [key]: present + more } },
      }));
    }
    const highest = Math.max(...policiesOf(this.#state, pool).map(({ priority }) => priority));
    this.#smallest("operator", highest + 1 - policy.priority, (more) => ({
      commands: [update({ priority: policy.priority + more })],
      suggestion: { change: "higher_priority", pool, priority: policy.priority + more },
    }));
  }

  /** One policy or group limits several keys: what the next one blocks is raised with those before it. */
  #raise(
    rule: "limit" | "group_limit",
    pool: PoolName,
    blockedBy: Blocker | undefined,
    attempted: (limit: Resources) => Attempted,
  ): void {
    const raised: Record<string, number> = {};
    const isNext = (blocker: Blocker | undefined): blocker is Extract<Blocker, { allowed: number }> =>
      blocker?.rule === rule && raised[blocker.key] === undefined;
    for (let blocker = blockedBy; isNext(blocker); ) {
      const { key, used, asked, allowed } = blocker;
      const lacking = used + asked - allowed;
      const isFound = this.#smallest(
        "operator",
        lacking,
        (more) => attempted({ ...raised, [key]: allowed + more }),
        lacking,
      );
      if (isFound) return;
      raised[key] = used + asked;
      blocker = this.#blockerAfter(attempted(raised).commands, pool);
    }
  }

  // --- the pool and its nodes

  #pool({ pool, blockedBy }: PoolExplanation): void {
    const record = this.#state.pools.get(pool)?.record;
    if (record === undefined) return;
    if (!record.nodeBacked) this.#moreUnits(record, blockedBy);
    else this.#moreNodes(pool);
    const away = nodesOf(this.#state, pool).filter(({ state }) => state !== "ready");
    for (const node of away.slice(0, PREVIEWS_PER_KIND_MAX)) {
      const { name, state } = node;
      const isDrained = state === "draining" || state === "drained";
      this.#once("operator", {
        commands: [isDrained ? { kind: "undrainNode", name } : { kind: "putNode", node: { name } }],
        suggestion: { change: "node_back", pool, node: name },
      });
    }
  }

  /** More of what is short; where those before it would take that for want of other keys, so many times of everything. */
  #moreUnits({ name: pool, capacity: present }: PoolRecord, blockedBy: Blocker): void {
    const attempted = (capacity: Resources): Attempted => ({
      commands: [{ kind: "updatePool", name: pool, capacity }],
      suggestion: { change: "more_capacity", pool, capacity, nodes: null },
    });
    let isFound = false;
    for (const keys of keySets(blockedBy, this.#spec)) {
      const metered = keys.filter((key) => present[key] !== undefined);
      if (metered.length === 0) continue;
      const most = Math.max(...metered.map((key) => present[key] ?? 0));
      const more = (units: number) =>
        attempted(Object.fromEntries(metered.map((key) => [key, (present[key] ?? 0) + units])));
      const lacking = lackOf(blockedBy, metered);
      isFound = this.#smallest("operator", MORE_CAPACITY_MAX * most, more, lacking) || isFound;
    }
    if (isFound) return;
    const units = Object.entries(present).filter(([key]) => key !== "step_run");
    this.#smallest("operator", MORE_CAPACITY_MAX - 1, (times) =>
      attempted(Object.fromEntries(units.map(([key, amount]) => [key, amount * (times + 1)]))),
    );
  }

  /** As many more nodes as it takes, like the largest that could serve it when it is empty. */
  #moreNodes(pool: PoolName): void {
    const nodes = nodesOf(this.#state, pool);
    const { resources, constraints } = this.#spec;
    const mainOf = ({ capacity }: NodeRecord) => capacity.gpu ?? capacity.mcpu ?? 0;
    const [like] = nodes
      .filter(({ labels, capacity }) => {
        const hasLabels = Object.entries(constraints).every(([label, value]) => labels[label] === value);
        // What the node does not meter is unbounded there, or the pool does not have it at all.
        return (
          hasLabels && Object.entries(capacity).every(([key, amount]) => (resources[key] ?? 0) <= amount)
        );
      })
      .sort((a, b) => mainOf(b) - mainOf(a) || compareIds(a.name, b.name));
    if (like === undefined) return;
    const present = capacityOf(this.#state, pool);
    this.#smallest(
      "operator",
      MORE_NODES_MAX,
      (count) => ({
        commands: Array.from({ length: count }, (_, index) => ({
          kind: "putNode" as const,
          node: {
            ...{ name: `${like.name}-more-${index + 1}` as NodeName, pool, capacity: like.capacity },
            ...{ labels: like.labels, topology: like.topology },
          },
        })),
        suggestion: {
          ...{ change: "more_capacity", pool, nodes: { count, like: like.name } },
          capacity: Object.fromEntries(
            Object.entries(present).map(([key, amount]) => [key, amount + count * (like.capacity[key] ?? 0)]),
          ),
        },
      }),
      this.#spec.nodes,
    );
  }

  // --- others

  #others({ pool, holders, position }: PoolExplanation): void {
    for (const { requestId, isStopping } of holders.slice(0, PREVIEWS_PER_KIND_MAX)) {
      const outcome = isStopping ? "stopped" : "succeeded";
      this.#once("time", {
        commands: [{ kind: "tick", ends: [{ requestId, outcome }] }],
        suggestion: { change: "run_ends", pool, requestId },
      });
    }
    const start = Math.max(0, position - 1 - PREVIEWS_PER_KIND_MAX);
    const ahead = queuePageOf(this.#state, pool, this.#nowMs, { start, limit: position - 1 - start });
    for (const requestId of ahead) {
      if (requestId === this.#spec.id) continue;
      this.#once("operator", {
        commands: [{ kind: "cancelRequest", requestId }],
        suggestion: { change: "ahead_withdrawn", pool, requestId },
      });
    }
  }

  /** Pools in which the component has no policy yet, or which the request does not name. One is an idea, ten are a list of pools. */
  elsewhere(): void {
    const { component, pools: named, id, resources } = this.#spec;
    const known = new Set(
      policiesOf(this.#state).flatMap((policy) => (policy.component === component ? policy.pool : [])),
    );
    const before = this.found.length;
    let tried = 0;
    for (const { name: pool, closing } of poolsOf(this.#state)) {
      if (this.found.length > before || tried >= POOLS_MAX) return;
      const isAsked = named?.includes(pool) ?? true;
      if (closing || !this.#reaches(pool) || (known.has(pool) && isAsked)) continue;
      if (!hasRoom(this.#state, pool, resources)) continue;
      tried++;
      if (known.has(pool)) {
        const change = { pools: [...(named ?? []), pool] };
        const command: Command = { kind: "updateRequest", requestId: id, change };
        this.#once("you", { commands: [command], suggestion: { change: "another_pool", pool } });
      } else if (isAsked) {
        const command: Command = { kind: "attachPolicy", policy: { pool, component } };
        this.#once("operator", { commands: [command], suggestion: { change: "another_pool", pool } });
      }
    }
  }

  // --- trying

  #once(by: Suggestion["by"], attempted: Attempted): void {
    this.#add(by, attempted, this.try(attempted.commands, attempted.suggestion.pool), 1, true);
  }

  /** By doubling, then halving: outcomes are not monotone, so that the smallest found may not be the smallest of all (Y9). */
  #smallest(by: Suggestion["by"], max: number, attempted: (amount: number) => Attempted, guess = 1): boolean {
    if (max < 1) return false;
    const tries = new Tries(this, attempted);
    let enough = Math.max(1, Math.min(guess, max));
    let tooLittle = 0;
    while (tries.at(enough) === null) {
      if (enough >= max) return false;
      tooLittle = enough;
      enough = Math.min(enough * 2, max);
    }
    if (tries.at(enough) === undefined) return false;
    // What is lacking is mostly what is needed.
    if (tooLittle === 0 && enough > 1 && tries.at(enough - 1) === null) tooLittle = enough - 1;
    const { good } = tries.closest(enough, tooLittle);
    const isMinimal = good === 1 || tries.at(good - 1) === null;
    this.#add(by, attempted(good), tries.at(good), good, isMinimal);
    return true;
  }

  #add(
    by: Suggestion["by"],
    attempted: Attempted,
    outcome: Outcome | null | undefined,
    size: number,
    minimal: boolean,
  ): void {
    if (!outcome) return;
    this.found.push({ ...attempted.suggestion, ...outcome, by, size, minimal } as Suggestion);
  }

  /** Null: it would not start; undefined: the budget was spent before that was known. */
  try(commands: readonly Command[], pool: string): Outcome | null | undefined {
    if (!this.#budget.spend()) return undefined;
    const events = this.#eventsOf(commands);
    if (this.#budget.isSpent) return undefined;
    if (events === null) return null;
    const outcome = outcomeOf(events, this.#spec, pool);
    // Who is promised its units already is helped only by what starts it at once.
    return this.#isPromised && outcome?.starts === "after" ? null : outcome;
  }

  /** Null: one of them is refused. */
  #eventsOf(commands: readonly Command[]): readonly Event[] | null {
    return fork(this.#state, () => this.#decideAll(commands));
  }

  #decideAll(commands: readonly Command[]): readonly Event[] | null {
    const events: Event[] = [];
    for (const command of commands) {
      const decision = decide(this.#state, command, this.#nowMs, this.#budget.isTimeUp);
      if (decision.outcome === "refused") return null;
      events.push(...decision.events);
    }
    return events;
  }

  /** What would block it in the pool then. */
  #blockerAfter(commands: readonly Command[], pool: PoolName): Blocker | undefined {
    if (!this.#budget.spend()) return undefined;
    return fork(this.#state, () => {
      if (this.#decideAll(commands) === null || this.#budget.isSpent) return undefined;
      const facts = explain(this.#state, this.#spec.id, this.#nowMs);
      return facts?.pools.find((one) => one.pool === pool)?.blockedBy;
    });
  }
}

/** The tries of one kind of change; none is made twice. */
class Tries {
  readonly #outcomes = new Map<number, Outcome | null>();
  readonly #search: Search;
  readonly #attempted: (amount: number) => Attempted;

  constructor(search: Search, attempted: (amount: number) => Attempted) {
    this.#search = search;
    this.#attempted = attempted;
  }

  /** Null: it would not start with this amount; undefined: nobody knows, because no tries are left. */
  at(amount: number): Outcome | null | undefined {
    const known = this.#outcomes.get(amount);
    if (known !== undefined || this.#outcomes.size >= PREVIEWS_PER_KIND_MAX) return known;
    const { commands, suggestion } = this.#attempted(amount);
    const outcome = this.#search.try(commands, suggestion.pool);
    if (outcome !== undefined) this.#outcomes.set(amount, outcome);
    return outcome;
  }

  /** Between an amount that would do and one that would not: the closest two, as far as there are tries. */
  closest(good: number, bad: number): { readonly good: number; readonly bad: number } {
    if (Math.abs(good - bad) <= 1) return { good, bad };
    const middle = Math.floor((good + bad) / 2); // Amounts may be beyond 32 bits.
    const outcome = this.at(middle);
    if (outcome === undefined) return { good, bad };
    return outcome === null ? this.closest(good, middle) : this.closest(middle, bad);
  }
}

type Outcome = Pick<Suggestion, "starts" | "startsByMs" | "effects">;

/** Started at once, or promised what its victims leave (Y10). */
function outcomeOf(events: readonly Event[], { id }: RequestSpec, pool: string): Outcome | null {
  const effects: SuggestionEffects = { granted: [], preempted: [], rejected: [] };
  let starts: Suggestion["starts"] | undefined;
  let startsByMs: number | null = null;
  for (const event of events) {
    switch (event.kind) {
      case "requestAllocated":
        if (event.requestId !== id) effects.granted.push(event.requestId);
        else if (event.pool === pool) starts = "now";
        break;
      case "holdTaken":
        if (event.requestId === id && event.pool === pool) starts ??= "after";
        break;
      case "holdEnded": // Another one has taken the promise over before all was decided.
        if (event.requestId === id && starts === "after") starts = undefined;
        break;
      case "preemptionDecided":
        for (const { requestId, stop } of event.victims) {
          effects.preempted.push(requestId);
          if (event.waiter === id) startsByMs = Math.max(startsByMs ?? 0, stop.deadlineMs);
        }
        if (event.waiter === id && event.pool === pool) starts ??= "after";
        break;
      case "requestRejected":
        effects.rejected.push(event.requestId);
    }
  }
  return starts === undefined ? null : { starts, startsByMs, effects };
}

/** What is short of these keys now, as far as that is told; else one. */
function lackOf(blockedBy: PoolExplanation["blockedBy"], keys: readonly string[]): number {
  if ("allowed" in blockedBy) return blockedBy.used + blockedBy.asked - blockedBy.allowed;
  if (blockedBy.rule !== "units") return 1;
  const lacking = blockedBy.short
    .filter(({ key }) => keys.includes(key))
    .map(({ asked, free, promised }) => asked - free + promised)
    .filter(Number.isFinite); // What a pool does not meter is infinite, free and promised alike.
  return Math.max(1, ...lacking);
}

function isShort(blockedBy: PoolExplanation["blockedBy"], key: string): boolean {
  switch (blockedBy.rule) {
    case "limit":
    case "group_limit":
    case "reserved":
      return blockedBy.key === key;
    case "units":
      return blockedBy.short.some((one) => one.key === key);
    default:
      return true;
  }
}

/** Each short key alone, and all of them together where there are several. */
function keySets(blockedBy: PoolExplanation["blockedBy"], { resources }: RequestSpec): string[][] {
  const short = Object.keys(resources).filter((key) => key !== "step_run" && isShort(blockedBy, key));
  return short.length > 1 ? [...short.map((key) => [key]), short] : short.map((key) => [key]);
}

function hasRoom(state: EngineState, pool: PoolName, wanted: RequestSpec["resources"]): boolean {
  const [capacity, usage] = [capacityOf(state, pool), usageOf(state, pool)];
  // Other keys are not counted there, or not there at all: the trial tells.
  return Object.entries(capacity).every(([key, amount]) => (usage[key] ?? 0) + (wanted[key] ?? 0) <= amount);
}
