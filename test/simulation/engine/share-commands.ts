// What makes worlds of discipline `fair_share` interesting: operations of several requests, trees of groups, short
// times until starvation, and limits that are enforced.

import type {
  Command,
  GroupChange,
  GroupName,
  PoolSettings,
  RequestSpec,
} from "../../../src/engine/index.ts";
import type { Random } from "./random.ts";

const GROUPS = ["lab", "cell"] as GroupName[];
const SECOND_MS = 1000;

/** The same command, as it is more telling in a world of fair shares. */
export function withShares(random: Random, command: Command): Command {
  switch (command.kind) {
    case "createPool":
      return {
        ...command,
        settings: { ...command.settings, ...someShareSettings(random) },
        groups: GROUPS.map((name) => someGroup(random, name)),
      };
    case "updatePool":
      return command.settings === undefined
        ? command
        : { ...command, settings: { ...command.settings, ...someShareSettings(random) } };
    case "updateGroup":
      return { ...command, group: { ...command.group, ...someGroup(random, random.pick(GROUPS)) } };
    case "attachPolicy":
    case "updatePolicy":
      return random.chance(40)
        ? { ...command, policy: { ...command.policy, group: random.pick(GROUPS) } }
        : command;
    case "submitRequest":
      return { ...command, spec: someMember(random, command.spec) };
    default:
      return command;
  }
}

/** Many of its operation are running already, so that some of them exceed its fair share. */
function someMember(random: Random, spec: RequestSpec): RequestSpec {
  if (spec.operation !== null || random.chance(30)) return spec;
  return { ...spec, operation: random.pick(["op-a", "op-b"]), gang: false, nodes: 1 };
}

function someGroup(random: Random, name: GroupName): GroupChange {
  return {
    name,
    ...(random.chance(30) ? { weight: random.int(1, 4) } : {}),
    ...(random.chance(25) ? { limit: { gpu: random.int(1, 6) } } : {}),
    ...(random.chance(20) ? { mode: random.pick(["fifo", "fair_share"] as const) } : {}),
    ...(random.chance(20) ? { settings: { starvationTimeoutMs: random.pick([0, 11]) * SECOND_MS } } : {}),
    ...(random.chance(15) ? { settings: { allowAggressivePreemption: false } } : {}),
  };
}

function someShareSettings(random: Random): Partial<PoolSettings> {
  return {
    ...(random.chance(60) ? { starvationTimeoutMs: random.pick([0, 5, 17]) * SECOND_MS } : {}),
    ...(random.chance(60)
      ? {
          enableAggressiveStarvation: true,
          aggressiveStarvationTimeoutMs: random.pick([0, 13, 41]) * SECOND_MS,
        }
      : {}),
    ...(random.chance(25) ? { starvationTolerance: random.pick([0.5, 1]) } : {}),
    ...(random.chance(25) ? { preemptionSatisfactionThreshold: random.pick([0.5, 1.5]) } : {}),
    ...(random.chance(25) ? { aggressivePreemptionSatisfactionThreshold: random.pick([0, 0.5]) } : {}),
    ...(random.chance(15) ? { nonPreemptibleUsageThreshold: { gpu: random.int(0, 3) } } : {}),
    ...(random.chance(30) ? { preemptiveBackoffMs: random.pick([0, 1, 20]) * SECOND_MS } : {}),
    ...(random.chance(40) ? { enforceLimits: random.chance(70) } : {}),
  };
}
