// Snapshots of discipline `fair_share`, which is not wired yet.

import type { AllocationGroupsScenario, SharesScenario } from "../../protocol/index.ts";
import type { Failure } from "./story.ts";

export function judgeShares({ kind }: SharesScenario): Failure[] {
  return [notYet(kind)];
}

export function judgeAllocationGroups({ kind }: AllocationGroupsScenario): Failure[] {
  return [notYet(kind)];
}

function notYet(kind: string): Failure {
  const message = "This kind of scenario cannot be run yet.";
  return { step: null, action: "", atSeconds: 0, field: "kind", expected: kind, actual: null, message };
}
