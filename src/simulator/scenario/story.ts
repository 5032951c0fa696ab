// Plays a story on the engine, step by step, until it is over or a step does not come out as expected.

import type { Event, PreemptionReason, Refusal, RequestId } from "../../engine/index.ts";
import type { ScenarioExpectations, StoryScenario } from "../../protocol/index.ts";
import { toCreatePool, toNodeChange, toPolicyChange } from "../../translation/index.ts";
import { actionOf, describeAction, perform } from "./actions.ts";
import { compare, type Mismatch } from "./expectations.ts";
import { createWorld, type Outcome, send, type World } from "./world.ts";

/** A step that did not come out as expected, or a set-up that was refused (then `step` is null). */
export interface Failure extends Mismatch {
  /** Counted from 1. */
  readonly step: number | null;
  readonly action: string;
  readonly atSeconds: number;
  readonly message: string;
}

/** What one step did, for --trace. */
export interface StepReport {
  readonly step: number | null;
  readonly action: string;
  readonly atSeconds: number;
  readonly events: readonly Event[];
  readonly refusal: Refusal | null;
}

/** Steps whose action no schema accepts, by index; their `expect.error` says that this is meant. */
export type MalformedSteps = ReadonlyMap<number, { readonly action: string; readonly refusal: Refusal }>;

export interface StoryOptions {
  readonly malformed?: MalformedSteps;
  readonly onStep?: (report: StepReport) => void;
}

export function playStory(story: StoryScenario, { malformed, onStep }: StoryOptions = {}): Failure[] {
  const world = createWorld();
  for (const { action, run } of setUp(world, story)) {
    const { events, refusal } = run();
    onStep?.({ step: null, action, atSeconds: 0, events, refusal });
    if (refusal !== null) return [refusedFailure({ step: null, action, atSeconds: 0 }, refusal)];
  }

  const reasons = new Map<RequestId, PreemptionReason>();
  for (const [index, step] of story.script.entries()) {
    const meant = malformed?.get(index);
    const action = actionOf(step);
    const { events, refusal } = meant ? { events: [], refusal: meant.refusal } : perform(world, action);
    for (const event of events) rememberReasons(reasons, event);

    const place = {
      step: index + 1,
      action: meant?.action ?? describeAction(action),
      atSeconds: world.nowMs / 1000,
    };
    onStep?.({ ...place, events, refusal });
    const failures = [
      ...judgeRefusal(place, step.expect, refusal),
      ...compare({ world, events, reasons }, step.expect ?? {}).map((found) => ({
        ...place,
        ...found,
        message: "",
      })),
    ];
    // What comes after a step that went wrong would mostly repeat the same difference.
    if (failures.length > 0) return failures;
  }
  return [];
}

interface SetUpAction {
  readonly action: string;
  readonly run: () => Outcome;
}

/** Pools before nodes, nodes before policies: a policy may only name keys that its pool has (P4). */
export function setUp(world: World, story: StoryScenario): SetUpAction[] {
  const { pools = [], nodes = [], policies = [], settings } = story;
  const { unmanaged } = settings ?? {};
  return [
    ...(unmanaged === undefined
      ? []
      : [{ action: "settings", run: () => send(world, { kind: "changeServerSettings", unmanaged }) }]),
    ...pools.map((pool) => ({ action: `pools: ${pool.name}`, run: () => send(world, toCreatePool(pool)) })),
    ...nodes.map((node) => ({
      action: `nodes: ${node.name}`,
      run: () => send(world, { kind: "putNode", node: toNodeChange(node) }),
    })),
    ...policies.map((policy) => ({
      action: `policies: ${policy.pool} ${policy.component}`,
      run: () => send(world, { kind: "attachPolicy", policy: toPolicyChange(policy) }),
    })),
  ];
}

function rememberReasons(reasons: Map<RequestId, PreemptionReason>, event: Event): void {
  if (event.kind !== "preemptionDecided") return;
  for (const { requestId, reason } of event.victims) reasons.set(requestId, reason);
}

type Place = Pick<Failure, "step" | "action" | "atSeconds">;

function judgeRefusal(
  place: Place,
  expected: ScenarioExpectations | undefined,
  refusal: Refusal | null,
): Failure[] {
  const wanted = expected?.error ?? null;
  if (wanted === (refusal?.code ?? null)) return [];
  if (refusal !== null) return [refusedFailure(place, refusal, wanted)];
  return [{ ...place, field: "error", expected: wanted, actual: null, message: "The action was accepted." }];
}

function refusedFailure(place: Place, refusal: Refusal, expected: string | null = null): Failure {
  const message = `${refusal.message} ${refusal.hint}`.trim();
  return { ...place, field: "error", expected, actual: refusal.code, message };
}
