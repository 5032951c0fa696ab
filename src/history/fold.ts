// What pools gave, to whom, and when: a fold of the committed events (H6). Sums are in unit-milliseconds, so they are exact.
//
// Between two events nothing changes, so it is enough to remember since when each policy has what it has (its level), and
// to settle that when it changes. All levels are settled when an hour begins, so that days and hours have sums of their own.
//
// Invariants
//   1. The same events at the same times give the same sums: on the leader, after a restart, and on every follower.
//   2. Per pool and key, in share and borrowed over all components is what the pool had in use, times time.
//   3. A day is handed out whole when it is over, and kept no longer; the writer of the journal writes it in the same commit.

import {
  borrowedBy,
  type ComponentName,
  capacityOf,
  type EngineState,
  type Event,
  type PoolName,
  type RequestId,
  type RequestSpec,
  type Resources,
  waitingByComponentOf,
} from "../engine/index.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
export const SAMPLE_MS = 60_000;
/** Beyond this time without any event, days are settled whole, not hour by hour. */
const HOURS_KEPT = 25;

/** Unit-milliseconds of one key. */
export interface KeySums {
  own: number;
  borrowed: number;
  lent: number;
  lost: number;
  waited: number;
}

export interface Account {
  readonly keys: Map<string, KeySums>;
  starts: number;
  preempted: number;
}

/** What one component had of one pool in one day (UTC). */
export interface DayAccount extends Account {
  /** By who submitted it. Of these, what is in share is a part of the component's, so its last milliseconds may be rounded. */
  readonly users: Map<string, Account>;
}

/** What a policy has of one key. */
interface KeyLevel {
  usage: number;
  borrowed: number;
  reserved: number;
  /** Reserved and not in use. */
  idle: number;
  /** Where the pool's integral of lending stood when this began. */
  lentFrom: number;
}

/** What a policy has, since when. */
interface Level {
  sinceMs: number;
  readonly keys: Map<string, KeyLevel>;
  /** What the runs of each user have. */
  readonly users: Map<string, Map<string, number>>;
  /** Since the last sample, in unit-milliseconds. */
  readonly sampled: Map<string, { used: number; borrowed: number }>;
}

/** One key of a pool. */
interface KeyState {
  capacity: number;
  usage: number;
  borrowed: number;
  idle: number;
  reserved: number;
  /** Integral of the lent part of all idle reserve, in millionths × milliseconds, since midnight. */
  lending: number;
}

export interface HourSums {
  /** Unit-milliseconds in use, and those that there were. */
  readonly used: Map<string, number>;
  readonly capacity: Map<string, number>;
  preempted: number;
}

export interface PoolHistory {
  sinceMs: number;
  readonly keys: Map<string, KeyState>;
  readonly levels: Map<string, Level>;
  /** The last ones, by their beginning. */
  readonly hours: Map<number, HourSums>;
  readonly day: Map<string, DayAccount>;
}

/** Units per key. */
type Need = readonly (readonly [string, number])[];

interface RunFacts {
  readonly pool: PoolName;
  readonly component: ComponentName;
  readonly user: string;
  readonly need: Need;
  /** Its start, or the last checkpoint: what came after that is lost with it. */
  savedAtMs: number;
}

export interface History {
  /** Nothing is known of the time before; 0: there is none. */
  keptSinceMs: number;
  atMs: number;
  sampledAtMs: number;
  readonly pools: Map<string, PoolHistory>;
  readonly runs: Map<RequestId, RunFacts>;
  /** To be written with the next commit; a server that does not write lets them go. */
  due: DueRow[];
}

/** A row for the store: the account of a day, or a sample. */
export type DueRow =
  | {
      readonly kind: "day";
      readonly atMs: number;
      readonly pool: string;
      readonly component: string;
      readonly account: DayAccount;
    }
  | { readonly kind: "sample"; readonly atMs: number; readonly pool: string; readonly sample: Sample };

/** Averages of a stretch of time that ends at `atMs` of its row. */
export interface Sample {
  readonly ms: number;
  readonly capacity: Resources;
  readonly waiting: number;
  /** Used and borrowed units, how many waited at its end, and what it was owed then where shares are fair. */
  readonly components: Readonly<
    Record<
      string,
      { readonly u?: Resources; readonly b?: Resources; readonly w?: number; readonly o?: Resources }
    >
  >;
}

export function createHistory(state: EngineState): History {
  const startMs = state.lastEventAtMs;
  const history: History = {
    ...{ keptSinceMs: state.seq === 0 ? 0 : startMs, atMs: startMs, sampledAtMs: startMs },
    ...{ pools: new Map(), runs: new Map(), due: [] },
  };
  for (const [name, { policies }] of state.pools) {
    resetPool(history, state, name);
    for (const { runs } of policies.values()) for (const { request } of runs) noteRun(history, request, name);
  }
  return history;
}

/** Folds an event. The state is as it is after it, or after the whole command that it belongs to. */
export function foldInto(history: History, state: EngineState, event: Event, atMs: number): void {
  advance(history, atMs, state);
  switch (event.kind) {
    case "requestAllocated":
      return begin(history, state, event);
    case "attemptEnded":
      return finish(history, state, event);
    case "checkpointCompleted": {
      const run = history.runs.get(event.requestId);
      if (run !== undefined) run.savedAtMs = atMs;
      return;
    }
    case "policySet":
      return refresh(history, state, event.policy.pool, event.policy.component);
    case "policyDetached":
      return refresh(history, state, event.pool, event.component);
    case "poolSet":
      return resetPool(history, state, event.pool.name);
    case "nodeSet":
      return resetPool(history, state, event.node.pool);
    case "nodeStateChanged": {
      const pool = state.nodes.get(event.name)?.record.pool;
      return pool === undefined ? undefined : refreshCapacity(history, state, pool);
    }
    case "nodeRemoved":
      for (const name of history.pools.keys()) resetPool(history, state, name as PoolName);
      return;
    case "poolDeleted":
      return closePool(history, event.name);
    default:
      return;
  }
}

// --- Time

/** Settles what has passed. With a state, samples are taken where one is due. */
export function advance(history: History, atMs: number, state?: EngineState): void {
  while (history.atMs < atMs) {
    const stepMs = atMs - history.atMs > HOURS_KEPT * HOUR_MS ? DAY_MS : HOUR_MS;
    const borderMs = (Math.floor(history.atMs / stepMs) + 1) * stepMs;
    history.atMs = Math.min(borderMs, atMs);
    if (borderMs > atMs) break;
    for (const pool of history.pools.values()) settlePool(pool, borderMs);
    if (borderMs % DAY_MS === 0) closeDay(history, borderMs - DAY_MS);
  }
  if (state !== undefined && atMs - history.sampledAtMs >= SAMPLE_MS) takeSamples(history, state, atMs);
}

function settlePool(pool: PoolHistory, atMs: number): void {
  integrate(pool, atMs);
  for (const [component, level] of pool.levels) settleLevel(pool, component, level, atMs);
}

/** The sums of the pool as a whole. */
function integrate(pool: PoolHistory, atMs: number): void {
  const ms = atMs - pool.sinceMs;
  if (ms <= 0) return;
  const hour = hourOf(pool, pool.sinceMs);
  for (const [key, state] of pool.keys) {
    const { usage, capacity, borrowed, reserved, idle } = state;
    add(hour.used, key, usage * ms);
    add(hour.capacity, key, capacity * ms);
    // What is borrowed comes out of what nobody has reserved first.
    const lent = Math.min(idle, Math.max(0, borrowed - Math.max(0, capacity - reserved)));
    if (lent > 0) state.lending += Math.floor((lent * 1_000_000) / idle) * ms;
  }
  pool.sinceMs = atMs;
}

function hourOf(pool: PoolHistory, atMs: number): HourSums {
  const startMs = atMs - (atMs % HOUR_MS);
  let hour = pool.hours.get(startMs);
  if (hour === undefined) {
    hour = { used: new Map(), capacity: new Map(), preempted: 0 };
    pool.hours.set(startMs, hour);
    for (const old of pool.hours.keys()) if (old <= startMs - HOURS_KEPT * HOUR_MS) pool.hours.delete(old);
  }
  return hour;
}

/** The pool was integrated up to now. */
function settleLevel(pool: PoolHistory, component: string, level: Level, atMs: number): void {
  const ms = atMs - level.sinceMs;
  level.sinceMs = atMs;
  for (const [key, { lending }] of pool.keys) {
    const own = level.keys.get(key);
    if (own === undefined) continue;
    const lent = Math.floor((own.idle * (lending - own.lentFrom)) / 1_000_000);
    own.lentFrom = lending;
    if (lent > 0) sumsOf(accountOf(pool, component), key).lent += lent;
  }
  if (ms <= 0) return;
  for (const [key, { usage, borrowed: borrowedUnits }] of level.keys) {
    if (usage === 0) continue;
    const borrowed = borrowedUnits * ms;
    const sums = sumsOf(accountOf(pool, component), key);
    sums.own += usage * ms - borrowed;
    sums.borrowed += borrowed;
    const sampled = level.sampled.get(key) ?? { used: 0, borrowed: 0 };
    level.sampled.set(key, { used: sampled.used + usage * ms, borrowed: sampled.borrowed + borrowed });
    for (const [user, amounts] of level.users) {
      const used = (amounts.get(key) ?? 0) * ms;
      if (used === 0) continue;
      const part = Math.floor((borrowed * (amounts.get(key) ?? 0)) / usage);
      const own = sumsOf(userOf(pool, component, user), key);
      own.own += used - part;
      own.borrowed += part;
    }
  }
}

function closeDay(history: History, dayMs: number): void {
  for (const [name, pool] of history.pools) {
    for (const [component, account] of pool.day) {
      history.due.push({ kind: "day", atMs: dayMs, pool: name, component, account });
    }
    pool.day.clear();
    for (const key of pool.keys.values()) key.lending = 0;
    for (const { keys } of pool.levels.values()) for (const key of keys.values()) key.lentFrom = 0;
    if (pool.keys.size === 0) history.pools.delete(name); // Deleted, and its last day is over.
  }
}

// --- Events

function begin(
  history: History,
  state: EngineState,
  { requestId, pool: name, atMs }: Extract<Event, { kind: "requestAllocated" }>,
): void {
  const request = state.requests.get(requestId);
  const pool = name === null ? undefined : history.pools.get(name);
  if (name === null || request === undefined || pool === undefined) return;
  const { component, submittedBy: user } = request.spec;
  const need = needOf(request.spec);
  history.runs.set(requestId, { pool: name, component, user, need, savedAtMs: atMs });
  const waitedMs = Math.max(0, atMs - request.progress.queuedAtMs);
  refresh(history, state, name, component);
  addRun(pool, component, user, need, 1);
  for (const account of [accountOf(pool, component), userOf(pool, component, user)]) {
    account.starts++;
    if (waitedMs === 0) continue;
    for (const [key, amount] of need)
      if (pool.keys.has(key)) sumsOf(account, key).waited += amount * waitedMs;
  }
}

function finish(
  history: History,
  state: EngineState,
  { requestId, outcome, atMs }: Extract<Event, { kind: "attemptEnded" }>,
): void {
  const run = history.runs.get(requestId);
  if (run === undefined) return;
  history.runs.delete(requestId);
  const { pool: name, component, user, need, savedAtMs } = run;
  refresh(history, state, name, component);
  const pool = history.pools.get(name);
  if (pool === undefined) return;
  addRun(pool, component, user, need, -1);
  if (outcome !== "preempted") return;
  hourOf(pool, atMs).preempted++;
  for (const account of [accountOf(pool, component), userOf(pool, component, user)]) {
    account.preempted++;
    const lostMs = Math.max(0, atMs - savedAtMs);
    for (const [key, amount] of need) if (pool.keys.has(key)) sumsOf(account, key).lost += amount * lostMs;
  }
}

/** What a policy has may have changed. */
function refresh(history: History, state: EngineState, name: PoolName, component: ComponentName): void {
  const pool = history.pools.get(name);
  if (pool === undefined) return;
  integrate(pool, history.atMs);
  let level = pool.levels.get(component);
  if (level !== undefined) {
    settleLevel(pool, component, level, history.atMs);
    count(pool, level, -1);
  }
  const known = state.pools.get(name);
  const policy = known?.policies.get(component);
  if (known === undefined || policy === undefined) {
    pool.levels.delete(component);
    return;
  }
  if (level === undefined) {
    level = { sinceMs: history.atMs, keys: new Map(), users: new Map(), sampled: new Map() };
    pool.levels.set(component, level);
  }
  level.sinceMs = history.atMs;
  for (let i = 0; i < known.keys.length; i++) {
    const key = known.keys[i] as string;
    const own = keyLevelOf(level, key);
    own.usage = policy.usage[i] as number;
    own.borrowed = own.usage > 0 ? borrowedBy(policy, i) : 0;
    own.reserved = policy.reserved[i] as number;
    own.idle = Math.max(0, own.reserved - policy.runs.sum(i));
    own.lentFrom = pool.keys.get(key)?.lending ?? 0;
  }
  count(pool, level, 1);
}

/** Changed in place: this is done with every start and every end. */
function keyLevelOf(level: Level, key: string): KeyLevel {
  let own = level.keys.get(key);
  if (own === undefined) {
    own = { usage: 0, borrowed: 0, reserved: 0, idle: 0, lentFrom: 0 };
    level.keys.set(key, own);
  }
  return own;
}

/** The sums of the pool follow those of its policies. */
function count(pool: PoolHistory, level: Level, sign: 1 | -1): void {
  for (const [key, state] of pool.keys) {
    const own = level.keys.get(key);
    if (own === undefined) continue;
    state.usage += sign * own.usage;
    state.borrowed += sign * own.borrowed;
    state.reserved += sign * own.reserved;
    state.idle += sign * own.idle;
  }
}

/** The level was settled. */
function addRun(pool: PoolHistory, component: string, user: string, need: Need, sign: 1 | -1): void {
  const users = pool.levels.get(component)?.users;
  if (users === undefined) return;
  const amounts = users.get(user) ?? new Map<string, number>();
  for (const [key, amount] of need) {
    add(amounts, key, sign * amount);
    if (amounts.get(key) === 0) amounts.delete(key);
  }
  if (amounts.size > 0) users.set(user, amounts);
  else users.delete(user);
}

function refreshCapacity(history: History, state: EngineState, name: PoolName): void {
  const pool = history.pools.get(name);
  if (pool === undefined || !state.pools.has(name)) return;
  integrate(pool, history.atMs);
  for (const [key, capacity] of Object.entries(capacityOf(state, name))) {
    const known = pool.keys.get(key);
    if (known !== undefined) known.capacity = capacity;
  }
}

/** Capacity, keys or homes have changed: everything in the pool is looked at anew. */
function resetPool(history: History, state: EngineState, name: PoolName): void {
  const known = state.pools.get(name);
  if (known === undefined) return;
  const old = history.pools.get(name);
  if (old !== undefined) settlePool(old, history.atMs);
  const pool: PoolHistory = {
    ...{ sinceMs: history.atMs, keys: new Map(), levels: new Map() },
    ...{ hours: old?.hours ?? new Map(), day: old?.day ?? new Map() },
  };
  for (const key of known.keys) {
    const lending = old?.keys.get(key)?.lending ?? 0;
    pool.keys.set(key, { capacity: 0, usage: 0, borrowed: 0, idle: 0, reserved: 0, lending });
  }
  history.pools.set(name, pool);
  refreshCapacity(history, state, name);
  for (const component of known.policies.keys()) {
    refresh(history, state, name, component);
    const [level, before] = [pool.levels.get(component), old?.levels.get(component)];
    for (const [key, sums] of before?.sampled ?? []) level?.sampled.set(key, sums);
    for (const [user, amounts] of before?.users ?? []) level?.users.set(user, amounts);
  }
}

type Request = NonNullable<ReturnType<EngineState["requests"]["get"]>>;

/** A run that began before this history did. */
function noteRun(history: History, { spec, progress }: Request, name: PoolName): void {
  const savedAtMs = Math.max(progress.allocation?.startedAtMs ?? 0, progress.lastCheckpointAtMs ?? 0);
  const { component, submittedBy: user } = spec;
  const need = needOf(spec);
  history.runs.set(spec.id, { pool: name, component, user, need, savedAtMs });
  addRun(history.pools.get(name) as PoolHistory, component, user, need, 1);
}

/** Of all keys, metered or not: the pool may begin to meter one. */
function needOf({ resources, nodes }: RequestSpec): Need {
  const need = Object.entries(resources).filter(([, amount]) => amount > 0);
  for (const each of need) each[1] = each[0] === "step_run" ? 1 : each[1] * nodes;
  return need;
}

function closePool(history: History, name: PoolName): void {
  const pool = history.pools.get(name);
  if (pool === undefined) return;
  settlePool(pool, history.atMs);
  pool.keys.clear();
  pool.levels.clear();
}

// --- Accounts

function accountOf(pool: PoolHistory, component: string): DayAccount {
  let account = pool.day.get(component);
  if (account === undefined) {
    account = { keys: new Map(), starts: 0, preempted: 0, users: new Map() };
    pool.day.set(component, account);
  }
  return account;
}

function userOf(pool: PoolHistory, component: string, user: string): Account {
  const { users } = accountOf(pool, component);
  let account = users.get(user);
  if (account === undefined) {
    account = { keys: new Map(), starts: 0, preempted: 0 };
    users.set(user, account);
  }
  return account;
}

function sumsOf({ keys }: Account, key: string): KeySums {
  let sums = keys.get(key);
  if (sums === undefined) {
    sums = { own: 0, borrowed: 0, lent: 0, lost: 0, waited: 0 };
    keys.set(key, sums);
  }
  return sums;
}

function add<Key>(amounts: Map<Key, number>, key: Key, amount: number): void {
  amounts.set(key, (amounts.get(key) ?? 0) + amount);
}

// --- Samples

/** In one sample at most so many components, those that used most. */
const SAMPLED_MAX = 100;

function takeSamples(history: History, state: EngineState, atMs: number): void {
  const ms = atMs - history.sampledAtMs;
  history.sampledAtMs = atMs;
  for (const [name, pool] of history.pools) {
    if (!state.pools.has(name as PoolName)) continue;
    settlePool(pool, atMs);
    const sample = sampleOf(pool, waitingByComponentOf(state, name as PoolName), ms);
    for (const level of pool.levels.values()) level.sampled.clear();
    history.due.push({ kind: "sample", atMs, pool: name, sample });
  }
}

function sampleOf(pool: PoolHistory, waiting: ReadonlyMap<string, number>, ms: number): Sample {
  const average = (sums: number) => Math.round((sums * 1000) / ms) / 1000;
  const capacity = Object.fromEntries([...pool.keys].map(([key, state]) => [key, state.capacity]));
  const names = new Set([...waiting.keys(), ...pool.levels.keys()]);
  const all = [...names].flatMap((name) => {
    const sampled = [...(pool.levels.get(name)?.sampled ?? [])];
    const w = waiting.get(name) ?? 0;
    if (sampled.length === 0 && w === 0) return [];
    const most = Math.max(0, ...sampled.map(([key, { used }]) => used / ((capacity[key] ?? 1) || 1)));
    const u = Object.fromEntries(sampled.map(([key, { used }]) => [key, average(used)]));
    const b = Object.fromEntries(
      sampled.flatMap(([key, { borrowed }]) => (borrowed > 0 ? [[key, average(borrowed)]] : [])),
    );
    const some = (amounts: Resources) => Object.keys(amounts).length > 0;
    return [{ name, most, sums: { ...(some(u) && { u }), ...(some(b) && { b }), ...(w > 0 && { w }) } }];
  });
  all.sort((a, b) => b.most - a.most || (a.name < b.name ? -1 : 1));
  const components = Object.fromEntries(all.slice(0, SAMPLED_MAX).map(({ name, sums }) => [name, sums]));
  const total = [...waiting.values()].reduce((sum, each) => sum + each, 0);
  return { ms, capacity, waiting: total, components };
}

// --- From outside

/** The accounts that are not in the store yet, as they would be if nothing had happened until then. */
export function openDays(history: History, nowMs: number): Extract<DueRow, { kind: "day" }>[] {
  const copy: History = { ...structuredClone({ ...history, runs: new Map(), due: [] }) };
  advance(copy, nowMs);
  const dayMs = copy.atMs - (copy.atMs % DAY_MS);
  for (const pool of copy.pools.values()) settlePool(pool, copy.atMs);
  const today = [...copy.pools].flatMap(([pool, { day }]) =>
    [...day].map(([component, account]) => ({ kind: "day" as const, atMs: dayMs, pool, component, account })),
  );
  return [...copy.due.flatMap((row) => (row.kind === "day" ? [row] : [])), ...today];
}

/** Of the last 24 hours, the latest last: the part of the first key that was in use, and how many were preempted. */
export function lastDayOf(
  history: History,
  name: string,
  nowMs: number,
): { readonly used: number[]; readonly preempted: number } {
  const pool = history.pools.get(name);
  if (pool === undefined) return { used: [], preempted: 0 };
  const copy = structuredClone({ ...pool, levels: new Map(), day: new Map() }) as PoolHistory;
  const [key] = [...copy.keys.keys()].sort();
  const used: number[] = [];
  let preempted = 0;
  const firstMs = nowMs - (nowMs % HOUR_MS) - 23 * HOUR_MS;
  for (let startMs = firstMs; startMs <= nowMs; startMs += HOUR_MS) {
    const endMs = Math.min(nowMs, startMs + HOUR_MS);
    if (copy.sinceMs < endMs && copy.sinceMs >= startMs) integrate(copy, endMs);
    const hour = copy.hours.get(startMs);
    const capacity = hour?.capacity.get(key ?? "") ?? 0;
    used.push(capacity === 0 ? 0 : Math.round(((hour?.used.get(key ?? "") ?? 0) / capacity) * 1000) / 1000);
    preempted += hour?.preempted ?? 0;
  }
  return { used, preempted };
}
