// Requests by id against a map, over random additions and deletions.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { RequestId } from "./records.ts";
import { RequestsById } from "./requests-by-id.ts";
import type { Request } from "./state.ts";

test("holds what a map holds, in the same order, whatever is added and deleted", () => {
  const steps = fc.array(fc.record({ isDeleted: fc.boolean(), number: fc.nat(60) }), { maxLength: 400 });
  fc.assert(
    fc.property(steps, (all) => {
      const [requests, map] = [new RequestsById(), new Map<RequestId, Request>()];
      for (const { isDeleted, number } of all) {
        const id = `r${number}` as RequestId;
        expect(requests.get(id)).toBe(map.get(id));
        if (isDeleted) expect(requests.delete(id)).toBe(map.delete(id));
        else if (!requests.has(id)) {
          const request = { spec: { id } } as Request;
          requests.set(id, request);
          map.set(id, request);
        }
      }
      expect([...requests.values()]).toEqual([...map.values()]);
      expect([...requests.keys()]).toEqual([...map.keys()]);
      expect(requests.size).toBe(map.size);
    }),
  );
});

test("tells ids of one hash apart", () => {
  const requests = new RequestsById();
  const [a, b] = ["r66999", "r916676"].map((id) => ({ spec: { id } }) as Request) as [Request, Request];
  requests.set(a.spec.id, a);
  expect(requests.get(b.spec.id)).toBe(undefined);
  requests.set(b.spec.id, b);
  expect([requests.get(a.spec.id), requests.get(b.spec.id)]).toEqual([a, b]);
  requests.delete(a.spec.id);
  expect([requests.get(a.spec.id), requests.get(b.spec.id)]).toEqual([undefined, b]);
});
