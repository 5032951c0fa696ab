// The order of a pool's queue (G1, 10.6), found by picking the first of what is left, again and again.

import {
  admittingPools,
  classOf,
  demandOf,
  headroom,
  isSensitive,
  isWaiting,
  mainKey,
  type Pool,
  policyOf,
  priorityOf,
  type Request,
  reservedOf,
  runsIn,
  settingsOf,
  someoneReserves,
  sum,
  UNMETERED,
  type World,
} from "./world.ts";

/**
 * Who waits in the pool, first to last. A waiter with a hold counts as if it ran when the headroom
 * of those behind it is judged (V1), so the order is built from its front.
 */
export function queueOf(world: World, pool: Pool): Request[] {
  const rest = world.requests.filter(
    (request) => isWaiting(request) && admittingPools(world, request).includes(pool),
  );
  const queue: Request[] = [];
  while (rest.length > 0) {
    const holders = queue.filter((request) => request.hold === pool.name);
    const ranked = rest
      .map((request) => ({ request, rank: rankOf(world, pool, request, holders) }))
      .sort((a, b) => compareRanks(a.rank, b.rank));
    const first = ranked[0]!.request;
    rest.splice(rest.indexOf(first), 1);
    queue.push(first);
  }
  return queue;
}

/** Whether every metered amount fits what is left of the reserve (G1). */
function fitsHeadroom(world: World, pool: Pool, request: Request, holders: Request[]): boolean {
  if (pool.discipline === "class") return isInShare(world, pool, request, holders);
  return demandOf(pool, request).every(
    ([key, amount]) =>
      amount <= headroom(world, pool, request, key, holders) ||
      (UNMETERED.has(key) && !someoneReserves(world, pool, key)),
  );
}

/**
 * On the keys that somebody reserves (10.1). Of its own component's holds those of higher classes count, and of its
 * own class those before it; of its runs all but those that are thought to be gone.
 */
export function isInShare(
  world: World,
  pool: Pool,
  request: Request,
  holders: Request[],
  gone: Request[] = [],
): boolean {
  const rank = (one: Request) => rankOfClass(pool, classOf(world, pool, one));
  const counting = world.requests.filter(
    (other) =>
      other.hold === pool.name &&
      (rank(other) > rank(request) || (rank(other) === rank(request) && holders.includes(other))),
  );
  return demandOf(pool, request).every(
    ([key, amount]) =>
      !someoneReserves(world, pool, key) || amount <= headroom(world, pool, request, key, counting, gone),
  );
}

/** Higher bands preempt lower ones where a pool says so (10.1). */
export function rankOfClass(pool: Pool, value: number): number {
  return settingsOf(pool).class_bands ? Math.ceil(value / 3) : value;
}

/** Higher numbers go first, place by place; the last one is the position of the submission. */
export function rankOf(world: World, pool: Pool, request: Request, holders: Request[]): number[] {
  const inShare = fitsHeadroom(world, pool, request, holders) ? 1 : 0;
  const submitted = -request.position;
  if (pool.discipline === "class") {
    const sensitive = isSensitive(world, pool, request) ? 1 : 0;
    const ownClass = rankOfClass(pool, classOf(world, pool, request));
    return [sensitive, inShare, ownClass, scoreOf(world, pool, request), submitted];
  }
  const priority = priorityOf(world, pool, request);
  return settingsOf(pool).priority_preempts === "any"
    ? [priority, inShare, request.class, submitted]
    : [inShare, priority, request.class, submitted];
}

function compareRanks(a: number[], b: number[]): number {
  const place = a.findIndex((value, index) => value !== b[index]);
  return place < 0 ? 0 : b[place]! - a[place]!;
}

const WEIGHTS: Record<string, number[]> = {
  batch: [0.15, 0.2, 0.2, 0.05],
  training: [0.1, 0.1, 0.1, 0.15],
  service: [0.15, 0.05, 0.1, 0.1],
  sensitive: [0.9, 0, 0, 0],
  interactive: [0.1, 0.3, 0.1, 0],
};

/** In whole millionths (10.6). */
function scoreOf(world: World, pool: Pool, request: Request): number {
  const policy = policyOf(world, pool, request.component)!;
  const [byClass, byWait, byShare, byCheckpoint] =
    pool.settings.score_weights?.[policy.kind] ?? WEIGHTS[policy.kind]!;
  const key = mainKey(pool);
  const target = reservedOf(world, pool, request.component, key);
  const actual = sum(
    pool,
    runsIn(world, pool).filter((other) => other.component === request.component),
    key,
  );
  const missing = target === 0 ? 0 : Math.max(0, target - actual) / target;
  const quick = request.checkpoint === "none" ? 0 : 1 / (1 + checkpointSeconds(pool, request) / 60);
  const score =
    (byClass! * classOf(world, pool, request)) / 10 +
    byWait! * Math.log(1 + (world.now - request.submittedAt) / 3600) +
    byShare! * missing +
    byCheckpoint! * quick;
  return Math.round(score * 1e6);
}

/** How long a checkpoint takes, as far as anyone can tell (10.4). */
export function checkpointSeconds(pool: Pool, request: Request): number {
  if (request.checkpoint === "none") return 0;
  if (request.checkpoint === "auto") return request.checkpointSeconds ?? 300;
  return settingsOf(pool).checkpoint_timeout_seconds;
}
