// Text → scenarios. JSON is tried first, since it is parsed a hundred times faster; everything else is YAML,
// which also knows the line of each value. Each error names scenario, step, field and line.

import { isMap, isScalar, LineCounter, parseDocument, visit } from "yaml";
import {
  type ErrorCode,
  type Issue,
  issuesOf,
  SCENARIO_LIMITS,
  SCENARIO_YAML_BYTES_MAX,
  type ScenarioKind,
  type StoryScenario,
  scenarioActionNames,
  scenarioSchemas,
  shapeProblem,
  toFieldName,
} from "../../protocol/index.ts";
import type { Scenario } from "./run.ts";
import type { MalformedSteps } from "./story.ts";

/** One thing that makes an input unusable. */
export interface InputProblem {
  readonly file: string;
  readonly code: ErrorCode;
  readonly scenario: string | null;
  /** Counted from 1. */
  readonly step: number | null;
  readonly field: string | null;
  readonly line: number | null;
  readonly message: string;
}

export type Loaded =
  | { readonly ok: true; readonly scenarios: Scenario[] }
  | { readonly ok: false; readonly problems: InputProblem[] };

type Path = readonly (string | number)[];
type LineOf = (path: Path) => number | null;

/** Enough to see the pattern; a file of the wrong kind would otherwise fill the screen. */
const PROBLEMS_PER_FILE_MAX = 20;

export function loadScenarios(file: string, text: string): Loaded {
  const parsed = parse(text);
  if ("code" in parsed) return failed([{ ...nowhere(file), ...parsed }]);

  const shape = shapeProblem(parsed.document, SCENARIO_LIMITS);
  if (shape !== undefined) {
    return failed([
      { ...nowhere(file), field: toFieldName(shape.path) || null, message: `${shape.message}.` },
    ]);
  }
  const { document } = parsed;
  const isList = Array.isArray(document);
  const items: unknown[] = isList ? document : [document];
  if (items.length === 0) return failed([{ ...nowhere(file), message: "The list holds no scenario." }]);

  const lineOf = parsed.lineOf ?? lazyLines(text);
  const problems: InputProblem[] = [];
  const scenarios: Scenario[] = [];
  for (const [index, item] of items.entries()) {
    const name = nameOf(item) ?? `scenario ${index + 1}`;
    const above = isList ? [index] : [];
    const result = toScenario(item);
    if ("issues" in result) {
      const room = PROBLEMS_PER_FILE_MAX - problems.length;
      problems.push(
        ...result.issues.slice(0, Math.max(0, room)).map((issue) => toProblem(issue, file, name, above)),
      );
      continue;
    }
    scenarios.push({ ...result, file, name, lineOfStep: (step) => lineOf([...above, "script", step - 1]) });
  }
  return problems.length > 0 ? failed(problems) : { ok: true, scenarios };

  function toProblem(issue: Issue, file: string, scenario: string, above: Path): InputProblem {
    const { path } = issue;
    const step = path[0] === "script" && typeof path[1] === "number" ? path[1] + 1 : null;
    const within = step === null ? path : path.slice(2);
    return {
      file,
      code: "invalid_scenario",
      scenario,
      step,
      field: toFieldName(within) || null,
      line: lineOf([...above, ...path]),
      message: issue.message,
    };
  }
}

type ScenarioContent = Pick<Scenario, "content" | "malformed">;

function toScenario(item: unknown): ScenarioContent | { issues: Issue[] } {
  const kind = isObject(item) ? (item.kind ?? "story") : "story";
  if (typeof kind !== "string" || !Object.hasOwn(scenarioSchemas, kind)) {
    const message = `must be one of ${Object.keys(scenarioSchemas).join(", ")}`;
    return { issues: [{ path: ["kind"], message, isUnknownField: false }] };
  }
  const parsed = scenarioSchemas[kind as ScenarioKind].safeParse(item);
  if (parsed.success) return { content: parsed.data, malformed: new Map() };
  const issues = issuesOf(parsed.error);
  return withMeantErrors(item, issues) ?? { issues };
}

/**
 * A step may try something that no schema accepts, such as a text for an amount, and expect the error that
 * the API would answer. Such steps are taken out and answered by hand; a field nobody knows is never meant.
 */
function withMeantErrors(item: unknown, issues: readonly Issue[]): ScenarioContent | undefined {
  if (!isObject(item) || !Array.isArray(item.script)) return undefined;
  const script: unknown[] = [...item.script];
  const malformed: Map<number, { action: string; refusal: ReturnType<typeof refusalFor> }> = new Map();
  for (const issue of issues) {
    const [top, index, action] = issue.path;
    const step = top === "script" && typeof index === "number" ? item.script[index] : undefined;
    const isAction = scenarioActionNames.some((name) => name === action);
    const isMeant = isObject(step) && isObject(step.expect) && typeof step.expect.error === "string";
    if (!isAction || !isMeant || issue.isUnknownField || issue.message === "is missing") return undefined;
    script[index as number] = { advance: 0, expect: step.expect };
    malformed.set(index as number, { action: String(action), refusal: refusalFor(issue) });
  }
  const parsed = scenarioSchemas.story.safeParse({ ...item, script });
  if (!parsed.success) return undefined;
  return { content: parsed.data satisfies StoryScenario, malformed: malformed satisfies MalformedSteps };
}

const AMOUNT_FIELDS = new Set(["resources", "settings", "capacity", "reserved", "limit"]);

function refusalFor({ path, message }: Issue) {
  const isAmount = path.some((part) => typeof part === "string" && AMOUNT_FIELDS.has(part));
  const code = path.includes("preemption_class")
    ? "invalid_class"
    : isAmount
      ? "invalid_amount"
      : "invalid_request";
  return { code, message: `${toFieldName(path.slice(2))} ${message}.`, hint: "" } as const;
}

type ParsedText =
  | { readonly document: unknown; readonly lineOf: LineOf | undefined }
  | { readonly code: ErrorCode; readonly line?: number; readonly message: string };

function parse(text: string): ParsedText {
  let complaint = "";
  if (/^\s*[[{]/.test(text)) {
    try {
      return { document: JSON.parse(text), lineOf: undefined };
    } catch (error) {
      complaint = messageOf(error);
    }
  }
  if (Buffer.byteLength(text) > SCENARIO_YAML_BYTES_MAX) {
    return complaint === ""
      ? {
          code: "file_too_large",
          message: `YAML may have at most ${SCENARIO_YAML_BYTES_MAX} bytes. Split the file, or write JSON.`,
        }
      : { code: "invalid_syntax", message: complaint };
  }
  const parsed = parseYaml(text);
  // What begins like JSON was meant as JSON, so its complaint is the one that helps; YAML knows the line.
  return "code" in parsed && complaint !== "" ? { ...parsed, message: explain(complaint) } : parsed;
}

function parseYaml(text: string): ParsedText {
  const lineCounter = new LineCounter();
  try {
    // The parser's own search for duplicate keys takes quadratic time; ours is below.
    const document = parseDocument(text, { lineCounter, uniqueKeys: false, prettyErrors: false });
    const [error] = document.errors;
    if (error !== undefined) return syntaxError(error.message, error.pos[0]);
    const duplicate = duplicateKey(document);
    if (duplicate !== undefined) return syntaxError(`"${duplicate.key}" is written twice`, duplicate.offset);
    return {
      document: document.toJS() as unknown,
      lineOf: (path) => {
        // A field that is missing has no line; what should contain it has.
        for (let length = path.length; length >= 0; length--) {
          const node = length === 0 ? document.contents : document.getIn(path.slice(0, length), true);
          const range = (node as { range?: readonly number[] } | undefined | null)?.range;
          if (range?.[0] !== undefined) return lineCounter.linePos(range[0]).line;
        }
        return null;
      },
    };
  } catch (error) {
    return { code: "invalid_syntax", message: explain(messageOf(error)) };
  }

  function syntaxError(message: string, offset: number): ParsedText {
    return { code: "invalid_syntax", line: lineCounter.linePos(offset).line, message: explain(message) };
  }
}

function duplicateKey(
  document: ReturnType<typeof parseDocument>,
): { key: string; offset: number } | undefined {
  let duplicate: { key: string; offset: number } | undefined;
  visit(document, {
    Map(_, map) {
      const seen = new Set<string>();
      for (const { key } of isMap(map) ? map.items : []) {
        if (!isScalar(key)) continue;
        const text = String(key.value);
        if (seen.has(text)) {
          duplicate = { key: text, offset: key.range?.[0] ?? 0 };
          return visit.BREAK;
        }
        seen.add(text);
      }
      return undefined;
    },
  });
  return duplicate;
}

/** JSON carries no lines, and most files need none; YAML, of which JSON is a part, finds them when asked. */
function lazyLines(text: string): LineOf {
  let lineOf: LineOf | undefined;
  return (path) => {
    if (lineOf === undefined) {
      const isSmall = Buffer.byteLength(text) <= SCENARIO_YAML_BYTES_MAX;
      const parsed = isSmall ? parseYaml(text) : undefined;
      lineOf = (parsed && "document" in parsed ? parsed.lineOf : undefined) ?? (() => null);
    }
    return lineOf(path);
  };
}

function explain(message: string): string {
  if (/call stack/.test(message)) return "The text is nested too deeply.";
  if (/multiple documents/.test(message))
    return "There is more than one YAML document; write a list instead.";
  const [sentence = message] = message.split("\n");
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

function failed(problems: InputProblem[]): Loaded {
  return { ok: false, problems };
}

function nowhere(file: string): InputProblem {
  return { file, code: "invalid_scenario", scenario: null, step: null, field: null, line: null, message: "" };
}

function nameOf(item: unknown): string | undefined {
  return isObject(item) && typeof item.name === "string" && item.name !== "" ? item.name : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
