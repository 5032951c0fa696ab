// Plays every scenario file of the project, and those of the conformance folder where one lies beside it.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { describeProblem, describeResult, loadScenarios, runScenario } from "../src/simulator/index.ts";

const places = { scenarios: "../scenarios/", conformance: "../../shared/conformance/" };

for (const [name, place] of Object.entries(places)) {
  const directory = fileURLToPath(new URL(place, import.meta.url));
  if (name === "conformance" && !existsSync(directory)) continue;
  describe(name, () => {
    const files = readdirSync(directory).filter((file) => /\.(json|ya?ml)$/.test(file));
    test("holds scenario files", () => expect(files).not.toEqual([]));
    for (const file of files) {
      test(file, () => expect(failuresOf(file, readFileSync(directory + file, "utf8"))).toBe(""));
    }
  });
}

/** Everything that went wrong, as it would be printed; empty if nothing did. */
function failuresOf(file: string, text: string): string {
  const loaded = loadScenarios(file, text);
  if (!loaded.ok) return loaded.problems.map(describeProblem).join("\n");
  return loaded.scenarios
    .map((scenario) => runScenario(scenario))
    .filter(({ failures }) => failures.length > 0)
    .flatMap((result) => describeResult(result, undefined))
    .join("\n");
}
