// Text for people: what comes from others is made harmless, and fits where it must.

/** Names come from other people, and must not move anyone's cursor or turn the text around. */
export function printable(text: string): string {
  return text.replaceAll(/\p{C}/gu, (character) => (character === "\u200d" ? character : "·"));
}

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

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

/** The two largest units: 3d4h, 1h30m, 45s. */
export function durationText(seconds: number): string {
  let rest = Math.max(0, Math.floor(seconds));
  const from = UNITS.findIndex(([, length]) => rest >= length);
  if (from < 0) return "0s";
  const parts = UNITS.slice(from, from + 2).map(([unit, length]) => {
    const count = Math.floor(rest / length);
    rest -= count * length;
    return count === 0 ? "" : `${count}${unit}`;
  });
  return parts.join("");
}

/** Such as `3d4h`, counted from then to now. */
export function ageOf(at: string | null, nowMs = Date.now()): string {
  return at === null ? "-" : durationText((nowMs - Date.parse(at)) / 1000);
}

/** Such as `gpu 2, mcpu 4000`; the step that every request is goes without saying. */
export function amountsText(amounts: Readonly<Record<string, number>> | null): string {
  const asked = Object.entries(amounts ?? {}).filter(([key]) => key !== "step_run");
  const shown = asked.length > 0 ? asked : Object.entries(amounts ?? {});
  return shown.map(([key, amount]) => `${printable(key)} ${amount}`).join(", ") || "-";
}

export function labelsText(labels: Readonly<Record<string, string>> | null): string {
  return (
    Object.entries(labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(",") || "-"
  );
}

/** `1 request`, `3 requests`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Such as `a, b and c`. */
export function listed(names: readonly string[]): string {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
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
