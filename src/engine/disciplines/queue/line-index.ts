// The lines that wait in a pool, arranged by what they ask for, so that a search for those that could start behind the
// head passes over whole parts of them: where nobody fits what is left, or nobody is short enough (G4).

import { Few } from "../../few.ts";
import { mainKeyIndex } from "../../placement/node-index.ts";
import type { Pool, PoolLine } from "../../state.ts";

const PART_SIZE_MAX = 64;

/** Some lines that want the same nodes, and as much of the main key. */
export interface Part {
  readonly lines: Set<PoolLine>;
  /** One of them. */
  readonly any: PoolLine;
  /** The least and the most that one of them needs of each key (of each node, where there are nodes). */
  readonly least: readonly number[];
  readonly most: readonly number[];
  /** The shortest walltime of a member; infinite if none has one. */
  readonly shortestMs: number;
}

export class LineIndex {
  /** Lines whose members changed. */
  readonly stale = new Few<PoolLine>();
  readonly #pool: Pool;
  readonly #parts = new Map<string, KeptPart[]>();
  readonly #partOf = new Map<PoolLine, KeptPart>();
  /** All parts; null: to be gathered when they are next asked for. */
  #all: readonly KeptPart[] | null = null;

  constructor(pool: Pool) {
    this.#pool = pool;
    for (const poolLine of pool.waiting) this.#enter(poolLine);
  }

  /** All parts, each with those that want the same nodes side by side. */
  parts(): readonly Part[] {
    if (this.stale.size > 0) this.stale.drain(this.#settle);
    this.#all ??= [...this.#parts.values()].flat();
    return this.#all;
  }

  /** The part of a line that waits, as of the last time that all were asked for. */
  partOf(poolLine: PoolLine): Part {
    return this.#partOf.get(poolLine) as Part;
  }

  /** What is kept otherwise than it would be made anew; for checks. */
  violations(): string[] {
    const found: string[] = [];
    const kept = new Set<PoolLine>();
    for (const { lines, least, most, shortestMs } of this.parts()) {
      for (const poolLine of lines) kept.add(poolLine);
      const fresh = boundsOf(lines);
      const walltimes = [...lines].map(({ line }) => line.members.rankMin());
      const isRight =
        fresh.least.join() === least.join() &&
        fresh.most.join() === most.join() &&
        Math.min(...walltimes) === shortestMs;
      if (!isRight) found.push(`a part of the queue is kept with ${least}, ${most} and ${shortestMs}`);
    }
    const { waiting } = this.#pool;
    if (kept.size !== waiting.size || [...waiting].some((poolLine) => !kept.has(poolLine)))
      found.push("the lines by what they ask for are not those that wait");
    return found;
  }

  /** Made once: it is handed over with every look. */
  readonly #settle = (poolLine: PoolLine): void => {
    const part = this.#partOf.get(poolLine);
    const isWaiting = this.#pool.waiting.has(poolLine);
    if (part !== undefined && isWaiting) part.forgetWalltimes();
    else if (part !== undefined) this.#leave(poolLine, part);
    else if (isWaiting) this.#enter(poolLine);
  };

  #enter(poolLine: PoolLine): void {
    const key = keyOf(poolLine);
    let parts = this.#parts.get(key);
    if (parts === undefined) {
      parts = [];
      this.#parts.set(key, parts);
    }
    let part = parts.at(-1);
    if (part === undefined || part.lines.size >= PART_SIZE_MAX) {
      part = new KeptPart(parts);
      parts.push(part);
      this.#all = null;
    }
    part.add(poolLine);
    this.#partOf.set(poolLine, part);
  }

  #leave(poolLine: PoolLine, part: KeptPart): void {
    this.#partOf.delete(poolLine);
    part.remove(poolLine);
    if (part.lines.size > 0) return;
    this.#all = null;
    part.siblings.splice(part.siblings.indexOf(part), 1);
    if (part.siblings.length === 0) this.#parts.delete(keyOf(poolLine));
  }
}

class KeptPart implements Part {
  readonly lines = new Set<PoolLine>();
  readonly siblings: KeptPart[];
  #bounds: { least: number[]; most: number[] } | null = null;
  #shortestMs: number | null = null;

  constructor(siblings: KeptPart[]) {
    this.siblings = siblings;
  }

  get any(): PoolLine {
    const [any] = this.lines;
    return any as PoolLine;
  }

  get least(): readonly number[] {
    this.#bounds ??= boundsOf(this.lines);
    return this.#bounds.least;
  }

  get most(): readonly number[] {
    this.#bounds ??= boundsOf(this.lines);
    return this.#bounds.most;
  }

  get shortestMs(): number {
    if (this.#shortestMs === null) {
      this.#shortestMs = Number.POSITIVE_INFINITY;
      for (const { line } of this.lines) {
        this.#shortestMs = Math.min(this.#shortestMs, line.members.rankMin());
      }
    }
    return this.#shortestMs;
  }

  add(poolLine: PoolLine): void {
    this.lines.add(poolLine);
    this.#bounds = null;
    this.#shortestMs = null;
  }

  remove(poolLine: PoolLine): void {
    this.lines.delete(poolLine);
    this.#bounds = null;
    this.#shortestMs = null;
  }

  forgetWalltimes(): void {
    this.#shortestMs = null;
  }
}

/** What a line needs at one place. */
export function needAtOnce({ ask, need }: PoolLine): readonly number[] {
  return ask?.need ?? need;
}

function keyOf(poolLine: PoolLine): string {
  const { ask, pool } = poolLine;
  const main = needAtOnce(poolLine)[mainKeyIndex(pool)] ?? 0;
  return ask === null ? `${main}` : `${main} ${ask.count} ${ask.wanted.key} ${ask.home?.key ?? ""}`;
}

function boundsOf(lines: Iterable<PoolLine>): { least: number[]; most: number[] } {
  let [least, most]: [number[], number[]] = [[], []];
  for (const poolLine of lines) {
    const need = needAtOnce(poolLine);
    if (least.length === 0) [least, most] = [[...need], [...need]];
    for (let i = 0; i < need.length; i++) {
      least[i] = Math.min(least[i] as number, need[i] as number);
      most[i] = Math.max(most[i] as number, need[i] as number);
    }
  }
  return { least, most };
}
