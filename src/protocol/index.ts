// The wire: schemas, limits, error codes. What the server, the clients and the scenario files agree on.
// Other folders import from this file only.

export {
  type ExtraPermission,
  extraPermission,
  givenRole,
  PERMISSIONS,
  type Permission,
  ROLE_PERMISSIONS,
  type Role,
  role,
} from "./access.ts";
export { type Parsed, parseMcpu, parseMemoryMb, parseSettings } from "./amounts.ts";
export * from "./answers.ts";
export { amounts, idempotencyKey, labels, name, note, seconds } from "./common.ts";
export * from "./dashboard.ts";
export { parseDurationSeconds } from "./durations.ts";
export {
  ERRORS,
  type ErrorCode,
  type ErrorInfo,
  EXIT,
  type FieldProblem,
  fieldProblem,
  isErrorCode,
  type Problem,
  problem,
  toProblem,
} from "./errors.ts";
export { type EventName, eventName, streamEvent, type WireEvent } from "./events.ts";
export { type Issue, issuesOf, toFieldName, toPointer } from "./issues.ts";
export * from "./jobs.ts";
export * from "./limits.ts";
export { node, nodeUpdate, type WireNode, type WireNodeUpdate } from "./nodes.ts";
export * from "./notices.ts";
export { errorCodes, type OpenApiDocument, openApiDocument } from "./openapi.ts";
export { policy, policyKind, type WirePolicy } from "./policies.ts";
export {
  discipline,
  executor,
  group,
  groupSettings,
  pool,
  poolSettings,
  poolUpdate,
  type WireGroup,
  type WireGroupSettings,
  type WirePool,
  type WirePoolSettings,
  type WirePoolUpdate,
} from "./pools.ts";
export * from "./requests.ts";
export { ROUTES, type Route, type RouteName } from "./routes.ts";
export {
  type AllocationGroupsScenario,
  allocationGroupsScenario,
  type ScenarioActionName,
  type ScenarioArguments,
  type ScenarioExpectations,
  type ScenarioKind,
  type ScenarioStep,
  type ShareElement,
  type SharesScenario,
  type StoryScenario,
  scenarioActionNames,
  scenarioActions,
  scenarioExpectations,
  scenarioSchemas,
  scenarioStep,
  sharesScenario,
  storyScenario,
} from "./scenarios.ts";
export * from "./why.ts";
