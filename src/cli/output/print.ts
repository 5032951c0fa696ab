// The same rows in every form that is asked for: table, wide, json, yaml, jsonl, csv, tsv, name.

import { type CliContext, CliError } from "../context.ts";
import { suggestion } from "../nearest.ts";
import { type Cells, type Column, leftOut, renderTable } from "./table.ts";
import { counted, printable, styleOf, toAscii, widthOf, wrapped } from "./text.ts";

export const FORMATS = ["table", "wide", "json", "yaml", "jsonl", "csv", "tsv", "name"] as const;
export type Format = (typeof FORMATS)[number];

export interface OutputOptions {
  readonly output?: string;
  readonly columns?: string;
  readonly headers?: boolean;
}

export const NOTHING = "Nothing to show.";

/** How things of one kind are shown. */
export interface Shape<Row> {
  readonly columns: readonly Column<Row>[];
  /** What `-o name` prints; also what tells rows apart when they are watched. */
  readonly nameOf: (row: Row) => string;
  /** One of them at length, for people. */
  readonly detail?: (row: Row) => readonly Line[];
}

/** A label and what it is; or a heading without a label. */
export type Line = readonly [label: string, value: string];

export function formatOf({ output }: OutputOptions, env = process.env): Format {
  const wanted = output ?? (env.BERTH_OUTPUT || "table");
  const format = FORMATS.find((one) => one === wanted);
  if (format !== undefined) return format;
  throw new CliError("usage", `"${wanted}" is not a form of output.`, `They are ${FORMATS.join(", ")}.`);
}

export async function printRows<Row extends object>(
  rows: readonly Row[],
  shape: Shape<Row>,
  options: OutputOptions,
  context: CliContext,
): Promise<void> {
  const format = formatOf(options);
  if (format === "json") return context.write(`${toJson({ items: rows, next_cursor: null }, 2)}\n`);
  if (format === "yaml") return context.write(await toYaml({ items: rows, next_cursor: null }));
  context.write(textOfRows(rows, shape, { ...options, output: format }, context));
  if (format !== "table" && format !== "wide") return;
  if (rows.length === 0) context.tell(`${NOTHING}\n`);
  else if (format === "wide" || options.columns !== undefined) tellLeftOut(rows, shape, options, context);
}

/** Said only to those who have asked for these columns. */
function tellLeftOut<Row extends object>(
  rows: readonly Row[],
  shape: Shape<Row>,
  options: OutputOptions,
  context: CliContext,
): void {
  const missing = leftOut(rows, columnsOf(rows, shape, options, formatOf(options)), {
    hasHeaders: options.headers !== false,
    screenColumns: context.screen?.columns(),
  });
  if (missing.length === 0) return;
  const note = `${counted(missing.length, "column")} left out, the terminal is too narrow: ${missing.join(", ")}. Choose with --columns.`;
  context.tell(`${wrapped(note, context.screen?.columns() ?? Number.POSITIVE_INFINITY).join("\n")}\n`);
}

/** One thing: at length for people, and otherwise exactly what the API says. */
export async function printOne<Row extends object>(
  row: Row,
  shape: Shape<Row>,
  options: OutputOptions,
  context: CliContext,
): Promise<void> {
  const format = formatOf(options);
  if (format === "json") return context.write(`${toJson(row, 2)}\n`);
  if (format === "yaml") return context.write(await toYaml(row));
  const isAtLength = (format === "table" || format === "wide") && options.columns === undefined;
  context.write(
    isAtLength && shape.detail !== undefined
      ? textOfLines(shape.detail(row), context)
      : textOfRows([row], shape, { ...options, output: format }, context),
  );
}

/** After a change: a sentence for people, unless they ask for the object. */
export async function printDone<Row extends object>(
  sentence: string,
  row: Row,
  shape: Shape<Row>,
  options: OutputOptions,
  context: CliContext,
): Promise<void> {
  if (options.output === undefined && !process.env.BERTH_OUTPUT) context.write(`${printable(sentence)}\n`);
  else await printOne(row, shape, options, context);
}

/** Every form but json and yaml, which speak of the list as a whole. */
export function textOfRows<Row extends object>(
  rows: readonly Row[],
  shape: Shape<Row>,
  options: OutputOptions,
  context: CliContext,
): string {
  const format = formatOf(options);
  const hasHeaders = options.headers !== false;
  if (format === "name") return rows.map((row) => `${printable(shape.nameOf(row))}\n`).join("");
  if (format === "jsonl" || format === "json") return rows.map((row) => `${toJson(row)}\n`).join("");
  const columns = columnsOf(rows, shape, options, format);
  if (format === "csv" || format === "tsv") {
    const quote = format === "csv" ? csvCell : tsvCell;
    const read = rows.map((row) => columns.map((column) => cellsOf(column, row)));
    // A column for every name that some row has, in the order of the columns that they come from.
    const names = columns.map((_, i) => [...new Set(read.flatMap((cells) => Object.keys(cells[i] ?? {})))]);
    const lines = read.map((cells) =>
      names.flatMap((inner, i) => inner.map((name) => quote(String(cells[i]?.[name] ?? "")))),
    );
    const heads = names.flatMap((inner, i) => (rows.length === 0 ? [columns[i]?.name ?? ""] : inner));
    const all = hasHeaders ? [heads.map(quote), ...lines] : lines;
    return all.map((cells) => `${cells.join(format === "csv" ? "," : "\t")}\n`).join("");
  }
  if (rows.length === 0) return "";
  const screenColumns = context.screen?.columns();
  const lines = renderTable(rows, columns, { style: styleOf(context), hasHeaders, screenColumns });
  return plainIfNeeded(lines.map((line) => `${line}\n`).join(""), context);
}

/** Labels in a column of their own, what they mean beside them, and all of it as wide as the terminal at most. */
export function textOfLines(lines: readonly Line[], context: CliContext, indent = ""): string {
  const width = Math.max(0, ...lines.filter(([, value]) => value !== "").map(([label]) => widthOf(label)));
  const columns = (context.screen?.columns() ?? Number.POSITIVE_INFINITY) - indent.length;
  const style = styleOf(context);
  const under = `\n${indent}${" ".repeat(width + 2)}`;
  const text = lines
    .map(([label, value]) => {
      if (value === "") return `${indent}${printable(label)}\n`;
      const beside = wrapped(printable(value), columns - width - 2).join(under);
      return `${indent}${style.faint(label.padEnd(width))}  ${beside}\n`;
    })
    .join("");
  return plainIfNeeded(text, context);
}

export function plainIfNeeded(text: string, { isAscii = false }: CliContext): string {
  return isAscii ? toAscii(text) : text;
}

function columnsOf<Row extends object>(
  rows: readonly Row[],
  { columns }: Shape<Row>,
  { columns: wanted }: OutputOptions,
  format: Format,
): Column<Row>[] {
  if (wanted === undefined) {
    return columns.filter(({ isWide, isHidden }) => !isHidden && (!isWide || format !== "table"));
  }
  if (wanted === "all") return [...columns];
  return wanted.split(",").map((text) => {
    const name = text.trim().toLowerCase();
    const known = columns.find((column) => column.name === name);
    if (known !== undefined) return known;
    if (rows.some((row) => Object.hasOwn(row, name))) return fieldColumn(name);
    const names = columns.map((column) => column.name);
    throw new CliError("usage", `There is no column "${name}".`, suggestion(name, names));
  });
}

function cellsOf<Row>({ name, value, cells }: Column<Row>, row: Row): Cells {
  if (cells !== undefined) return cells(row);
  const text = value(row);
  return { [name]: text === "-" ? "" : text };
}

/** Any field of the API's object can be a column. */
function fieldColumn<Row extends object>(name: string): Column<Row> {
  return {
    name,
    value: (row) => {
      const value = (row as Record<string, unknown>)[name];
      return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "-");
    },
  };
}

function csvCell(text: string): string {
  const clean = printable(text);
  return /[",\n]/.test(clean) ? `"${clean.replaceAll('"', '""')}"` : clean;
}

function tsvCell(text: string): string {
  return printable(text);
}

/** Characters that JSON may carry as they are, but that a terminal would obey. */
const OBEYED = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g;

export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(
    OBEYED,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export async function toYaml(value: unknown): Promise<string> {
  const { stringify } = await import("../yaml.ts");
  const text = stringify(value, { lineWidth: 0 });
  if (!OBEYED.test(text)) return text;
  OBEYED.lastIndex = 0;
  return `${toJson(value, 2)}\n`; // JSON is YAML, and can say such characters without using them.
}
