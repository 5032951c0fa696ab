// The safety rules as checks that recompute everything from the records. The full check runs after every step
// in tests and simulations, which alone use it; the cheap assertions in `evolve` stay on in production.

import { disciplineOf } from "./disciplines/disciplines.ts";
import { type Blocker, explain } from "./explain.ts";
import { dependenciesOf, hasTurn } from "./indexes/blocked.ts";
import { rewake } from "./indexes/timers.ts";
import { ANY_NODE } from "./placement/node-index.ts";
import { compareFit } from "./placement/node-list.ts";
import { type RequestId, type RequestProgress, TERMINAL_STATUSES } from "./records.ts";
import { schedule } from "./scheduling/schedule.ts";
import { restoreState, snapshotOf } from "./snapshot.ts";
import {
  type EngineState,
  kindKeyOf,
  type Node,
  type Pool,
  type PoolLine,
  type Request,
  runKindsOf,
} from "./state.ts";
import { Transaction } from "./transaction.ts";

/** What is wrong with the state, in words; empty if nothing is. */
export function violations(state: EngineState, nowMs: number): string[] {
  return [
    ...[...state.requests.values()].flatMap((request) => recordViolations(state, request)),
    ...[...state.pools.values()].flatMap((pool) => poolViolations(state, pool, nowMs)),
    ...indexViolations(state),
    ...restlessness(state),
  ];
}

/** A request's parts fit its status (Q2), and at most one allocation exists (it has one place for one). */
function recordViolations(state: EngineState, request: Request): string[] {
  const { spec, progress, run } = request;
  const { status, allocation, hold } = progress;
  const isRunning = status === "allocated" || status === "preempting";
  const checks: [string, boolean][] = [
    ["holds an allocation only while it runs", (allocation !== null) === isRunning],
    [
      "is indexed as a run only in a pool",
      (run !== null) === (allocation !== null && allocation.pool !== null),
    ],
    ["holds capacity only while it waits", hold === null || (status === "queued" && !progress.delayed)],
    ["is blocked only while it waits, for something that can happen (J9)", isBlockedRightly(state, request)],
    ["is preempting only when told to stop", status !== "preempting" || allocation?.stop !== null],
    ["has an end only when it has ended", (progress.endedAtMs !== null) === TERMINAL_STATUSES.has(status)],
    ["counts its attempts without a gap", attemptsFit(progress)],
    ["is rejected with a reason", status !== "rejected" || (progress.rejection?.length ?? 0) > 0],
    [
      "is never a victim if it is not preemptible or is sensitive (V2), but of an administrator (P8)",
      status !== "preempting" ||
        (spec.preemptible && !spec.sensitive) ||
        allocation?.stop?.reason === "administration",
    ],
  ];
  return checks.filter(([, holds]) => !holds).map(([rule]) => `request ${spec.id} (${status}): ${rule}`);
}

function isBlockedRightly(state: EngineState, { spec, progress }: Request): boolean {
  if (progress.blocked !== true) return true;
  if (progress.status !== "queued" || !progress.delayed) return false;
  const { are } = dependenciesOf(state, spec);
  return are === "open" || (are === "met" && !hasTurn(state, spec));
}

/** A further attempt counts when it enters the queue; one that ended before that never did (Q3). */
function attemptsFit({ attempt, furtherAttempts, delayed, blocked, endedAtMs }: RequestProgress): boolean {
  if (attempt === furtherAttempts + 1) return delayed === (blocked ?? false);
  return attempt === furtherAttempts && (delayed || endedAtMs !== null);
}

function poolViolations(state: EngineState, pool: Pool, nowMs: number): string[] {
  const found: string[] = [];
  const { name } = pool.record;
  for (const amounts of [
    pool.usage,
    pool.stopping,
    ...[...pool.policies.values()].flatMap((p) => [p.usage, p.firmUsage]),
  ]) {
    if (amounts.some((amount) => !Number.isSafeInteger(amount) || amount < 0)) {
      found.push(`pool ${name}: an amount is not a whole number from 0 on: ${amounts.join(", ")}`);
    }
  }
  if (pool.record.nodeBacked) found.push(...nodeViolations(pool));
  const wrong = disciplineOf(pool).violations(state, pool, nowMs);
  return [...found, ...wrong.map((what) => `pool ${name}: ${what}`)];
}

/** Every node has the sums of its runs, no device is in two allocations, and the lists hold who is ready (12). */
function nodeViolations(pool: Pool): string[] {
  const found: string[] = [];
  const listed = listedNodes(pool, found);
  for (const node of pool.nodes.values()) {
    const { record, runs, devices, capacity, free, usage, stopping, promised, left } = node;
    const given = [...runs].flatMap(
      ({ request }) =>
        request.progress.allocation?.placement.find((place) => place.node === record.name)?.devices ?? [],
    );
    const checks: [string, boolean][] = [
      ["is listed only while it is ready", listed.has(node) === (record.state === "ready")],
      ["gives no device twice", new Set(given).size === given.length && devices.size === given.length],
      [
        "has free what it does not use",
        free.every((amount, i) => amount === (capacity[i] as number) - (usage[i] as number)),
      ],
      [
        "leaves to others what is free and not promised",
        left.every((amount, i) => amount === (free[i] as number) - (promised[i] as number)),
      ],
      [
        "is known to have something that is stopping",
        pool.places.withStopping.has(node) === stopping.some((amount) => amount > 0),
      ],
      [
        "has no runs when it is down or drained",
        runs.size === 0 || !["down", "drained"].includes(record.state),
      ],
    ];
    for (const [rule, holds] of checks)
      if (!holds) found.push(`node ${record.name} (${record.state}): ${rule}`);
  }
  return found;
}

/** The nodes in the lists, each in its place. */
function listedNodes(pool: Pool, found: string[]): Set<Node> {
  const listed = new Set<Node>();
  const { places } = pool;
  const order = places.order(pool);
  for (const list of places.select(pool, ANY_NODE).groups.values()) {
    let before: Node | undefined;
    for (const node of list) {
      const isInOrder = before === undefined || compareFit(before, before.left, node, node.left, order) < 0;
      if (!isInOrder) found.push(`node ${node.record.name} is not in its place in the list`);
      listed.add(node);
      before = node;
    }
  }
  return listed;
}

/** Every index and cached sum equals what the records give (invariant 1 and 3 of the state). */
function indexViolations(state: EngineState): string[] {
  const rebuilt = restoreState(snapshotOf(state));
  rebuilt.clockMs = state.clockMs;
  for (const request of rebuilt.requests.values()) rewake(rebuilt, request);
  const kept = describeIndexes(state);
  const computed = describeIndexes(rebuilt);
  return [...kept].flatMap(([what, text]) =>
    computed.get(what) === text
      ? []
      : [`${what} is kept as ${text} but the records give ${computed.get(what)}`],
  );
}

/** The indexes as text, by what they are about. */
function describeIndexes(state: EngineState): Map<string, string> {
  const found = new Map<string, string>();
  const idsOf = (requests: Iterable<Request>) => [...requests].map(({ spec }) => spec.id).sort();
  const note = (what: string, value: unknown) => found.set(what, JSON.stringify(value));
  for (const [name, pool] of state.pools) {
    const { keys, capacity, usage, stopping, isReserved, runCount } = pool;
    note(`pool ${name}`, { keys, capacity, usage, stopping, isReserved, runCount });
    note(`the queue of pool ${name}`, [...pool.waiting].map(({ line }) => line.key).sort());
    note(`the holders of pool ${name}`, [idsOf(pool.promised), idsOf(pool.passers)]);
    note(
      `the ends of pool ${name}`,
      [...pool.ends].map(({ request }) => request.spec.id),
    );
    note(
      `the prices in pool ${name}`,
      [...pool.runsByPrice]
        .map(([key, runs]) => [key, [...runs].map(({ request }) => request.spec.id)])
        .sort(),
    );
    note(
      `the candidates of pool ${name}`,
      [...runKindsOf(pool)]
        .map(({ poolLine, opportunistic, shieldEndsAtMs, runs }) => [
          poolLine.line.key,
          opportunistic,
          `${shieldEndsAtMs}`,
          [...runs].map(({ request }) => request.spec.id),
        ])
        .sort(),
    );
    for (const [component, policy] of pool.policies) {
      const { reserved, limit, usage: used, firmUsage, runs, holders, runKinds, kindsWithout } = policy;
      const runIds = [...runs].map(({ request }) => request.spec.id);
      const kinds = [...runKinds].map((kind) => `${kind.poolLine.line.key} ${kindKeyOf(kind)}`).sort();
      const sums = { reserved, limit, used, firmUsage, kindsWithout };
      note(`the policy of ${component} in ${name}`, { ...sums, runIds, holders: idsOf(holders), kinds });
    }
    const namesOf = (nodes: Iterable<Node>) => [...nodes].map(({ record }) => record.name).sort();
    const { strained, servable } = pool.places;
    note(`the promises on nodes of ${name}`, [namesOf(strained), namesOf(servable)]);
    note(`the classes of ${name}`, [pool.kindsOfClass, pool.gapKinds.size]);
    for (const [group, { limit, usage: used }] of pool.groups)
      note(`group ${group} of ${name}`, { limit, used });
  }
  for (const [name, { usage, stopping, free, promised, devices, runs }] of state.nodes) {
    const sorted = [...devices].sort((a, b) => a - b);
    note(`node ${name}`, {
      usage,
      stopping,
      free,
      promised,
      sorted,
      runs: idsOf([...runs].map(({ request }) => request)),
    });
  }
  const lines = [...state.components.values()].flatMap((component) => [...component.lines]);
  note("the lines that are shared", [...state.lines.keys()].sort());
  for (const { key, members, poolLines, liveCount } of lines) {
    const standing = poolLines.map(describePoolLine).sort();
    note(`line ${key}`, { members: [...members].map(({ spec }) => spec.id), standing, liveCount });
  }
  note(
    "the components",
    Array.from(state.components.values(), ({ name, policies, lines, classMax, isServedByOperation }) =>
      JSON.stringify([name, policies.size, lines.size, classMax, isServedByOperation]),
    ).sort(),
  );
  note(
    "the timers",
    [...state.timers].map(({ spec, wakeAtMs }) => [spec.id, wakeAtMs]),
  );
  note("who waits for whom", [...state.dependents].map(([id, dependents]) => [id, idsOf(dependents)]).sort());
  note(
    "the arrays",
    [...state.arrays].map(([key, { active, blocked }]) => [key, active, idsOf(blocked)]).sort(),
  );
  note("the ended", idsOf(state.ended));
  return found;
}

function describePoolLine({ pool, need, verdict, firm, runKinds, stoppingRuns }: PoolLine): unknown[] {
  const kinds = runKinds.filter(({ runs }) => runs.size > 0).map(kindKeyOf);
  return [pool.record.name, need, verdict, firm, kinds.sort(), stoppingRuns.size];
}

/** Nothing waits that could be granted, promised or preempted for now: another look changes nothing (6). */
function restlessness(state: EngineState): string[] {
  if (state.isPaused) return [];
  const transaction = new Transaction(state, state.clockMs);
  state.undo.begin(state);
  for (const pool of state.pools.values()) state.unsettled.add(pool);
  schedule(transaction);
  state.undo.rollback(state);
  return transaction.events.map((event) => `a second look finds something to do: ${JSON.stringify(event)}`);
}

/**
 * What is not true of the reasons that a waiting request is given (14). Fair share explains itself by shares, and
 * on nodes units can be free in sum and yet lie apart.
 */
export function reasonViolations(state: EngineState, id: RequestId, nowMs: number): string[] {
  const explanation = explain(state, id, nowMs);
  if (explanation?.status !== "queued" || explanation.delayedUntilMs !== null) return [];
  if (explanation.blocked !== null) return [];
  if (explanation.pools.length === 0) return [`${id} waits, and no pool says why`];
  return explanation.pools
    .filter(({ pool }) => {
      const known = state.pools.get(pool);
      return known?.record.nodeBacked === false && !disciplineOf(known).hasShares;
    })
    .filter(({ blockedBy }) => !isTrue(id, blockedBy))
    .map(
      ({ pool, blockedBy }) =>
        `${id} waits in ${pool} for a reason that is not true: ${JSON.stringify(blockedBy)}`,
    );
}

function isTrue(id: RequestId, blocker: Blocker): boolean {
  switch (blocker.rule) {
    case "limit":
    case "group_limit":
    case "reserved":
      return blocker.used + blocker.asked > blocker.allowed;
    case "units":
      return (
        blocker.short.length > 0 &&
        blocker.short.every(({ asked, free, promised }) => asked > free - promised)
      );
    case "behind_head":
      return blocker.head !== id;
    case "holds":
      return blocker.waitsFor.length > 0;
    case "holds_elsewhere":
      return true;
  }
}
