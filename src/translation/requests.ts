// Requests: what was submitted → the engine's specification with the defaults of Q1 and Q3, and back.

import {
  PLAIN_REQUEST,
  type Refusal,
  type RequestChange,
  type RequestProgress,
  type RequestSpec,
  type Resources,
} from "../engine/index.ts";
import {
  parseSettings,
  type WireJobPhase,
  type WireRequestChange,
  type WireRequestSubmission,
  type WireRun,
} from "../protocol/index.ts";
import { toComponentName, toPoolName, toRequestId } from "./names.ts";
import { toMs, toMsOrNull, toSeconds, toSecondsOrNull, toTimestamp } from "./units.ts";

/** One for all requests that have none, because many of them wait. */
const NO_LABELS = Object.freeze({});

export type SpecResult =
  | { readonly outcome: "accepted"; readonly spec: RequestSpec }
  | { readonly outcome: "refused"; readonly refusal: Refusal };

export function toRequestSpec(
  wire: WireRequestSubmission,
  { id, submittedBy, run }: { id: string; submittedBy: string; run?: Pick<WireRun, "on_lost"> },
): SpecResult {
  const asked = resourcesAskedFor(wire);
  if (asked.outcome === "refused") return asked;
  return {
    outcome: "accepted",
    spec: {
      id: toRequestId(id),
      component: toComponentName(wire.component),
      resources: withStepRun(asked.resources),
      preemptible: wire.preemptible ?? wire.settings?.preemptible ?? true,
      preemptionClass: wire.preemption_class ?? PLAIN_REQUEST.preemptionClass,
      sensitive: wire.sensitive ?? false,
      checkpoint: wire.checkpoint ?? "none",
      checkpointMs: toMsOrNull(wire.checkpoint_seconds),
      walltimeMs: toMsOrNull(wire.walltime_seconds),
      operation: wire.operation ?? null,
      gang: wire.gang ?? false,
      nodes: wire.nodes ?? 1,
      constraints: wire.constraints ?? NO_LABELS,
      pools: wire.pools?.map(toPoolName) ?? null,
      retriesMax: wire.retries?.max ?? null,
      retryDelayMs: toMs(wire.retries?.delay ?? 0),
      requeue: wire.requeue ?? (wire.retries?.max === undefined ? "on_preemption" : "on_failure"),
      waitTimeoutMs: toMsOrNull(wire.wait_timeout_seconds),
      attended: wire.attended ?? false,
      name: wire.name ?? "",
      labels: wire.labels ?? NO_LABELS,
      note: wire.note ?? "",
      submittedBy,
      origin: wire.origin ?? null,
      isJob: run !== undefined,
      runsOn: run?.on_lost === "run-on",
      after: wire.after?.map((one) => ({ requestId: toRequestId(one.id), when: one.when })) ?? null,
      array:
        wire.array === undefined ? null : { index: wire.array.index, atOnce: wire.array.at_once ?? null },
    },
  };
}

/** Only what is said changes (Q9). */
export function toRequestChange(wire: WireRequestChange): RequestChange {
  const { resources, retries, preemption_class: preemptionClass } = wire;
  const time = (seconds: number | null | undefined) =>
    typeof seconds === "number" ? toMs(seconds) : seconds;
  const change = {
    resources: resources && withStepRun(resources),
    nodes: wire.nodes,
    pools: wire.pools === null ? null : wire.pools?.map(toPoolName),
    preemptionClass,
    walltimeMs: time(wire.walltime_seconds),
    waitTimeoutMs: time(wire.wait_timeout_seconds),
    preemptible: wire.preemptible,
    checkpoint: wire.checkpoint,
    checkpointMs: time(wire.checkpoint_seconds),
    requeue: wire.requeue,
    retriesMax: retries?.max,
    retryDelayMs: retries?.delay === undefined ? undefined : toMs(retries.delay),
    labels: wire.labels,
    note: wire.note,
  };
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}

/**
 * One running step, whatever was written (R3). Not `{ ...resources, step_run: 1 }`: V8 gives every object that is
 * made so a hidden class of its own, which is a third of what a waiting request holds.
 */
function withStepRun(resources: Resources): Resources {
  return Object.assign({}, resources, STEP_RUN);
}

const STEP_RUN: Resources = { step_run: 1 };

type Refused = Extract<SpecResult, { outcome: "refused" }>;
type Asked = Refused | { readonly outcome: "accepted"; readonly resources: Resources };

function resourcesAskedFor({ resources, settings, preemptible }: WireRequestSubmission): Asked {
  if (
    typeof settings?.preemptible === "boolean" &&
    (preemptible ?? settings.preemptible) !== settings.preemptible
  ) {
    return refused(
      "invalid_request",
      `The request says preemptible: ${preemptible}, its settings say ${settings.preemptible}.`,
      "Say it in one place.",
    );
  }
  if ((resources === undefined) === (settings === undefined)) {
    return refused(
      "invalid_request",
      "A request has either resources or settings.",
      'Write for example resources: {"gpu": 1}, or settings: {"gpu_count": 1, "memory": "16GiB"}.',
    );
  }
  const parsed =
    settings === undefined ? { ok: true as const, value: resources ?? {} } : parseSettings(settings);
  if (!parsed.ok) return refused("invalid_amount", parsed.message, parsed.hint);

  // Settings that ask for nothing are those of a step, which counts as one `step_run`.
  if (settings === undefined && Object.keys(parsed.value).length === 0) {
    return refused(
      "invalid_request",
      "The request asks for nothing.",
      "Ask for at least one unit of something; step_run counts too.",
    );
  }
  const stepRun = parsed.value.step_run;
  if (stepRun !== undefined && !(Number.isSafeInteger(stepRun) && stepRun > 0)) {
    return refused(
      "invalid_amount",
      `The amount of step_run is ${stepRun}, which is not a whole number above 0.`,
      "Leave step_run out: every request holds exactly one.",
    );
  }
  return { outcome: "accepted", resources: parsed.value };
}

function refused(code: Refusal["code"], message: string, hint: string): Refused {
  return { outcome: "refused", refusal: { code, message, hint } };
}

/** The request as the API shows it. Leases are not the engine's: the server adds what it knows about them. */
export function presentRequest(spec: RequestSpec, progress: Readonly<RequestProgress>) {
  const { allocation, hold } = progress;
  return {
    id: spec.id,
    name: spec.name,
    component: spec.component,
    status: progress.status,
    resources: spec.resources,
    preemptible: spec.preemptible,
    preemption_class: spec.preemptionClass,
    sensitive: spec.sensitive,
    checkpoint: spec.checkpoint,
    checkpoint_seconds: toSecondsOrNull(spec.checkpointMs),
    walltime_seconds: toSecondsOrNull(spec.walltimeMs),
    operation: spec.operation,
    gang: spec.gang,
    nodes: spec.nodes,
    constraints: spec.constraints,
    pools: spec.pools ?? null,
    retries: { max: spec.retriesMax, delay: toSeconds(spec.retryDelayMs) },
    requeue: spec.requeue,
    wait_timeout_seconds: toSecondsOrNull(spec.waitTimeoutMs),
    attended: spec.attended,
    labels: spec.labels,
    note: spec.note,
    submitted_by: spec.submittedBy,
    origin: spec.origin ?? null,
    submitted_at: toTimestamp(progress.submittedAtMs),
    queued_at: toTimestamp(progress.queuedAtMs),
    started_at: allocation === null ? null : toTimestamp(allocation.startedAtMs),
    ended_at: progress.endedAtMs === null ? null : toTimestamp(progress.endedAtMs),
    attempt: progress.attempt,
    preempted_count: progress.preemptedCount,
    resume: progress.resume,
    pool: allocation?.pool ?? null,
    opportunistic: allocation?.opportunistic ?? false,
    placement: allocation?.placement.map(({ node, devices }) => ({ node, devices })) ?? [],
    hold: hold === null ? null : { pool: hold.pool },
    stop: allocation?.stop ? presentStop(allocation.stop) : null,
    reasons: progress.rejection,
    is_job: spec.isJob ?? false,
    phase: phaseOf(progress),
    after: (spec.after ?? []).map(({ requestId, when }) => ({ id: requestId, when })),
    array: spec.array ? { index: spec.array.index, at_once: spec.array.atOnce } : null,
    blocked: progress.blocked ?? false,
    cancelled_because: progress.cancelledBecause ?? null,
  };
}

/** What the records say (J4); whether a node is silent is known where nodes are looked at. */
function phaseOf({ allocation }: Readonly<RequestProgress>): WireJobPhase | null {
  if (allocation?.phase === undefined) return null;
  if (allocation.stop === null) return allocation.phase;
  return allocation.stop.phase === "checkpoint" ? "checkpointing" : "stopping";
}

type Stop = NonNullable<NonNullable<RequestProgress["allocation"]>["stop"]>;

function presentStop(stop: Stop) {
  return {
    cause: stop.cause,
    phase: stop.phase,
    reason: stop.reason,
    for_request: stop.forRequest,
    told_at: toTimestamp(stop.toldAtMs),
    deadline: toTimestamp(stop.deadlineMs),
  };
}
