// A set that mostly has a handful of members: an array is asked, filled and emptied faster than a set, which makes a
// table anew every few times. Where there are more, it is a set. In the order in which they came.

const FEW = 8;

/** To set the length of a list is a call of the runtime. */
export function empty(list: unknown[]): void {
  while (list.length > 0) list.pop();
}

export class Few<Item> {
  #few: Item[] = [];
  #many: Set<Item> | null = null;

  get size(): number {
    return this.#many === null ? this.#few.length : this.#many.size;
  }

  has(item: Item): boolean {
    return this.#many === null ? this.#indexOf(item) >= 0 : this.#many.has(item);
  }

  add(item: Item): void {
    if (this.#many !== null) {
      this.#many.add(item);
      return;
    }
    if (this.#indexOf(item) >= 0) return;
    this.#few.push(item);
    if (this.#few.length <= FEW) return;
    this.#many = new Set(this.#few);
    this.#few = [];
  }

  delete(item: Item): boolean {
    if (this.#many !== null) return this.#many.delete(item);
    const at = this.#indexOf(item);
    if (at < 0) return false;
    if (at === this.#few.length - 1) this.#few.pop();
    else this.#few.splice(at, 1);
    return true;
  }

  /** By hand: so few are compared faster than the function of arrays is called. */
  #indexOf(item: Item): number {
    const few = this.#few;
    for (let i = 0; i < few.length; i++) if (few[i] === item) return i;
    return -1;
  }

  clear(): void {
    this.#many = null;
    empty(this.#few);
  }

  /** Hands all of them over and is empty then. */
  drain(handle: (item: Item) => void): void {
    if (this.#many !== null) for (const item of this.#many) handle(item);
    else for (let i = 0; i < this.#few.length; i++) handle(this.#few[i] as Item);
    this.clear();
  }

  toArray(): Item[] {
    return this.#many === null ? this.#few.slice() : [...this.#many];
  }

  [Symbol.iterator](): IterableIterator<Item> {
    return (this.#many ?? this.#few)[Symbol.iterator]();
  }
}
