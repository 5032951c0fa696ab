import { describe, expect, test } from "vitest";
import { createState, DEFAULT_POOL_SETTINGS, decide, type RequestSpec, requestOf } from "../engine/index.ts";
import { ERRORS, poolSettings, type WireRequestSubmission } from "../protocol/index.ts";
import {
  presentPoolSettings,
  presentRefusal,
  presentRequest,
  toCreatePool,
  toGroupChange,
  toPolicyChange,
  toPoolSettings,
  toRequestId,
  toRequestSpec,
} from "./index.ts";

function specOf(wire: Partial<WireRequestSubmission>) {
  return toRequestSpec({ component: "lab", ...wire }, { id: "a", submittedBy: "ada" });
}

describe("a request gets its defaults (Q1, Q3, R3)", () => {
  const cases: Record<string, { wire: Partial<WireRequestSubmission>; want: Partial<RequestSpec> }> = {
    "preemptible, class 5, one step": {
      wire: { resources: { gpu: 2 } },
      want: {
        resources: { gpu: 2, step_run: 1 },
        preemptible: true,
        preemptionClass: 5,
        sensitive: false,
        checkpoint: "none",
        nodes: 1,
        walltimeMs: null,
        retriesMax: null,
        requeue: "on_preemption",
      },
    },
    "with retries.max it comes back after failure": {
      wire: { resources: { gpu: 1 }, retries: { max: 0 } },
      want: { retriesMax: 0, retryDelayMs: 0, requeue: "on_failure" },
    },
    "a delay alone gives no retries after failure": {
      wire: { resources: { gpu: 1 }, retries: { delay: 1.5 } },
      want: { retriesMax: null, retryDelayMs: 1_500, requeue: "on_preemption" },
    },
    "what is written wins": {
      wire: {
        resources: { gpu: 1 },
        retries: { max: 3 },
        requeue: "never",
        preemptible: false,
        preemption_class: 0,
      },
      want: { retriesMax: 3, requeue: "never", preemptible: false, preemptionClass: 0 },
    },
    "times become milliseconds": {
      wire: {
        resources: { gpu: 1 },
        walltime_seconds: 60,
        wait_timeout_seconds: 0.25,
        checkpoint_seconds: 0,
      },
      want: { walltimeMs: 60_000, waitTimeoutMs: 250, checkpointMs: 0 },
    },
    "settings become resources": {
      wire: { settings: { gpu_count: 1, memory: "16GiB" } },
      want: { resources: { gpu: 1, memory_mb: 17_180, step_run: 1 } },
    },
    "settings as a program of ZenML writes them": {
      wire: {
        settings: {
          gpu_count: 1,
          cpu_count: null,
          memory: null,
          pool_resources: null,
          preemptible: false,
          min_replicas: null,
          max_replicas: null,
          autoscaling_metric: null,
          autoscaling_target: null,
          max_concurrency: null,
        },
      },
      want: { resources: { gpu: 1, step_run: 1 }, preemptible: false },
    },
    "settings of a step that asks for nothing": {
      wire: { settings: { gpu_count: 0 } },
      want: { resources: { step_run: 1 }, preemptible: true },
    },
    "preemptible said twice, alike": {
      wire: { preemptible: false, settings: { gpu_count: 1, preemptible: false } },
      want: { preemptible: false },
    },
    "step_run is one, whatever was written": {
      wire: { settings: { pool_resources: { step_run: 5 } } },
      want: { resources: { step_run: 1 } },
    },
    "a key that looks like part of an error is only a key": {
      wire: { resources: { code: 1, outcome: 2 } },
      want: { resources: { code: 1, outcome: 2, step_run: 1 } },
    },
    "a fraction is left for the engine to refuse": {
      wire: { resources: { gpu: 1.5 } },
      want: { resources: { gpu: 1.5, step_run: 1 } },
    },
  };
  for (const [name, { wire, want }] of Object.entries(cases)) {
    test(name, () => expect(specOf(wire)).toMatchObject({ outcome: "accepted", spec: want }));
  }
});

describe("a request that cannot be understood is refused with a stable code", () => {
  const cases: Record<string, { wire: Partial<WireRequestSubmission>; code: string }> = {
    "neither resources nor settings": { wire: {}, code: "invalid_request" },
    "both of them": { wire: { resources: { gpu: 1 }, settings: { gpu_count: 1 } }, code: "invalid_request" },
    "nothing asked for": { wire: { resources: {} }, code: "invalid_request" },
    "preemptible said twice, differently": {
      wire: { preemptible: true, settings: { gpu_count: 1, preemptible: false } },
      code: "invalid_request",
    },
    "no memory": { wire: { settings: { memory: "0GB" } }, code: "invalid_amount" },
    "memory without a unit": { wire: { settings: { memory: 16 } }, code: "invalid_amount" },
    "half a step": { wire: { resources: { gpu: 1, step_run: 0.5 } }, code: "invalid_amount" },
  };
  for (const [name, { wire, code }] of Object.entries(cases)) {
    test(name, () => {
      const result = specOf(wire);
      expect(result).toMatchObject({ outcome: "refused", refusal: { code } });
      expect(ERRORS).toHaveProperty(code);
    });
  }
});

describe("settings of a pool", () => {
  test("every default survives the way to the wire and back", () => {
    expect(toPoolSettings(presentPoolSettings(DEFAULT_POOL_SETTINGS))).toEqual(DEFAULT_POOL_SETTINGS);
  });
  test("what is shown fits the schema, field by field", () => {
    const shown = presentPoolSettings(DEFAULT_POOL_SETTINGS);
    expect(poolSettings.parse(shown)).toEqual(shown);
    expect(Object.keys(shown).toSorted()).toEqual(Object.keys(poolSettings.shape).toSorted());
  });
  test("seconds become milliseconds, and what was left out stays out", () => {
    expect(toPoolSettings({ grace_seconds: 1.5, backfill: "none" })).toEqual({
      graceMs: 1_500,
      backfill: "none",
    });
  });
});

describe("changes carry only what was given", () => {
  test("a pool", () => {
    expect(toCreatePool({ name: "p", groups: [{ name: "g", parent: "top" }] })).toEqual({
      kind: "createPool",
      name: "p",
      groups: [{ name: "g", parent: "top" }],
    });
  });
  test("a group that leaves its parent and its reserve", () => {
    expect(toGroupChange({ name: "g", parent: null, reserved: null })).toEqual({
      name: "g",
      parent: null,
      reserved: null,
    });
  });
  test("a policy", () => {
    expect(toPolicyChange({ pool: "p", component: "c", max_class: 7, group: null })).toEqual({
      pool: "p",
      component: "c",
      maxClass: 7,
      group: null,
    });
  });
});

test("a request that runs is shown with times in RFC 3339, seconds and its pool", () => {
  const state = createState();
  const made = specOf({ resources: { gpu: 1 }, walltime_seconds: 60 });
  if (made.outcome === "refused") throw new Error(made.refusal.message);
  decide(state, toCreatePool({ name: "p", capacity: { gpu: 1 } }), 0);
  decide(state, { kind: "attachPolicy", policy: toPolicyChange({ pool: "p", component: "lab" }) }, 0);
  decide(state, { kind: "submitRequest", spec: made.spec }, 1_500);
  const request = requestOf(state, toRequestId("a"));
  expect(request && presentRequest(request.spec, request.progress)).toMatchObject({
    id: "a",
    component: "lab",
    status: "allocated",
    pool: "p",
    resources: { gpu: 1, step_run: 1 },
    walltime_seconds: 60,
    wait_timeout_seconds: null,
    submitted_by: "ada",
    submitted_at: "1970-01-01T00:00:01.500Z",
    started_at: "1970-01-01T00:00:01.500Z",
    ended_at: null,
    attempt: 1,
    stop: null,
    reasons: null,
  });
});

test("a refusal becomes a problem with the status of its code", () => {
  const refusal = { code: "not_found", message: 'There is no pool "x".', hint: "" } as const;
  expect(presentRefusal(refusal)).toMatchObject({
    status: 404,
    code: "not_found",
    detail: 'There is no pool "x".',
  });
});
