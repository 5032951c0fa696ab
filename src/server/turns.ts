// Work on long lists, such as the items of a bulk call, without holding up all other calls.

import { setImmediate } from "node:timers/promises";

const TURN_MS_MAX = 5;

/** Maps the items in order, and lets others have their turn whenever it has taken a while. */
export async function inTurns<Item, Result>(
  items: readonly Item[],
  map: (item: Item, index: number) => Result,
): Promise<Result[]> {
  const results: Result[] = [];
  let sinceMs = performance.now();
  for (const [index, item] of items.entries()) {
    results.push(map(item, index));
    if (performance.now() - sinceMs < TURN_MS_MAX) continue;
    await setImmediate();
    sinceMs = performance.now();
  }
  return results;
}
