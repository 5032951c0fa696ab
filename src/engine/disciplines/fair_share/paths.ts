// Operations in a line: the path that each takes to its demand, and the curve of all one after another
// (9.1). An operation outside a FIFO group is a line of one.

import { beginTrace, type Curve, type Drawing, endTrace, lineTo } from "./curves.ts";

/**
 * An operation on its way. The first half of its path is its usage, equally on every key and each up to its
 * own; the second half leads from there straight to the demand. Without usage all of it is one straight line.
 */
export interface Path {
  /** Fractions of the pool. */
  readonly demand: readonly number[];
  readonly usage: readonly number[];
  readonly usageMax: number;
  /** Where the path bends, between 0 and 1, and its end. */
  readonly bends: readonly number[];
  /** How much of the whole way a limit of its own leaves; 1 without one. */
  readonly reach: number;
}

interface PathInput {
  readonly demand: readonly number[];
  readonly usage: readonly number[];
  readonly limit: readonly (number | undefined)[] | undefined;
}

const STRAIGHT: readonly number[] = [1];

export function pathOf({ demand, usage, limit }: PathInput): Path {
  let usageMax = 0;
  for (let key = 0; key < usage.length; key++) usageMax = Math.max(usageMax, usage[key]!);
  const reach = limit === undefined ? 1 : reachWithin({ demand, usage, usageMax, limit });
  return {
    demand,
    usage,
    usageMax,
    bends: usageMax === 0 ? STRAIGHT : bendsOf(usage, usageMax, reach),
    reach,
  };
}

function reachWithin(
  input: PathInput & { usageMax: number; limit: readonly (number | undefined)[] },
): number {
  const { demand, usage, usageMax, limit } = input;
  let reach = 1;
  for (const [key, bound] of limit.entries()) {
    const [used, wanted] = [usage[key]!, demand[key]!];
    if (bound === undefined || wanted <= bound) continue;
    if (usageMax === 0) reach = Math.min(reach, bound / wanted);
    else if (used > bound) reach = Math.min(reach, bound / usageMax / 2);
    else reach = Math.min(reach, 0.5 + (bound - used) / (wanted - used) / 2);
  }
  return reach;
}

function bendsOf(usage: readonly number[], usageMax: number, reach: number): number[] {
  const bends = [1];
  for (let key = 0; key < usage.length; key++) {
    const bend = usage[key]! / usageMax / 2 / reach;
    if (bend > 0 && bend < 1) insertOnce(bends, bend);
  }
  return bends;
}

function insertOnce(sorted: number[], value: number): void {
  let place = sorted.length;
  while (place > 0 && sorted[place - 1]! >= value) place--;
  if (sorted[place] === value) return;
  for (let index = sorted.length; index > place; index--) sorted[index] = sorted[index - 1]!;
  sorted[place] = value;
}

/** What an operation holds of a key between the beginning of its path, 0, and its end, 1. */
export function pathAt({ demand, usage, usageMax, reach }: Path, at: number, key: number): number {
  const place = at * reach;
  if (usageMax === 0) return demand[key]! * place;
  if (place <= 0.5) return Math.min(usage[key]!, 2 * place * usageMax);
  return usage[key]! + (2 * place - 1) * (demand[key]! - usage[key]!);
}

/** The curve of a whole line. Position i + p is place p on the path of operation i. */
export function lineCurve(line: readonly { readonly path: Path | null }[], drawing: Drawing): Curve {
  const start = drawing.limit.map(() => 0);
  const target = start.slice();
  const trace = beginTrace(drawing, start);
  let isComplete = true;
  for (let index = 0; index < line.length && !trace.isStopped; index++) {
    const path = line[index]!.path!;
    for (let next = 0; next < path.bends.length && !trace.isStopped; next++) {
      const bend = path.bends[next]!;
      for (let key = 0; key < start.length; key++) target[key] = start[key]! + pathAt(path, bend, key);
      lineTo(trace, index + bend, target);
    }
    for (let key = 0; key < start.length; key++) start[key] = target[key]!;
    if (path.reach < 1) isComplete = false;
  }
  return endTrace(trace, isComplete && !trace.isStopped, drawing);
}
