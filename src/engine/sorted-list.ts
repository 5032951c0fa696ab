// An ordered list for many items: sorted chunks, each with the sums and the smallest rank of its items, so
// that looking something up touches one chunk and the summaries of the others. Items know their own place
// through `compare`, which must be a total order. Where that begins with a number, the numbers are kept beside the items:
// a search compares them, and visits an item only where they are equal.
//
// What is kept about a chunk is made when it is first asked for: many lists are short, and from many the first is
// taken and to the end is added, so that nobody ever searches them or adds them up. For the same reason the first item and
// the last chunk are at hand. A list that has never had more than one item needs no chunk at all: there is one such list
// for every request of a fair-share pool.

import type { Vector } from "./resources.ts";

const CHUNK_LENGTH_MAX = 64;
/** To search fewer, their own numbers will do. */
const KEYS_LENGTH_MIN = 16;

interface Chunk<Item> {
  readonly items: Item[];
  /** The numbers of the items, with room for more; null: nobody has searched so many yet. */
  keys: Float64Array | null;
  /** The number of the last item; NaN: to be asked for. */
  lastKey: number;
  /** Null: to be computed when asked for. */
  sums: number[] | null;
  /** Smallest rank in the chunk; NaN: to be computed when asked for. */
  rankMin: number;
}

export interface Summaries<Item> {
  /** The number that comes first in `compare`; it must stay as it is while the item is in the list. */
  readonly key?: (item: Item) => number;
  /** What `firstWhereSumExceeds` and `sumThrough` add up. */
  readonly weigh?: (item: Item) => Vector;
  /** What `firstRankedAtMost` and `rankMin` look at. */
  readonly rank?: (item: Item) => number;
}

const NO_CHUNKS: never[] = [];
const NO_SUMMARIES = {};

/** Where a list is made for everything that waits, its summaries are one object for all of them. */
export class SortedList<Item> {
  size = 0;
  #first: Item | undefined = undefined;
  /** Null as long as `#first` is enough. */
  #last: Chunk<Item> | null = null;
  #chunks: Chunk<Item>[] = NO_CHUNKS;
  /** What `firstWhereSumExceeds` answered last on each index, as long as the list stays as it is. */
  #exceeding: { readonly bound: number; readonly item: Item | undefined }[] | null = null;
  readonly #compare: (a: Item, b: Item) => number;
  readonly #key: ((item: Item) => number) | undefined;
  readonly #summaries: Summaries<Item>;

  constructor(compare: (a: Item, b: Item) => number, summaries: Summaries<Item> = NO_SUMMARIES) {
    this.#compare = compare;
    this.#key = summaries.key;
    this.#summaries = summaries;
  }

  insert(item: Item): void {
    this.#exceeding = null;
    this.size++;
    if (this.size === 1) {
      this.#first = item;
      if (this.#last === null) return;
    }
    const last = this.#last ?? this.#openChunk();
    const key = this.#keyOf(item);
    if (last.items.length === 0 || this.#endsBefore(last, item, key)) {
      if (last.items.length < CHUNK_LENGTH_MAX)
        this.#putIn(last, last.items.length, item, key); // As most are: behind all others.
      else this.#append(chunkOf([item]));
    } else this.#insertWithin(item, key);
  }

  #insertWithin(item: Item, key: number): void {
    const chunkIndex = this.#chunkFor(item, key);
    const chunk = this.#chunks[chunkIndex] as Chunk<Item>;
    const position = this.#positionIn(chunk, item, key);
    this.#putIn(chunk, position, item, key);
    if (chunkIndex + position === 0) this.#first = item;
    if (chunk.items.length <= CHUNK_LENGTH_MAX) return;
    const upper = chunk.items.splice(CHUNK_LENGTH_MAX / 2);
    this.#chunks.splice(chunkIndex, 1, chunkOf(chunk.items), chunkOf(upper));
    this.#last = this.#chunks[this.#chunks.length - 1] as Chunk<Item>;
  }

  #openChunk(): Chunk<Item> {
    const chunk = chunkOf([this.#first as Item]);
    this.#chunks = [chunk];
    this.#last = chunk;
    return chunk;
  }

  #append(chunk: Chunk<Item>): void {
    this.#chunks.push(chunk);
    this.#last = chunk;
  }

  #inChunks(): Chunk<Item>[] {
    if (this.#last === null && this.size > 0) this.#openChunk();
    return this.#chunks;
  }

  #putIn(chunk: Chunk<Item>, position: number, item: Item, key: number): void {
    const { items, keys } = chunk;
    keys?.copyWithin(position + 1, position, items.length);
    if (keys !== null) keys[position] = key;
    insertAt(items, position, item);
    if (position === items.length - 1) chunk.lastKey = key;
    if (chunk.sums !== null) this.#addSums(chunk.sums, item, 1);
    const { rank } = this.#summaries;
    if (rank !== undefined && !Number.isNaN(chunk.rankMin))
      chunk.rankMin = Math.min(chunk.rankMin, rank(item));
  }

  remove(item: Item): void {
    if (this.#first === item) return this.#removeFirst(item); // As many are.
    const key = this.#keyOf(item);
    const chunkIndex = this.#chunkFor(item, key);
    const chunk = this.#chunks[chunkIndex];
    const position = chunk === undefined ? -1 : this.#positionIn(chunk, item, key);
    if (chunk === undefined || chunk.items[position] !== item)
      throw new Error("removing what is not in the list");
    this.#removeFrom(chunkIndex, position, item);
  }

  #removeFirst(item: Item): void {
    if (this.#last === null) {
      this.size = 0;
      this.#exceeding = null;
    } else this.#removeFrom(0, 0, item);
    this.#first = this.#chunks[0]?.items[0];
  }

  #removeFrom(chunkIndex: number, position: number, item: Item): void {
    const chunk = this.#chunks[chunkIndex] as Chunk<Item>;
    const { items } = chunk;
    chunk.keys?.copyWithin(position, position + 1, items.length);
    removeAt(items, position);
    if (position === items.length) chunk.lastKey = Number.NaN;
    this.size--;
    this.#exceeding = null;
    if (items.length === 0 && this.#chunks.length > 1) {
      if (chunkIndex === 0) this.#chunks.shift();
      else this.#chunks.splice(chunkIndex, 1);
      this.#last = this.#chunks[this.#chunks.length - 1] as Chunk<Item>;
      return; // The only chunk stays: short lists become empty and fill again all the time.
    }
    if (chunk.sums !== null) this.#addSums(chunk.sums, item, -1);
    const { rank } = this.#summaries;
    if (rank !== undefined && rank(item) <= chunk.rankMin) chunk.rankMin = Number.NaN;
  }

  has(item: Item): boolean {
    if (this.#last === null) return this.size > 0 && this.#first === item;
    const key = this.#keyOf(item);
    const chunk = this.#chunks[this.#chunkFor(item, key)];
    return chunk !== undefined && chunk.items[this.#positionIn(chunk, item, key)] === item;
  }

  first(): Item | undefined {
    return this.#first;
  }

  last(): Item | undefined {
    return this.#last === null ? this.#first : this.#last.items.at(-1);
  }

  /** The first item, in order, whose rank is at most `rankMax`. */
  firstRankedAtMost(rankMax: number): Item | undefined {
    const rank = this.#summaries.rank as (item: Item) => number;
    for (const chunk of this.#inChunks()) {
      if (Number.isNaN(chunk.rankMin)) chunk.rankMin = this.#smallestRank(chunk.items);
      if (chunk.rankMin <= rankMax) return chunk.items.find((item) => rank(item) <= rankMax);
    }
    return undefined;
  }

  /** The smallest rank of all; infinite in an empty list. */
  rankMin(): number {
    let smallest = Number.POSITIVE_INFINITY;
    for (const chunk of this.#inChunks()) {
      if (Number.isNaN(chunk.rankMin)) chunk.rankMin = this.#smallestRank(chunk.items);
      smallest = Math.min(smallest, chunk.rankMin);
    }
    return smallest;
  }

  /** The first item, in order, with which the sum on `index` from the start exceeds `bound`. */
  firstWhereSumExceeds(index: number, bound: number): Item | undefined {
    this.#exceeding ??= [];
    const known = this.#exceeding[index];
    if (known?.bound === bound) return known.item;
    const item = this.#findExceeding(index, bound);
    this.#exceeding[index] = { bound, item };
    return item;
  }

  #findExceeding(index: number, bound: number): Item | undefined {
    const weigh = this.#summaries.weigh as (item: Item) => Vector;
    let sum = 0;
    for (const chunk of this.#inChunks()) {
      const chunkSum = this.#sumsOf(chunk)[index] ?? 0;
      if (sum + chunkSum > bound) {
        for (const item of chunk.items) {
          sum += weigh(item)[index] as number;
          if (sum > bound) return item;
        }
      }
      sum += chunkSum;
    }
    return undefined;
  }

  /** The sum on `index` of all items. */
  sum(index: number): number {
    return this.#inChunks().reduce((sum, chunk) => sum + (this.#sumsOf(chunk)[index] ?? 0), 0);
  }

  /** The sum on `index` from the start up to and including the item. */
  sumThrough(item: Item, index: number): number {
    const weigh = this.#summaries.weigh as (item: Item) => Vector;
    let sum = 0;
    if (this.size === 0) return sum;
    for (const chunk of this.#inChunks()) {
      if (this.#compare(lastOf(chunk), item) < 0) {
        sum += this.#sumsOf(chunk)[index] as number;
        continue;
      }
      for (const each of chunk.items) {
        if (this.#compare(each, item) > 0) return sum;
        sum += weigh(each)[index] as number;
      }
    }
    return sum;
  }

  /** How many items `isBefore` holds for; it must hold for all up to some place and for none after it. */
  countWhile(isBefore: (item: Item) => boolean): number {
    const chunks = this.#inChunks();
    if (this.size === 0) return 0;
    const whole = lengthOfPrefix(chunks, (chunk) => isBefore(lastOf(chunk)));
    const chunk = chunks[whole];
    const part = chunk === undefined ? 0 : lengthOfPrefix(chunk.items, isBefore);
    // Counted from the nearer end: mostly all of them, or none.
    if (whole <= chunks.length / 2) return lengthOf(chunks, 0, whole) + part;
    return this.size - lengthOf(chunks, whole, chunks.length) + part;
  }

  /** Not a generator: walks over a few of many are made all the time. */
  [Symbol.iterator](): IterableIterator<Item> {
    return new ItemIterator(this.#inChunks());
  }

  /** From the last item for which `isBefore` holds to the first; same condition as for `countWhile`. */
  backwards(isBefore: (item: Item) => boolean = () => true): IterableIterator<Item> {
    return new BackwardsIterator(this.#inChunks(), isBefore);
  }

  /** The chunk in which the item is, or belongs: the first whose last item does not precede it. */
  #chunkFor(item: Item, key: number): number {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const chunk = chunks[middle] as Chunk<Item>;
      if (this.#endsBefore(chunk, item, key)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Whether the last item of a chunk precedes an item with its number; mostly the numbers say so, and no item is visited. */
  #endsBefore(chunk: Chunk<Item>, item: Item, key: number): boolean {
    const last = lastOf(chunk);
    if (this.#key !== undefined) {
      if (Number.isNaN(chunk.lastKey)) chunk.lastKey = this.#key(last);
      if (chunk.lastKey !== key) return chunk.lastKey < key;
    }
    return this.#compare(last, item) < 0;
  }

  #positionIn(chunk: Chunk<Item>, item: Item, key: number): number {
    const { items } = chunk;
    if (this.#key !== undefined && items.length > KEYS_LENGTH_MIN) chunk.keys ??= keysOf(items, this.#key);
    let low = 0;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compareAt(chunk, middle, item, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #keyOf(item: Item): number {
    return this.#key === undefined ? 0 : this.#key(item);
  }

  /** The order between what stands at a position and an item with its number. */
  #compareAt({ items, keys }: Chunk<Item>, position: number, item: Item, key: number): number {
    if (keys !== null) {
      const other = keys[position] as number;
      if (other !== key) return other < key ? -1 : 1;
    } else if (this.#key !== undefined) {
      const other = this.#key(items[position] as Item);
      if (other !== key) return other < key ? -1 : 1;
    }
    return this.#compare(items[position] as Item, item);
  }

  #sumsOf(chunk: Chunk<Item>): readonly number[] {
    if (chunk.sums === null) {
      chunk.sums = [];
      for (const item of chunk.items) this.#addSums(chunk.sums, item, 1);
    }
    return chunk.sums;
  }

  #addSums(sums: number[], item: Item, sign: 1 | -1): void {
    const weight = (this.#summaries.weigh as (item: Item) => Vector)(item);
    for (let i = 0; i < weight.length; i++) sums[i] = (sums[i] ?? 0) + sign * (weight[i] as number);
  }

  #smallestRank(items: readonly Item[]): number {
    const rank = this.#summaries.rank as (item: Item) => number;
    let smallest = Number.POSITIVE_INFINITY;
    for (const item of items) smallest = Math.min(smallest, rank(item));
    return smallest;
  }
}

class ItemIterator<Item> implements IterableIterator<Item> {
  readonly #chunks: readonly Chunk<Item>[];
  #chunkIndex = 0;
  #position = 0;

  constructor(chunks: readonly Chunk<Item>[]) {
    this.#chunks = chunks;
  }

  next(): IteratorResult<Item> {
    const items = this.#chunks[this.#chunkIndex]?.items;
    if (items === undefined || items.length === 0) return { value: undefined, done: true };
    const value = items[this.#position++] as Item;
    if (this.#position >= items.length) {
      this.#chunkIndex++;
      this.#position = 0;
    }
    return { value, done: false };
  }

  [Symbol.iterator](): this {
    return this;
  }
}

/** Not a generator, for the same reason. */
class BackwardsIterator<Item> implements IterableIterator<Item> {
  readonly #chunks: readonly Chunk<Item>[];
  readonly #isBefore: (item: Item) => boolean;
  #chunkIndex: number;
  /** How many items of the chunk are still to come; -1: not known yet. */
  #left = -1;

  constructor(chunks: readonly Chunk<Item>[], isBefore: (item: Item) => boolean) {
    this.#chunks = chunks;
    this.#isBefore = isBefore;
    this.#chunkIndex = chunks.length - 1;
  }

  next(): IteratorResult<Item> {
    for (; this.#chunkIndex >= 0; this.#chunkIndex--, this.#left = -1) {
      const { items } = this.#chunks[this.#chunkIndex] as Chunk<Item>;
      if (this.#left < 0) this.#left = this.#lengthIn(items);
      if (this.#left > 0) return { value: items[--this.#left] as Item, done: false };
    }
    return { value: undefined, done: true };
  }

  /** Mostly all of them count. */
  #lengthIn(items: readonly Item[]): number {
    const last = items.at(-1);
    if (last === undefined || this.#isBefore(last)) return items.length;
    return lengthOfPrefix(items, this.#isBefore);
  }

  [Symbol.iterator](): this {
    return this;
  }
}

function chunkOf<Item>(items: Item[]): Chunk<Item> {
  return { items, keys: null, lastKey: Number.NaN, sums: null, rankMin: Number.NaN };
}

function keysOf<Item>(items: readonly Item[], keyOf: (item: Item) => number): Float64Array {
  const keys = new Float64Array(CHUNK_LENGTH_MAX + 1);
  for (let i = 0; i < items.length; i++) keys[i] = keyOf(items[i] as Item);
  return keys;
}

/** By hand: `splice` makes an array for what it takes out. */
function insertAt<Value>(values: Value[], position: number, value: Value): void {
  values.push(value);
  for (let i = values.length - 1; i > position; i--) values[i] = values[i - 1] as Value;
  values[position] = value;
}

function removeAt<Value>(values: Value[], position: number): void {
  if (position === values.length - 1) {
    values.pop();
    return;
  }
  if (position === 0) {
    values.shift();
    return;
  }
  for (let i = position + 1; i < values.length; i++) values[i - 1] = values[i] as Value;
  values.pop();
}

function lastOf<Item>({ items }: Chunk<Item>): Item {
  return items[items.length - 1] as Item;
}

function lengthOf<Item>(chunks: readonly Chunk<Item>[], from: number, to: number): number {
  let length = 0;
  for (let i = from; i < to; i++) length += (chunks[i] as Chunk<Item>).items.length;
  return length;
}

function lengthOfPrefix<Item>(items: readonly Item[], isBefore: (item: Item) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(items[middle] as Item)) low = middle + 1;
    else high = middle;
  }
  return low;
}
