// What the schemas accept and refuse, and how they name the field. Amounts are the engine's to judge.

import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { group, node, policy, pool, poolUpdate, requestSubmission } from "./index.ts";
import { issuesOf, toFieldName, toPointer } from "./issues.ts";
import { scenarioSchemas, scenarioStep } from "./scenarios.ts";

/** The problems as `field message`, in order; empty if the value is accepted. */
function problems(schema: z.ZodType, value: unknown): string[] {
  const parsed = schema.safeParse(value);
  return parsed.success
    ? []
    : issuesOf(parsed.error).map(({ path, message }) => `${toFieldName(path)} ${message}`);
}

const submission = { component: "lab", resources: { gpu: 1 } };

describe("accepted", () => {
  const cases: Record<string, [z.ZodType, unknown]> = {
    "a pool with everything": [
      pool,
      {
        name: "p",
        capacity: { gpu: 8 },
        discipline: "fair_share",
        description: "all of them",
        labels: { site: "north" },
        settings: {
          backfill: "none",
          grace_seconds: 5,
          max_victims: null,
          main_key: "gpu",
          share_keys: ["gpu"],
        },
        groups: [{ name: "g", parent: null, mode: "fifo", settings: { fair_share_starvation_timeout: 10 } }],
      },
    ],
    "a pool without capacity, which nodes will bring": [pool, { name: "p" }],
    "amounts that only the engine refuses": [pool, { name: "p", capacity: { gpu: -1.5, "Not A Key": 0 } }],
    "a policy": [policy, { pool: "p", component: "c", kind: "training", home: { rack: "r1" }, group: null }],
    "a group that stops reserving": [group, { name: "g", reserved: null }],
    "a node": [node, { name: "n", pool: "p", capacity: { gpu: 8 }, topology: "r1" }],
    "a class that only the engine refuses": [requestSubmission, { ...submission, preemption_class: 2.5 }],
    "retries without a maximum": [requestSubmission, { ...submission, retries: { delay: 5 } }],
    "settings with decimal text": [requestSubmission, { component: "lab", settings: { cpu_count: "0.5" } }],
    "a pool to delete by name": [scenarioStep, { delete_pool: "p" }],
    "a pool to delete by force": [scenarioStep, { delete_pool: { name: "p", force: true } }],
  };
  for (const [name, [schema, value]] of Object.entries(cases)) {
    test(name, () => expect(problems(schema, value)).toEqual([]));
  }
});

describe("refused", () => {
  const cases: Record<string, [z.ZodType, unknown, string[]]> = {
    "an unknown field": [pool, { name: "p", capacty: {} }, ["capacty is not a field that is known here"]],
    "an unknown setting": [
      pool,
      { name: "p", settings: { grace: 5 } },
      ["settings.grace is not a field that is known here"],
    ],
    "a missing field": [policy, { pool: "p" }, ["component is missing"]],
    "a text for an amount": [
      requestSubmission,
      { component: "c", resources: { gpu: "two" } },
      ["resources.gpu expected number, received string"],
    ],
    "an amount that is no number": [
      requestSubmission,
      { component: "c", resources: { gpu: Number.NaN } },
      ["resources.gpu expected number, received NaN"],
    ],
    "a negative time": [
      requestSubmission,
      { ...submission, walltime_seconds: -1 },
      ["walltime_seconds too small: expected number to be >=0"],
    ],
    "a word that is no choice": [
      requestSubmission,
      { ...submission, checkpoint: "often" },
      ['checkpoint invalid option: expected one of "none"|"auto"|"manual"'],
    ],
    "an empty name": [
      node,
      { name: "", pool: "p", capacity: {} },
      ["name too small: expected string to have >=1 characters"],
    ],
    "a discipline that changes": [
      poolUpdate,
      { name: "p", discipline: "class" },
      ["discipline is not a field that is known here"],
    ],
    "too many labels": [
      requestSubmission,
      { ...submission, labels: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`l${i}`, ""])) },
      ["labels at most 64 labels"],
    ],
    "a step without an action": [scenarioStep, { expect: {} }, [expect.stringContaining("has no action")]],
    "a step with two actions": [
      scenarioStep,
      { finish: "a", fail: "b" },
      [" has more than one action: finish, fail"],
    ],
    "neither a name nor an object": [
      scenarioStep,
      { delete_pool: 5 },
      ["delete_pool expected string or expected object"],
    ],
    "a wrong field in one branch of a choice": [
      scenarioStep,
      { delete_pool: { name: "p", forse: true } },
      ["delete_pool.forse is not a field that is known here"],
    ],
    "a status that does not exist": [
      scenarioStep,
      { finish: "a", expect: { status: { a: "runing" } } },
      [expect.stringContaining("expect.status.a invalid option")],
    ],
    "a list instead of a scenario": [scenarioSchemas.story, [], [" expected object, received array"]],
    "a mistake deep in a share tree": [
      scenarioSchemas.shares,
      {
        kind: "shares",
        total: { gpu: 1 },
        main_key: "gpu",
        tree: {
          name: "root",
          type: "group",
          children: [{ name: "a", type: "operation", demand: { gpu: -1 } }],
        },
        expect: {},
      },
      ["tree.children[0].demand.gpu too small: expected number to be >=0"],
    ],
  };
  for (const [name, [schema, value, want]] of Object.entries(cases)) {
    test(name, () => expect(problems(schema, value)).toEqual(want));
  }
});

test("a pointer escapes what its syntax uses", () => {
  expect(toPointer(["resources", "a/b~c", 0])).toBe("/resources/a~1b~0c/0");
});
