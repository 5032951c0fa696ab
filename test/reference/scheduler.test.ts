// The reference scheduler against the scenario files: an oracle must first be right itself.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { differences } from "./agree.ts";
import type { Scenario } from "./scenario.ts";
import { playReference } from "./scheduler.ts";

const files = [
  "priority.json",
  "stopping.json",
  "random-priority.json",
  "class.json",
  "random-class.json",
  "fair_share.json",
  "random-fair_share.json",
  "nodes.json",
  "readings.json",
  "boundaries.yaml",
  "jobs.yaml",
];

/** The reference trusts what it is given: names, keys, weights and sizes are checked before anything is scheduled. */
const isMalformed = ({ name }: Scenario) => /^(R2|P1|P3|A5 max_class|A5 size)/.test(name);

/** It knows neither changes of requests (Q9), nor groups that come later, nor drains with a deadline. */
const isBeyondIt = ({ script }: Scenario) =>
  script.some(
    (step) => "update_request" in step || "create_group" in step || typeof (step.drain ?? "") !== "string",
  );

for (const file of files) {
  const text = readFileSync(new URL(`../../scenarios/${file}`, import.meta.url), "utf8");
  const read: (text: string) => unknown = file.endsWith(".json") ? JSON.parse : parse;
  const scenarios = (read(text) as Scenario[]).filter(
    (scenario) => (scenario.kind ?? "story") === "story" && !isMalformed(scenario) && !isBeyondIt(scenario),
  );

  describe(`the reference scheduler plays ${file}`, () => {
    test.each(scenarios)("$name", (scenario) => {
      const seen = playReference(scenario);
      const wrong = scenario.script.flatMap((step, index) =>
        differences(step.expect ?? {}, seen[index]!).map((line) => `step ${index + 1}: ${line}`),
      );
      expect(wrong).toEqual([]);
    });
  });
}
