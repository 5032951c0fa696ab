// What a schema finds wrong, in words that name the field.

import type { z } from "zod";

export interface Issue {
  readonly path: readonly (string | number)[];
  readonly message: string;
  /** A field that the schema does not know, as opposed to a value that it does not accept. */
  readonly isUnknownField: boolean;
}

export function issuesOf(error: z.ZodError): Issue[] {
  return error.issues.flatMap((issue) => toIssues(issue, []));
}

type Path = readonly (string | number)[];

function toIssues(issue: z.core.$ZodIssue, above: Path): Issue[] {
  const path = [...above, ...issue.path.map((part) => (typeof part === "symbol" ? String(part) : part))];
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => ({
        path: [...path, key],
        message: "is not a field that is known here",
        isUnknownField: true,
      }));
    // Of the members of a union, the one that got furthest into the value is what was meant.
    case "invalid_union": {
      const attempts = issue.errors.map((errors) => errors.flatMap((inner) => toIssues(inner, path)));
      const deepest = attempts.toSorted((a, b) => depthOf(b) - depthOf(a))[0];
      if (deepest !== undefined && depthOf(deepest) > path.length) return deepest;
      const messages = attempts.flat().map(({ message }) => message.replace(/, received .*$/, ""));
      return [{ path, message: [...new Set(messages)].join(" or "), isUnknownField: false }];
    }
    default:
      return [{ path, message: describe(issue), isUnknownField: false }];
  }
}

function depthOf(issues: readonly Issue[]): number {
  return Math.max(0, ...issues.map((issue) => issue.path.length));
}

function describe(issue: z.core.$ZodIssue): string {
  const { message } = issue;
  if (/received undefined$/.test(message)) return "is missing";
  return message.replace(/^Invalid input: /, "").replace(/^./, (first) => first.toLowerCase());
}

/** RFC 6901: `/resources/gpu`. */
export function toPointer(path: Path): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** As people write it: `script[3].submit.resources.gpu`. */
export function toFieldName(path: Path): string {
  return path
    .map((part, index) => (typeof part === "number" ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join("");
}
