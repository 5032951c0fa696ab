// Snapshots: a share tree to be evaluated by 9.1 and 9.2, and the allocations of one operation to be split
// by 9.5. They call the rules of discipline `fair_share` directly, without a story around them.

import {
  computeFairShares,
  DEFAULT_POOL_SETTINGS,
  type SnapshotElement as EngineElement,
  type SnapshotGroup,
  splitAllocationGroups,
} from "../../engine/index.ts";
import type { AllocationGroupsScenario, ShareElement, SharesScenario } from "../../protocol/index.ts";
import { given, toGroupSettings } from "../../translation/index.ts";
import type { Failure } from "./story.ts";

const TOLERANCE = 1e-6;

export function judgeShares({
  total,
  main_key,
  tree,
  expect,
  tolerance = TOLERANCE,
}: SharesScenario): Failure[] {
  const keys = Object.keys(total);
  const mainKey = keys.indexOf(main_key);
  if (mainKey < 0) return [failure("main_key", keys, main_key, "The main key is not a key of total.")];
  if (tree.type !== "group")
    return [failure("tree.type", "group", tree.type, "The tree is the root group itself.")];

  const elements: EngineElement[] = [];
  const root = toElement(tree, keys, elements) as SnapshotGroup;
  const { shares } = computeFairShares({ total: toUnits(total, keys), mainKey, root });
  return Object.entries(expect).flatMap(([name, fractions]) => {
    const element = elements.find((candidate) => candidate.name === name);
    const share = element && shares.get(element);
    if (share === undefined) return [failure(`expect.${name}`, fractions, null, "No element has this name.")];
    return Object.entries(fractions).flatMap(([key, expected]) => {
      const actual = share.fairShare[keys.indexOf(key)] ?? 0;
      return Math.abs(actual - expected) <= tolerance
        ? []
        : [failure(`expect.${name}.${key}`, expected, actual)];
    });
  });
}

export function judgeAllocationGroups({
  total,
  operation,
  settings = {},
  expect,
}: AllocationGroupsScenario): Failure[] {
  const chosen = { ...DEFAULT_POOL_SETTINGS, ...toGroupSettings(settings) };
  const shareKeys = Object.keys(total);
  const keys = [...new Set([...shareKeys, ...Object.keys(chosen.nonPreemptibleUsageThreshold)])];
  const groups = splitAllocationGroups({
    allocations: operation.allocations.map(({ resources }) => toUnits(resources, keys)),
    total: toUnits(total, keys),
    shareKeys: shareKeys.map((_, index) => index),
    fairShare: toUnits(operation.fair_share, shareKeys),
    demandShare: toUnits(operation.demand_share, shareKeys),
    preemptionThreshold: chosen.preemptionSatisfactionThreshold,
    aggressiveThreshold: chosen.aggressivePreemptionSatisfactionThreshold,
    protectedUsage: toOptionalUnits(chosen.nonPreemptibleUsageThreshold, keys),
  });
  const byId = new Map(operation.allocations.map(({ id }, index) => [id, groups[index]]));
  return Object.entries(expect).flatMap(([id, expected]) => {
    const actual = byId.get(id) ?? null;
    return actual === expected ? [] : [failure(`expect.${id}`, expected, actual)];
  });
}

/** Members stand in the order of submission, so their place in the tree is their age. */
function toElement(element: ShareElement, keys: readonly string[], elements: EngineElement[]): EngineElement {
  const common = {
    name: element.name,
    weight: element.weight,
    reserved: element.reserved && toOptionalUnits(element.reserved, keys),
    limit: element.limit && toOptionalUnits(element.limit, keys),
  };
  const order = elements.length;
  const made: EngineElement =
    element.type === "group"
      ? given({
          ...common,
          kind: "group" as const,
          mode: element.mode,
          members: (element.children ?? []).map((child) => toElement(child, keys, elements)),
        })
      : given({
          ...common,
          kind: "operation" as const,
          isGang: element.gang ?? false,
          demand: toUnits(element.demand ?? {}, keys),
          usage: toUnits(element.usage ?? {}, keys),
          order,
        });
  elements.push(made);
  return made;
}

type Amounts = Readonly<Record<string, number>>;

function toOptionalUnits(amounts: Amounts, keys: readonly string[]): (number | undefined)[] {
  return keys.map((key) => (Object.hasOwn(amounts, key) ? amounts[key] : undefined));
}

function toUnits(amounts: Amounts, keys: readonly string[]): number[] {
  return toOptionalUnits(amounts, keys).map((amount) => amount ?? 0);
}

function failure(field: string, expected: unknown, actual: unknown, message = ""): Failure {
  return { step: null, action: "", atSeconds: 0, field, expected, actual, message };
}
