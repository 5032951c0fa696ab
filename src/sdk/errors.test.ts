// How the end of a request that was not served is put into words.

import { expect, test } from "vitest";
import type { WireRequest } from "../protocol/index.ts";
import { errorOfEnding } from "./errors.ts";

const preempted = (attempt: number, max: number | null) =>
  errorOfEnding({ number: 7, status: "preempted", attempt, retries: { max } } as WireRequest);

const cases: Record<string, { attempt: number; max: number | null; hint: RegExp }> = {
  "further attempts used up: more can be allowed": {
    attempt: 3,
    max: 2,
    hint: /2 further attempts are used up.*retries/,
  },
  "one further attempt": { attempt: 2, max: 1, hint: /1 further attempt is used up.*retries/ },
  "no further attempt allowed": { attempt: 1, max: 0, hint: /no further attempt.*retries/ },
  "attempts left, but it asked not to wait again": { attempt: 2, max: 2, hint: /requeue on_preemption/ },
  "no bound on attempts, but it asked not to wait again": {
    attempt: 1,
    max: null,
    hint: /requeue on_preemption/,
  },
};

for (const [name, { attempt, max, hint }] of Object.entries(cases)) {
  test(`preempted for good, ${name} (Q3, 11.6)`, () => {
    const error = preempted(attempt, max);
    expect(error).toMatchObject({
      code: "preempted",
      message: "Request #7 was preempted and is not queued again.",
    });
    expect(error?.hint).toMatch(hint);
  });
}

test.each([
  [{ outcome: "walltime", cause: null }, "Request #7 reached its walltime of 60 s."],
  [{ outcome: "failed", cause: "walltime" }, "Request #7 ran longer than its cluster permits."],
])("work that %j ended is over its walltime", (last, message) => {
  const failed = { number: 7, status: "failed", walltime_seconds: 60, attempts: [last] } as WireRequest;
  expect(errorOfEnding(failed)).toMatchObject({ code: "walltime_over", message });
});

test("any other failure is the command's own", () => {
  const failed = { number: 7, status: "failed", attempts: [{ outcome: "failed", cause: "oom" }] };
  expect(errorOfEnding(failed as WireRequest)).toBeUndefined();
});
