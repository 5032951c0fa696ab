// Stories that pass and stories that fail, and what is said about the latter.

import { describe, expect, test } from "vitest";
import { loadScenarios } from "./load.ts";
import { describeResult, describeStep, describeSummary, toJsonReport } from "./report.ts";
import { runScenario, type Scenario, type ScenarioResult } from "./run.ts";
import type { StepReport } from "./story.ts";

const LAB = `
name: lab
pools: [{name: lab, capacity: {gpu: 4}}]
policies:
  - {pool: lab, component: prod, priority: 10, reserved: {gpu: 4}}
  - {pool: lab, component: research, priority: 1}
`;

function play(text: string): { result: ScenarioResult; steps: StepReport[] } {
  const loaded = loadScenarios("f.yaml", text);
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join("\n"));
  const [scenario] = loaded.scenarios;
  if (scenario === undefined) throw new Error("no scenario");
  const steps: StepReport[] = [];
  return { result: runScenario(scenario, (step) => steps.push(step)), steps };
}

/** The failures as `step field: expected, actual`. */
function failuresOf(text: string): string[] {
  return play(text).result.failures.map(
    ({ step, field, expected, actual }) =>
      `${step} ${field}: ${JSON.stringify(expected)}, ${JSON.stringify(actual)}`,
  );
}

describe("stories that pass", () => {
  const cases: Record<string, string> = {
    "grant, preemption, return": `${LAB}
script:
  - submit: {id: a, component: research, resources: {gpu: 4}}
    expect: {status: {a: allocated}, pool: {a: lab}, usage: {lab: {gpu: 4}}, borrowed: {a: {gpu: 4}}, attempt: {a: 1}}
  - submit: {id: b, component: prod, resources: {gpu: 2}}
    expect: {preempted: [a], reason: {a: priority}, queue: {lab: [b]}, status: {a: preempting}}
  - stopped: a
    expect: {status: {a: queued, b: allocated}, preempted_count: {a: 1}, resume: {a: false}, preempted: []}
  - finish: b
    expect: {status: {b: released, a: allocated}, attempt: {a: 2}, reason: {a: priority}}
`,
    "a holder that is alive carries out SIGKILL and confirms at that second (11.3)": `${LAB}
script:
  - submit: {id: a, component: research, resources: {gpu: 4}}
  - submit: {id: b, component: prod, resources: {gpu: 4}}
  - advance: 29
    expect: {status: {a: preempting, b: queued}}
  - advance: 1
    expect: {status: {a: queued, b: allocated}}
`,
    "a lost one confirms nothing, and its units come free after one and a half leases of its pool (L2)": `
pools: [{name: lab, capacity: {gpu: 4}, settings: {lease_seconds: 100}}]
policies:
  - {pool: lab, component: prod, priority: 10}
  - {pool: lab, component: research, priority: 1}
script:
  - submit: {id: a, component: research, resources: {gpu: 4}, requeue: never}
  - submit: {id: b, component: prod, resources: {gpu: 4}}
  - lose_holder: a
  - advance: 149
    expect: {status: {a: preempting, b: queued}, usage: {lab: {gpu: 4}}}
  - advance: 1
    expect: {status: {a: expired, b: allocated}}
`,
    "who waits attended expires when its client is silent for a lease (L2)": `${LAB}
script:
  - submit: {id: a, component: prod, resources: {gpu: 4}}
  - submit: {id: b, component: research, resources: {gpu: 1}, attended: true}
  - lose_holder: b
  - advance: 299
    expect: {status: {b: queued}}
  - advance: 1
    expect: {status: {b: expired}}
`,
    "without any grace the kill comes in the same instant": `
pools: [{name: p, capacity: {gpu: 1}, settings: {grace_seconds: 0}}]
policies: [{pool: p, component: low}, {pool: p, component: high, priority: 1}]
script:
  - submit: {id: a, component: low, resources: {gpu: 1}}
  - submit: {id: b, component: high, resources: {gpu: 1}}
    expect: {preempted: [a], status: {a: queued, b: allocated}}
`,
    "rejections, by one code or by pool": `${LAB}
script:
  - submit: {id: a, component: research, resources: {gpu: 5}}
    expect: {status: {a: rejected}, rejected: {a: over_capacity}}
  - submit: {id: b, component: research, resources: {gpu: 1}, preemptible: false}
    expect: {rejected: {a: {lab: over_capacity}, b: {lab: over_reserved}}}
  - submit: {id: c, component: nobody, resources: {gpu: 1}}
    expect: {rejected: {c: no_policy}}
`,
    "unmanaged requests are allowed if the server says so (A4)": `
settings: {unmanaged: allow}
script:
  - submit: {id: a, component: nobody, resources: {gpu: 1}}
    expect: {status: {a: allocated}, pool: {a: null}}
`,
    "errors that are meant, those of the schema among them": `${LAB}
script:
  - {submit: {id: a, component: research, resources: {gpu: 1.5}}, expect: {error: invalid_amount, usage: {lab: {gpu: 0}}}}
  - {submit: {id: a, component: research, resources: {gpu: two}}, expect: {error: invalid_amount}}
  - {submit: {id: a, component: research, resources: {gpu: 1}, preemption_class: 11}, expect: {error: invalid_class}}
  - {submit: {id: a, component: research, resources: {gpu: 1}, preemption_class: high}, expect: {error: invalid_class}}
  - {submit: {id: a, component: research, settings: {memory: 16}}, expect: {error: invalid_amount}}
  - {submit: {id: a, component: research, resources: {gpu: 1}, walltime_seconds: -1}, expect: {error: invalid_request}}
  - {finish: a, expect: {error: not_found}}
  - {lose_holder: a, expect: {error: not_found}}
  - {create_pool: {name: lab, capacity: {gpu: 1}}, expect: {error: name_taken}}
  - {attach_policy: {pool: lab, component: prod}, expect: {error: policy_exists}}
`,
    administration: `${LAB}
script:
  - update_pool: {name: lab, capacity: {gpu: 8}, groups: [{name: g, limit: {gpu: 1}}]}
  - update_policy: {pool: lab, component: research, group: g}
  - submit: {id: a, component: research, resources: {gpu: 2}}
    expect: {rejected: {a: over_limit}}
  - update_group: {pool: lab, name: g, limit: {gpu: 2}}
  - submit: {id: b, component: research, resources: {gpu: 2}}
    expect: {status: {b: allocated}}
  - {delete_pool: lab, expect: {error: in_use}}
  - {delete_request: b, expect: {error: in_use}}
  - {detach_policy: {pool: lab, component: research, force: true}, expect: {preempted: [b], reason: {b: administration}}}
  - delete_pool: {name: lab, force: true}
  - advance: 30
    expect: {status: {b: rejected}}
  - {delete_pool: lab, expect: {error: not_found}}
`,
  };
  for (const [name, text] of Object.entries(cases)) test(name, () => expect(failuresOf(text)).toEqual([]));
});

describe("stories that fail", () => {
  const cases: Record<string, { script: string; want: string[] }> = {
    "every difference of the step is told, and the story ends there": {
      script: `
  - submit: {id: a, component: research, resources: {gpu: 4}}
    expect: {status: {a: queued, z: queued}, usage: {lab: {gpu: 1}, moon: {gpu: 1}}, queue: {lab: [a]}, pool: {a: moon}}
  - finish: nobody`,
      want: [
        '1 status.a: "queued", "allocated"',
        '1 status.z: "queued", null',
        '1 pool.a: "moon", "lab"',
        '1 queue.lab: ["a"], []',
        "1 usage.lab.gpu: 1, 4",
        "1 usage.moon.gpu: 1, null",
      ],
    },
    "a refusal that nobody expects": {
      script: "\n  - finish: a",
      want: ['1 error: null, "not_found"'],
    },
    "a refusal for another reason": {
      script: "\n  - {finish: a, expect: {error: invalid_request}}",
      want: ['1 error: "invalid_request", "not_found"'],
    },
    "an acceptance where a refusal is expected": {
      script: "\n  - {advance: 5, expect: {error: invalid_request}}",
      want: ['1 error: "invalid_request", null'],
    },
    "a malformed action for which another error is expected": {
      script: "\n  - {submit: {id: a, component: c, resources: {gpu: x}}, expect: {error: not_found}}",
      want: ['1 error: "not_found", "invalid_amount"'],
    },
    "victims: exactly these": {
      script: `
  - submit: {id: a, component: research, resources: {gpu: 2}}
  - submit: {id: b, component: research, resources: {gpu: 2}}
  - submit: {id: c, component: prod, resources: {gpu: 4}}
    expect: {preempted: [b], reason: {c: priority}}`,
      want: ['3 reason.c: "priority", null', '3 preempted: ["b"], ["a","b"]'],
    },
    "rejected for different reasons": {
      script: `
  - create_pool: {name: big, capacity: {gpu: 9}}
  - attach_policy: {pool: big, component: research, limit: {gpu: 4}}
  - submit: {id: a, component: research, resources: {gpu: 5}}
    expect: {rejected: {a: over_capacity}}`,
      want: ['3 rejected.a: "over_capacity", {"big":"over_limit","lab":"over_capacity"}'],
    },
  };
  for (const [name, { script, want }] of Object.entries(cases)) {
    test(name, () => expect(failuresOf(`${LAB}\nscript:${script}`)).toEqual(want));
  }

  test("a set-up that is refused fails without a step", () => {
    const text =
      "pools: [{name: p, capacity: {gpu: 1}}]\npolicies: [{pool: p, component: c, reserved: {gpu: 2}}]\nscript: []";
    expect(play(text).result.failures).toMatchObject([
      { step: null, action: "policies: p c", field: "error", actual: "reserved_over_capacity" },
    ]);
  });
});

test("an exception becomes a failure that can be read", () => {
  const { result } = play(`${LAB}\nscript: []`);
  const broken = { ...result.scenario, content: { script: [{ advance: 1 }, null] } } as unknown as Scenario;
  expect(runScenario(broken).failures).toMatchObject([
    { field: "engine", message: expect.stringContaining("The engine failed:") },
  ]);
});

describe("reports", () => {
  const failing = `${LAB}
script:
  - submit: {id: a, component: research, resources: {gpu: 4}}
  - submit: {id: b, component: prod, resources: {gpu: 2}}
    expect: {status: {b: allocated}}
`;

  test("a failure shows step, line, expected, actual and what happened", () => {
    const { result, steps } = play(failing);
    expect(describeResult(result, steps.at(-1)).join("\n")).toBe(
      [
        "FAIL  f.yaml  lab",
        "      step 2, submit b, at 0 s, line 10",
        "        status.b",
        "          expected  allocated",
        "          actual    queued",
        "        what happened",
        "          b was submitted by prod for gpu 2, step_run 1",
        "          preempted in lab for b, short of gpu 2: a (priority)",
      ].join("\n"),
    );
    expect(describeSummary([result])).toBe("0 passed, 1 failed");
  });

  test("a refusal shows its sentence", () => {
    const { result } = play(`${LAB}\nscript: [{finish: a}]`);
    expect(describeResult(result, undefined).join("\n")).toMatch(
      /expected {2}no error\n.*actual {4}not_found\n.*"a"/,
    );
  });

  test("a success is one line", () => {
    const { result } = play(`${LAB}\nscript: []`);
    expect(describeResult(result, undefined)).toEqual(["ok    f.yaml  lab"]);
  });

  test("a trace shows set-up, steps, times and refusals", () => {
    const { steps } = play(`${LAB}
script:
  - submit: {id: a, component: research, resources: {gpu: 4}, walltime_seconds: 60}
  - advance: 90
  - {finish: a, expect: {error: invalid_request}}
`);
    const trace = steps.flatMap((step) => describeStep(step)).join("\n");
    expect(trace).toContain("0 s  set-up    pools: lab\n");
    expect(trace).toContain("a was granted in lab");
    expect(trace).toMatch(/90 s {2}step 2 {4}advance 90 s\n +a must terminate by 90 s \(walltime\)/);
    expect(trace).toContain("refused: invalid_request:");
  });

  test("the JSON report counts, and lists failures with their numbers", () => {
    const { result } = play(failing);
    expect(toJsonReport([result, play(`${LAB}\nscript: []`).result])).toEqual({
      passed: 1,
      failed: 1,
      scenarios: [
        {
          file: "f.yaml",
          name: "lab",
          ok: false,
          failures: [
            {
              step: 2,
              line: 10,
              action: "submit b",
              at_seconds: 0,
              field: "status.b",
              expected: "allocated",
              actual: "queued",
              message: "",
            },
          ],
        },
        { file: "f.yaml", name: "lab", ok: true, failures: [] },
      ],
    });
  });
});
