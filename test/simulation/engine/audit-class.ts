// What must be true of every preemption in a pool of discipline `class` (10), recomputed from the books. Where the
// order of the queue decides how much is promised to others, only what holds in every order is asked.

import type { ChosenVictim, Event, PolicyRecord, PoolRecord } from "../../../src/engine/index.ts";
import {
  type Books,
  type Entry,
  hasLabels,
  isEnough,
  isRunning,
  leftOf,
  type Running,
  rulesOf,
} from "./books.ts";

type Decision = Extract<Event, { kind: "preemptionDecided" }>;

const MINUTE_MS = 60_000;
const VICTIMS_MAX = 3;

/** One decision, with all that it is judged by. */
interface Case {
  readonly books: Books;
  readonly pool: PoolRecord;
  readonly waiter: Entry;
  readonly policy: PolicyRecord;
  readonly decision: Decision;
  readonly short: readonly string[];
}

/** What is wrong with a decision; the books are those of the moment before. */
export function decisionProblems(books: Books, decision: Decision): string[] {
  const pool = books.pools.get(decision.pool);
  if (decision.waiter === null || pool === undefined || !rulesOf(pool).hasClasses) return [];
  const judged = caseOf(books, decision);
  const victims = victimsOf(books, decision);
  if (judged === null || victims.length < decision.victims.length)
    return [`${decision.waiter} takes a request that does not run, or for no waiter`];
  return [
    ...victims.flatMap((victim, i) => victimProblems(judged, victim, decision.victims[i] as ChosenVictim)),
    ...boundProblems(judged, victims),
    ...(judged.pool.nodeBacked ? minimalOnNodes(judged, victims) : minimalInSum(judged, victims)),
  ];
}

/** What is rare about a decision that is right. */
export function decisionTraits(books: Books, decision: Decision): string[] {
  const judged = caseOf(books, decision);
  if (judged === null || !rulesOf(judged.pool).hasClasses) return [];
  const { pool, waiter } = judged;
  const victims = victimsOf(books, decision);
  const some = (test: (victim: Running, reason: string) => boolean) =>
    victims.some((victim, i) => test(victim, decision.victims[i]?.reason as string));
  const own = classIn(books, pool, waiter);
  const traits: [string, boolean][] = [
    ["taken back from a class that is not lower", some((victim) => classIn(books, pool, victim) >= own)],
    ["taken for class 10", own === 10 && !isSensitive(books, pool, waiter)],
    ["taken by band", pool.settings.classBands && some((_, reason) => reason === "class")],
    ["more victims than max_victims", victims.length > (pool.settings.maxVictims ?? VICTIMS_MAX)],
    ["as many victims as max_victims", victims.length === (pool.settings.maxVictims ?? VICTIMS_MAX)],
    ["taken from its own component", some(({ spec }) => spec.component === waiter.spec.component)],
    [
      "taken from a service",
      some(({ spec }) => books.policyOf(pool.name, spec.component)?.kind === "service"),
    ],
    ["taken without a checkpoint", some(({ spec }) => spec.checkpoint === "none")],
    ["taken while others hold", otherHolders(judged).length > 0],
    ["gang takes victims", waiter.spec.nodes > 1],
    ["gang as a victim", some(({ spec }) => spec.nodes > 1)],
    [
      "taken from home nodes",
      some((victim) => judged.short.some((key) => awayFromHome(books, pool, victim, key) > 0)),
    ],
    ["taken under constraints", Object.keys(waiter.spec.constraints).length > 0],
  ];
  return traits.filter(([, holds]) => holds).map(([what]) => what);
}

function caseOf(books: Books, decision: Decision): Case | null {
  const pool = books.pools.get(decision.pool);
  const waiter = decision.waiter === null ? undefined : books.requests.get(decision.waiter);
  const policy = waiter && books.policyOf(decision.pool, waiter.spec.component);
  if (pool === undefined || waiter === undefined || policy === undefined) return null;
  return { books, pool, waiter, policy, decision, short: Object.keys(decision.shortage) };
}

function victimsOf(books: Books, { victims }: Decision): Running[] {
  return victims
    .map(({ requestId }) => books.requests.get(requestId))
    .filter((entry) => entry !== undefined)
    .filter(isRunning);
}

// --- who may be taken, and by which rule ---------------------------------------------------------------

function victimProblems(judged: Case, victim: Running, { reason, cost, stop }: ChosenVictim): string[] {
  const { books, pool, waiter, decision, short } = judged;
  const { spec, run } = victim;
  const taken = books.takenOf(pool, spec);
  const isBarred =
    (reason === "class" || reason === "backfill") && books.isShielded(pool, victim, decision.atMs);
  const rules: [string, boolean][] = [
    ["runs in another pool", run.pool === pool.name],
    ["is not preemptible", spec.preemptible],
    ["is stopping already", !run.isStopping],
    ["is sensitive", !isSensitive(books, pool, victim)],
    ["is of class 10", classIn(books, pool, victim) < 10],
    ["has been preempted too often", !isBarred],
    ["has not run long enough", decision.atMs - run.startedAtMs >= pool.settings.minRuntimeMs],
    ["holds nothing that is short", short.some((key) => (taken[key] ?? 0) > 0)],
    ["is told at another moment", stop.toldAtMs === decision.atMs],
    ["is near its end", !isNearCompletion(pool, victim, decision.atMs)],
    [`may not be taken by ${reason}`, isPermitted(judged, victim, reason)],
    ["is given another cost than it has", isNearly(cost, costMs(judged, victim))],
  ];
  return rules
    .filter(([, holds]) => !holds)
    .map(([what]) => `${spec.id}, taken for ${waiter.spec.id}, ${what}`);
}

function isPermitted(judged: Case, victim: Running, reason: string): boolean {
  switch (reason) {
    case "class":
      return mayTakeByClass(judged, victim);
    case "reclaim":
      return mayReclaim(judged, victim);
    case "sensitive":
      return isSensitive(judged.books, judged.pool, judged.waiter) && !isServiceInShare(judged, victim);
    case "backfill":
      return victim.run.isOpportunistic && !isServiceInShare(judged, victim);
    default:
      return false;
  }
}

/** Only down; dear work not at all; of those in their share nothing by one who must borrow (10.1–10.3). */
function mayTakeByClass(judged: Case, victim: Running): boolean {
  const { books, pool, waiter } = judged;
  const isOwn = victim.spec.component === waiter.spec.component;
  const inShare = isOwn ? isInShare(judged, (run) => !isLower(judged, run)) : isInShare(judged);
  return (
    isLower(judged, victim) &&
    !isDear(books, pool, victim) &&
    !isServiceInShare(judged, victim) &&
    (inShare || borrowsSomething(judged, victim))
  );
}

/** The owner of reserved units takes back what others borrow of a short key, whatever their class (10.1, 10.2). */
function mayReclaim(judged: Case, victim: Running): boolean {
  const { books, pool, waiter, short } = judged;
  const isOwn = victim.spec.component === waiter.spec.component;
  const reserved = short.filter((key) => isReserved(books, pool, key));
  return (
    isInShare(judged) &&
    reserved.some((key) => borrows(books, pool, victim, key)) &&
    (!isOwn || isFirm(books, pool, waiter))
  );
}

function isLower({ books, pool, waiter }: Case, victim: Entry): boolean {
  return bandOf(pool, classIn(books, pool, victim)) < bandOf(pool, classIn(books, pool, waiter));
}

/** Judged on the keys that some policy reserves, and generously: as if nothing were promised to others of its component. */
function isInShare(judged: Case, counts: (run: Running) => boolean = () => true): boolean {
  const { books, pool, waiter } = judged;
  return Object.entries(books.takenOf(pool, waiter.spec)).every(
    ([key, amount]) => !isReserved(books, pool, key) || amount <= headroomAtMost(judged, key, counts),
  );
}

function isReserved(books: Books, pool: PoolRecord, key: string): boolean {
  return books.policiesIn(pool.name).some((policy) => reservedOf(pool, policy, key) > 0);
}

/** What is being removed by force has no share any more (P8). */
function reservedOf(pool: PoolRecord, policy: PolicyRecord | undefined, key: string): number {
  return policy === undefined || policy.closing || pool.closing ? 0 : (policy.reserved[key] ?? 0);
}

function borrowsSomething({ books, pool }: Case, victim: Running): boolean {
  return Object.keys(books.takenOf(pool, victim.spec)).some(
    (key) => isReserved(books, pool, key) && borrows(books, pool, victim, key),
  );
}

function isServiceInShare(judged: Case, victim: Running): boolean {
  const { kind } = judged.books.policyOf(judged.pool.name, victim.spec.component) as PolicyRecord;
  return kind === "service" && !borrowsSomething(judged, victim);
}

function isNearCompletion({ settings }: PoolRecord, { spec, run }: Running, nowMs: number): boolean {
  const { nearCompletionMs } = settings;
  if (spec.walltimeMs === null || spec.walltimeMs <= 2 * nearCompletionMs) return false;
  return run.startedAtMs + spec.walltimeMs - nowMs <= nearCompletionMs;
}

// --- class, share and borrowing ------------------------------------------------------------------------

function isSensitive(books: Books, pool: PoolRecord, { spec }: Entry): boolean {
  const kind = books.policyOf(pool.name, spec.component)?.kind;
  return spec.sensitive || (rulesOf(pool).hasClasses && kind === "sensitive");
}

function classIn(books: Books, pool: PoolRecord, entry: Entry): number {
  return rulesOf(pool).hasClasses && isSensitive(books, pool, entry) ? 10 : entry.spec.preemptionClass;
}

/** 0 · 1–3 · 4–6 · 7–9 · 10 (10.1). */
function bandOf({ settings }: PoolRecord, preemptionClass: number): number {
  return settings.classBands ? [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4][preemptionClass]! : preemptionClass;
}

function isDear(books: Books, pool: PoolRecord, entry: Entry): boolean {
  return entry.spec.checkpoint === "none" && classIn(books, pool, entry) >= 7;
}

function isFirm(books: Books, pool: PoolRecord, entry: Entry): boolean {
  const isTop = rulesOf(pool).hasClasses && classIn(books, pool, entry) === 10;
  return !entry.spec.preemptible || isTop;
}

/** NP work may use reserved capacity only, class 10 and sensitive work likewise on keys that some policy reserves (10.8). */
export function isFirmOn(books: Books, pool: PoolRecord, entry: Entry, key: string): boolean {
  if (!entry.spec.preemptible) return true;
  return isFirm(books, pool, entry) && isReserved(books, pool, key);
}

/** What is left of the waiter's reserve, if nothing is promised to others of its component. */
function headroomAtMost(
  { books, pool, waiter, policy }: Case,
  key: string,
  counts: (run: Running) => boolean,
): number {
  const isBound = isFirmOn(books, pool, waiter, key);
  const used = books
    .runsIn(pool.name)
    .filter((run) => run.spec.component === policy.component && counts(run))
    .filter((entry) => !isBound || isFirm(books, pool, entry))
    .reduce((sum, { spec }) => sum + (books.takenOf(pool, spec)[key] ?? 0), 0);
  return Math.max(0, reservedOf(pool, policy, key) - used);
}

/** Firm work fills the share first, then dear work, then the others, each in the order of their grants (G6, 10.8). */
function borrows(books: Books, pool: PoolRecord, run: Running, key: string): boolean {
  const amount = books.takenOf(pool, run.spec)[key] ?? 0;
  if (amount === 0) return false;
  if (awayFromHome(books, pool, run, key) > 0) return true;
  const rank = (entry: Entry) => (isFirm(books, pool, entry) ? 0 : isDear(books, pool, entry) ? 1 : 2);
  const filled = books
    .runsIn(pool.name)
    .filter(({ spec }) => spec.component === run.spec.component)
    .filter((other) => (rank(other) - rank(run) || other.run.grant - run.run.grant) <= 0)
    .reduce(
      (sum, each) => sum + (books.takenOf(pool, each.spec)[key] ?? 0) - awayFromHome(books, pool, each, key),
      0,
    );
  return filled > reservedOf(pool, books.policyOf(pool.name, run.spec.component), key);
}

/** What it holds on home nodes of others, unless they are its own home too (N3). */
function awayFromHome(books: Books, pool: PoolRecord, { spec, run }: Running, key: string): number {
  const policies = books.policiesIn(pool.name);
  const isHomeOf = ({ home }: PolicyRecord, node: string) =>
    home !== null &&
    hasLabels([...books.nodes.values()].find(({ name }) => name === node)?.labels ?? {}, home);
  const away = run.placement.filter(
    ({ node }) =>
      !policies.some((policy) => policy.component === spec.component && isHomeOf(policy, node)) &&
      policies.some(
        (policy) => policy.component !== spec.component && !policy.closing && isHomeOf(policy, node),
      ),
  );
  return Math.min(away.length * (spec.resources[key] ?? 0), books.takenOf(pool, spec)[key] ?? 0);
}

// --- cost, value and number ----------------------------------------------------------------------------

/** What is taken by class costs less than it is worth, and never more than `max_victims` at once (10.5). */
function boundProblems(judged: Case, victims: readonly Running[]): string[] {
  const { pool, waiter, decision } = judged;
  const { id } = waiter.spec;
  const found: string[] = [];
  if (!isNearly(decision.value, valueMs(judged))) found.push(`${id} is given another value than it has`);
  if (victims.every((victim, i) => isUnbounded(judged, victim, decision.victims[i]?.reason))) return found;
  const cost = victims.reduce((sum, victim) => sum + costMs(judged, victim), 0);
  if (cost >= valueMs(judged) * (1 + 1e-9)) found.push(`${id} takes what costs more than it is worth`);
  if (victims.length > (pool.settings.maxVictims ?? VICTIMS_MAX))
    found.push(`${id} takes ${victims.length} victims, more than max_victims`);
  return found;
}

function isUnbounded(judged: Case, victim: Running, reason: string | undefined): boolean {
  return reason !== "class" || victim.run.isOpportunistic || mayReclaim(judged, victim);
}

/** In milliseconds (10.4). */
function costMs({ pool, decision }: Case, { spec, run, lastCheckpointAtMs }: Running): number {
  const usedMs = decision.atMs - run.startedAtMs;
  const unsavedMs = decision.atMs - Math.max(run.startedAtMs, lastCheckpointAtMs ?? 0);
  const checkpoint = {
    none: unsavedMs * spec.nodes * Math.max(1, spec.resources.gpu ?? 0),
    auto: spec.checkpointMs ?? 5 * MINUTE_MS,
    manual: pool.settings.checkpointTimeoutMs,
  };
  return checkpoint[spec.checkpoint] + remainingMinutes(usedMs, spec.walltimeMs) * MINUTE_MS;
}

function remainingMinutes(usedMs: number, walltimeMs: number | null): number {
  if (walltimeMs === null) return 0;
  const percent = (usedMs / walltimeMs) * 100;
  return percent >= 90 ? 1000 : percent < 10 ? 1 : percent;
}

function valueMs({ books, pool, waiter }: Case): number {
  const { nodes, resources, walltimeMs } = waiter.spec;
  const size = nodes * Math.max(1, resources.gpu ?? 0);
  return classIn(books, pool, waiter) * size * (walltimeMs ?? 60 * MINUTE_MS);
}

/** Events give hundredths of a minute. */
function isNearly(shown: number | undefined, ms: number): boolean {
  return shown !== undefined && Math.abs(shown - ms / 600) <= 1;
}

// --- minimal, and enough -------------------------------------------------------------------------------

/** What others hold could be promised before this waiter or after it; where nobody holds, all this is exact. */
function minimalInSum(judged: Case, victims: readonly Running[]): string[] {
  const { books, pool, waiter, decision } = judged;
  const { id } = waiter.spec;
  const left = leftOf(
    pool.capacity,
    staying(judged, []).map(({ spec }) => books.takenOf(pool, spec)),
  );
  const wanted = books.takenOf(pool, waiter.spec);
  const held = otherHolders(judged).map(({ spec }) => books.takenOf(pool, spec));
  const found: string[] = [];
  for (const [key, amount] of Object.entries(wanted)) {
    const least = amount - (left[key] as number);
    const most = least + held.reduce((sum, amounts) => sum + (amounts[key] ?? 0), 0);
    const said = decision.shortage[key] ?? 0;
    if (said < least || said > Math.max(0, most))
      found.push(`${id} is said to lack ${said} ${key}, and lacks ${least} to ${most}`);
  }
  const isCoveredBy = (taken: readonly Running[]) =>
    isEnough(
      Object.fromEntries(
        Object.keys(decision.shortage).map((key) => [
          key,
          taken.reduce((sum, { spec }) => sum + (books.takenOf(pool, spec)[key] ?? 0), 0),
        ]),
      ),
      decision.shortage,
    );
  return [...found, ...setProblems(id, victims, isCoveredBy, true)];
}

/** Enough are as many nodes with room as it asks for (N2). */
function minimalOnNodes(judged: Case, victims: readonly Running[]): string[] {
  const { books, pool, waiter } = judged;
  const { id, nodes, resources, constraints } = waiter.spec;
  const isCoveredBy = (taken: readonly Running[]) => {
    const others = staying(judged, taken);
    const fitting = books.nodesOf(pool.name).filter(({ name, state, labels, capacity }) => {
      const here = others.filter(({ run }) => run.placement.some(({ node }) => node === name));
      const left = leftOf(
        capacity,
        here.map(({ spec }) => spec.resources),
      );
      return state === "ready" && hasLabels(labels, constraints) && isEnough(left, resources);
    });
    return fitting.length >= nodes;
  };
  return setProblems(id, victims, isCoveredBy, otherHolders(judged).length === 0);
}

function setProblems(
  id: string,
  victims: readonly Running[],
  isCoveredBy: (taken: readonly Running[]) => boolean,
  isExact: boolean,
): string[] {
  if (!isCoveredBy(victims)) return [`${id} takes victims that are not enough`];
  const needless = isExact
    ? victims.filter((victim) => isCoveredBy(victims.filter((other) => other !== victim)))
    : [];
  return needless.map(({ spec }) => `${id} takes ${spec.id}, who could be left out`);
}

/** Who still runs when all that is stopping has gone, and some others with it. */
function staying({ books, pool }: Case, taken: readonly Running[]): Running[] {
  return books.runsIn(pool.name).filter((each) => !each.run.isStopping && !taken.includes(each));
}

function otherHolders({ books, pool, waiter }: Case): Entry[] {
  return [...books.requests.values()].filter((entry) => entry !== waiter && entry.holdsIn === pool.name);
}
