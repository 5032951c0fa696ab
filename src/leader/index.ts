// The single writer: batch → engine → group commit → answer and publish. Other folders import from this file only.

export { checkClock, clusterTime, systemClock } from "./clock.ts";
export { NEWEST_FORM } from "./event-forms.ts";
export { grantKeysKept } from "./grant-keys.ts";
export * from "./interface.ts";
export { DEFAULT_LEADER_SETTINGS, startLeader } from "./leader.ts";
export { createMemory, type Memory, replay } from "./memory.ts";
export { SUSPECT_AFTER_MS } from "./nodes.ts";
export { touchedBy } from "./projections.ts";
export { viewOf } from "./reads.ts";
export { committedOf, fold, type Recovered, recover } from "./recovery.ts";
export { isHashOf, loadSnapshot, stateHash } from "./snapshots.ts";
export { createEventStream, type EventStream } from "./stream.ts";
