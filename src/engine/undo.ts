// The undo log: every change that `evolve` makes while a command is being decided can be taken back, so that
// a refused command, a throw and a what-if leave the state as it was, without ever copying it. Marks nest (X5): what
// was done since an inner mark can be taken back alone, and all of it with the outer one.

import type { EngineState, Pool } from "./state.ts";

/** A list whose changes can be taken back. */
interface List<Item> {
  insert(item: Item): void;
  remove(item: Item): void;
}

/** A set, or few. */
interface Bag<Item> {
  has(item: Item): boolean;
  add(item: Item): unknown;
  delete(item: Item): boolean;
}

/** A map, or what is filled like one; no value is undefined. */
interface Table<Key, Value> {
  get(key: Key): Value | undefined;
  set(key: Key, value: Value): unknown;
  delete(key: Key): boolean;
}

/** Without a field: any of them. */
type Watcher = (target: object, field?: string) => void;

/** What nearly every command changes is kept with each mark, so that no change of it is noted. */
type Basics = Pick<EngineState, "seq" | "lastEventAtMs" | "clockMs" | "unsettled">;

interface Mark extends Omit<Basics, "unsettled"> {
  /** How long the log was. */
  readonly length: number;
  readonly unsettled: readonly Pool[];
}

const NO_POOLS: readonly Pool[] = [];

/** Longer logs are rare, and their room is given back. */
const KEPT_LENGTH_MAX = 12_000;

export class UndoLog {
  /** Flat triples: (object, field, old value), or (function, its two arguments). */
  #entries: unknown[] = [];
  /** How much of the entries counts: they are not cut, since the next command overwrites what this one leaves. */
  #length = 0;
  readonly #marks: Mark[] = [];
  #recording = false;
  #watcher: Watcher | null = null;

  /** Calls the watcher right before fields of an object are set, until what is returned is called. */
  watch(watcher: Watcher): () => void {
    if (this.#watcher !== null) throw new Error("the undo log is watched already");
    this.#watcher = watcher;
    return () => {
      if (this.#watcher === watcher) this.#watcher = null;
    };
  }

  /** Sets a mark, up to which what follows can be taken back. */
  begin({ seq, lastEventAtMs, clockMs, unsettled }: Basics): void {
    const pools = unsettled.size === 0 ? NO_POOLS : unsettled.toArray();
    this.#marks.push({ length: this.#length, seq, lastEventAtMs, clockMs, unsettled: pools });
    this.#recording = true;
  }

  /** Keeps what was done since the last mark, as far as the marks before it are concerned. */
  commit(): void {
    this.#marks.pop();
    this.#recording = this.#marks.length > 0;
    if (!this.#recording) this.#cutTo(0);
  }

  /** Takes back what was done since the last mark. */
  rollback(state: EngineState): void {
    const entries = this.#entries;
    const { length, unsettled, ...basics } = this.#marks.at(-1) as Mark;
    this.#recording = false;
    for (let i = this.#length - 3; i >= length; i -= 3) {
      const target = entries[i];
      if (typeof target === "function") target(entries[i + 1], entries[i + 2]);
      else (target as Record<string, unknown>)[entries[i + 1] as string] = entries[i + 2];
    }
    Object.assign(state, basics);
    state.unsettled.clear();
    for (const pool of unsettled) state.unsettled.add(pool);
    this.#cutTo(length);
    this.commit();
  }

  #cutTo(length: number): void {
    if (length === 0 && this.#length > KEPT_LENGTH_MAX) this.#entries = [];
    this.#length = length;
  }

  #note(target: unknown, a: unknown, b: unknown): void {
    const entries = this.#entries;
    const at = this.#length;
    entries[at] = target;
    entries[at + 1] = a;
    entries[at + 2] = b;
    this.#length = at + 3;
  }

  /** For something that was done with `a` and `b`, and that a function takes back with them. */
  done<A, B>(undo: (a: A, b: B) => void, a: A, b: B): void {
    if (this.#recording) this.#note(undo, a, b);
  }

  /** Sets a field and remembers what it was. */
  set<Target extends object, Field extends keyof Target & string>(
    target: Target,
    field: Field,
    value: Target[Field],
  ): void {
    const before = target[field];
    if (before === value) return;
    this.remember(target, field, before);
    target[field] = value;
  }

  /** For a field that is about to be set where it costs: `set` serves fields of all kinds, so that none of them is quick. */
  remember<Target extends object, Field extends keyof Target & string>(
    target: Target,
    field: Field,
    before: Target[Field],
  ): void {
    if (this.#watcher !== null) this.#watcher(target, field);
    if (this.#recording) this.#note(target, field, before);
  }

  /** For several fields of an object that are about to be set: how all of them are is remembered at once. */
  change<Target extends object>(target: Target): Target {
    if (this.#watcher !== null) this.#watcher(target);
    if (this.#recording) this.#note(Object.assign, target, { ...target });
    return target;
  }

  insert<Item>(list: List<Item>, item: Item): void {
    list.insert(item);
    this.done(takeOut, list, item);
  }

  remove<Item>(list: List<Item>, item: Item): void {
    list.remove(item);
    this.done(putIn, list, item);
  }

  addTo<Item>(set: Bag<Item>, item: Item): void {
    if (set.has(item)) return;
    set.add(item);
    this.done(drop, set, item);
  }

  removeFrom<Item>(set: Bag<Item>, item: Item): void {
    if (set.delete(item)) this.done(add, set, item);
  }

  /** Notes that something is about to change which an index rests on; it is noted again when that is taken back. */
  touch<Item>(stale: Bag<Item>, item: Item): void {
    stale.add(item);
    this.touchIfTakenBack(stale, item);
  }

  /** The same for a change that matters to the index only when it is taken back. */
  touchIfTakenBack<Item>(stale: Bag<Item>, item: Item): void {
    this.done(add, stale, item);
  }

  /** Sets an entry of a map. */
  put<Key, Value>(map: Table<Key, Value>, key: Key, value: Value): void {
    const before = map.get(key);
    if (before === undefined) this.done(drop, map, key);
    else this.done(restore<Key, Value>, map, [key, before]);
    map.set(key, value);
  }

  /** Removes an entry of a map. */
  drop<Key, Value>(map: Table<Key, Value>, key: Key): void {
    const before = map.get(key);
    if (before === undefined) return;
    this.done(restore<Key, Value>, map, [key, before]);
    map.delete(key);
  }
}

function takeOut<Item>(list: List<Item>, item: Item): void {
  list.remove(item);
}

function putIn<Item>(list: List<Item>, item: Item): void {
  list.insert(item);
}

function add<Item>(set: Bag<Item>, item: Item): void {
  set.add(item);
}

function drop<Key>(all: { delete(key: Key): boolean }, key: Key): void {
  all.delete(key);
}

function restore<Key, Value>(map: Table<Key, Value>, [key, before]: readonly [Key, Value]): void {
  map.set(key, before);
}
