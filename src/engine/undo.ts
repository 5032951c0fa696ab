// The undo log: every change that `evolve` makes while a command is being decided can be taken back, so that
// a refused command, a throw and a what-if leave the state as it was, without ever copying it. Marks nest (X5): what
// was done since an inner mark can be taken back alone, and all of it with the outer one.

import type { Few } from "./few.ts";
import type { EngineState, Pool } from "./state.ts";

/** A list whose changes can be taken back. */
interface List<Item> {
  insert(item: Item): void;
  remove(item: Item): void;
}

/** A set, or few. */
interface Bag<Item> {
  readonly size: number;
  has(item: Item): boolean;
  add(item: Item): unknown;
  delete(item: Item): boolean;
}

/** A map, or what is filled like one. */
interface Table<Key, Value> {
  set(key: Key, value: Value): unknown;
  delete(key: Key): boolean;
}

/** Without a field: any of them. */
type Watcher = (target: object, field?: string) => void;

const INSERTED = Symbol("inserted");
const REMOVED = Symbol("removed");
const REPLACED = Symbol("replaced");
const CLEARED = Symbol("cleared");
const TOUCHED = Symbol("touched");
const CHANGED = Symbol("changed");

/** What nearly every command changes is kept with each mark, so that no change of it is noted. */
type Basics = Pick<EngineState, "seq" | "lastEventAtMs" | "clockMs" | "unsettled">;

interface Mark extends Omit<Basics, "unsettled"> {
  /** How long the log was. */
  length: number;
  unsettled: readonly Pool[];
}

const NO_POOLS: readonly Pool[] = [];
const BLANK: Mark = { length: 0, seq: 0, lastEventAtMs: 0, clockMs: 0, unsettled: NO_POOLS };

/** Longer logs are rare, and their room is given back. */
const KEPT_LENGTH_MAX = 12_000;

export class UndoLog {
  /** Flat triples: (object, field, old value), (collection, symbol, item), (object, symbol, copy) or (function, its arguments). */
  #entries: unknown[] = [];
  /** How much of the entries counts: they are not cut, since the next command overwrites what this one leaves. */
  #length = 0;
  /** The open ones first; the others are there to be used again. */
  readonly #marks: Mark[] = [];
  #depth = 0;
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
    if (this.#depth === this.#marks.length) this.#marks.push({ ...BLANK });
    const mark = this.#marks[this.#depth++] as Mark;
    mark.length = this.#length;
    mark.seq = seq;
    mark.lastEventAtMs = lastEventAtMs;
    mark.clockMs = clockMs;
    mark.unsettled = unsettled.size === 0 ? NO_POOLS : unsettled.toArray();
    this.#recording = true;
  }

  /** Keeps what was done since the last mark, as far as the marks before it are concerned. */
  commit(): void {
    this.#close();
  }

  /** Takes back what was done since the last mark. */
  rollback(state: EngineState): void {
    const entries = this.#entries;
    const { length, unsettled, ...basics } = this.#marks[this.#depth - 1] as Mark;
    this.#recording = false;
    for (let i = this.#length - 3; i >= length; i -= 3) {
      const target = entries[i];
      const field = entries[i + 1];
      if (typeof target === "function") target(field, entries[i + 2]);
      else if (field === INSERTED) takeOut(target as Collection, entries[i + 2]);
      else if (field === REMOVED) putBack(target as List<unknown> | Bag<unknown>, entries[i + 2]);
      else if (field === REPLACED) (target as Map<unknown, unknown>).set(...(entries[i + 2] as Entry));
      else if (field === TOUCHED) (target as Bag<unknown>).add(entries[i + 2]);
      else if (field === CHANGED) Object.assign(target as object, entries[i + 2]);
      else if (field === CLEARED) refill(target as Map<unknown, unknown> | Bag<unknown>, entries[i + 2]);
      else (target as Record<string, unknown>)[field as string] = entries[i + 2];
    }
    Object.assign(state, basics);
    state.unsettled.clear();
    for (const pool of unsettled) state.unsettled.add(pool);
    this.#clearFrom(length);
    this.#close();
  }

  #close(): void {
    this.#depth--;
    this.#recording = this.#depth > 0;
    if (!this.#recording) this.#clearFrom(0);
  }

  #clearFrom(length: number): void {
    if (length === 0 && this.#length > KEPT_LENGTH_MAX) this.#entries = [];
    this.#length = length;
  }

  #note(target: unknown, what: unknown, before: unknown): void {
    const entries = this.#entries;
    const at = this.#length;
    entries[at] = target;
    entries[at + 1] = what;
    entries[at + 2] = before;
    this.#length = at + 3;
  }

  /** Sets a field and remembers what it was. */
  set<Target extends object, Field extends keyof Target & string>(
    target: Target,
    field: Field,
    value: Target[Field],
  ): void {
    const before = target[field];
    if (before === value) return;
    if (this.#watcher !== null) this.#watcher(target, field);
    if (this.#recording) this.#note(target, field, before);
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
    if (this.#recording) this.#note(target, CHANGED, { ...target });
    return target;
  }

  insert<Item>(list: List<Item>, item: Item): void {
    list.insert(item);
    if (this.#recording) this.#note(list, INSERTED, item);
  }

  remove<Item>(list: List<Item>, item: Item): void {
    list.remove(item);
    if (this.#recording) this.#note(list, REMOVED, item);
  }

  addTo<Item>(set: Bag<Item>, item: Item): void {
    if (set.has(item)) return;
    set.add(item);
    if (this.#recording) this.#note(set, INSERTED, item);
  }

  removeFrom<Item>(set: Bag<Item>, item: Item): void {
    if (set.delete(item) && this.#recording) this.#note(set, REMOVED, item);
  }

  /** Notes that something is about to change which an index rests on; it is noted again when that is taken back. */
  touch<Item>(stale: Bag<Item>, item: Item): void {
    stale.add(item);
    this.touchIfTakenBack(stale, item);
  }

  /** The same for a change that matters to the index only when it is taken back. */
  touchIfTakenBack<Item>(stale: Bag<Item>, item: Item): void {
    if (this.#recording) this.#note(stale, TOUCHED, item);
  }

  /** Sets an entry of a map that has none under this key. */
  putNew<Key, Value>(map: Table<Key, Value>, key: Key, value: Value): void {
    if (this.#recording) this.#note(map, INSERTED, key);
    map.set(key, value);
  }

  /** Sets an entry of a map; no value is undefined. */
  put<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
    const before = map.get(key);
    if (before === undefined) return this.putNew(map, key, value);
    if (this.#recording) this.#note(map, REPLACED, [key, before]);
    map.set(key, value);
  }

  /** Removes an entry of a map. */
  drop<Key, Value>(map: Map<Key, Value>, key: Key): void {
    const before = map.get(key);
    if (before === undefined) return;
    if (this.#recording) this.#note(map, REPLACED, [key, before]);
    map.delete(key);
  }

  /** Empties a map or a set. */
  clear<Key, Value>(all: Map<Key, Value> | Set<Key> | Few<Key>): void {
    if (all.size === 0) return;
    if (this.#recording) this.#note(all, CLEARED, [...all]);
    all.clear();
  }

  /** For something that was done with `a` and `b`, and that a function takes back with them. */
  done<A, B>(undo: (a: A, b: B) => void, a: A, b: B): void {
    if (this.#recording) this.#note(undo, a, b);
  }

  /** Does something that a given function takes back. */
  run(act: () => void, undo: () => void): void {
    act();
    if (this.#recording) this.#note(undo, null, null);
  }
}

type Entry = [key: unknown, value: unknown];
type Collection = List<unknown> | Bag<unknown> | Table<unknown, unknown>;

function takeOut(target: Collection, item: unknown): void {
  if ("delete" in target) target.delete(item);
  else target.remove(item);
}

function putBack(target: List<unknown> | Bag<unknown>, item: unknown): void {
  if ("add" in target) target.add(item);
  else target.insert(item);
}

function refill(target: Map<unknown, unknown> | Bag<unknown>, before: unknown): void {
  for (const item of before as unknown[]) {
    if (target instanceof Map) target.set(...(item as Entry));
    else target.add(item);
  }
}
