// Scenario files: small stories that say what must happen (SPEC 15). A pool, policy, node or request is
// written there exactly as in the API, so the same schemas read it.

import { z } from "zod";
import { amounts, name, seconds } from "./common.ts";
import { node, nodeUpdate } from "./nodes.ts";
import { policy } from "./policies.ts";
import { group, groupSettings, pool, poolUpdate } from "./pools.ts";
import {
  allocationGroup,
  preemptionReason,
  rejectionCode,
  requestChange,
  requestStatus,
  requestSubmission,
  starvationStatus,
} from "./requests.ts";

const force = { force: z.boolean().optional() };

/** Each action with the schema of its argument. A step has exactly one of them. */
export const scenarioActions = {
  submit: requestSubmission.extend({ id: name }),
  update_request: requestChange.extend({ id: name }),
  finish: name,
  fail: name,
  cancel: name,
  stopped: name,
  checkpointed: name,
  progress: name,
  defer: z.strictObject({ id: name, seconds }),
  lose_holder: name,
  advance: seconds,
  create_pool: pool,
  update_pool: poolUpdate.extend(force),
  delete_pool: z.union([name, z.strictObject({ name, ...force })]),
  attach_policy: policy.extend(force),
  update_policy: policy.extend(force),
  detach_policy: z.strictObject({ pool: name, component: name, ...force }),
  create_group: group.extend({ pool: name, ...force }),
  update_group: group.extend({ pool: name, ...force }),
  delete_group: z.strictObject({ pool: name, name, ...force }),
  delete_request: z.union([name, z.strictObject({ id: name, ...force })]),
  node_up: nodeUpdate,
  node_down: name,
  drain: z.union([name, z.strictObject({ name, deadline_seconds: seconds.optional() })]),
} as const;

export type ScenarioActionName = keyof typeof scenarioActions;
export type ScenarioArguments = { [Name in ScenarioActionName]: z.infer<(typeof scenarioActions)[Name]> };

export const scenarioActionNames = Object.keys(scenarioActions) as ScenarioActionName[];

const byName = <Value extends z.ZodType>(value: Value) => z.record(z.string(), value);

export const scenarioExpectations = z.strictObject({
  status: byName(requestStatus).optional(),
  pool: byName(name.nullable()).optional(),
  preempted: z.array(name).optional(),
  reason: byName(preemptionReason).optional(),
  rejected: byName(z.union([rejectionCode, byName(rejectionCode)])).optional(),
  error: name.optional(),
  usage: byName(amounts).optional(),
  queue: byName(z.array(name)).optional(),
  borrowed: byName(amounts).optional(),
  attempt: byName(z.number()).optional(),
  preempted_count: byName(z.number()).optional(),
  resume: byName(z.boolean()).optional(),
  shares: byName(amounts).optional(),
  starvation: byName(starvationStatus).optional(),
  allocation_group: byName(allocationGroup).optional(),
  placed: byName(z.array(name)).optional(),
  devices: byName(byName(z.array(z.int().min(0)))).optional(),
});
export type ScenarioExpectations = z.infer<typeof scenarioExpectations>;

const optionalActions = Object.fromEntries(
  scenarioActionNames.map((action) => [action, scenarioActions[action].optional()]),
) as { [Name in ScenarioActionName]: z.ZodOptional<(typeof scenarioActions)[Name]> };

export const scenarioStep = z
  .strictObject({ ...optionalActions, note: z.string().optional(), expect: scenarioExpectations.optional() })
  .superRefine((step, context) => {
    const actions = scenarioActionNames.filter((action) => step[action] !== undefined);
    if (actions.length === 1) return;
    const message =
      actions.length === 0
        ? `has no action; the actions are ${scenarioActionNames.join(", ")}`
        : `has more than one action: ${actions.join(", ")}`;
    context.addIssue({ code: "custom", message });
  });
export type ScenarioStep = z.infer<typeof scenarioStep>;

const forPeople = {
  name: name.optional(),
  note: z.string().optional(),
  rules: z.union([z.string(), z.array(z.string())]).optional(),
  source: z.unknown().optional(),
};

export const storyScenario = z.strictObject({
  kind: z.literal("story").optional(),
  ...forPeople,
  pools: z.array(pool).optional(),
  policies: z.array(policy).optional(),
  nodes: z.array(node).optional(),
  settings: z.strictObject({ unmanaged: z.enum(["reject", "allow"]).optional() }).optional(),
  script: z.array(scenarioStep),
});
export type StoryScenario = z.infer<typeof storyScenario>;

/** An element of a share tree, with everything below it. */
export interface ShareElement {
  readonly name: string;
  readonly type: "group" | "operation";
  readonly mode?: "fair_share" | "fifo" | undefined;
  readonly weight?: number | undefined;
  readonly reserved?: Record<string, number> | undefined;
  readonly limit?: Record<string, number> | undefined;
  readonly gang?: boolean | undefined;
  readonly demand?: Record<string, number> | undefined;
  readonly usage?: Record<string, number> | undefined;
  readonly children?: ShareElement[] | undefined;
}

const shareElement: z.ZodType<ShareElement> = z.strictObject({
  name,
  type: z.enum(["group", "operation"]),
  mode: z.enum(["fair_share", "fifo"]).optional(),
  weight: z.number().positive().optional(),
  reserved: nonNegativeAmounts().optional(),
  limit: nonNegativeAmounts().optional(),
  gang: z.boolean().optional(),
  demand: nonNegativeAmounts().optional(),
  usage: nonNegativeAmounts().optional(),
  children: z.lazy(() => z.array(shareElement)).optional(),
});

export const sharesScenario = z.strictObject({
  kind: z.literal("shares"),
  ...forPeople,
  total: positiveAmounts(),
  main_key: name,
  tree: shareElement,
  expect: byName(amounts),
  tolerance: z.number().min(0).optional(),
});
export type SharesScenario = z.infer<typeof sharesScenario>;

export const allocationGroupsScenario = z.strictObject({
  kind: z.literal("allocation_groups"),
  ...forPeople,
  total: positiveAmounts(),
  operation: z.strictObject({
    name: name.optional(),
    fair_share: nonNegativeAmounts(),
    demand_share: nonNegativeAmounts(),
    allocations: z.array(z.strictObject({ id: name, resources: nonNegativeAmounts() })),
  }),
  settings: groupSettings.optional(),
  expect: byName(allocationGroup),
});
export type AllocationGroupsScenario = z.infer<typeof allocationGroupsScenario>;

export const scenarioSchemas = {
  story: storyScenario,
  shares: sharesScenario,
  allocation_groups: allocationGroupsScenario,
} as const;

export type ScenarioKind = keyof typeof scenarioSchemas;

// Snapshots never pass through the engine's own checks, so amounts are judged here.
function nonNegativeAmounts() {
  return z.record(z.string(), z.number().min(0));
}

function positiveAmounts() {
  return z.record(z.string(), z.number().positive());
}
