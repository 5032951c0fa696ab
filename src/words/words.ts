// Small words for people that the server and its clients use alike: amounts, durations, lists, ends.

import type { WireRequest } from "../protocol/index.ts";

type WireAttempt = WireRequest["attempts"][number];

/** Names come from other people, and must not move anyone's cursor or turn the text around. */
export function printable(text: string): string {
  return text.replaceAll(/\p{C}/gu, (character) => (character === "\u200d" ? character : "·"));
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

/** `1 request`, `3 requests`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Such as `a, b and c`. */
export function listed(names: readonly string[]): string {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

const CAUSES: Readonly<Record<NonNullable<WireAttempt["cause"]>, string>> = {
  oom: "ran out of memory",
  interrupted: "interrupted",
  wrapper_killed: "its wrapper was killed",
  start_failed: "could not be started",
  walltime: "ran longer than its cluster permits",
  not_taken_up: "nobody took the grant up",
  holder_silent: "its holder fell silent",
  declared_lost: "its holder was declared lost",
};

/** How an attempt ended: `failed with exit code 3`, `failed: killed by SIGSEGV`, `lost: its holder fell silent`. */
export function endText({ outcome, exit_code, signal, cause }: WireAttempt): string {
  if (cause !== null) return `${outcome}: ${CAUSES[cause]}`;
  if (signal !== null) return `${outcome}: killed by ${signal}`;
  return exit_code === null || exit_code === 0 ? outcome : `${outcome} with exit code ${exit_code}`;
}
