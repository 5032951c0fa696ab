// One picture of `berth top` (H5), made of what the server says: pools with bars, what runs, what waits and why.

import type { WireOverview, WireQueueRow, WireRequest } from "../../protocol/index.ts";
import { ageOf, amountsText, printable, shorten, styleOf } from "../output/text.ts";
import { titleOf } from "../session.ts";

export interface Picture {
  readonly overview: WireOverview;
  readonly running: readonly WireRequest[];
  readonly waiting: readonly WireQueueRow[];
  readonly waitingTotal: number;
}

export interface Look {
  readonly columns: number;
  readonly rows: number;
  readonly nowMs: number;
  readonly hasColor: boolean;
  readonly isAscii: boolean;
  /** Index of the chosen row, first those that run, then those that wait. */
  readonly chosen: number;
  /** `live`, or since when it is not. */
  readonly state: string;
  /** Below everything: an explanation, the keys, a command. */
  readonly note: string;
}

const BAR_WIDTH = 40;
const KEYS = "j k row  w why  c command  . pause  ? keys  q quit";

export function pictureText(picture: Picture, look: Look): string {
  const style = styleOf(look);
  const lines = [
    `${style.bold("Berth")}  ${look.state}  ${picture.overview.time.slice(11, 19)}`,
    ...picture.overview.problems.map(({ message }) => style.bad(`! ${message}`)),
    "",
    ...picture.overview.pools.flatMap((pool) => poolLines(pool, look)),
  ];
  const foot = look.note === "" ? [KEYS] : look.note.split("\n");
  const room = Math.max(2, look.rows - lines.length - foot.length - 4);
  const half = Math.max(1, Math.floor(room / 2));
  const running = picture.running.slice(0, Math.max(half, room - picture.waiting.length));
  const waiting = picture.waiting.slice(0, Math.max(1, room - running.length));
  lines.push("", style.bold(`running ${picture.running.length}`));
  lines.push(...running.map((request, index) => marked(runningLine(request, look), index === look.chosen)));
  lines.push("", style.bold(`waiting ${picture.waitingTotal}`));
  const first = picture.running.length;
  lines.push(...waiting.map((row, index) => marked(waitingLine(row, look), first + index === look.chosen)));
  const body = lines.slice(0, Math.max(1, look.rows - foot.length));
  return [...body, ...foot].map((line) => shorten(line, look.columns)).join("\n");
}

function marked(line: string, isChosen: boolean): string {
  return `${isChosen ? ">" : " "} ${line}`;
}

function poolLines(
  {
    name,
    discipline,
    keys,
    waiting,
    oldest_wait_since: oldest,
    preempted_24h: preempted,
  }: WireOverview["pools"][number],
  look: Look,
): string[] {
  const since = oldest === null ? "" : `, oldest ${ageOf(oldest, look.nowMs)}`;
  const head = `${printable(name).padEnd(14)} ${discipline.padEnd(10)} waiting ${waiting}${since}   preempted ${preempted} in 24 h`;
  return [head, ...keys.map((use) => `  ${use.key.padEnd(10)} [${bar(use, look)}] of ${use.capacity}`)];
}

/** Each kind of use has a sign of its own, so that nothing depends on colour. */
function bar(use: WireOverview["pools"][number]["keys"][number], { isAscii }: Look): string {
  const kinds = [
    ["own", use.own, isAscii ? "#" : "█"],
    ["borrowed", use.borrowed, isAscii ? "%" : "▓"],
    ["held", use.held, isAscii ? ":" : "░"],
    ["reserved idle", use.reserved_idle, "/"],
    ["free", use.free, "."],
  ] as const;
  const total = Math.max(1, use.own + use.borrowed + use.held + use.reserved_idle + use.free);
  return kinds
    .filter(([, amount]) => amount > 0)
    .map(([kind, amount, sign]) => {
      const width = Math.max(1, Math.round((amount / total) * BAR_WIDTH));
      const text = `${kind} ${amount}`;
      return width < text.length + 2
        ? `${sign} ${text} `
        : text.padStart(Math.floor((width + text.length) / 2), sign).padEnd(width, sign);
    })
    .join("|");
}

function runningLine(request: WireRequest, { nowMs }: Look): string {
  const started = request.started_at === null ? "" : ageOf(request.started_at, nowMs);
  const { step_run: _, ...units } = request.resources;
  const stopping = request.status === "preempting" ? "  stopping" : "";
  return `${titleOf(request).padEnd(22)} ${request.component.padEnd(14)} ${amountsText(units).padEnd(18)} ${started.padEnd(8)} ${request.pool ?? ""}${stopping}`;
}

function waitingLine(row: WireQueueRow, { nowMs }: Look): string {
  const waited = ageOf(row.since, nowMs);
  return `${titleOf(row).padEnd(22)} ${row.component.padEnd(14)} ${amountsText(row.wants).padEnd(18)} ${waited.padEnd(8)} ${row.why}`;
}
