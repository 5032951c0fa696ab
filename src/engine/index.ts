// The scheduling engine. Deterministic: the same commands at the same times give the same events.
// Other folders import from this file only.

export type {
  CheckpointReport,
  Command,
  EndReport,
  GroupChange,
  NodeChange,
  NoHolder,
  Outcome,
  PolicyChange,
  RequestChange,
} from "./commands.ts";
export { type Decision, decide, fork, preview } from "./decide.ts";
export { splitAllocationGroups } from "./disciplines/fair_share/allocation-groups.ts";
export type { ShareExplanation } from "./disciplines/fair_share/explain.ts";
export {
  computeFairShares,
  type SnapshotElement,
  type SnapshotGroup,
} from "./disciplines/fair_share/snapshot.ts";
export type {
  AttemptOutcome,
  ChosenVictim,
  ConsideredKind,
  EndCause,
  EndFacts,
  Event,
  HoldEnd,
  StarvationChange,
} from "./events.ts";
export { evolve } from "./evolve.ts";
export {
  type Blocker,
  compareOrder,
  type Explanation,
  explain,
  type Holder,
  type PoolExplanation,
  type Shortage,
} from "./explain.ts";
export { afterStop } from "./explain-runs.ts";
export { Heap } from "./heap.ts";
export * from "./records.ts";
export type { Refusal, RefusalCode } from "./refusals.ts";
export { amountOf, compareIds, likelyMeantKey, type Resources } from "./resources.ts";
export {
  DEFAULT_POOL_SETTINGS,
  type DisciplineName,
  type ExecutorName,
  type GroupSettings,
  type PoolSettings,
  type ScoreWeights,
} from "./settings.ts";
export {
  beginRestore,
  restoreState,
  resume,
  type Snapshot,
  type SnapshotFrame,
  type SnapshotRequest,
  snapshotOf,
} from "./snapshot.ts";
export { createSlicer, cutInSlices, type IsBorder, type Slice, type Slicer } from "./snapshot-slices.ts";
export { createState, type EngineState, queueLengthOf } from "./state.ts";
export { nextWakeMs } from "./timers.ts";
export {
  type Account,
  accountsOf,
  borrowedBy,
  borrowedOf,
  capacityOf,
  countsOf,
  type ElementView,
  forcesSensitive,
  groupsOf,
  hasShares,
  type KeyUse,
  keyUseOf,
  type NodeView,
  nodesOf,
  nodeViewsOf,
  policiesOf,
  poolsConcerned,
  poolsOf,
  queueOf,
  queuePageOf,
  queuesOf,
  requestIds,
  requestOf,
  reservedOf,
  runsOf,
  type ShareView,
  scaledGroupsOf,
  shareViewOf,
  shieldedRunsOf,
  standingOf,
  teamSharesOf,
  usageOf,
  waitingByComponentOf,
  waitingCountOf,
} from "./views.ts";
export { gangWarnings, poolAlerts, unreservedIn, type Warning } from "./warnings.ts";
export type * from "./why.ts";
export { oldestWaitOf, type WhyCode, type WhyCodes, whyCodesOf } from "./why-codes.ts";
