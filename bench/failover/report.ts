// What a proof with several servers prints.

import { cpus, loadavg } from "node:os";
import type { Measured, Proof } from "./proof.ts";

/** In seconds. */
export interface Limit {
  readonly p50: number;
  readonly p99: number;
}

/** With more than this per processor others are at work, and times say more about them than about us. */
const QUIET_LOAD_MAX = 0.5;
const SHOWN_MAX = 20;

export function isQuiet(): boolean {
  return (loadavg()[0] as number) <= QUIET_LOAD_MAX * cpus().length;
}

/** False: a limit was missed on a quiet machine. */
export function reportTimes(
  measured: readonly Measured[],
  limits: Readonly<Record<string, Limit>>,
  wasQuiet: boolean,
  what = "until writes are accepted again",
): boolean {
  let isInTime = true;
  console.log(`${what}, in seconds:`);
  for (const [kind, limit] of Object.entries(limits)) {
    const times = measured.filter((each) => each.kind === kind).map((each) => each.recoveredMs / 1_000);
    if (times.length === 0) continue;
    const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)];
    const isMet = p50 <= limit.p50 && p99 <= limit.p99;
    if (!isMet) isInTime = false;
    console.log(
      `  ${isMet ? "✓" : "✗"} ${kind}, ${times.length} times: p50 ${p50.toFixed(2)}, p99 ${p99.toFixed(2)} ` +
        `(at most ${limit.p50} and ${limit.p99})`,
    );
  }
  const [load = 0] = loadavg();
  console.log(
    `  load average ${load.toFixed(2)} on ${cpus().length} processors; ` +
      (wasQuiet
        ? "the machine was quiet before"
        : "the machine was busy before: times are shown, not judged"),
  );
  return isInTime || !wasQuiet;
}

/** After every round, to show how far the proof is. */
export function sayRound({ kind, recoveredMs }: Measured, problems: readonly string[]): void {
  const seconds = (recoveredMs / 1_000).toFixed(2);
  console.log(`  ${new Date().toISOString().slice(11, 19)} ${kind}: ${seconds} s`);
  for (const problem of problems) console.log(`      ${problem}`);
}

/** Returns the number of problems. */
export function report(proof: Proof): number {
  const { verdict, submissions, releases, renewals, retries, readings, seconds } = proof;
  console.log(
    `${submissions} submissions, ${renewals} renewals, ${releases} releases, ${retries} retries; ` +
      `${verdict.requests} requests, ${verdict.events} events, ${readings} messages read, ` +
      `epoch ${verdict.epochs}; ${seconds.toFixed(0)} s`,
  );
  for (const [kind, problems] of Object.entries(verdict.problems)) {
    console.log(`  ${problems.length === 0 ? "✓" : "✗"} ${kind} ${problems.length}`);
    for (const problem of problems.slice(0, SHOWN_MAX)) console.log(`      ${problem}`);
  }
  return countProblems(proof);
}

export function countProblems({ verdict }: Proof): number {
  return Object.values(verdict.problems).reduce((sum, problems) => sum + problems.length, 0);
}

function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] as number;
}
