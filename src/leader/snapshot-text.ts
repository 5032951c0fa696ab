// Snapshots as text: lines of JSON.
//
//   line 1       form, blank records, and the engine's state without its requests
//   then, for every slice of requests, two lines
//     requests   pairs of specification and progress, each without what is as in the blank record
//     beside     what the leader keeps beside them: their numbers, and the attempts that have ended
//
// The blank records are written with the rest: what a later version leaves out is not what this one did.

import {
  type ComponentName,
  PLAIN_REQUEST,
  type RequestId,
  type RequestProgress,
  type RequestSpec,
  type SnapshotFrame,
  type SnapshotRequest,
} from "../engine/index.ts";
import type { EndedAttempt } from "./interface.ts";

/** The later one says that the state holds what the first form of events cannot say, and has another hash. */
export const FORMS = [2, 3] as const;
export type Form = (typeof FORMS)[number];

export interface Header {
  readonly v: Form;
  readonly submitted: number;
  readonly blank: { readonly spec: RequestSpec; readonly progress: RequestProgress };
  readonly frame: SnapshotFrame;
  /** Absent in older snapshots. */
  readonly history?: unknown;
}

export type RequestLine = readonly (readonly [Partial<RequestSpec>, Partial<RequestProgress>])[];

export interface BesideLine {
  readonly numbers: readonly number[];
  readonly attempts: readonly (readonly [RequestId, readonly EndedAttempt[]])[];
}

/** What the leader keeps beside a request. */
export interface Beside {
  readonly number: number;
  readonly attempts: readonly EndedAttempt[] | undefined;
}

export const BLANK_SPEC: RequestSpec = {
  ...PLAIN_REQUEST,
  ...{ id: "" as RequestId, component: "" as ComponentName, resources: {} },
};
export const BLANK_PROGRESS: Required<RequestProgress> = {
  ...{ status: "queued", seq: 0, submittedAtMs: 0, attempt: 1, preemptedCount: 0, preemptedFor: null },
  ...{ preemptedAtMs: [], shielded: false, resume: false, lastCheckpointAtMs: null, lastCheckpointSeq: 0 },
  ...{ furtherAttempts: 0, queuedAtMs: 0, delayed: false, allocation: null, hold: null, rejection: null },
  ...{ endedAtMs: null, deletionPlanned: false, blocked: false, cancelledBecause: null },
};

const SPEC_LAYOUT = layoutOf(BLANK_SPEC);
const PROGRESS_LAYOUT = layoutOf(BLANK_PROGRESS);

export function requestLine(requests: readonly SnapshotRequest[]): string {
  const pairs = requests.map(
    ({ spec, progress }) => `[${besides(SPEC_LAYOUT, spec)},${besides(PROGRESS_LAYOUT, progress)}]`,
  );
  return `[${pairs.join(",")}]`;
}

export function besideLine(all: readonly (readonly [RequestId, Beside])[]): string {
  const line: BesideLine = {
    numbers: all.map(([, { number }]) => number),
    attempts: all.flatMap(([id, { attempts }]) => (attempts === undefined ? [] : [[id, attempts] as const])),
  };
  return JSON.stringify(line);
}

/** A blank record, laid out once for the comparison with all others. */
interface Layout {
  readonly keys: readonly string[];
  readonly values: readonly unknown[];
  /** The keys as they stand in the text. */
  readonly labels: readonly string[];
  readonly known: ReadonlySet<string>;
}

function layoutOf(blank: object): Layout {
  const keys = Object.keys(blank);
  const labels = keys.map(labelOf);
  return { keys, values: Object.values(blank), labels, known: new Set(keys) };
}

function labelOf(key: string): string {
  return `${JSON.stringify(key)}:`;
}

/** As JSON: what differs from the blank record, in its order; then what it does not know. */
function besides({ keys, values, labels, known }: Layout, record: object): string {
  const whole = record as Readonly<Record<string, unknown>>;
  let text = "";
  let present = 0;
  for (let i = 0; i < keys.length; i++) {
    const value = whole[keys[i] as string];
    if (value === undefined) continue;
    present++;
    const plain = values[i];
    if (value === plain || (isEmpty(plain) && isEmpty(value))) continue;
    text += `${text === "" ? "" : ","}${labels[i]}${typeof value === "number" ? value : JSON.stringify(value)}`;
  }
  const all = Object.keys(whole);
  if (all.length === present) return `{${text}}`;
  for (const key of all.filter((key) => !known.has(key) && whole[key] !== undefined).sort()) {
    text += `${text === "" ? "" : ","}${labelOf(key)}${JSON.stringify(whole[key])}`;
  }
  return `{${text}}`;
}

function isEmpty(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  for (const _ in value) return false;
  return true;
}
