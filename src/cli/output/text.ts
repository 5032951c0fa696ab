// Text for people: what comes from others is made harmless, and fits where it must.

export { ageOf, amountsText, counted, durationText, listed, printable } from "../../sdk/index.ts";

const PLAIN_FORMS: Readonly<Record<string, string>> = {
  "✓": "ok",
  "✗": "!!",
  "→": "->",
  "·": "-",
  "…": "...",
  "–": "-",
  "—": "-",
  "≤": "<=",
  "≥": ">=",
  "×": "x",
  "│": "|",
  "├": "|",
  "└": "`",
  "─": "-",
  "█": "#",
  "░": ".",
  "▸": ">",
};

/** For people whose locale knows ASCII only: our signs have plain forms, other characters are left as they are. */
export function toAscii(text: string): string {
  return text.replaceAll(/[✓✗→·…–—≤≥×│├└─█░▸]/g, (sign) => PLAIN_FORMS[sign] ?? sign);
}

/** How many columns a terminal needs for it. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += columnsOf(character);
  return width;
}

function columnsOf(character: string): number {
  if (/^[\x20-\x7e]$/.test(character)) return 1;
  if (/^(\p{M}|\u200d|\ufe0f)$/u.test(character)) return 0;
  return /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]$/u.test(
    character,
  )
    ? 2
    : 1;
}

export function shorten(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let kept = "";
  let width = 0;
  for (const character of text) {
    width += columnsOf(character);
    if (width > columns - 1) break;
    kept += character;
  }
  return columns < 1 ? "" : `${kept}…`;
}

/** Lines that are no wider than that, as far as words allow it. */
export function wrapped(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || widthOf(last) + 1 + widthOf(word) > columns) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

export function labelsText(labels: Readonly<Record<string, string>> | null): string {
  return (
    Object.entries(labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(",") || "-"
  );
}

export type Paint = (text: string) => string;

export interface Style {
  readonly good: Paint;
  readonly warn: Paint;
  readonly bad: Paint;
  readonly faint: Paint;
  readonly bold: Paint;
}

const same: Paint = (text) => text;
const sgr =
  (code: number, end: number): Paint =>
  (text) =>
    `\u001b[${code}m${text}\u001b[${end}m`;

export function styleOf({ hasColor }: { readonly hasColor: boolean }): Style {
  return hasColor
    ? { good: sgr(32, 39), warn: sgr(33, 39), bad: sgr(31, 39), faint: sgr(2, 22), bold: sgr(1, 22) }
    : { good: same, warn: same, bad: same, faint: same, bold: same };
}
