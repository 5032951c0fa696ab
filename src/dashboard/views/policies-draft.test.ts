import { describe, expect, test } from "vitest";
import {
  changesOf,
  draftOf,
  EMPTY_ROW,
  type Policy,
  parseAmounts,
  readYaml,
  yamlOf,
} from "./policies-draft.ts";

const policy = (component: string, fields: Partial<Policy> = {}): Policy => ({
  ...{ pool: "lab", component, component_type: "", priority: 0, weight: 1, reserved: {}, limit: {} },
  ...{ kind: "batch", max_class: 10, group: null, home: null, closing: false, id: component },
  ...{ created_at: null, updated_at: null },
  ...fields,
});

const policies = [
  policy("vision", { priority: 5, reserved: { gpu: 4 } }),
  policy("nlp", { limit: { gpu: 8, mcpu: 4000 } }),
];

describe("amounts", () => {
  const cases: Record<string, Record<string, number> | undefined> = {
    "": {},
    "gpu 4": { gpu: 4 },
    "gpu=4, mcpu: 8000": { gpu: 4, mcpu: 8000 },
    two: undefined,
    "gpu -1": undefined,
    "gpu 1.5": undefined,
  };
  for (const [text, want] of Object.entries(cases)) {
    test(`"${text}"`, () => expect(parseAmounts(text)).toEqual(want));
  }
});

describe("a draft becomes", () => {
  test("nothing, if it is what is there", () => {
    expect(changesOf("lab", policies, draftOf(policies))).toEqual({ changes: [], mistakes: [] });
  });

  test("a call for what differs, and no more than that", () => {
    const [first, ...rest] = draftOf(policies);
    const draft = [{ ...(first as NonNullable<typeof first>), priority: "7" }, ...rest];
    expect(changesOf("lab", policies, draft).changes).toEqual([
      { method: "PATCH", path: "/v1/pools/lab/policies/vision", body: { priority: 7 } },
    ]);
  });

  test("an attachment, a detachment", () => {
    const draft = [...draftOf(policies).slice(0, 1), { ...EMPTY_ROW, component: "a/b", reserved: "gpu 1" }];
    expect(changesOf("a lab", policies, draft).changes).toEqual([
      {
        ...{ method: "POST", path: "/v1/pools/a%20lab/policies" },
        body: { component: "a/b", priority: 0, weight: 1, reserved: { gpu: 1 }, limit: {} },
      },
      { method: "DELETE", path: "/v1/pools/a%20lab/policies/nlp" },
    ]);
  });

  test.each([
    ["no component", { component: " " }],
    ["one that is there already", { component: "nlp" }],
    ["amounts that say nothing", { reserved: "lots" }],
    ["a priority that is none", { priority: "high" }],
    ["a weight of nothing", { weight: "0" }],
  ])("a mistake at its row: %s", (_, fields) => {
    const draft = [...draftOf(policies), { ...EMPTY_ROW, component: "new", ...fields }];
    expect(changesOf("lab", policies, draft).mistakes.map(({ at }) => at)).toEqual([2]);
  });
});

describe("as text", () => {
  test("it is read as it was written", () => {
    const draft = draftOf([...policies, policy('odd "name", {x}')]);
    const { rows, mistakes } = readYaml("lab", yamlOf("lab", draft));
    expect(mistakes).toEqual([]);
    expect(rows).toEqual(draft);
  });

  test("mistakes have their line", () => {
    const text =
      "policies:\n  - {component: a}\n  # a note\n  - {component: b, colour: red}\n  - b\n  - {pool: other, component: c}";
    expect(readYaml("lab", text).mistakes.map(({ at }) => at)).toEqual([3, 4, 5]);
  });
});
