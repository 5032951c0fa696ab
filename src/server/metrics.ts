// Metrics for Prometheus (16). Counters follow committed events; gauges are read off the state when asked for.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import {
  countsOf,
  type ElementView,
  type GroupName,
  keyUseOf,
  oldestWaitOf,
  type PoolName,
  queuePageOf,
  type RequestId,
  reservedOf,
  runsOf,
  teamSharesOf,
} from "../engine/index.ts";
import type { Foresight } from "../foresight/index.ts";
import type { CommittedBatch, CommittedEvent, Leader, Observer, View } from "../leader/index.ts";
import type { Replica } from "../replica/index.ts";
import { type Identity, reachesAll } from "./identity.ts";
import type { NoticeCounts, Notices } from "./notices/notices.ts";
import { largest } from "./shares.ts";
import { ownedOf, sightOf } from "./sight.ts";

export interface Metrics {
  /** To be given to the leader when it starts. */
  readonly observer: Observer;
  readonly contentType: string;
  /** From here on counts what is committed. Returns the way to stop. */
  follow(leader: Leader, beside: Beside): () => void;
  countCall(route: string, status: number): void;
  /** As the token may see them: without pools that it does not reach, and without elements that it may not name. */
  text(identity: Identity): Promise<string>;
}

interface Beside {
  readonly streams: { count(): number };
  /** Of a server that is one of several. */
  readonly replica: Pick<Replica, "behindMs" | "leaderChanges" | "historyLosses"> | undefined;
  readonly notices?: Pick<Notices, "counts">;
  readonly foresight?: Pick<Foresight, "status">;
}

const SECONDS = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const WAITS = [0.01, 0.1, 1, 5, 15, 60, 300, 900, 3_600, 4 * 3_600, 24 * 3_600];

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const meters = createMeters(registry);
  let leader: Leader | undefined;
  let beside: Beside = { streams: { count: () => 0 }, replica: undefined };
  // Handed to the registry when it is asked: to find a counter by its labels costs more than all else that a call counts.
  const calls = new Map<string, number>();

  return {
    observer: {
      decided: (_command, ms) => meters.decision.observe(ms / 1000),
      committed: ({ ms }) => meters.commit.observe(ms / 1000),
    },
    contentType: registry.contentType,
    follow(newLeader, newBeside) {
      leader = newLeader;
      beside = newBeside;
      const stops: Stops = new Map();
      return newLeader.onCommit((batch) => {
        if (batch.events.some(({ event }) => isCounted(event.kind)))
          void countBatch(newLeader, meters, stops, batch);
      });
    },
    countCall(route, status) {
      const key = `${status} ${route}`;
      calls.set(key, (calls.get(key) ?? 0) + 1);
    },
    async text(identity) {
      for (const [key, count] of calls) {
        const [status = "", route = ""] = key.split(" ");
        meters.calls.inc({ route, status }, count);
      }
      calls.clear();
      if (leader === undefined) return registry.metrics();
      const { condition, trouble } = leader.status();
      meters.leader.set(condition === "leading" ? 1 : 0);
      meters.trouble.set(trouble === null ? 0 : 1);
      meters.streams.set(beside.streams.count());
      meters.replicaLag.set((beside.replica?.behindMs() ?? 0) / 1000);
      countUpTo(meters.leaderChanges, beside.replica?.leaderChanges() ?? 0);
      countUpTo(meters.historyLosses, beside.replica?.historyLosses() ?? 0);
      gaugeNotices(meters, beside.notices?.counts());
      meters.foresightBytes.set(beside.foresight?.status().bytes ?? 0);
      meters.expiryPaused.reset();
      for (const { group } of leader.status().brakes) meters.expiryPaused.set({ pool: group }, 1);
      await leader.read((view) => gauge(view, meters));
      const text = await registry.metrics();
      return reachesAll(identity) ? text : leader.read((view) => seenLines(text, identity, view));
    },
  };
}

/** Counted where they are sent: by the leader, also over its predecessors. */
function gaugeNotices(meters: Meters, counts: NoticeCounts | undefined): void {
  const { targets = 0, failing = 0, pending = 0, sent = 0, failed = 0, lost = 0 } = counts ?? {};
  meters.noticeTargets.set({ state: "good" }, targets - failing);
  meters.noticeTargets.set({ state: "failing" }, failing);
  meters.noticesPending.set(pending);
  for (const [outcome, count] of Object.entries({ sent, failed, lost }))
    meters.notices.set({ outcome }, count);
}

const SHARE_LABELS = ["pool", "element"];

type Meters = ReturnType<typeof createMeters>;

function createMeters(registry: Registry) {
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const newGauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name, help, labelNames, registers });
  const histogram = (name: string, help: string, labelNames: string[], buckets: number[]) =>
    new Histogram({ name, help, labelNames, buckets, registers });
  const shareGauge = (name: string, help: string) =>
    newGauge(name, `${help} A part of the pool, on the key where it is largest.`, SHARE_LABELS);
  return {
    requests: newGauge("berth_requests", "Requests that wait or run, by pool and status.", [
      "pool",
      "status",
    ]),
    noticeTargets: newGauge("berth_notice_targets", "Targets of notices, by state.", ["state"]),
    noticesPending: newGauge("berth_notices_pending", "Notices that are still to be tried."),
    notices: newGauge("berth_notices", "Notices of the targets that exist: sent, failed tries, lost.", [
      "outcome",
    ]),
    capacity: newGauge("berth_pool_capacity", "Units of a pool.", ["pool", "key"]),
    usage: newGauge("berth_pool_usage", "Units in use, in share or borrowed.", ["pool", "key", "share"]),
    wait: histogram("berth_queue_wait_seconds", "From entering the queue to the grant.", ["pool"], WAITS),
    decision: histogram("berth_decision_seconds", "Time the engine takes for a decision.", [], SECONDS),
    grants: counter("berth_grants_total", "Grants.", ["pool"]),
    preemptions: counter("berth_preemptions_total", "Victims, by reason.", ["pool", "reason"]),
    checkpoint: histogram(
      "berth_preemption_checkpoint_duration_seconds",
      "From the notice of a stop to a complete checkpoint.",
      ["pool"],
      WAITS,
    ),
    requeues: counter("berth_preemption_victim_requeue_total", "Victims queued again.", ["pool"]),
    failedCheckpoints: counter(
      "berth_preemption_failed_checkpoint_total",
      "Victims that were asked for a checkpoint and ended without one.",
      ["pool"],
    ),
    lostWork: counter(
      "berth_lost_work_unit_seconds_total",
      "Unit-seconds since start or last checkpoint, of attempts that were preempted or lost.",
      ["pool", "key"],
    ),
    fairShare: shareGauge("berth_fair_share", "Fair share of a group or policy."),
    usageShare: shareGauge("berth_usage_share", "What a group or policy uses."),
    demandShare: shareGauge("berth_demand_share", "What a group or policy uses or waits for."),
    borrowedShare: shareGauge("berth_borrowed_share", "Usage of a group or policy above its guarantee."),
    lentShare: shareGauge("berth_lent_share", "What is guaranteed to a group or policy and used by others."),
    satisfaction: newGauge(
      "berth_satisfaction",
      "Usage of a group or policy as a part of its fair share; none without a fair share.",
      SHARE_LABELS,
    ),
    starvation: newGauge(
      "berth_starvation",
      "0 normal, 1 below its fair share, 2 starving, 3 aggressively starving.",
      SHARE_LABELS,
    ),
    starvingSince: newGauge(
      "berth_starving_since_timestamp_seconds",
      "Since when a group or policy starves; none if it does not.",
      SHARE_LABELS,
    ),
    nodes: newGauge("berth_nodes", "Registered nodes.", ["pool", "state"]),
    expiryPaused: newGauge(
      "berth_expiry_paused",
      "1 while the expiry of leases is paused, because many holders fell silent at once.",
      ["pool"],
    ),
    leader: newGauge("berth_leader", "1 while this server leads, and knows that it does."),
    replicaLag: newGauge(
      "berth_replica_lag_seconds",
      "How long ago this server knew that it has seen all events; 0 on the leader.",
    ),
    historyLosses: counter(
      "berth_history_lost_total",
      "How often this server found that the database had lost, or may have lost, what it had acknowledged.",
    ),
    leaderChanges: counter(
      "berth_leader_changes_total",
      "Changes of the leader that this server has seen since it started.",
    ),
    reserved: newGauge("berth_pool_reserved", "What the policies of a pool reserve.", ["pool", "key"]),
    oldestWait: newGauge("berth_oldest_wait_seconds", "How long the oldest has waited; 0: nobody waits.", [
      "pool",
    ]),
    headWait: newGauge("berth_head_wait_seconds", "How long the first in line has waited; 0: nobody waits.", [
      "pool",
    ]),
    operations: newGauge(
      "berth_operations",
      "Operations with something that runs in the pool, and with something that waits in its queue.",
      ["pool", "state"],
    ),
    trouble: newGauge("berth_store_trouble", "1 while the store takes nothing, or nothing new."),
    commit: histogram("berth_journal_commit_seconds", "Time until a batch is durable.", [], SECONDS),
    calls: counter("berth_http_requests_total", "Calls of the API.", ["route", "status"]),
    streams: newGauge("berth_event_streams", "Open event streams."),
    foresightBytes: newGauge(
      "berth_foresight_bytes",
      "Memory that the replica of the foresight thread takes",
    ),
  };
}

// --- Counters

/** Counted elsewhere, and only ever up. */
function countUpTo(meter: Counter, count: number): void {
  meter.reset();
  meter.inc(count);
}

/** Victims that are stopping, for what must be known at their end. */
type Stops = Map<RequestId, { pool: string; toldAtMs: number; isAskedToSave: boolean; hasSaved: boolean }>;

function isCounted(kind: string): boolean {
  return ["requestAllocated", "preemptionDecided", "checkpointCompleted", "attemptEnded"].includes(kind);
}

async function countBatch(
  leader: Leader,
  meters: Meters,
  stops: Stops,
  { events }: CommittedBatch,
): Promise<void> {
  await leader
    .read((view) => {
      for (const event of events) countEvent(view, meters, stops, event);
    })
    .catch(() => undefined); // The leader is gone, and the counters with it.
}

function countEvent(view: View, meters: Meters, stops: Stops, { event, atMs }: CommittedEvent): void {
  switch (event.kind) {
    case "requestAllocated": {
      const pool = event.pool ?? "";
      meters.grants.inc({ pool });
      const queuedAtMs = view.state.requests.get(event.requestId)?.progress.queuedAtMs ?? atMs;
      // A later attempt may wait already: its entry says nothing about this grant.
      if (queuedAtMs <= atMs) meters.wait.observe({ pool }, (atMs - queuedAtMs) / 1000);
      return;
    }
    case "preemptionDecided":
      for (const { requestId, reason, stop } of event.victims) {
        meters.preemptions.inc({ pool: event.pool, reason });
        const isAskedToSave = stop.phase === "checkpoint";
        stops.set(requestId, { pool: event.pool, toldAtMs: atMs, isAskedToSave, hasSaved: false });
      }
      return;
    case "checkpointCompleted": {
      const stop = stops.get(event.requestId);
      if (stop === undefined || stop.hasSaved) return;
      stop.hasSaved = true;
      meters.checkpoint.observe({ pool: stop.pool }, (atMs - stop.toldAtMs) / 1000);
      return;
    }
    case "attemptEnded": {
      const stop = stops.get(event.requestId);
      stops.delete(event.requestId);
      // Work that ended well before it had saved had nothing left to save (11.4).
      const hasFailed = stop?.isAskedToSave && !stop.hasSaved && event.outcome !== "succeeded";
      if (hasFailed) meters.failedCheckpoints.inc({ pool: stop.pool });
      if (event.outcome === "preempted" && event.status === "queued") {
        meters.requeues.inc({ pool: stop?.pool ?? "" });
      }
      if (event.outcome === "preempted" || event.outcome === "lost")
        countLostWork(view, meters, event.requestId, atMs);
    }
  }
}

function countLostWork(view: View, meters: Meters, id: RequestId, atMs: number): void {
  const request = view.state.requests.get(id);
  const attempt = view.attemptsOf(id).findLast(({ endedAtMs }) => endedAtMs === atMs);
  if (request === undefined || attempt === undefined) return;
  const { spec, progress } = request;
  const savedAtMs = Math.max(attempt.startedAtMs, progress.lastCheckpointAtMs ?? 0);
  const seconds = Math.max(0, atMs - savedAtMs) / 1000;
  for (const [key, amount] of Object.entries(spec.resources)) {
    const units = key === "step_run" ? amount : amount * spec.nodes;
    meters.lostWork.inc({ pool: attempt.pool ?? "", key }, seconds * units);
  }
}

/** The lines of samples carry their labels, and these say what they are about. */
function seenLines(text: string, identity: Identity, view: View): string {
  const sight = sightOf(identity, view);
  const label = (line: string, name: string) => {
    const written = new RegExp(`[{,]${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(line)?.[1];
    return written?.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
  };
  const isSeen = (line: string) => {
    const [pool, element] = [label(line, "pool"), label(line, "element")];
    if (pool === undefined || pool === "") return true;
    if (element === undefined) return sight.seesPool(pool);
    const isGroup = view.state.pools.get(pool as PoolName)?.groups.has(element as GroupName) === true;
    return isGroup ? sight.seesPool(pool) : sight.namesComponent(pool, element);
  };
  return text
    .split("\n")
    .filter((line) => line.startsWith("#") || isSeen(line))
    .join("\n");
}

// --- Gauges

function gauge(view: View, meters: Meters): void {
  const { requests, capacity, usage, nodes, reserved: reserves, oldestWait, headWait } = meters;
  for (const meter of [requests, capacity, usage, nodes, reserves, oldestWait, headWait]) meter.reset();
  for (const { record } of view.state.nodes.values()) nodes.inc({ pool: record.pool, state: record.state });
  gaugeShares(view, meters);
  gaugeOperations(view, meters);
  for (const pool of view.state.pools.keys()) {
    for (const [status, count] of Object.entries(countsOf(view.state, pool)))
      requests.set({ pool, status }, count);
    for (const { key, capacity: units, own, borrowed } of keyUseOf(view.state, pool)) {
      capacity.set({ pool, key }, units);
      usage.set({ pool, key, share: "borrowed" }, borrowed);
      usage.set({ pool, key, share: "reserved" }, own);
    }
    for (const [key, amount] of Object.entries(reservedOf(view.state, pool)))
      reserves.set({ pool, key }, amount);
    const [head] = queuePageOf(view.state, pool, view.nowMs, { start: 0, limit: 1 });
    const headSinceMs = head && view.state.requests.get(head)?.progress.queuedAtMs;
    headWait.set({ pool }, headSinceMs === undefined ? 0 : (view.nowMs - headSinceMs) / 1000);
    const oldestMs = oldestWaitOf(view.state, pool);
    oldestWait.set({ pool }, oldestMs === null ? 0 : (view.nowMs - oldestMs) / 1000);
  }
}

/** How many there are: each has its own numbers in `GET /v1/operations`. */
function gaugeOperations(view: View, { operations }: Meters): void {
  operations.reset();
  for (const pool of view.state.pools.keys()) {
    const running = runsOf(view.state, pool).flatMap((id) => {
      const { operation = null, component = "" } = view.state.requests.get(id)?.spec ?? {};
      return operation === null ? [] : [`${component} ${operation}`];
    });
    operations.set({ pool, state: "running" }, new Set(running).size);
    operations.set({ pool, state: "waiting" }, 0);
  }
  for (const requests of view.state.operations.values()) {
    for (const { spec, progress } of requests) {
      if (progress.status !== "queued" || progress.blocked === true) continue;
      for (const pool of ownedOf(view, spec.id)?.queues ?? []) operations.inc({ pool, state: "waiting" });
      break;
    }
  }
}

/** Of groups and policies: there may be any number of operations. A policy named like a group of its pool is left out. */
function gaugeShares(view: View, meters: Meters): void {
  const { fairShare, usageShare, demandShare, borrowedShare, lentShare } = meters;
  const { satisfaction, starvation, starvingSince } = meters;
  const gauges = [fairShare, usageShare, demandShare, borrowedShare, lentShare];
  for (const meter of [...gauges, satisfaction, starvation, starvingSince]) meter.reset();
  for (const pool of view.state.pools.keys()) {
    const named = new Map(
      teamSharesOf(view.state, pool)
        .toReversed()
        .map((each) => [each.name, each]),
    );
    for (const [element, each] of named) {
      const labels = { pool, element };
      fairShare.set(labels, largest(each.fairShare));
      usageShare.set(labels, largest(each.usageShare));
      demandShare.set(labels, largest(each.demandShare));
      borrowedShare.set(labels, largest(each.loans?.borrowed));
      lentShare.set(labels, largest(each.loans?.lent));
      if (each.satisfaction !== null) satisfaction.set(labels, each.satisfaction);
      starvation.set(labels, STARVATION[each.status]);
      if (STARVATION[each.status] > 1) starvingSince.set(labels, (each.starvesAtMs ?? 0) / 1000);
    }
  }
}

const STARVATION: Readonly<Record<ElementView["status"], number>> = {
  normal: 0,
  below_fair_share: 1,
  starving: 2,
  aggressively_starving: 3,
};
