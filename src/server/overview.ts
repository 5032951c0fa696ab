// The overview (B5): every pool that the caller reaches by kind of use, and what a person should look at.

import {
  countsOf,
  keyUseOf,
  nodesOf,
  oldestWaitOf,
  type PoolName,
  poolAlerts,
  poolsOf,
  queuePageOf,
  requestOf,
} from "../engine/index.ts";
import { lastDayOf } from "../history/index.ts";
import type { LeaderStatus, View } from "../leader/index.ts";
import type { WireOverview, WireOverviewProblem, WirePoolOverview } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import { type Identity, reachesAll, reachesPool } from "./identity.ts";
import { sightOf } from "./sight.ts";
import { warningText } from "./warnings.ts";

/** A head that waits so long is a problem (H7). */
const HEAD_BLOCKED_MS = 30 * 60_000;

export function presentOverview(
  view: View,
  identity: Identity,
  { status, rejected }: { readonly status: LeaderStatus; readonly rejected: readonly number[] },
): WireOverview {
  const names = poolsOf(view.state)
    .map(({ name }) => name)
    .filter((name) => reachesPool(identity, name));
  const problems = [
    ...serverProblems(status, identity),
    ...rejectedProblems(rejected),
    ...names.flatMap((name) => [...poolProblems(view, name, identity, status)]),
  ];
  const troubled = new Set(problems.map(({ pool }) => pool));
  const pools = names.map((name) => presentPool(view, name));
  return {
    seq: view.seq,
    time: toTimestamp(view.nowMs),
    pools: [
      ...pools.filter(({ name }) => troubled.has(name)),
      ...pools.filter(({ name }) => !troubled.has(name)),
    ],
    problems,
  };
}

function presentPool(view: View, name: PoolName): WirePoolOverview {
  const { state } = view;
  const pool = state.pools.get(name)!;
  const { queued, allocated, preempting } = countsOf(state, name);
  const oldestMs = oldestWaitOf(state, name);
  const { used, preempted } = lastDayOf(view.history, name, view.nowMs);
  return {
    name,
    discipline: pool.record.discipline,
    keys: keyUseOf(state, name).map(({ reservedIdle, ...use }) => ({ ...use, reserved_idle: reservedIdle })),
    running: allocated + preempting,
    waiting: queued,
    oldest_wait_since: oldestMs === null ? null : toTimestamp(oldestMs),
    preempted_24h: preempted,
    used_24h: used,
  };
}

type Problem = Pick<WireOverviewProblem, "code" | "message" | "command"> & Partial<WireOverviewProblem>;

function problemOf(problem: Problem): WireOverviewProblem {
  return { pool: null, node: null, request: null, since: null, ...problem };
}

function serverProblems({ trouble }: LeaderStatus, identity: Identity): WireOverviewProblem[] {
  if (trouble === null || !reachesAll(identity)) return [];
  return [problemOf({ code: "server_trouble", message: trouble, command: "berth doctor" })];
}

/** They have ended, so no pool has them; a request that waits for them waits in vain. */
function rejectedProblems(numbers: readonly number[]): WireOverviewProblem[] {
  const [latest] = numbers;
  if (latest === undefined) return [];
  const message =
    numbers.length === 1
      ? `Request #${latest} can never start, and was rejected within the last hour.`
      : `${numbers.length} requests can never start, and were rejected within the last hour; the latest is #${latest}.`;
  return [problemOf({ code: "rejected", message, request: latest, command: `berth why ${latest}` })];
}

function* poolProblems(
  view: View,
  name: PoolName,
  identity: Identity,
  { brakes }: LeaderStatus,
): Iterable<WireOverviewProblem> {
  const { state, nowMs } = view;
  const pool = state.pools.get(name)!;
  for (const { name: node, state: nodeState } of pool.nodes.size > 0 ? nodesOf(state, name) : []) {
    if (nodeState !== "suspect" && nodeState !== "down") continue;
    const heardAtMs = view.nodeHeardAtMs(node);
    const since = heardAtMs === undefined ? null : toTimestamp(heardAtMs);
    yield problemOf({
      ...(nodeState === "down"
        ? { code: "node_down", message: `Node ${node} is down.` }
        : { code: "node_silent", message: `Node ${node} is silent.` }),
      ...{ pool: name, node, since, command: `berth node describe ${node}` },
    });
  }
  const brake = brakes.find(({ group }) => group === name);
  if (brake !== undefined) {
    const message = `${brake.silent} of ${brake.clients} clients of pool ${name} fell silent at once: nothing expires there for now.`;
    yield problemOf({ code: "expiry_paused", message, pool: name, command: "berth doctor" });
  }
  for (const alert of poolAlerts(state, name, nowMs))
    yield problemOf({
      ...{ code: alert.code, message: warningText(alert), pool: name },
      command: `${ALERT_COMMANDS[alert.code]} ${name}`,
    });
  yield* headProblem(view, name, identity);
}

const ALERT_COMMANDS = {
  guarantees_scaled: "berth share",
  runs_shielded: "berth ps --pool",
  reserve_not_reachable: "berth policy list",
};

function* headProblem(view: View, name: PoolName, identity: Identity): Iterable<WireOverviewProblem> {
  const [id] = queuePageOf(view.state, name, view.nowMs, { start: 0, limit: 1 });
  if (id === undefined) return;
  const sinceMs = requestOf(view.state, id)?.progress.queuedAtMs ?? view.nowMs;
  if (view.nowMs - sinceMs < HEAD_BLOCKED_MS) return;
  const isNamed = sightOf(identity, view).idOrNull(id) !== null;
  const number = isNamed ? (view.numberOf(id) ?? null) : null;
  yield problemOf({
    code: "head_blocked",
    message: `The first request in pool ${name}${number === null ? "" : `, #${number},`} has waited for more than 30 minutes.`,
    ...{ pool: name, request: number, since: toTimestamp(sinceMs) },
    command: number === null ? `berth ps --pool ${name}` : `berth why ${number}`,
  });
}
