// A binary heap: mostly only the first few of many are wanted, so that sorting all would be a waste.

export class Heap<Item> {
  readonly #items: Item[];
  readonly #comesBefore: (a: Item, b: Item) => boolean;

  constructor(comesBefore: (a: Item, b: Item) => boolean, items: readonly Item[] = []) {
    this.#comesBefore = comesBefore;
    this.#items = [...items];
    for (let i = (items.length >> 1) - 1; i >= 0; i--) this.#sink(i);
  }

  /** All of them, in any order. */
  get items(): readonly Item[] {
    return this.#items;
  }

  first(): Item | undefined {
    return this.#items[0];
  }

  push(item: Item): void {
    const items = this.#items;
    let i = items.length;
    items.push(item);
    while (i > 0) {
      const above = (i - 1) >> 1;
      if (!this.#comesBefore(item, items[above] as Item)) break;
      items[i] = items[above] as Item;
      i = above;
    }
    items[i] = item;
  }

  pop(): Item | undefined {
    const items = this.#items;
    const first = items[0];
    const last = items.pop();
    if (items.length > 0) {
      items[0] = last as Item;
      this.#sink(0);
    }
    return first;
  }

  #sink(from: number): void {
    const items = this.#items;
    const item = items[from] as Item;
    let i = from;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && this.#comesBefore(items[child + 1] as Item, items[child] as Item))
        child++;
      if (!this.#comesBefore(items[child] as Item, item)) break;
      items[i] = items[child] as Item;
      i = child;
    }
    items[i] = item;
  }
}
