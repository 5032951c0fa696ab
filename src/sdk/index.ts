// The typed client for Node and browsers: calls, events, waiting, leases, work under a grant.
// Other folders import from this file only.

export {
  ageOf,
  amountsText,
  counted,
  durationText,
  endText,
  listed,
  NOTIFY_LABEL,
  noticeKindsOf,
  noticeText,
  noticeWords,
  printable,
} from "../words/index.ts";
export { type Changed, type ChangeOptions, type Client, createClient } from "./client.ts";
export { type Answer, BerthError, errorOfEnding, hasEnded, isBerthError } from "./errors.ts";
export type { EventFilter, StreamOptions } from "./events.ts";
export {
  type CheckpointCallback,
  type CheckpointNotice,
  type Grant,
  type ReleaseDetails,
  reasonToStop,
} from "./grant.ts";
export { type Instruction, keepLease, type Lease, type LeaseHandlers } from "./lease.ts";
export type { LogChunk, LogQuery } from "./logs.ts";
export {
  type Affected,
  accountLines,
  isHarmful,
  laterLines,
  planLines,
  titleOfAffected,
} from "./plan-words.ts";
export { describeWaiting, type WaitingReason } from "./reason.ts";
export {
  fairShares,
  hasShares,
  mainKeyOf,
  reservedShares,
  type Share,
  shareNumberText,
  sharePartText,
  shareStatusText,
} from "./shares.ts";
export type {
  AnswerOf,
  BodyOf,
  CallInput,
  CallOptions,
  ClientOptions,
  Fetch,
  QueryOf,
  Transport,
} from "./transport.ts";
export type { GrantedRequest, WaitOptions } from "./waiting.ts";
export type { WorkSettings } from "./work.ts";
