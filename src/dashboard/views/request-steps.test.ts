import { expect, test } from "vitest";
import { candidateTexts, type Step, stepText } from "./request-steps.ts";

const request = { submitted_by: "alice", resources: { gpu: 2, step_run: 1 }, nodes: 1 };
const titles = new Map([["b", "#5 b1 of bob"]]);
const at = (minutes: number) => new Date(minutes * 60_000).toISOString();
const step = (event: string, minutes: number, more: Partial<Step> = {}) =>
  ({ event: `request.${event}`, seq: minutes, at: at(minutes), ...more }) as Step;

function texts(...steps: Step[]): string[] {
  return steps.map((one, index) => stepText(one, index, { request, steps, titles }));
}

test("a life with a preemption says for whom, how long it took, and what was lost", () => {
  expect(
    texts(
      step("queued", 0, { attempt: 1 }),
      step("allocated", 1, { pool: "local" }),
      step("preempting", 30, { for_request: "b", reason: "priority", phase: "terminate" }),
      step("queued", 31, { outcome: "preempted" }),
    ),
  ).toEqual([
    "submitted by alice",
    "granted by pool local",
    "chosen to make room for #5 b1 of bob (priority); asked to stop",
    "stopped (preempted) after 1m, no checkpoint, lost 30m × 2 gpu = 1.00 gpu-h, and back in line",
  ]);
});

test("what was saved is not lost, and another attempt counts for itself", () => {
  const told = texts(
    step("allocated", 0, { pool: "local" }),
    step("checkpointed", 20),
    step("preempting", 29, { for_request: "x", reason: "reclaim", phase: "checkpoint" }),
    step("preempted", 30),
    step("allocated", 40, { pool: "local" }),
    step("released", 50, { outcome: "failed", exit_code: 3 }),
  );
  expect(told[2]).toBe("chosen to make room for another request (reclaim); asked to save first");
  expect(told[3]).toBe("preempted after 1m, checkpoint saved, lost 10m × 2 gpu = 0.33 gpu-h");
  expect(told[5]).toBe("released, failed, exit code 3");
});

test("a receipt names who was considered, and by which rule", () => {
  const considered = [
    { component: "alice", priority: 0, count: 3, permitted: 2, rule: "8.1" },
    { component: null, priority: 20, count: 1, permitted: 0, rule: "8.1" },
  ];
  expect(candidateTexts({ seq: 1, at: at(0), decision: { decision: { considered } } })).toEqual([
    "3 of alice, priority 0: 2 of them may be stopped (8.1)",
    "1 of another team, priority 20: not to be stopped (8.1)",
  ]);
});
