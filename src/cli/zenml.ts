// Options that every list of ZenML takes: filters with operators, order, pages, columns and forms of output.

import type { Command } from "commander";
import type { WireRequest } from "../protocol/index.ts";
import { CliError } from "./context.ts";
import { wholeNumber } from "./options.ts";
import { FORMATS, type Shape } from "./output/print.ts";
import { REQUEST } from "./shapes.ts";

export interface ListFilters {
  readonly sort_by?: string;
  readonly logical_operator?: string;
  readonly page?: string;
  readonly size?: string;
  readonly id?: string;
  readonly created?: string;
  readonly updated?: string;
  readonly user?: string;
  readonly name?: string;
}

const SIZE_DEFAULT = 20;

/** Spelled with underscores, as there. */
export function withListFilters(command: Command): Command {
  return command
    .option("--sort_by <field>", "such as desc:created, asc:name", "desc:created")
    .option("--logical_operator <operator>", "and, or: how filters are joined", "and")
    .option("--page <number>", "which page", "1")
    .option("--size <count>", "how many on a page", String(SIZE_DEFAULT))
    .option("--id <id>", "only these; filters take contains:, startswith:, endswith:, oneof:, notequals:")
    .option("--created <time>", "only those created then; also gte:, lte:")
    .option("--updated <time>", "as created")
    .option("--user <name>", "only those of this user");
}

export function withZenOutput(command: Command, { hasShortColumns = true } = {}): Command {
  return command
    .option(hasShortColumns ? "-c, --columns <names>" : "--columns <names>", "columns to show, or all")
    .option("-o, --output <form>", FORMATS.join(", "))
    .option("-w, --watch", "go on, and show what changes");
}

/** As there, the status is one word. */
export const ZEN_REQUEST: Shape<WireRequest> = {
  ...REQUEST,
  columns: REQUEST.columns.map((column) =>
    column.name === "status" ? { ...column, value: ({ status }: WireRequest) => status } : column,
  ),
};

type Row = Readonly<Record<string, unknown>>;

/** Filters by these fields, sorts and cuts out one page, as ZenML's server would. */
export function filterRows<Thing extends object>(
  things: readonly Thing[],
  filters: object,
  fields: readonly string[],
): Thing[] {
  const { logical_operator, sort_by, size: sizeText, page: pageText } = filters as ListFilters;
  const wanted = fields.flatMap((field) => {
    const filter = (filters as Row)[field];
    return typeof filter === "string" ? [{ field, matches: matcher(filter) }] : [];
  });
  const isAny = logical_operator === "or";
  const kept = things.filter((thing) => {
    const verdicts = wanted.map(({ field, matches }) => matches(fieldOf(thing as Row, field)));
    return verdicts.length === 0 || (isAny ? verdicts.some(Boolean) : verdicts.every(Boolean));
  });
  const [direction, sortField] = orderOf(sort_by ?? "desc:created");
  const sorted = kept.toSorted((a, b) => {
    const [x, y] = [fieldOf(a as Row, sortField), fieldOf(b as Row, sortField)];
    return direction * (x < y ? -1 : x > y ? 1 : 0);
  });
  const size = wholeNumber("--size", sizeText ?? String(SIZE_DEFAULT));
  const page = wholeNumber("--page", pageText ?? "1");
  return sorted.slice(size * (page - 1), size * page);
}

function orderOf(text: string): [1 | -1, string] {
  const [, direction, field = "created"] = /^(?:(asc|desc):)?(\w+)$/.exec(text) ?? [];
  return [direction === "desc" ? -1 : 1, field];
}

function fieldOf(row: Row, field: string): string {
  switch (field) {
    case "created":
      return String(row.submitted_at ?? row.created_at ?? "");
    case "updated":
      return String(row.updated_at ?? row.ended_at ?? row.started_at ?? row.submitted_at ?? "");
    case "user":
      return String(row.submitted_by ?? "");
    default:
      return String(row[field] ?? "");
  }
}

function matcher(filter: string): (value: string) => boolean {
  const [, operator = "equals", text = ""] = /^(?:([a-z_]+):)?(.*)$/s.exec(filter) ?? [];
  switch (operator) {
    case "equals":
      return (value) => value === text;
    case "notequals":
      return (value) => value !== text;
    case "contains":
      return (value) => value.includes(text);
    case "startswith":
      return (value) => value.startsWith(text);
    case "endswith":
      return (value) => value.endsWith(text);
    case "oneof": {
      const choices = text.replaceAll(/[[\]"' ]/g, "").split(",");
      return (value) => choices.includes(value);
    }
    case "gte":
      return (value) => value >= text;
    case "gt":
      return (value) => value > text;
    case "lte":
      return (value) => value <= text;
    case "lt":
      return (value) => value < text;
    default:
      throw new CliError(
        "usage",
        `"${operator}:" is not a filter.`,
        "There are equals:, contains:, oneof:, gte: and others.",
      );
  }
}
