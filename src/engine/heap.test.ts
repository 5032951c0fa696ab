import { expect, test } from "vitest";
import { Heap } from "./heap.ts";

test("whatever goes in, the smallest comes out first", () => {
  const heap = new Heap<number>((a, b) => a < b, [5, 3, 9, 3]);
  heap.push(1);
  heap.push(7);
  expect(heap.first()).toBe(1);
  const out: number[] = [];
  for (let item = heap.pop(); item !== undefined; item = heap.pop()) {
    out.push(item);
    if (item === 3 && out.length === 2) heap.push(4);
  }
  expect(out).toEqual([1, 3, 3, 4, 5, 7, 9]);
});
