// Tables without frames. On a terminal that is too narrow, long cells are cut, then columns are left out from the right.

import { printable, type Style, shorten, widthOf } from "./text.ts";

export interface Column<Row> {
  /** Lower case, as in `--columns`. */
  readonly name: string;
  readonly value: (row: Row) => string;
  /** Shown with `-o wide` only. */
  readonly isWide?: boolean;
  /** Shown when it is asked for by name. */
  readonly isHidden?: boolean;
  readonly alignsRight?: boolean;
  /** For csv and tsv, where programs read: numbers without units, one cell per key. Absent: `value`, empty for `-`. */
  readonly cells?: (row: Row) => Cells;
  readonly paint?: (row: Row, style: Style) => ((text: string) => string) | undefined;
}

export type Cells = Readonly<Record<string, string | number | boolean | null>>;

export interface TableOptions {
  readonly style: Style;
  readonly hasHeaders: boolean;
  /** Absent: as wide as it needs to be. */
  readonly screenColumns?: number | undefined;
}

const GAP = 2;
const CELL_MIN = 4;

export function renderTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { style, hasHeaders, screenColumns }: TableOptions,
): string[] {
  const { cells, heads, widths } = layOut(rows, columns, { hasHeaders, screenColumns });
  const lineOf = (texts: readonly string[], paintOf: (i: number) => ((text: string) => string) | undefined) =>
    widths
      .map((width, i) => {
        const text = shorten(texts[i] as string, width);
        const pad = " ".repeat(Math.max(0, width - widthOf(text)));
        const painted = paintOf(i)?.(text) ?? text;
        if (columns[i]?.alignsRight) return pad + painted;
        return i === widths.length - 1 ? painted : painted + pad;
      })
      .join(" ".repeat(GAP))
      .trimEnd();
  const lines = cells.map((texts, at) => lineOf(texts, (i) => columns[i]?.paint?.(rows[at] as Row, style)));
  return hasHeaders ? [lineOf(heads, () => style.faint), ...lines] : lines;
}

/** The names of the columns that do not fit on the screen. */
export function leftOut<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  options: Omit<TableOptions, "style">,
): string[] {
  return columns.slice(layOut(rows, columns, options).widths.length).map(({ name }) => name.toUpperCase());
}

function layOut<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { hasHeaders, screenColumns }: Omit<TableOptions, "style">,
) {
  const cells = rows.map((row) => columns.map(({ value }) => printable(value(row))));
  const heads = columns.map(({ name }) => name.toUpperCase());
  const natural = columns.map((_, i) =>
    Math.max(
      hasHeaders ? (heads[i] as string).length : 0,
      ...cells.map((line) => widthOf(line[i] as string)),
    ),
  );
  const widths = screenColumns === undefined ? natural : widthsIn(natural, screenColumns);
  return { cells, heads, widths };
}

/** The widest give first. Returns fewer widths than there are columns if that does not help. */
function widthsIn(natural: readonly number[], room: number): number[] {
  for (let count = natural.length; count > 1; count--) {
    const widths = natural.slice(0, count);
    let excess = widths.reduce((sum, width) => sum + width, 0) + GAP * (count - 1) - room;
    for (; excess > 0 && Math.max(...widths) > CELL_MIN; excess--) {
      const widest = widths.lastIndexOf(Math.max(...widths));
      widths[widest] = (widths[widest] as number) - 1;
    }
    // A table of stumps says less than one that leaves its last columns out.
    const isReadable = widths.every((width, i) => width >= Math.min(natural[i] as number, 8));
    if (excess <= 0 && (isReadable || count <= 3)) return widths;
  }
  return [Math.min(natural[0] ?? 0, Math.max(1, room))];
}
