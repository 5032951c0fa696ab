// The reference scheduler against the scenario files: an oracle must first be right itself.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { differences } from "./agree.ts";
import type { Scenario } from "./scenario.ts";
import { playReference } from "./scheduler.ts";

const files = [
  "priority",
  "stopping",
  "random-priority",
  "class",
  "random-class",
  "fair_share",
  "random-fair_share",
  "nodes",
  "readings",
];

for (const file of files) {
  const url = new URL(`../../scenarios/${file}.json`, import.meta.url);
  const scenarios = (JSON.parse(readFileSync(url, "utf8")) as Scenario[]).filter(
    ({ kind = "story" }) => kind === "story",
  );

  describe(`the reference scheduler plays ${file}.json`, () => {
    test.each(scenarios)("$name", (scenario) => {
      const seen = playReference(scenario);
      const wrong = scenario.script.flatMap((step, index) =>
        differences(step.expect ?? {}, seen[index]!).map((line) => `step ${index + 1}: ${line}`),
      );
      expect(wrong).toEqual([]);
    });
  });
}
