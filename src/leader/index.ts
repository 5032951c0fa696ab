// The single writer: batch → engine → group commit → answer and publish. Other folders import from this file only.

export { systemClock } from "./clock.ts";
export * from "./interface.ts";
export { DEFAULT_LEADER_SETTINGS, startLeader } from "./leader.ts";
export { stateHash } from "./snapshots.ts";
