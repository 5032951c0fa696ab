// Judges what jobs themselves have written while they ran, what Slurm's own commands show, and what Berth's API said. Shares no
// code with the product.

import { readFileSync } from "node:fs";

/** One process of a job, from its first line to its last. */
export interface Life {
  readonly request: string;
  readonly attempt: number;
  readonly pid: number;
  readonly node: string;
  readonly gpus: number;
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Expected {
  readonly id: string;
  readonly exitCode: number;
  /** Cancelled in the story: how it ends is not known beforehand. */
  readonly isFree: boolean;
}

/** What the API says of a request at the end. */
export interface Told {
  readonly status: string;
  readonly exitCode: number | null;
  /** Of all its attempts. */
  readonly grants: readonly { readonly nodes: readonly string[]; readonly atMs: number }[];
}

/** Every job appends lines: what, nanoseconds, request, attempt, pid, node, gpus. */
export function readLives(path: string): Life[] {
  const lives = new Map<string, Life>();
  let starts = 0;
  for (const line of readFileSync(path, "utf8").split("\n")) {
    const [what, ns, request = "", attempt, pid, node = "", gpus] = line.split(" ");
    if (gpus === undefined) continue;
    const ms = Number(BigInt(ns as string) / 1_000_000n);
    const key = `${request} ${attempt} ${pid} ${node}`;
    const known = lives.get(key);
    if (what === "start" && known !== undefined)
      lives.set(`${key} again ${++starts}`, { ...known, fromMs: ms, toMs: ms });
    else if (known === undefined)
      lives.set(key, {
        ...{ request, attempt: Number(attempt), pid: Number(pid), node, gpus: Number(gpus) },
        ...{ fromMs: ms, toMs: ms },
      });
    else lives.set(key, { ...known, toMs: Math.max(ms, known.toMs) });
  }
  return [...lives.values()];
}

/** A grant is started once, and a request is alive once. */
export function doubledStarts(lives: readonly Life[]): string[] {
  return [...groupBy(lives, ({ request }) => request)].flatMap(([request, own]) => {
    const attempts = groupBy(own, ({ attempt }) => String(attempt));
    const again = [...attempts]
      .filter(([, runs]) => new Set(runs.map(({ node }) => node)).size < runs.length)
      .map(([attempt, runs]) => `${request}: attempt ${attempt} was started ${runs.length} times`);
    const overlaps = own.flatMap((one) =>
      own
        .filter((other) => other.attempt > one.attempt && other.fromMs < one.toMs)
        .map((other) => `${request}: attempt ${other.attempt} began while attempt ${one.attempt} ran`),
    );
    return [...again, ...overlaps];
  });
}

/** At every start, what runs on the node then must fit. */
export function aboveCapacity(lives: readonly Life[], gpusPerNode: number): string[] {
  return lives.flatMap(({ node, fromMs }) => {
    const there = lives.filter(
      (one) => one.node === node && one.fromMs <= fromMs && fromMs < Math.max(one.toMs, one.fromMs + 1),
    );
    const used = there.reduce((sum, { gpus }) => sum + gpus, 0);
    return used > gpusPerNode ? [`${node} had ${used} of ${gpusPerNode} gpu in use at ${fromMs}`] : [];
  });
}

export function lostExits(expected: readonly Expected[], told: ReadonlyMap<string, Told>): string[] {
  return expected.flatMap(({ id, exitCode, isFree }) => {
    const end = told.get(id);
    if (end === undefined || !["released", "failed", "cancelled"].includes(end.status))
      return [`${id} has not ended: ${end?.status ?? "unknown"}`];
    const status = exitCode === 0 ? "released" : "failed";
    if (isFree || (end.exitCode === exitCode && end.status === status)) return [];
    return [`${id} ended with ${exitCode}, and Berth says ${end.status} ${end.exitCode}`];
  });
}

/** Berth has heard of its end, and it still runs. */
export function endedTooSoon(lives: readonly Life[], endedAtMs: ReadonlyMap<string, number>): string[] {
  return lives.flatMap(({ request, toMs }) => {
    const saidAtMs = endedAtMs.get(request);
    return saidAtMs !== undefined && toMs > saidAtMs
      ? [`${request} ran after Berth said that it had ended`]
      : [];
  });
}

/** Nothing may start on a drained node. */
export function startsOnDrained(lives: readonly Life[], drains: readonly Drain[]): string[] {
  return drains.flatMap((drain) =>
    lives
      .filter(({ node, fromMs }) => node === drain.node && isDuring(drain, fromMs))
      .map(({ request }) => `${request} started on ${drain.node}, which was drained`),
  );
}

/** Nor may Berth grant it: the cluster would keep it waiting there. */
export function grantsOnDrained(told: ReadonlyMap<string, Told>, drains: readonly Drain[]): string[] {
  return drains.flatMap((drain) =>
    [...told]
      .filter(([, { grants }]) =>
        grants.some(({ nodes, atMs }) => nodes.includes(drain.node) && isDuring(drain, atMs)),
      )
      .map(([request]) => `${request} was granted ${drain.node}, which was drained`),
  );
}

function isDuring({ sinceMs, untilMs }: Drain, atMs: number): boolean {
  return atMs > sinceMs && atMs < untilMs;
}

export interface Drain {
  readonly node: string;
  /** When Berth had taken note of it. */
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** Its number alone does not tell: on a busy machine another process has it minutes later. */
export function isAlive({ pid, request }: Pick<Life, "pid" | "request">): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(`BERTH_REQUEST=${request}`);
  } catch {
    return false;
  }
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}
