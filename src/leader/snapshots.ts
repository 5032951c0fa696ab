// Snapshots: lines of text (`snapshot-text.ts`), compressed. Written and read a slice of requests at a time, so that
// neither the loop nor the memory notices how much waits.
//
// Every slice is compressed by itself, and pieces are made of whole ones, behind each other as gzip allows. So a slice
// in which nothing has changed since the last snapshot is not written, compressed and read back anew: its bytes are.
//
// Invariants
//   1. What a slice says changes only when a record in it does, or when a request leaves it (`engine/snapshot-slices.ts`):
//      numbers stay, and attempts are counted by events that change the record, too.
//   2. Only bytes that were read back once are used again, and they are not read again only if the store gives back the same.

import { createHash, hash as digest } from "node:crypto";
import { promisify } from "node:util";
import { constants, gunzip, gunzipSync, gzip } from "node:zlib";
import {
  beginRestore,
  createSlicer,
  cutInSlices,
  type Snapshot as EngineSnapshot,
  type EngineState,
  type IsBorder,
  type RequestId,
  restoreState,
  type Slice,
  type SnapshotFrame,
  snapshotOf,
} from "../engine/index.ts";
import { fromJson, toJson } from "../history/index.ts";
import { type Snapshot, type Store, StoreError } from "../store/index.ts";
import { NEWEST_FORM } from "./event-forms.ts";
import { createMemory, type Memory, numberRequest } from "./memory.ts";
import {
  type Beside,
  type BesideLine,
  BLANK_PROGRESS,
  BLANK_SPEC,
  besideLine,
  FORMS,
  type Form,
  type Header,
  type RequestLine,
  requestLine,
} from "./snapshot-text.ts";

/** Servers that cannot read the events of the journal must not read a snapshot instead (C12). */
function formOf(eventForm: number): Form {
  return eventForm === 1 ? 2 : 3;
}

type Hashed = string | Uint8Array;

/** How the hash of a state is made from its frame and its slices. */
interface HashForm {
  readonly name: string;
  readonly isBorder: IsBorder;
  /** What a line of requests adds to the hash. */
  hashed(line: Hashed): Hashed;
}

const NEWEST: Form = 3;

const HASH_FORMS: Readonly<Record<Form, HashForm>> = {
  2: { name: "", isBorder: (_, place) => place % 200 === 0, hashed: (line) => line },
  3: { name: "slices ", isBorder: beginsSlice, hashed: (line) => digest("sha256", line) },
};

/** On average. */
const REQUESTS_PER_SLICE = 512;
const ALL_HASHES = 2 ** 32;

/** Where a slice begins depends on that request alone: whoever goes moves no other border. */
function beginsSlice(seq: number): boolean {
  return Math.imul(seq, 0x9e3779b1) >>> 0 < ALL_HASHES / REQUESTS_PER_SLICE;
}

/** They are compressed at once: to wait for other threads takes a turn of the loop, which may be a long one. */
const SLICES_PER_PIECE = 8;
/** A chunk is a way to another thread and back, on which the main one waits for its processor: few are better. */
const IN_FEW_STEPS = { chunkSize: 1 << 16 };
const QUICKLY = { ...IN_FEW_STEPS, level: constants.Z_BEST_SPEED };

/** As it was written before there were lines: one object. */
interface FirstForm extends Omit<BesideLine, "numbers"> {
  readonly v: 1;
  readonly engine: EngineSnapshot;
  readonly submitted: number;
  readonly numbers: readonly number[];
}

/** Equal states have equal hashes: live, replayed, from a snapshot, on every store. */
export function stateHash(state: EngineState, form: Form = NEWEST): string {
  const { isBorder, hashed } = HASH_FORMS[form];
  const { requests, ...frame } = snapshotOf(state);
  const hash = beginHash(form);
  hash.add(JSON.stringify(frame));
  for (const slice of cutInSlices(requests, isBorder).slices) hash.add(hashed(requestLine(slice)));
  return hash.text();
}

/** Whether this is the hash of the state, of whatever form. */
export function isHashOf(text: string, state: EngineState): boolean {
  return text === stateHash(state, text.startsWith(HASH_FORMS[NEWEST].name) ? NEWEST : 2);
}

function beginHash(form: Form) {
  const hash = createHash("sha256");
  return {
    add: (hashed: Hashed) => hash.update(hashed).update("\n"),
    text: () => `${HASH_FORMS[form].name}${hash.copy().digest("hex")}`,
  };
}

/** The snapshots of a memory, one after the other. */
export interface Snapshots {
  readonly memory: Memory;
  /**
   * Saves the state as it is at the moment of the call, while it goes on changing. Between two slices everything else
   * has its turn: `breathe` resolves when it had. At last the snapshot is read back: one that cannot be read is worse
   * than none.
   */
  save(
    store: Store,
    options: {
      readonly atMs: number;
      /** In which events are written now. */
      readonly eventForm?: number;
      readonly breathe: () => Promise<void>;
    },
  ): Promise<void>;
  /** Nothing is remembered any more. */
  stop(): void;
}

/** Lines that are compressed by themselves. */
interface Member {
  readonly bytes: Uint8Array;
  /** Of the bytes. */
  readonly digest: string;
  /** What the lines add to the hash of the state. */
  readonly hashed: Hashed;
}

export function createSnapshots(memory: Memory): Snapshots {
  const slicer = createSlicer<Member>(memory.state);
  return {
    memory,
    async save(store, { atMs, eventForm = NEWEST_FORM, breathe }) {
      const form = formOf(eventForm);
      const { seq } = memory.state;
      const { frame, slices } = slicer.begin(HASH_FORMS[form].isBorder);
      const remembered = new Set(slices.map(({ made }) => made));
      const lines = beginLines(memory, form, frame);
      const hash = beginHash(form);
      const members: Member[] = [];

      async function* pieces() {
        let parts: (Lines | Member)[] = [lines.first()];
        for (const slice of slices) {
          parts.push(slice.made ?? lines.of(slice));
          await breathe();
          if (parts.length < SLICES_PER_PIECE) continue;
          yield await pieceOf(parts);
          parts = [];
        }
        if (parts.length > 0) yield await pieceOf(parts);
      }

      async function pieceOf(parts: readonly (Lines | Member)[]): Promise<Uint8Array> {
        const made = await Promise.all(
          parts.map(async (part) => ("bytes" in part ? part : await compressed(part))),
        );
        for (const { hashed } of made) hash.add(hashed);
        members.push(...made);
        return Buffer.concat(made.map(({ bytes }) => bytes));
      }

      try {
        await store.saveSnapshot({ seq, atMs, stateHash: hash.text, pieces: pieces() });
      } finally {
        lines.end();
        slicer.end();
      }
      const saved = await store.latestSnapshot();
      const said =
        saved?.seq === seq ? await readBack(saved, { form, members, remembered, breathe }) : undefined;
      if (said !== hash.text())
        throw new StoreError("corrupt", `The snapshot at event ${seq} was written, but cannot be read.`);
      // With the older hash whole lines would have to be remembered.
      if (form === NEWEST) for (const [i, slice] of slices.entries()) slice.made = members[i + 1];
    },
    stop: slicer.stop,
  };
}

interface Lines {
  readonly text: string;
  readonly hashed: Hashed;
}

/** The lines of the state as it is now. */
function beginLines(memory: Memory, form: Form, frame: SnapshotFrame) {
  const { submitted } = memory;
  const history = toJson(memory.history);
  const kept = new Map<RequestId, Beside>();
  memory.watch = (id) => {
    if (!kept.has(id)) kept.set(id, besideOf(memory, id));
  };
  return {
    first(): Lines {
      const blank = { spec: BLANK_SPEC, progress: BLANK_PROGRESS };
      const header: Header = { v: form, submitted, blank, frame, history };
      return { text: `${JSON.stringify(header)}\n`, hashed: JSON.stringify(frame) };
    },
    of(slice: Slice<Member>): Lines {
      const requests = slice.take();
      const line = requestLine(requests);
      const beside = besideLine(
        requests.map(({ spec: { id } }) => [id, kept.get(id) ?? besideOf(memory, id)]),
      );
      return { text: `${line}\n${beside}\n`, hashed: HASH_FORMS[form].hashed(line) };
    },
    end() {
      memory.watch = null;
    },
  };
}

function besideOf({ numbers, attempts }: Memory, id: RequestId): Beside {
  return { number: numbers.get(id) as number, attempts: attempts.get(id) };
}

async function compressed({ text, hashed }: Lines): Promise<Member> {
  const bytes = new Uint8Array(await promisify(gzip)(text, QUICKLY)); // Without what is left of the chunk.
  return { bytes, digest: digest("sha256", bytes), hashed };
}

/** The hash of the state that a stored snapshot holds. */
async function readBack(
  { pieces }: Snapshot,
  written: {
    readonly form: Form;
    readonly members: readonly Member[];
    readonly remembered: ReadonlySet<Member | undefined>;
    readonly breathe: () => Promise<void>;
  },
): Promise<string> {
  const { form, members, remembered, breathe } = written;
  const hash = beginHash(form);
  let index = 0;
  for await (const piece of pieces) {
    const hashed: Promise<Hashed>[] = [];
    for (let from = 0; from < piece.length; index++) {
      const member = members[index];
      const bytes = piece.subarray(from, member && from + member.bytes.length);
      const isKnown =
        member !== undefined && remembered.has(member) && digest("sha256", bytes) === member.digest;
      hashed.push(isKnown ? Promise.resolve(member.hashed) : hashedIn(bytes, form, index === 0));
      from += bytes.length;
    }
    for (const part of await Promise.all(hashed)) hash.add(part);
    await breathe();
  }
  return hash.text();
}

async function hashedIn(bytes: Uint8Array, form: Form, isHeader: boolean): Promise<Hashed> {
  const lines = await promisify(gunzip)(bytes, IN_FEW_STEPS);
  if (isHeader) return JSON.stringify((JSON.parse(lines.toString()) as Header).frame);
  return HASH_FORMS[form].hashed(lines.subarray(0, lines.indexOf("\n")));
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
