import { describe, expect, test } from "vitest";
import { ERRORS, isErrorCode, problem, toProblem } from "./errors.ts";

describe("every error code", () => {
  for (const [code, { httpStatus, exitCode, description }] of Object.entries(ERRORS)) {
    test(code, () => {
      expect(code).toMatch(/^[a-z][a-z_]+$/);
      expect(httpStatus).toBeGreaterThanOrEqual(400);
      expect(httpStatus).toBeLessThan(600);
      expect(exitCode).toBeGreaterThan(0);
      expect(exitCode).toBeLessThan(128);
      expect(description).toMatch(/^[A-Z].*\.$/);
    });
  }
});

test("a problem carries the status of its code and fits its own schema", () => {
  const made = toProblem("not_found", 'There is no pool "x".', { hint: "List them with berth pool list." });
  expect(made).toMatchObject({ status: 404, code: "not_found", hint: "List them with berth pool list." });
  expect(problem.safeParse(made).success).toBe(true);
});

test("names that every object has are no error codes", () => {
  expect(isErrorCode("not_found")).toBe(true);
  expect(isErrorCode("toString")).toBe(false);
});
