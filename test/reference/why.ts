// The judge of explanations (14): what the engine says about a request, held against the records of the reference
// scheduler, which has played the same steps. Nothing of the engine's explanations is used but what they say.

import type {
  CandidateKind,
  Explanation,
  OrderDifference,
  PoolExplanation,
  Protection,
} from "../../src/engine/index.ts";
import {
  allocationGroups,
  backsOff,
  fairQueue,
  holdersIn,
  inOrder,
  isCovered,
  isLeftTooPoor,
  isStarving,
  type Look,
  lackOf,
  lookAt,
  mayPreempt,
  roomsIn,
  satisfaction,
  stoppingIn,
  victimsFor,
} from "./fair-share.ts";
import { headOf, type Standing, standings } from "./fixed-point.ts";
import { fractionOf, isLess, over, times, toNumber } from "./fractions.ts";
import { isInShare, rankOf, rankOfClass } from "./order.ts";
import { placementOf, type Room, roomIn } from "./room.ts";
import { type Candidate, choose, costOf, totalCost } from "./victims.ts";
import {
  amountOf,
  borrowed,
  classOf,
  demandOf,
  groupsAbove,
  hasDisplaced,
  headroom,
  isBlockedByQuota,
  isBound,
  isSensitive,
  isShielded,
  isStopping,
  type Pool,
  policyOf,
  priorityOf,
  type Request,
  runsIn,
  settingsOf,
  someoneReserves,
  sum,
  UNMETERED,
  type World,
} from "./world.ts";

/** What is not so, in words; empty if all of it is. */
export function falsehoods(world: World, facts: Explanation): string[] {
  const request = world.requests.find(({ id }) => id === facts.requestId);
  if (request === undefined) return ["there is no such request"];
  const found: string[] = [];
  const check = (what: string, want: unknown, said: unknown) => {
    if (JSON.stringify(want) !== JSON.stringify(said))
      found.push(`${what}: it is ${JSON.stringify(want)}, and ${JSON.stringify(said)} is said`);
  };
  check("status", request.status, facts.status);
  check("a pause", request.status === "queued" && request.isDelayed, facts.delayedUntilMs !== null);
  if (facts.running !== null) judgeRun(world, request, facts.running, check);
  if (facts.victim !== null) judgeVictim(world, request, facts.victim, check);
  for (const said of facts.pools) {
    const pool = world.pools.find(({ name }) => name === said.pool);
    if (pool === undefined) found.push(`there is no pool ${said.pool}`);
    else if (pool.discipline === "fair_share") judgeShares(world, pool, request, said, check);
    else judgeQueue(world, pool, request, said, check);
  }
  return found;
}

type Shortage = Extract<PoolExplanation["blockedBy"], { rule: "units" }>["short"][number];
type Check = (what: string, want: unknown, said: unknown) => void;

// --- A queue with a head

function judgeQueue(world: World, pool: Pool, request: Request, said: PoolExplanation, check: Check): void {
  const all = standings(world, pool);
  const place = all.findIndex((standing) => standing.request === request);
  const own = all[place]!;
  const head = headOf(all.slice(0, place + 1));
  check("place", place + 1, said.position);
  check("length of the queue", all.length, said.queueLength);
  judgeBlocker(world, pool, own, head, said, check);
  check("first", head === undefined || head === own ? null : head.request.id, said.first?.requestId ?? null);
  if (head !== undefined && head !== own && said.first !== null)
    judgeDifference(rankIn(world, pool, head), rankIn(world, pool, own), said.first.difference, check);
  const runs = runsIn(world, pool).filter(
    (run) => !isStopping(run) && own.short.some((key) => amountOf(pool, run, key) > 0),
  );
  const verdicts = new Map(
    request.hold === undefined ? runs.map((run) => [run, verdictOn(world, pool, own, run)]) : [],
  );
  judgeKinds(world, pool, verdicts, said.considered, check);
  judgePreemption(world, pool, { own, head, verdicts }, said, check);
}

function judgeBlocker(
  world: World,
  pool: Pool,
  own: Standing,
  head: Standing | undefined,
  { blockedBy, blockers }: PoolExplanation,
  check: Check,
): void {
  const { request, isBlocked, placement } = own;
  const isQuota = "allowed" in blockedBy;
  check("blocked by its own quota", isBlocked, isQuota);
  if (isQuota) return judgeQuota(world, pool, request, own.holders, blockedBy, check);
  if (blockedBy.rule === "holds") check("a hold here", request.hold, pool.name);
  else if (blockedBy.rule === "holds_elsewhere") check("a hold elsewhere", request.hold, blockedBy.pool);
  else {
    check("a hold", undefined, request.hold);
    check("short of units", placement === undefined, blockedBy.rule === "units");
    check("the head", (head ?? own).request.id, blockedBy.head);
    check("others first", head !== undefined && head !== own, blockers.includes("behind"));
    if (blockedBy.rule === "units") judgeShortage(world, own, blockedBy.short, check);
  }
}

/** What is short, what of it is free, promised to others and coming free; on nodes, on all that are ready together. */
function judgeShortage(
  world: World,
  { pool, request, claims }: Standing,
  said: readonly Shortage[],
  check: Check,
): void {
  const runs = runsIn(world, pool);
  const stopping = runs.filter(isStopping);
  const roomFor = (ended: Request[], others: Request[]) => roomIn(world, pool, ended, others);
  const others = world.requests.filter((other) => other !== request && other.hold === pool.name);
  for (const { key, asked, free, promised, comingFree } of said) {
    check(`asked ${key}`, amountOf(pool, request, key), asked);
    if (pool.nodes === undefined) {
      check(`free ${key}`, pool.capacity[key]! - sum(pool, runs, key), free);
      check(`promised ${key}`, sum(pool, claims, key), promised);
      check(`coming free ${key}`, sum(pool, stopping, key), comingFree);
    } else if (pool.nodes.every(({ capacity }) => key in capacity)) {
      const isFree = leftOf(roomFor([], []), key);
      check(`free ${key} on nodes`, isFree, free);
      check(`promised ${key} on nodes`, isFree - leftOf(roomFor([], others), key), promised);
      check(`coming free ${key} on nodes`, heldOnNodes(pool, stopping, key), comingFree);
    }
  }
}

function leftOf(rooms: readonly Room[], key: string): number {
  return rooms.reduce((total, { left }) => total + Math.max(0, left[key] ?? 0), 0);
}

/** What these runs hold on nodes that are ready. */
function heldOnNodes(pool: Pool, runs: readonly Request[], key: string): number {
  const ready = new Set(pool.nodes!.filter(({ state }) => state === "ready").map(({ name }) => name));
  const partsOf = (run: Request) => run.run!.placed!.filter((node) => ready.has(node)).length;
  return runs.reduce((total, run) => total + partsOf(run) * (run.resources[key] ?? 0), 0);
}

type Quota = Extract<PoolExplanation["blockedBy"], { allowed: number }>;

function judgeQuota(
  world: World,
  pool: Pool,
  request: Request,
  holders: Request[],
  { rule, key, asked, used, allowed, group }: Quota,
  check: Check,
): void {
  const present = [...runsIn(world, pool), ...holders].filter((other) => other !== request);
  const own = present.filter((other) => other.component === request.component);
  const policy = policyOf(world, pool, request.component)!;
  check(`asked ${key}`, amountOf(pool, request, key), asked);
  check("exceeds", true, used + asked > allowed);
  if (rule === "limit") {
    check(`limit of ${key}`, policy.limit[key] ?? pool.capacity[key], allowed);
    check(`used of ${key}`, sum(pool, own, key), used);
  } else if (rule === "group_limit") {
    const members = present.filter((other) =>
      groupsAbove(world, pool, other.component).some((above) => above.name === group),
    );
    check(`limit of ${group}`, pool.groups.find(({ name }) => name === group)?.limit?.[key], allowed);
    check(`used by ${group}`, sum(pool, members, key), used);
  } else {
    const bound = own.filter((other) => isBound(world, pool, other, key));
    check(`reserved ${key}`, policy.reserved[key] ?? 0, allowed);
    check(`used of the reserve of ${key}`, sum(pool, bound, key), used);
  }
}

// --- The order

interface Ranked {
  readonly parts: readonly string[];
  readonly values: readonly number[];
  readonly submittedAt: number;
}

function rankIn(world: World, pool: Pool, { request, holders }: Standing): Ranked {
  const any = settingsOf(pool).priority_preempts === "any";
  const parts =
    pool.discipline === "class"
      ? ["sensitive", "reserve", settingsOf(pool).class_bands ? "band" : "class", "score", "submission"]
      : [...(any ? ["priority", "reserve"] : ["reserve", "priority"]), "class", "submission"];
  return { parts, values: rankOf(world, pool, request, holders), submittedAt: request.submittedAt };
}

function judgeDifference(theirs: Ranked, mine: Ranked, said: OrderDifference, check: Check): void {
  const index = theirs.values.findIndex((value, at) => value !== mine.values[at]);
  check("the part of the order", theirs.parts[index], said.part);
  if (said.part === "submission") {
    check(
      "submissions",
      [theirs.submittedAt * 1000, mine.submittedAt * 1000],
      [said.theirsAtMs, said.mineAtMs],
    );
  } else if (said.part !== "satisfaction" && said.part !== "age")
    check(
      `both values of ${said.part}`,
      [theirs.values[index], mine.values[index]],
      [said.theirs, said.mine],
    );
}

// --- Who may be taken

function verdictOn(world: World, pool: Pool, place: Standing, run: Request): string {
  return pool.discipline === "class" ? byClass(world, pool, place, run) : byPriority(world, pool, place, run);
}

function isYoung(world: World, pool: Pool, run: Request): boolean {
  return world.now - run.run!.startedAt < settingsOf(pool).min_runtime_seconds;
}

function byPriority(world: World, pool: Pool, { request, holders, short }: Standing, run: Request): string {
  if (!run.preemptible) return "not_preemptible";
  if (isSensitive(world, pool, run)) return "sensitive";
  if (isYoung(world, pool, run)) return "too_young";
  const any = settingsOf(pool).priority_preempts === "any";
  const held = short.filter((key) => amountOf(pool, run, key) > 0);
  const borrows = (key: string) => borrowed(world, pool, run, key) > 0;
  const difference = priorityOf(world, pool, request) - priorityOf(world, pool, run);
  const counting = short.filter((key) => !UNMETERED.has(key) || someoneReserves(world, pool, key));
  const mayReclaim =
    counting.length > 0 &&
    counting.every((key) => amountOf(pool, request, key) <= headroom(world, pool, request, key, holders)) &&
    (run.component !== request.component || !request.preemptible) &&
    !(any && difference < 0);
  const permits = {
    priority: difference > 0 && (any || held.every(borrows)),
    reclaim: mayReclaim && counting.some((key) => amountOf(pool, run, key) > 0 && borrows(key)),
    gap: run.run!.opportunistic,
  };
  if (!permits.priority && !permits.reclaim && !permits.gap)
    return difference > 0 || mayReclaim ? "uses_own_reserve" : "priority_not_lower";
  const shielded = isShielded(world, pool, run);
  if (shielded && !permits.reclaim) return "shielded";
  if (hasDisplaced(world, run.id, request.id)) return "guarded";
  return permits.priority && !shielded ? "+priority" : permits.reclaim ? "+reclaim" : "+gap";
}

function byClass(world: World, pool: Pool, place: Standing, run: Request): string {
  const { request, holders, short } = place;
  if (!run.preemptible) return "not_preemptible";
  if (isSensitive(world, pool, run)) return "sensitive";
  if (classOf(world, pool, run) === 10) return "top_class";
  if (isYoung(world, pool, run)) return "too_young";
  const near = settingsOf(pool).near_completion_seconds;
  const left = run.walltime === undefined ? undefined : run.run!.startedAt + run.walltime - world.now;
  if (left !== undefined && left <= near && run.walltime! > 2 * near) return "near_completion";
  const rank = (one: Request) => rankOfClass(pool, classOf(world, pool, one));
  const reserved = Object.keys(pool.capacity).filter((key) => someoneReserves(world, pool, key));
  const borrows = (keys: string[]) => keys.some((key) => borrowed(world, pool, run, key) > 0);
  const isOwn = run.component === request.component;
  const lower = runsIn(world, pool).filter(
    (other) => other.component === request.component && rank(other) < rank(request),
  );
  const inShare = isInShare(world, pool, request, holders);
  const besideIt = inShare || (isOwn && isInShare(world, pool, request, holders, lower));
  const isService = policyOf(world, pool, run.component)?.kind === "service" && !borrows(reserved);
  const isClaim = isSensitive(world, pool, request);
  const isLower = rank(run) < rank(request);
  const isHard = run.checkpoint === "none" && classOf(world, pool, run) >= 7;
  const isBoundHere = !request.preemptible || classOf(world, pool, request) === 10;
  const shielded = isShielded(world, pool, run);
  const permits = {
    sensitive_claim: isClaim && !isService,
    class: !isClaim && isLower && !isHard && !isService && (besideIt || borrows(reserved)),
    reclaim:
      !isClaim &&
      inShare &&
      (!isOwn || isBoundHere) &&
      borrows(short.filter((key) => reserved.includes(key))),
    gap: run.run!.opportunistic && !isService,
  };
  const guarded = (permit: string) => (hasDisplaced(world, run.id, request.id) ? "guarded" : `+${permit}`);
  if (permits.sensitive_claim) return guarded("sensitive_claim");
  if (permits.class && !shielded) {
    const isDear = !isLess(costOf(world, pool, run), worthOf(world, pool, request));
    return isDear ? "costs_too_much" : guarded("class");
  }
  if (permits.reclaim) return guarded("reclaim");
  if (permits.gap && !shielded) return guarded("gap");
  if (permits.class || permits.gap) return "shielded";
  if (isService && (isClaim || isLower)) return "service";
  if (!isLower) return "class_not_lower";
  return isHard ? "no_checkpoint" : "in_share";
}

function worthOf(world: World, pool: Pool, waiter: Request) {
  const units = classOf(world, pool, waiter) * waiter.nodes * Math.max(1, waiter.resources.gpu ?? 0);
  return times(fractionOf(units), over(fractionOf(waiter.walltime ?? 3600), fractionOf(60)));
}

/** The same kinds with the same numbers and the same verdicts. */
function judgeKinds(
  world: World,
  pool: Pool,
  verdicts: ReadonlyMap<Request, string>,
  said: readonly CandidateKind[],
  check: Check,
): void {
  const counts = new Map<string, number>();
  for (const [run, verdict] of verdicts) {
    const key = kindKey(run.component, classOf(world, pool, run), run.resources, verdict);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const told = said.map(({ component, preemptionClass, resources, verdict, count }) => [
    kindKey(
      component,
      preemptionClass,
      resources,
      verdict.permit === null ? verdict.bar : `+${verdict.permit}`,
    ),
    count,
  ]);
  check("kinds of runs", [...counts].sort(), told.sort());
}

function kindKey(component: string, ownClass: number, resources: object, verdict: string): string {
  return [component, ownClass, JSON.stringify(Object.entries(resources).sort()), verdict].join(" ");
}

function judgePreemption(
  world: World,
  pool: Pool,
  seen: {
    readonly own: Standing;
    readonly head: Standing | undefined;
    readonly verdicts: ReadonlyMap<Request, string>;
  },
  { preemption: fact }: PoolExplanation,
  check: Check,
): void {
  const { own, head, verdicts } = seen;
  const { request } = own;
  const taken = [...verdicts].flatMap(([run, verdict]) => (verdict.startsWith("+") ? [run] : []));
  const lastly = () => {
    if (own.isCoveredBy(taken)) return "too_dear";
    return pool.nodes !== undefined && taken.length > 0 ? "too_few_nodes" : "too_little";
  };
  const want = own.isBlocked
    ? "own_quota"
    : request.hold !== undefined
      ? "promised"
      : head !== undefined && head !== own
        ? "not_first"
        : own.isCovered
          ? "not_short"
          : lastly();
  check("why nobody is preempted", want, fact.why);
  if (fact.why === "not_first") check("who is first", head?.request.id, fact.head);
  if (fact.why === "too_little")
    for (const { key, lacking, permitted } of fact.keys) {
      const want = pool.nodes === undefined ? own.shortage[key] : amountOf(pool, request, key);
      check(`lacking ${key}`, want, lacking);
      check(`permitted ${key}`, sum(pool, taken, key), permitted);
    }
  if (fact.why === "too_few_nodes")
    check("nodes with room", fittingNodes(world, pool, own, taken), fact.fitting);
  if (fact.why === "too_dear") judgeBounds(world, pool, own, verdicts, fact, check);
}

/** On how many nodes a part of it would fit, if these had ended. */
function fittingNodes(_: World, pool: Pool, own: Standing, taken: Request[]): number {
  const one = { ...own.request, nodes: 1 };
  return own.rooms.filter((room) => {
    const left = { ...room.left };
    for (const run of taken) {
      if (!run.run!.placed!.includes(room.node)) continue;
      for (const [key, amount] of Object.entries(run.resources)) if (key in left) left[key]! += amount;
    }
    return placementOf(pool, [{ ...room, left }], one) !== undefined;
  }).length;
}

/** The choice without bounds, as the reference makes it (10.5). */
function judgeBounds(
  world: World,
  pool: Pool,
  own: Standing,
  verdicts: ReadonlyMap<Request, string>,
  fact: Extract<PoolExplanation["preemption"], { why: "too_dear" }>,
  check: Check,
): void {
  const value = toNumber(worthOf(world, pool, own.request));
  check("value", Math.round(value * 100), fact.value);
  check("a bound", true, fact.victims > fact.victimsMax || fact.cost >= fact.value);
  check("the largest number of victims", settingsOf(pool).max_victims, fact.victimsMax);
  if (pool.nodes !== undefined) return;
  const candidates = [...verdicts].flatMap(([request, verdict]): Candidate[] =>
    verdict.startsWith("+") || verdict === "costs_too_much"
      ? [{ request, reason: verdict, isUnbounded: verdict !== "+class" && verdict !== "costs_too_much" }]
      : [],
  );
  const cheapest = choose(world, pool, own, candidates, "class", () => true);
  if (cheapest === undefined) return check("a choice without bounds", true, false);
  check("victims of that choice", cheapest.length, fact.victims);
  check("cost of that choice", Math.round(toNumber(totalCost(world, pool, cheapest)) * 100), fact.cost);
}

// --- Fair shares

function judgeShares(world: World, pool: Pool, request: Request, said: PoolExplanation, check: Check): void {
  const look = lookAt(world, pool);
  const queue = fairQueue(world, pool);
  check("place", queue.indexOf(request) + 1, said.position);
  check("length of the queue", queue.length, said.queueLength);
  const operation = look.operations.find(({ requests }) => requests.includes(request))!;
  const holders = holdersIn(look).filter((other) => other !== request);
  const fitsNow = placementOf(pool, roomsIn(look, [], holdersIn(look)), request) !== undefined;
  const isBlocked = isBlockedByQuota(world, pool, request, holders, !fitsNow);
  const { blockedBy, preemption: fact } = said;
  check("blocked by its own quota", isBlocked, "allowed" in blockedBy);
  if ("allowed" in blockedBy) judgeQuota(world, pool, request, holders, blockedBy, check);
  const first = queue[0] === request ? null : queue[0]!.id;
  check("first", first, said.first?.requestId ?? null);
  if (said.first !== null && first !== null)
    judgeShareOrder(look, queue[0]!, request, said.first.difference, check);
  if (request.hold !== undefined || isBlocked) return;
  check("short of units", !fitsNow, blockedBy.rule === "units");
  if (fitsNow) return;
  if (blockedBy.rule === "units") judgeShareShortage(look, request, blockedBy.short, check);

  const rights = rightsOf(look, operation);
  const stage = rights[0] ?? "preemptive";
  const short = shortKeysOf(look, request);
  const runs = runsIn(world, pool).filter(
    (run) => !isStopping(run) && short.some((key) => amountOf(pool, run, key) > 0),
  );
  const verdicts = new Map(runs.map((run) => [run, byShares(look, { request, operation, stage }, run)]));
  judgeKinds(world, pool, verdicts, said.considered, check);
  const soon = roomsIn(look, stoppingIn(look), holdersIn(look));
  const fittingSoon = soon.filter((room) => isCovered(lackOf(look, room, request))).length;
  if (fittingSoon >= request.nodes) return check("why nobody is preempted", "not_short", fact.why);
  if (rights.length === 0) return check("why nobody is preempted", "not_starving", fact.why);
  if (request.nodes > 1) return; // The reference serves starving requests on one node only.
  const isServed = soon.some(
    (room) => !backsOff(look, room.node) && victimsFor(look, operation, request, room, stage) !== undefined,
  );
  check("a preemptive stage could serve it", false, isServed);
  const taken = [...verdicts].flatMap(([run, verdict]) => (verdict.startsWith("+") ? [run] : []));
  const enough = soon.filter((room) => {
    const lack = lackOf(look, room, request);
    const held = (run: Request, key: string) =>
      pool.nodes === undefined
        ? amountOf(pool, run, key)
        : run.run!.placed!.includes(room.node)
          ? (run.resources[key] ?? 0)
          : 0;
    return Object.entries(lack).every(
      ([key, amount]) => taken.reduce((rest, run) => rest - held(run, key), amount) <= 0,
    );
  });
  const want =
    enough.length === 0
      ? pool.nodes !== undefined && taken.length > 0
        ? "too_few_nodes"
        : "too_little"
      : soon.every(({ node }) => backsOff(look, node))
        ? "back_off"
        : "left_too_poor";
  check("why nobody is preempted", want, fact.why);
}

/** The dearer right first. */
function rightsOf(look: Look, operation: Look["root"]): ("aggressive" | "preemptive")[] {
  return (["aggressive", "preemptive"] as const).filter((stage) => mayPreempt(look, operation, stage));
}

/** Of one that does not fit: on nodes it is short of all that it asks for. */
function shortKeysOf(look: Look, request: Request): string[] {
  const { pool } = look;
  const [room] = roomsIn(look, [], holdersIn(look));
  return demandOf(pool, request)
    .map(([key]) => key)
    .filter((key) => pool.nodes !== undefined || lackOf(look, room!, request)[key]! > 0);
}

function judgeShareShortage(look: Look, request: Request, said: readonly Shortage[], check: Check): void {
  const { world, pool } = look;
  const runs = runsIn(world, pool);
  check("keys that are short", shortKeysOf(look, request).sort(), said.map(({ key }) => key).sort());
  for (const { key, asked, free, promised, comingFree } of said) {
    check(`asked ${key}`, amountOf(pool, request, key), asked);
    check(`free ${key}`, Math.max(0, pool.capacity[key]! - sum(pool, runs, key)), free);
    check(`promised ${key}`, sum(pool, holdersIn(look), key), promised);
    check(`coming free ${key}`, sum(pool, runs.filter(isStopping), key), comingFree);
  }
}

/** Whether a starving operation may take a run (9.5, 9.7, 9.8). */
function byShares(
  look: Look,
  waiter: { request: Request; operation: Look["root"]; stage: "preemptive" | "aggressive" },
  run: Request,
): string {
  const { world, pool } = look;
  const { request, operation, stage } = waiter;
  const owner = look.operations.find(({ requests }) => requests.includes(run))!;
  const group = allocationGroups(look, owner).get(run)!;
  if (!run.preemptible) return "not_preemptible";
  if (isSensitive(world, pool, run)) return "sensitive";
  if (isYoung(world, pool, run)) return "too_young";
  if (owner === operation) return "same_operation";
  if (isStarving(look, owner)) return "starving";
  const isAggressive = stage === "aggressive" && owner.settings.allow_aggressive_preemption;
  if (group !== "preemptible" && !(group === "aggressively_preemptible" && isAggressive))
    return "protected_share";
  if (isShielded(world, pool, run)) return "shielded";
  if (isLeftTooPoor(look, owner, [run], operation)) return "left_too_poor";
  if (hasDisplaced(world, run.id, request.id)) return "guarded";
  return group === "preemptible" ? "+beyond_share" : "+within_share";
}

/** On the level where the ways part (9.6). */
function judgeShareOrder(
  look: Look,
  theirs: Request,
  mine: Request,
  said: OrderDifference,
  check: Check,
): void {
  const operationOf = (request: Request) =>
    look.operations.find(({ requests }) => requests.includes(request))!;
  const [a, b] = [operationOf(theirs), operationOf(mine)];
  if (a === b) return check("the part of the order", "submission", said.part);
  if (said.part !== "satisfaction" && said.part !== "age")
    return check("the part of the order", "satisfaction or age", said.part);
  const elements = look.elements.filter(
    ({ name, type }) => name === said.theirs.name && type === said.theirs.kind,
  );
  const others = look.elements.filter(({ name, type }) => name === said.mine.name && type === said.mine.kind);
  const isAbove = (element: (typeof elements)[number], below: typeof a) => {
    for (let each: typeof a | undefined = below; each !== undefined; each = each.parent)
      if (each === element) return true;
    return false;
  };
  const [x, y] = [elements.find((one) => isAbove(one, a)), others.find((one) => isAbove(one, b))];
  if (x === undefined || y === undefined || x === y)
    return check("the elements compared", "theirs and mine", [said.theirs, said.mine]);
  const [p, q] = [satisfaction(look, x), satisfaction(look, y)].map((value) => Math.round(value * 1e6));
  const shown = (value: number | null) => Math.round((value ?? Number.POSITIVE_INFINITY) * 1e6);
  check(
    "satisfaction",
    [String(p), String(q)],
    [String(shown(said.theirs.satisfaction)), String(shown(said.mine.satisfaction))],
  );
  const steps = [satisfaction(look, x), satisfaction(look, y)].map((value) => Math.round(value * 1e9));
  check("the part of the order", steps[0] === steps[1] ? "age" : "satisfaction", said.part);
  check("who is served first", true, inOrder(look).indexOf(a) < inOrder(look).indexOf(b));
}

// --- Runs and victims

function judgeRun(
  world: World,
  request: Request,
  said: NonNullable<Explanation["running"]>,
  check: Check,
): void {
  const pool = world.pools.find(({ name }) => name === request.run?.pool);
  if (pool === undefined) return check("its pool", undefined, said.pool);
  check("its pool", pool.name, said.pool);
  check("its start", request.run!.startedAt * 1000, said.startedAtMs);
  const units = demandOf(pool, request).map(([key, amount]) => [
    key,
    amount,
    borrowed(world, pool, request, key),
  ]);
  const told = said.units.map(({ key, amount, borrowed: part }) => [key, amount, part]);
  check("units and what is borrowed", units.sort(), told.sort());
  judgeProtection(world, pool, request, said.protection, check);
  if (pool.discipline === "fair_share") return judgeShareTakers(lookAt(world, pool), request, said, check);
  const permits = standings(world, pool)
    .filter(({ request: waiter, isBlocked }) => waiter.hold === undefined && !isBlocked)
    .filter(({ short }) => short.some((key) => amountOf(pool, request, key) > 0))
    .map((place) => [place.request.id, verdictOn(world, pool, place, request)] as const)
    .filter(([, verdict]) => verdict.startsWith("+"));
  check("somebody could take it", permits.length > 0, said.takerCount > 0);
  for (const { requestId, permit } of said.takers)
    check(`${requestId} could take it`, new Map(permits).get(requestId), `+${permit}`);
}

/** The first of each operation that has the right to preempt, lacks what the run holds, and may take it. */
function judgeShareTakers(
  look: Look,
  run: Request,
  said: NonNullable<Explanation["running"]>,
  check: Check,
): void {
  const { world, pool } = look;
  const queue = fairQueue(world, pool);
  const holders = holdersIn(look);
  const lacks = (request: Request) => {
    if (request.hold !== undefined || placementOf(pool, roomsIn(look, [], holders), request) !== undefined)
      return false;
    if (isBlockedByQuota(world, pool, request, holders, true)) return false;
    return shortKeysOf(look, request).some((key) => amountOf(pool, run, key) > 0);
  };
  const takers = inOrder(look).flatMap((operation) => {
    const stage = rightsOf(look, operation)[0];
    const request = queue.find((one) => operation.requests.includes(one) && lacks(one));
    if (stage === undefined || request === undefined) return [];
    const verdict = byShares(look, { request, operation, stage }, run);
    return verdict.startsWith("+") ? [`${request.id} ${verdict}`] : [];
  });
  check("how many could take it", takers.length, said.takerCount);
  const told = said.takers.map(({ requestId, permit }) => `${requestId} +${permit}`);
  check("who could take it", takers.slice(0, told.length), told);
}

function judgeProtection(
  world: World,
  pool: Pool,
  request: Request,
  said: readonly Protection[],
  check: Check,
): void {
  const by = new Set(said.map((one) => one.by));
  const claim = (what: Protection["by"], isSo: boolean) => check(`protected: ${what}`, isSo, by.has(what));
  claim("not_preemptible", !request.preemptible);
  claim("min_runtime", isYoung(world, pool, request));
  claim("shield", isShielded(world, pool, request));
  if (pool.discipline === "fair_share") {
    const look = lookAt(world, pool);
    const owner = look.operations.find(({ requests }) => requests.includes(request))!;
    return claim("fair_share", allocationGroups(look, owner).get(request) !== "preemptible");
  }
  const counts = (key: string) =>
    pool.discipline === "class"
      ? someoneReserves(world, pool, key)
      : !UNMETERED.has(key) || someoneReserves(world, pool, key);
  const borrows = demandOf(pool, request).some(
    ([key]) => counts(key) && borrowed(world, pool, request, key) > 0,
  );
  const isAny = pool.discipline === "priority" && settingsOf(pool).priority_preempts === "any";
  claim("own_reserve", !borrows && !isAny);
}

function judgeVictim(
  world: World,
  request: Request,
  said: NonNullable<Explanation["victim"]>,
  check: Check,
): void {
  check("it is stopping", true, isStopping(request));
  if (request.run?.victim !== true) return;
  const pool = world.pools.find(({ name }) => name === request.run?.pool);
  if (pool === undefined || request.preemptedFor === undefined) return;
  judgeSpared(world, pool, request, said.spared, check);
  if (pool.discipline === "fair_share") return;
  const together = runsIn(world, pool).filter(
    (run) => run.run?.victim === true && run.preemptedFor === request.preemptedFor,
  );
  check("victims of the same request", together.length, said.count);
}

type Spared = NonNullable<Explanation["victim"]>["spared"][number];

/** Each that is named went on by that rule; where a rule spared anybody, somebody is named. */
function judgeSpared(world: World, pool: Pool, victim: Request, said: readonly Spared[], check: Check): void {
  const waiter = world.requests.find(({ id }) => id === victim.preemptedFor);
  const isWaiting = waiter !== undefined && policyOf(world, pool, waiter.component) !== undefined;
  const keys = Object.keys(pool.capacity).filter(
    (key) => amountOf(pool, victim, key) > 0 && (!isWaiting || amountOf(pool, waiter, key) > 0),
  );
  const others = runsIn(world, pool).filter(
    (run) =>
      !isStopping(run) &&
      run.run!.startedAt < victim.run!.toldAt! &&
      keys.every((key) => amountOf(pool, run, key) > 0),
  );
  const sparing = new Map(others.map((run) => [run.id, sparingOf(world, pool, victim, run)]));
  for (const one of said) check(`why ${one.requestId} was spared`, sparing.get(one.requestId), saidOf(one));
  const isSome = [...sparing.values()].some((one) => one !== null);
  // Elsewhere costs, or a checkpoint since then, can hide the one that is looked at.
  if (pool.discipline === "priority" || !isSome) check("anybody was spared", isSome, said.length > 0);
}

function saidOf(spared: Spared): string {
  if (spared.why === "barred") return spared.bar;
  if (spared.why === "started_earlier")
    return `${spared.rule} ${spared.theirsAtMs / 1000} before ${spared.victimsAtMs / 1000}`;
  return `${spared.rule} ${spared.theirs} above ${spared.victims}`;
}

function sparingOf(world: World, pool: Pool, victim: Request, run: Request): string | null {
  const isClass = pool.discipline === "class";
  const { startedAt, position, checkpointPosition = 0 } = run.run!;
  const own = victim.run!;
  if (!run.preemptible) return "not_preemptible";
  if (isSensitive(world, pool, run)) return "sensitive";
  if (isClass && classOf(world, pool, run) === 10) return "top_class";
  if (own.toldAt! - startedAt < settingsOf(pool).min_runtime_seconds) return "too_young";
  const started = `${startedAt} before ${own.startedAt}`;
  if (pool.discipline === "fair_share") {
    const isOlder = Math.max(position, checkpointPosition) < own.position;
    return victim.reason === "fair_share" && isOlder ? `9.8 ${started}` : null;
  }
  const [rule, rankOf] = isClass ? (["10.5", classOf] as const) : (["8.3", priorityOf] as const);
  const [theirs, victims] = [rankOf(world, pool, run), rankOf(world, pool, victim)];
  if (theirs !== victims) return theirs > victims ? `${rule} ${theirs} above ${victims}` : null;
  if (isClass) {
    const then = { ...world, now: own.toldAt! };
    const isHidden = (one: Request) =>
      one.checkpoint === "none" && (one.run!.checkpointAt ?? 0) > own.toldAt!;
    if (isHidden(run) || isHidden(victim)) return null;
    const [cost, least] = [costOf(then, pool, run), costOf(then, pool, victim)];
    const shown = (minutes: typeof cost) => Math.round(toNumber(minutes) * 100);
    if (isLess(least, cost)) return `10.5 ${shown(cost)} above ${shown(least)}`;
    if (isLess(cost, least)) return null;
  }
  return position < own.position ? `${rule} ${started}` : null;
}
