// A draft of a pool's policies: as a form, as lines of YAML, and as the changes that would make it true.

import type { AnswerOf, BodyOf } from "../../sdk/index.ts";

export type Policy = AnswerOf<"getPolicy">;
export type Changes = BodyOf<"makePlan">["changes"];

/** What can be edited here. Amounts are text until they are read: `gpu 4, mcpu 8000`. */
export interface DraftRow {
  readonly component: string;
  readonly priority: string;
  readonly weight: string;
  readonly reserved: string;
  readonly limit: string;
  readonly isDetached: boolean;
}

export const FIELDS = ["priority", "weight", "reserved", "limit"] as const;
export type Field = (typeof FIELDS)[number];

export interface Mistake {
  /** From 0: the row of the form, the line of the text. */
  readonly at: number;
  readonly message: string;
}

export function draftOf(policies: readonly Policy[]): DraftRow[] {
  return policies.map(({ component, priority, weight, reserved, limit }) => ({
    component,
    priority: String(priority),
    weight: String(weight),
    reserved: amountsField(reserved),
    limit: amountsField(limit),
    isDetached: false,
  }));
}

export const EMPTY_ROW: DraftRow = {
  component: "",
  priority: "0",
  weight: "1",
  reserved: "",
  limit: "",
  isDetached: false,
};

function amountsField(amounts: Readonly<Record<string, number>>): string {
  return Object.entries(amounts)
    .map(([key, amount]) => `${key} ${amount}`)
    .join(", ");
}

/** `gpu 4, mcpu 8000`, also with `=` or `:`. Undefined: it cannot be read. */
export function parseAmounts(text: string): Record<string, number> | undefined {
  const amounts: Record<string, number> = {};
  for (const part of text.split(",").map((one) => one.trim())) {
    if (part === "") continue;
    const [, key = "", amount = ""] = /^([^\s=:]+)\s*[\s=:]\s*(\d{1,15})$/.exec(part) ?? [];
    if (key === "") return undefined;
    amounts[key] = Number(amount);
  }
  return amounts;
}

export interface Reading {
  readonly changes: Changes;
  readonly mistakes: readonly Mistake[];
}

/** The calls that turn what is there into the draft, or what is wrong with it. */
export function changesOf(pool: string, policies: readonly Policy[], draft: readonly DraftRow[]): Reading {
  const changes: Changes = [];
  const mistakes: Mistake[] = [];
  const base = `/v1/pools/${encodeURIComponent(pool)}/policies`;
  const names = new Set<string>();
  draft.forEach((row, at) => {
    if (row.component.trim() === "") return mistakes.push({ at, message: "Which component?" });
    if (names.has(row.component)) return mistakes.push({ at, message: `${row.component} is here twice.` });
    names.add(row.component);
    const path = `${base}/${encodeURIComponent(row.component)}`;
    const policy = policies.find(({ component }) => component === row.component);
    if (row.isDetached) return policy && changes.push({ method: "DELETE", path });
    const read = readRow(row);
    if (typeof read === "string") return mistakes.push({ at, message: read });
    if (policy === undefined)
      return changes.push({ method: "POST", path: base, body: { component: row.component, ...read } });
    const body = differences(policy, read);
    return Object.keys(body).length > 0 && changes.push({ method: "PATCH", path, body });
  });
  for (const { component } of policies) {
    if (!names.has(component))
      changes.push({ method: "DELETE", path: `${base}/${encodeURIComponent(component)}` });
  }
  return { changes, mistakes };
}

type Values = Pick<Policy, Field>;

function readRow(row: DraftRow): Values | string {
  const reserved = parseAmounts(row.reserved);
  const limit = parseAmounts(row.limit);
  if (reserved === undefined) return `“${row.reserved}” does not say how much of what: write gpu 4.`;
  if (limit === undefined) return `“${row.limit}” does not say how much of what: write gpu 8.`;
  const priority = Number(row.priority);
  if (row.priority.trim() === "" || !Number.isInteger(priority))
    return `“${row.priority}” is not a whole number.`;
  const weight = Number(row.weight);
  if (row.weight.trim() === "" || !(weight > 0)) return `“${row.weight}” is not a weight.`;
  return { priority, weight, reserved, limit };
}

function differences(policy: Policy, values: Values): Partial<Values> {
  const isSame = (field: Field) => sorted(policy[field]) === sorted(values[field]);
  return Object.fromEntries(FIELDS.filter((field) => !isSame(field)).map((field) => [field, values[field]]));
}

function sorted(value: number | Readonly<Record<string, number>>): string {
  return typeof value === "number"
    ? String(value)
    : JSON.stringify(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

// --- As text: one line per policy, in the form that `berth apply` takes

export function yamlOf(pool: string, draft: readonly DraftRow[]): string {
  const lines = draft
    .filter(({ isDetached }) => !isDetached)
    .map((row) => {
      const fields = [
        `pool: ${scalar(pool)}`,
        `component: ${scalar(row.component)}`,
        `priority: ${row.priority}`,
      ];
      if (row.weight !== "1") fields.push(`weight: ${row.weight}`);
      for (const field of ["reserved", "limit"] as const) {
        const amounts = Object.entries(parseAmounts(row[field]) ?? {});
        if (amounts.length > 0)
          fields.push(
            `${field}: {${amounts.map(([key, amount]) => `${scalar(key)}: ${amount}`).join(", ")}}`,
          );
      }
      return `  - {${fields.join(", ")}}`;
    });
  return ["policies:", ...lines].join("\n");
}

function scalar(text: string): string {
  return /^[A-Za-z_][\w.@/-]*$/.test(text) ? text : JSON.stringify(text);
}

/** Reads what `yamlOf` writes, and the same edited by hand. */
export function readYaml(pool: string, text: string): { rows: DraftRow[]; mistakes: Mistake[] } {
  const rows: DraftRow[] = [];
  const mistakes: Mistake[] = [];
  text.split("\n").forEach((line, at) => {
    const bare = line.replace(/\s+#.*$/, "").trim();
    if (bare === "" || bare.startsWith("#") || bare === "policies:") return;
    const row = readLine(pool, bare);
    if (typeof row === "string") mistakes.push({ at, message: row });
    else rows.push(row);
  });
  return { rows, mistakes };
}

function readLine(pool: string, line: string): DraftRow | string {
  const inner = /^-\s*\{(.*)\}$/.exec(line)?.[1];
  if (inner === undefined) return "A policy is one line: - {pool: …, component: …, priority: …}";
  const fields = new Map<string, string>();
  // Up to a comma that is not inside of quotes or braces.
  for (const part of inner.match(/(?:"(?:[^"\\]|\\.)*"|\{[^{}]*\}|[^,{}"])+/g) ?? []) {
    const [, name = "", value = ""] = /^\s*([\w]+)\s*:\s*(.*?)\s*$/.exec(part) ?? [];
    if (name === "") return `“${part.trim()}” is not a field and its value.`;
    if (!["pool", "component", ...FIELDS].includes(name)) return `“${name}” cannot be edited here.`;
    fields.set(name, unquoted(value));
  }
  const component = fields.get("component");
  if (component === undefined) return "Which component?";
  if ((fields.get("pool") ?? pool) !== pool) return `Only pool ${pool} is edited here.`;
  const amounts = (name: string) => unbraced(fields.get(name) ?? "");
  return {
    component,
    priority: fields.get("priority") ?? EMPTY_ROW.priority,
    weight: fields.get("weight") ?? EMPTY_ROW.weight,
    reserved: amounts("reserved"),
    limit: amounts("limit"),
    isDetached: false,
  };
}

function unquoted(value: string): string {
  if (!value.startsWith('"')) return value;
  try {
    return String(JSON.parse(value));
  } catch {
    return value;
  }
}

function unbraced(value: string): string {
  const inner = /^\{(.*)\}$/.exec(value)?.[1] ?? value;
  return inner
    .split(",")
    .map((part) => part.trim().replace(/\s*:\s*/, " "))
    .filter((part) => part !== "")
    .join(", ");
}
