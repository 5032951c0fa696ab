import fc from "fast-check";
import { expect, test } from "vitest";
import { Few } from "./few.ts";

test("few are like a set, also when there are many", () => {
  const change = fc.tuple(fc.constantFrom("add", "add", "add", "delete", "clear", "drain"), fc.nat(20));
  fc.assert(
    fc.property(fc.array(change, { maxLength: 80 }), (changes) => {
      const few = new Few<number>();
      const set = new Set<number>();
      for (const [what, item] of changes) {
        if (what === "add") {
          few.add(item);
          set.add(item);
        } else if (what === "delete") {
          expect(few.delete(item)).toBe(set.delete(item));
        } else {
          const drained: number[] = [];
          if (what === "drain") few.drain((each) => drained.push(each));
          else few.clear();
          expect(drained).toEqual(what === "drain" ? [...set] : []);
          set.clear();
        }
        expect([...few]).toEqual([...set]);
        expect(few.toArray()).toEqual([...set]);
        expect([few.size, few.has(item)]).toEqual([set.size, set.has(item)]);
      }
    }),
  );
});
