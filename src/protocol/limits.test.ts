import { describe, expect, test } from "vitest";
import { type ShapeLimits, shapeProblem } from "./limits.ts";

const limits: ShapeLimits = { depthMax: 3, valuesMax: 20, entriesMax: 5, textLengthMax: 10 };

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = [value];
  return value;
}

describe("a document within its limits has no problem", () => {
  for (const document of [
    null,
    1,
    "text",
    [],
    {},
    { a: [1, { b: "0123456789" }] },
    nested(3),
    [1, 2, 3, 4, 5],
  ]) {
    test(JSON.stringify(document), () => expect(shapeProblem(document, limits)).toBeUndefined());
  }
});

describe("a document beyond a limit is told where and why", () => {
  const cases: Record<string, { document: unknown; path: (string | number)[]; message: RegExp }> = {
    "too deep": { document: { a: nested(3) }, path: ["a", 0, 0, 0], message: /nested more than 3 levels/ },
    "deeper than any stack": { document: nested(200_000), path: [0, 0, 0, 0], message: /nested/ },
    "too many entries": { document: { a: [1, 2, 3, 4, 5, 6] }, path: ["a"], message: /more than 5 entries/ },
    "too long a text": { document: { a: "01234567890" }, path: ["a"], message: /more than 10 characters/ },
    "too long a name": {
      document: { ["k".repeat(300)]: 1 },
      path: ["k".repeat(256)],
      message: /name of more than/,
    },
    "a name that objects cannot bear": {
      document: JSON.parse('{"a": {"__proto__": 1}}'),
      path: ["a", "__proto__"],
      message: /cannot|not a name/,
    },
  };
  for (const [name, { document, path, message }] of Object.entries(cases)) {
    test(name, () => {
      const problem = shapeProblem(document, limits);
      expect(problem?.path).toEqual(path);
      expect(problem?.message).toMatch(message);
    });
  }

  test("too many values in all", () => {
    const document = Array.from({ length: 5 }, () => [1, 2, 3, 4, 5]);
    expect(shapeProblem(document, limits)?.message).toMatch(/more than 20 values/);
  });
});
