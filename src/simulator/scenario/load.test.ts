// Bad input of every sort: a clear problem with code and place, never an exception.

import { describe, expect, test } from "vitest";
import { SCENARIO_YAML_BYTES_MAX } from "../../protocol/index.ts";
import { type InputProblem, loadScenarios } from "./load.ts";
import { describeProblem } from "./report.ts";

function problemsOf(text: string): readonly InputProblem[] {
  const loaded = loadScenarios("f.yaml", text);
  return loaded.ok ? [] : loaded.problems;
}

describe("texts that hold scenarios", () => {
  const cases: Record<string, { text: string; names: string[] }> = {
    "one in YAML": { text: "name: a\nscript: []\n", names: ["a"] },
    "one in JSON": { text: '{"name": "a", "script": []}', names: ["a"] },
    "a list, some without a name": {
      text: "- {script: []}\n- {name: b, script: []}",
      names: ["scenario 1", "b"],
    },
    "JSON with a comment is YAML": { text: '# why\n{"name": "a", "script": []}', names: ["a"] },
    "JSON with a trailing comma is YAML": { text: '{"name": "a", "script": [],}', names: ["a"] },
    anchors: { text: "- &a {name: a, script: []}\n- *a", names: ["a", "a"] },
  };
  for (const [name, { text, names }] of Object.entries(cases)) {
    test(name, () => {
      const loaded = loadScenarios("f.yaml", text);
      expect(loaded.ok && loaded.scenarios.map((scenario) => scenario.name)).toEqual(names);
    });
  }

  test("the line of a step is known in YAML and in JSON", () => {
    for (const text of [
      "script:\n- finish: a\n- finish: b",
      '{"script": [\n{"finish": "a"},\n{"finish": "b"}]}',
    ]) {
      const loaded = loadScenarios("f", text);
      expect(loaded.ok && loaded.scenarios[0]?.lineOfStep(2)).toBe(3);
    }
  });
});

describe("texts that cannot be used", () => {
  const aliases = ["a: &a [x, x, x, x, x, x, x, x, x, x]"];
  for (const [from, to] of ["ab", "bc", "cd", "de"])
    aliases.push(`${to}: &${to} [${`*${from}, `.repeat(10)}]`);

  const cases: Record<string, { text: string; want: string }> = {
    "nothing at all": {
      text: "",
      want: 'f.yaml: scenario "scenario 1": expected object, received null [invalid_scenario]',
    },
    "an empty list": { text: "[]", want: "f.yaml: The list holds no scenario. [invalid_scenario]" },
    "a number": {
      text: "5",
      want: 'f.yaml:1: scenario "scenario 1": expected object, received number [invalid_scenario]',
    },
    "broken YAML": {
      text: "name: x\nscript:\n  - finish: a\n bad: [",
      want: "f.yaml:4: All mapping items must start at the same column. [invalid_syntax]",
    },
    "a key written twice": {
      text: "script: []\nname: a\nname: b",
      want: 'f.yaml:3: "name" is written twice. [invalid_syntax]',
    },
    "two documents": {
      text: "script: []\n---\nscript: []",
      want: "f.yaml:2: There is more than one YAML document; write a list instead. [invalid_syntax]",
    },
    "aliases that multiply": {
      text: aliases.join("\n"),
      want: "f.yaml: Excessive alias count indicates a resource exhaustion attack. [invalid_syntax]",
    },
    "an alias inside itself": {
      text: "script: &a [*a]",
      want: expect.stringContaining("is nested more than 64 levels deep. [invalid_scenario]"),
    },
    "deep JSON": {
      text: "[".repeat(200_000) + "]".repeat(200_000),
      want: expect.stringContaining("is nested more than 64 levels deep. [invalid_scenario]"),
    },
    "deep YAML": {
      text: `script: ${"[".repeat(20_000)}`,
      want: "f.yaml:1: The text is nested too deeply. [invalid_syntax]",
    },
    "large YAML": {
      text: "- a\n".repeat(SCENARIO_YAML_BYTES_MAX / 4 + 1),
      want: `f.yaml: YAML may have at most ${SCENARIO_YAML_BYTES_MAX} bytes. Split the file, or write JSON. [file_too_large]`,
    },
    "large broken JSON": {
      text: `[${"1,".repeat(SCENARIO_YAML_BYTES_MAX / 2)}`,
      want: expect.stringContaining("[invalid_syntax]"),
    },
    "a very long text": {
      text: JSON.stringify({ name: "x".repeat(10_000_000), script: [] }),
      want: "f.yaml: name: is a text of more than 65536 characters. [invalid_scenario]",
    },
    "a name that objects cannot bear": {
      text: '{"script": [{"submit": {"id": "a", "component": "c", "resources": {"__proto__": 1}}}]}',
      want: "f.yaml: script[0].submit.resources.__proto__: is not a name that can be used. [invalid_scenario]",
    },
    "an unknown kind": {
      text: "name: a\nkind: tale\nscript: []",
      want: 'f.yaml:2: scenario "a", kind: must be one of story, shares, allocation_groups [invalid_scenario]',
    },
    "an unknown key": {
      text: "name: a\nscript:\n- submit: {id: a, component: c, resources: {gpu: 1}, gpus: 2}",
      want: 'f.yaml:3: scenario "a", step 1, submit.gpus: is not a field that is known here [invalid_scenario]',
    },
    "a wrong type": {
      text: "- name: a\n  script: []\n- name: b\n  script:\n  - finish: a\n  - submit:\n      id: 7\n      component: c\n      resources: {gpu: 1}",
      want: 'f.yaml:7: scenario "b", step 2, submit.id: expected string, received number [invalid_scenario]',
    },
    "a text for an amount": {
      text: "name: a\npools:\n- name: p\n  capacity:\n    gpu: many\nscript: []",
      want: 'f.yaml:5: scenario "a", pools[0].capacity.gpu: expected number, received string [invalid_scenario]',
    },
    "time that runs backwards": {
      text: "name: a\nscript: [{advance: -1}]",
      want: 'f.yaml:2: scenario "a", step 1, advance: too small: expected number to be >=0 [invalid_scenario]',
    },
    "a step without an action": {
      text: "name: a\nscript:\n- expect: {preempted: []}",
      want: expect.stringContaining('f.yaml:3: scenario "a", step 1: has no action'),
    },
    "no script": {
      text: "name: a\npools: []",
      want: 'f.yaml:1: scenario "a", script: is missing [invalid_scenario]',
    },
  };
  for (const [name, { text, want }] of Object.entries(cases)) {
    test(name, () => expect(problemsOf(text).map(describeProblem)).toEqual([want]));
  }

  test("broken JSON is told with the words of JSON and the line", () => {
    const [problem] = problemsOf('[{"name": "x",\n "script": [}]');
    expect(problem).toMatchObject({
      code: "invalid_syntax",
      line: 2,
      message: expect.stringContaining("JSON"),
    });
  });

  test("a file full of mistakes is not told in full", () => {
    const text = JSON.stringify(Array.from({ length: 500 }, () => ({ scripts: [] })));
    expect(problemsOf(text)).toHaveLength(20);
  });

  test("control characters in names do not reach the terminal", () => {
    const [problem] = problemsOf(JSON.stringify({ name: "\u001b[31mred", script: 5 }));
    const shown = problem && describeProblem(problem);
    expect(shown).toContain("has control characters");
    expect(shown).not.toContain("\u001b");
  });
});
