// What goes wrong on the way, as RFC 9457 problems. A call ends with one of these or with its answer.

import type { z } from "zod";
import type { LeaderRefusal } from "../leader/index.ts";
import {
  type ErrorCode,
  type FieldProblem,
  issuesOf,
  type Problem,
  toPointer,
  toProblem,
} from "../protocol/index.ts";

/** Thrown to leave a call from any depth; the pipeline turns it into the answer. */
export class ProblemError extends Error {
  readonly problem: Problem;
  readonly headers: Readonly<Record<string, string>>;
  /** Because of who asks: worth a line in the audit log. */
  readonly isDenial: boolean;
  constructor(problem: Problem, headers: Readonly<Record<string, string>> = {}, isDenial = false) {
    super(problem.detail);
    this.name = "ProblemError";
    this.problem = problem;
    this.headers = headers;
    this.isDenial = isDenial;
  }
}

interface Extra {
  readonly hint?: string;
  readonly errors?: FieldProblem[];
  readonly headers?: Readonly<Record<string, string>>;
}

export function problemError(code: ErrorCode, detail: string, extra: Extra = {}): ProblemError {
  const { headers, ...rest } = extra;
  return new ProblemError(toProblem(code, detail, rest), headers);
}

export function refusalProblem({ code, message, hint }: LeaderRefusal): Problem {
  return toProblem(code, message, { hint });
}

const ISSUES_SHOWN_MAX = 20;

/** `where` says what was read: the body, or the query. */
export function schemaProblem(error: z.ZodError, where: "body" | "query"): ProblemError {
  const issues = issuesOf(error).slice(0, ISSUES_SHOWN_MAX);
  const errors = issues.map(({ path, message }) => ({ pointer: toPointer(path), message }));
  const first = errors[0];
  const subject =
    first === undefined || first.pointer === "" ? `The ${where}` : `${first.pointer} in the ${where}`;
  return problemError("invalid_request", `${subject} ${first?.message ?? "cannot be read"}.`, {
    errors,
    hint: issues.some((issue) => issue.isUnknownField)
      ? "Check the spelling; fields that are not known are refused."
      : "GET /docs shows what this call takes.",
  });
}

/** The same answer for what does not exist and for what is not yours. */
export function notFound(kind: string, name: string): ProblemError {
  return new ProblemError(notFoundProblem(kind, name));
}

/** It exists, but not for this caller, who cannot tell the difference. */
export function hidden(kind: string, name: string): ProblemError {
  return new ProblemError(notFoundProblem(kind, name), {}, true);
}

function notFoundProblem(kind: string, name: string): Problem {
  return toProblem("not_found", `There is no ${kind} "${name}".`, { hint: NOT_FOUND_HINT });
}

export const NOT_FOUND_HINT = "Check the spelling; what your token does not reach is not shown either.";

export function forbidden(detail: string, hint: string): ProblemError {
  return new ProblemError(toProblem("forbidden", detail, { hint }), {}, true);
}
