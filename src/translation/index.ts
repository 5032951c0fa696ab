// Between the wire and the engine: names, units and defaults, translated once and in one place. The server
// and the simulator share it. Other folders import from this file only.

export {
  presentGroup,
  presentLifetime,
  presentNode,
  presentNodeView,
  presentPolicy,
  presentPool,
  toCreatePool,
  toGroupChange,
  toNodeChange,
  toPolicyChange,
  toUpdatePool,
} from "./administration.ts";
export { toComponentName, toGroupName, toNodeName, toPoolName, toRequestId } from "./names.ts";
export { presentRefusal } from "./refusals.ts";
export { presentRequest, type SpecResult, toRequestChange, toRequestSpec } from "./requests.ts";
export { presentGroupSettings, presentPoolSettings, toGroupSettings, toPoolSettings } from "./settings.ts";
export { given, toMs, toSeconds, toTimestamp } from "./units.ts";
