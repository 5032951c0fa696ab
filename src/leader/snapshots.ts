// Snapshots as text: lines of JSON, in compressed pieces of whole lines. Written and read a line at a time, so that
// neither the loop nor the memory notices how much waits.
//
//   line 1       form, blank records, and the engine's state without its requests
//   then, for every slice of requests, two lines
//     requests   pairs of specification and progress, each without what is as in the blank record
//     beside     what the leader keeps beside them: their numbers, and the attempts that have ended
//
// The blank records are written with the rest: what a later version leaves out is not what this one did.

import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { constants, gunzip, gunzipSync, gzip } from "node:zlib";
import {
  beginRestore,
  type ComponentName,
  type Snapshot as EngineSnapshot,
  type EngineState,
  PLAIN_REQUEST,
  type RequestId,
  type RequestProgress,
  type RequestSpec,
  restoreState,
  type SnapshotFrame,
  type SnapshotRequest,
  sliceSnapshot,
  snapshotOf,
} from "../engine/index.ts";
import { fromJson, toJson } from "../history/index.ts";
import { type Snapshot, type Store, StoreError } from "../store/index.ts";
import { NEWEST_FORM } from "./event-forms.ts";
import type { EndedAttempt } from "./interface.ts";
import { createMemory, type Memory, numberRequest } from "./memory.ts";

/** In lines, as above. The later one says that the state holds what the first form of events cannot say. */
const FORMS = [2, 3] as const;
type Form = (typeof FORMS)[number];

/** Servers that cannot read the events of the journal must not read a snapshot instead (C12). */
function formOf(eventForm: number): Form {
  return eventForm === 1 ? 2 : 3;
}

const REQUESTS_PER_LINE = 200;
/** Of text, before it is compressed. */
const PIECE_LENGTH = 1 << 20;
/** A chunk is a way to another thread and back, on which the main one waits for its processor: few are better. */
const IN_FEW_STEPS = { chunkSize: 1 << 16 };
const QUICKLY = { ...IN_FEW_STEPS, level: constants.Z_BEST_SPEED };

const BLANK_SPEC: RequestSpec = {
  ...PLAIN_REQUEST,
  ...{ id: "" as RequestId, component: "" as ComponentName, resources: {} },
};
const BLANK_PROGRESS: Required<RequestProgress> = {
  ...{ status: "queued", seq: 0, submittedAtMs: 0, attempt: 1, preemptedCount: 0, preemptedFor: null },
  ...{ preemptedAtMs: [], shielded: false, resume: false, lastCheckpointAtMs: null, lastCheckpointSeq: 0 },
  ...{ furtherAttempts: 0, queuedAtMs: 0, delayed: false, allocation: null, hold: null, rejection: null },
  ...{ endedAtMs: null, deletionPlanned: false, blocked: false, cancelledBecause: null },
};

const SPEC_LAYOUT = layoutOf(BLANK_SPEC);
const PROGRESS_LAYOUT = layoutOf(BLANK_PROGRESS);

interface Header {
  readonly v: Form;
  readonly submitted: number;
  readonly blank: { readonly spec: RequestSpec; readonly progress: RequestProgress };
  readonly frame: SnapshotFrame;
  /** Absent in older snapshots. */
  readonly history?: unknown;
}

type RequestLine = readonly (readonly [Partial<RequestSpec>, Partial<RequestProgress>])[];

interface BesideLine {
  readonly numbers: readonly number[];
  readonly attempts: readonly (readonly [RequestId, readonly EndedAttempt[]])[];
}

/** As it was written before there were lines: one object. */
interface FirstForm extends Omit<BesideLine, "numbers"> {
  readonly v: 1;
  readonly engine: EngineSnapshot;
  readonly submitted: number;
  readonly numbers: readonly number[];
}

/** Equal states have equal hashes: live, replayed, from a snapshot, on every store. */
export function stateHash(state: EngineState): string {
  const { requests, ...frame } = snapshotOf(state);
  const hash = createHash("sha256").update(`${JSON.stringify(frame)}\n`);
  for (let from = 0; from < requests.length; from += REQUESTS_PER_LINE) {
    hash.update(`${requestLine(requests.slice(from, from + REQUESTS_PER_LINE))}\n`);
  }
  return hash.digest("hex");
}

/**
 * Saves the state as it is at the moment of the call, while it goes on changing. Between two lines everything else
 * has its turn: `breathe` resolves when it had. At last the snapshot is read back: one that cannot be read is worse
 * than none.
 */
export async function saveSnapshot(
  store: Store,
  memory: Memory,
  options: {
    readonly atMs: number;
    /** In which events are written now. */
    readonly eventForm?: number;
    readonly breathe: () => Promise<void>;
  },
): Promise<void> {
  const { atMs, eventForm = NEWEST_FORM, breathe } = options;
  const { seq } = memory.state;
  const hash = createHash("sha256");
  const draft = { seq, atMs, stateHash: () => hash.copy().digest("hex") };
  const { lines, end } = beginLines(memory, formOf(eventForm), (line) => hash.update(line));
  try {
    await store.saveSnapshot({ ...draft, pieces: compressed(lines, breathe) });
  } finally {
    end();
  }
  const saved = await store.latestSnapshot();
  if (saved?.seq !== seq || (await readBack(saved, breathe)) !== draft.stateHash()) {
    throw new StoreError("corrupt", `The snapshot at event ${seq} was written, but cannot be read.`);
  }
}

/** The lines of the state as it is now. `hashed` gets those that say what the engine's state is. */
function beginLines(
  memory: Memory,
  form: Form,
  hashed: (line: string) => void,
): { readonly lines: Iterable<string>; readonly end: () => void } {
  const { frame, slices, end } = sliceSnapshot(memory.state, REQUESTS_PER_LINE);
  const { submitted } = memory;
  const history = toJson(memory.history);
  const kept = new Map<RequestId, Beside>();
  memory.watch = (id) => {
    if (!kept.has(id)) kept.set(id, besideOf(memory, id));
  };

  function* lines() {
    const blank = { spec: BLANK_SPEC, progress: BLANK_PROGRESS };
    const header: Header = { v: form, submitted, blank, frame, history };
    hashed(`${JSON.stringify(frame)}\n`);
    yield `${JSON.stringify(header)}\n`;
    for (const slice of slices) {
      const line = `${requestLine(slice)}\n`;
      hashed(line);
      yield line + besideLine(slice.map(({ spec: { id } }) => [id, kept.get(id) ?? besideOf(memory, id)]));
    }
  }
  return {
    lines: lines(),
    end() {
      end();
      memory.watch = null;
    },
  };
}

function besideLine(all: readonly (readonly [RequestId, Beside])[]): string {
  const line: BesideLine = {
    numbers: all.map(([, { number }]) => number),
    attempts: all.flatMap(([id, { attempts }]) => (attempts === undefined ? [] : [[id, attempts] as const])),
  };
  return `${JSON.stringify(line)}\n`;
}

interface Beside {
  readonly number: number;
  readonly attempts: readonly EndedAttempt[] | undefined;
}

function besideOf({ numbers, attempts }: Memory, id: RequestId): Beside {
  return { number: numbers.get(id) as number, attempts: attempts.get(id) };
}

function requestLine(requests: readonly SnapshotRequest[]): string {
  const pairs = requests.map(
    ({ spec, progress }) => `[${besides(SPEC_LAYOUT, spec)},${besides(PROGRESS_LAYOUT, progress)}]`,
  );
  return `[${pairs.join(",")}]`;
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

async function* compressed(
  lines: Iterable<string>,
  breathe: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  let text = "";
  for (const line of lines) {
    text += line;
    await breathe();
    if (text.length < PIECE_LENGTH) continue;
    yield await promisify(gzip)(text, QUICKLY);
    text = "";
  }
  if (text !== "") yield await promisify(gzip)(text, QUICKLY);
}

/** The hash of the state that a stored snapshot holds. */
async function readBack({ pieces }: Snapshot, breathe: () => Promise<void>): Promise<string> {
  const hash = createHash("sha256");
  let index = 0;
  for await (const piece of pieces) {
    const bytes = await promisify(gunzip)(piece, IN_FEW_STEPS);
    let end = 0;
    for (let from = 0; from < bytes.length; from = end) {
      end = bytes.indexOf("\n", from) + 1 || bytes.length;
      const line = bytes.subarray(from, end);
      if (index === 0) hash.update(`${JSON.stringify((JSON.parse(line.toString()) as Header).frame)}\n`);
      else if (index % 2 === 1) hash.update(line);
      index++;
    }
    await breathe();
  }
  return hash.digest("hex");
}

type StoredLines = Pick<Snapshot, "seq" | "pieces">;

export async function loadSnapshot(snapshot: StoredLines): Promise<Memory> {
  const lines = storedLines(snapshot);
  const first = await nextLine(lines);
  const header = JSON.parse(first) as Header | FirstForm;
  if (header.v === 1) return fromFirstForm(header);
  if (!FORMS.includes(header.v)) throw newerForm(snapshot, (header as { v: unknown }).v);
  const blankSpec = { ...BLANK_SPEC, ...header.blank.spec };
  const blankProgress = { ...BLANK_PROGRESS, ...header.blank.progress };
  const restore = beginRestore(header.frame);
  const beside: BesideLine[] = [];
  const ids: RequestId[] = [];
  for await (const line of lines) {
    for (const [spec, progress] of JSON.parse(line) as RequestLine) {
      const whole = { spec: { ...blankSpec, ...spec }, progress: { ...blankProgress, ...progress } };
      restore.add(whole);
      ids.push(whole.spec.id);
    }
    beside.push(JSON.parse(await nextLine(lines)) as BesideLine);
  }
  const memory = memoryOf(restore.finish(), { submitted: header.submitted, ids, beside });
  if (header.history !== undefined) memory.history = fromJson(header.history, memory.state);
  return memory;
}

function fromFirstForm({ engine, submitted, numbers, attempts }: FirstForm): Memory {
  const ids = engine.requests.map(({ spec }) => spec.id);
  return memoryOf(restoreState(engine), { submitted, ids, beside: [{ numbers, attempts }] });
}

function memoryOf(
  state: EngineState,
  parts: {
    readonly submitted: number;
    readonly ids: readonly RequestId[];
    readonly beside: readonly BesideLine[];
  },
): Memory {
  const memory = createMemory(state);
  memory.submitted = parts.submitted;
  let index = 0;
  for (const { numbers, attempts } of parts.beside) {
    for (const number of numbers) numberRequest(memory, parts.ids[index++] as RequestId, number);
    for (const [id, ended] of attempts) memory.attempts.set(id, ended);
  }
  return memory;
}

async function nextLine(lines: AsyncGenerator<string>): Promise<string> {
  const { value, done } = await lines.next();
  if (done === true) throw new StoreError("corrupt", "A snapshot ends early.");
  return value;
}

async function* storedLines({ pieces }: StoredLines): AsyncGenerator<string> {
  for await (const piece of pieces) yield* linesOf(gunzipSync(piece));
}

function linesOf(text: Buffer): readonly string[] {
  return text.toString().trimEnd().split("\n");
}

function newerForm({ seq }: StoredLines, form: unknown): StoreError {
  return new StoreError(
    "newer_version",
    `The snapshot at event ${seq} has form ${form}; this version reads up to ${FORMS.at(-1)}.`,
  );
}
