// Time on the timeline: what `-6h` means, where the ticks are, what is exported.

import type { AnswerOf } from "../../sdk/index.ts";
import { amountsText } from "../../sdk/index.ts";

export type Timeline = AnswerOf<"getTimeline">;

const UNITS_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const DEFAULT_MS = 6 * 3_600_000;
const LENGTH_MS_MIN = 60_000;
const LENGTH_MS_MAX = 31 * 86_400_000;
const TICKS_MAX = 9;
const TICK_STEPS_MS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 10_080].map(
  (minutes) => minutes * 60_000,
);

export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** `from` is a time, or so long before the end as `-6h`. What cannot be read is six hours. */
export function parseSpan(from: string, to: string | undefined, nowMs: number): Span {
  const parsedTo = Date.parse(to ?? "");
  const toMs = Number.isNaN(parsedTo) ? nowMs : parsedTo;
  const [, count, unit = ""] = /^-(\d{1,5})([mhd])$/.exec(from) ?? [];
  const parsedFrom =
    count === undefined ? Date.parse(from) : toMs - Number(count) * (UNITS_MS[unit] as number);
  const fromMs = Number.isNaN(parsedFrom) || parsedFrom >= toMs ? toMs - DEFAULT_MS : parsedFrom;
  return { fromMs: Math.max(fromMs, toMs - LENGTH_MS_MAX), toMs };
}

/** Nearer or farther: around the middle, or with the end at now where it was there. */
export function spanText(
  { fromMs, toMs }: Span,
  factor: number,
  endsNow: boolean,
): { from: string; to: string | undefined } {
  const lengthMs = Math.min(LENGTH_MS_MAX, Math.max(LENGTH_MS_MIN, (toMs - fromMs) * factor));
  if (endsNow) return { from: `-${Math.max(1, Math.round(lengthMs / 60_000))}m`, to: undefined };
  const middleMs = (fromMs + toMs) / 2;
  return {
    from: new Date(middleMs - lengthMs / 2).toISOString(),
    to: new Date(middleMs + lengthMs / 2).toISOString(),
  };
}

/** Time that is not drawn as long as it was: nothing ran then. */
export interface Fold {
  readonly startMs: number;
  readonly endMs: number;
}

export interface Scale {
  /** The part of the width at which a moment stands, from 0 to 1; in milliseconds after the start. */
  at(ms: number): number;
  /** The other way round. */
  momentAt(part: number): number;
  readonly folds: readonly Fold[];
}

/** A gap is folded if it takes more than an eighth of the width, and has this much of it afterwards. */
const FOLDED_FROM = 1 / 8;
const FOLD_PART = 0.03;

export function scaleOf(
  bars: readonly Pick<Timeline["bars"][number], "start" | "end">[],
  lengthMs: number,
): Scale {
  const folds = gapsOf(bars, lengthMs).filter(
    ({ startMs, endMs }) => endMs - startMs > lengthMs * FOLDED_FROM,
  );
  const foldedMs = folds.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0);
  // Where everything would be folded there is nothing to see, and time is as long as it is.
  if (folds.length === 0 || foldedMs >= lengthMs)
    return { at: (ms) => ms / lengthMs, momentAt: (part) => part * lengthMs, folds: [] };
  const perMs = (1 - folds.length * FOLD_PART) / (lengthMs - foldedMs);
  const stops = [{ ms: 0, part: 0 }];
  for (const { startMs, endMs } of folds) {
    const last = stops.at(-1) as (typeof stops)[number];
    const part = last.part + (startMs - last.ms) * perMs;
    stops.push({ ms: startMs, part }, { ms: endMs, part: part + FOLD_PART });
  }
  stops.push({ ms: lengthMs, part: 1 });
  const between = (value: number, from: "ms" | "part", to: "ms" | "part") => {
    const after = Math.max(
      1,
      stops.findIndex((stop) => stop[from] >= value),
    );
    const [a, b] = [stops[after - 1], stops[after]] as [(typeof stops)[number], (typeof stops)[number]];
    const width = b[from] - a[from];
    return width === 0 ? a[to] : a[to] + ((value - a[from]) / width) * (b[to] - a[to]);
  };
  const clamped = (value: number, max: number) => Math.min(max, Math.max(0, value));
  return {
    at: (ms) => between(clamped(ms, lengthMs), "ms", "part"),
    momentAt: (part) => between(clamped(part, 1), "part", "ms"),
    folds,
  };
}

/** When nothing ran, in the order of time. */
function gapsOf(bars: readonly Pick<Timeline["bars"][number], "start" | "end">[], lengthMs: number): Fold[] {
  const gaps: Fold[] = [];
  let busyUntilMs = 0;
  for (const { start, end } of bars.toSorted((a, b) => a.start - b.start)) {
    if (start > busyUntilMs) gaps.push({ startMs: busyUntilMs, endMs: start });
    busyUntilMs = Math.max(busyUntilMs, end);
  }
  if (busyUntilMs < lengthMs) gaps.push({ startMs: busyUntilMs, endMs: lengthMs });
  return gaps;
}

/** At round times of the local clock. */
export function ticksOf(fromMs: number, lengthMs: number): number[] {
  const stepMs = TICK_STEPS_MS.find((step) => lengthMs / step <= TICKS_MAX) ?? lengthMs;
  const offsetMs = new Date(fromMs).getTimezoneOffset() * 60_000;
  const ticks: number[] = [];
  for (
    let atMs = Math.ceil((fromMs - offsetMs) / stepMs) * stepMs + offsetMs;
    atMs < fromMs + 0.985 * lengthMs;
    atMs += stepMs
  ) {
    ticks.push(atMs);
  }
  return ticks;
}

export function csvOf({ from, lanes, bars }: Timeline): string {
  const fromMs = Date.parse(from);
  const header = [
    "lane",
    "number",
    "name",
    "component",
    "attempt",
    "units",
    "started_at",
    "ended_at",
    "outcome",
    "preempted_for",
  ];
  const rows = bars.map((bar) => [
    lanes[bar.lane]?.name,
    bar.number,
    bar.name,
    bar.component,
    bar.attempt,
    amountsText(bar.units),
    new Date(fromMs + bar.start).toISOString(),
    bar.outcome === null ? "" : new Date(fromMs + bar.end).toISOString(),
    bar.outcome,
    bar.preempted_for,
  ]);
  return [header, ...rows].map((row) => row.map(csvField).join(",")).join("\n");
}

/** Quoted where needed; what a spreadsheet would take for a formula is kept as text. */
function csvField(value: string | number | null | undefined): string {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t\r]/.test(text) && typeof value === "string" ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
