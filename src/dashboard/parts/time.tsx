// Times: local on the screen, UTC on hover (B12); ages as the command line writes them.

import { ageOf } from "../../sdk/index.ts";
import { nowMs } from "../live.ts";

const hours = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const clock = new Intl.DateTimeFormat(undefined, { ...hours, second: "2-digit" });
const shortClock = new Intl.DateTimeFormat(undefined, hours);
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export function clockText(atMs: number, isShort = false): string {
  return (isShort ? shortClock : clock).format(atMs);
}

export function dayText(atMs: number): string {
  return day.format(atMs);
}

/** With the day, if that is not today. */
export function momentText(atMs: number, isShort = false): string {
  const isToday = new Date(atMs).toDateString() === new Date(nowMs.value).toDateString();
  return isToday ? clockText(atMs, isShort) : `${day.format(atMs)} ${clockText(atMs, isShort)}`;
}

export function Moment({ at }: { at: string }) {
  return (
    <time dateTime={at} title={utcText(at)}>
      {momentText(Date.parse(at))}
    </time>
  );
}

/** How long ago, counted on. */
export function Age({ since }: { since: string }) {
  return (
    <time dateTime={since} title={utcText(since)}>
      {ageOf(since, nowMs.value)}
    </time>
  );
}

function utcText(at: string): string {
  return `${at.replace("T", " ").replace(/(\.\d+)?Z$/, "")} UTC`;
}
