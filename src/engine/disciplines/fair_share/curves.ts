// What an element receives, as a function of the level of the water (9.1).
//
// An element moves along a path from nothing to its whole demand. At level x it may hold guarantee + x on
// every key, up to its limit, and it stands at the farthest position of its path that stays within that. A
// `Curve` keeps this as break points; between two of them everything is linear. Where the level stays and
// the value grows the curve jumps: nothing that still holds the element back grows on that stretch.
//
// Invariants
//   1. Levels, positions and values never fall from one point to the next. The first level is 0.
//   2. A level has at most two points: what it comes to from below, and what it holds.
//   3. A point marked as waiting stands before a jump of the path that has not happened there (9.11).

import { LEVEL_EPSILON, LIMIT_EPSILON } from "./tolerances.ts";

export interface Curve {
  /** One point after another: level, position, 1 if it is waiting, and its value on every key. */
  readonly numbers: readonly number[];
  /** Numbers per point. */
  readonly stride: number;
  readonly pointCount: number;
  /** Whether everybody below has its whole demand from the last level on, so that no limit cuts it. */
  readonly isComplete: boolean;
}

export const POSITION = 1;
export const WAITING = 2;
export const VALUE = 3;

/** What an element has before its curve is drawn. */
export const BLANK: Curve = { numbers: [], stride: VALUE, pointCount: 0, isComplete: true };

/** Where a curve is drawn, before it is known how long it is: one at a time. It begins with a fraction, for the runtime. */
const POINTS: number[] = [0.5];

/** A curve in the making. The path has come to `value`, which needs `level`. */
export interface Trace extends Bounds {
  readonly value: number[];
  readonly stride: number;
  pointCount: number;
  position: number;
  level: number;
  /** A limit has ended the path. */
  isStopped: boolean;
}

/** Within which bounds a path is drawn. */
export interface Bounds {
  readonly guarantee: readonly number[];
  readonly limit: readonly number[];
}

/** A path begins within its guarantee, at level 0. */
export function beginTrace({ guarantee, limit }: Bounds, start: readonly number[]): Trace {
  const value = start.slice();
  const stride = VALUE + value.length;
  const trace = { guarantee, limit, value, stride, pointCount: 0, position: 0, level: 0, isStopped: false };
  addPoint(trace, 0, 1, 0, start);
  return trace;
}

export function endTrace({ stride, pointCount }: Trace, isComplete: boolean): Curve {
  return { numbers: POINTS.slice(0, pointCount * stride), stride, pointCount, isComplete };
}

/** The path goes straight on to `target`, or to the first limit on the way. */
export function lineTo(trace: Trace, position: number, target: readonly number[]): void {
  const { value: from, guarantee, limit } = trace;
  const keyCount = from.length;
  let end = 1;
  for (let key = 0; key < keyCount; key++) {
    if (target[key]! <= limit[key]! + LIMIT_EPSILON) continue;
    trace.isStopped = true;
    end = Math.min(end, Math.max(0, (limit[key]! - from[key]!) / (target[key]! - from[key]!)));
  }

  // The level needed is the highest of several rising lines, one per key: follow it from corner to corner.
  let at = 0;
  let level = trace.level;
  let slope = 0;
  let base = level;
  for (;;) {
    let next = end;
    let nextKey = -1;
    let nextSlope = slope;
    for (let key = 0; key < keyCount; key++) {
      const keySlope = target[key]! - from[key]!;
      if (keySlope <= slope) continue;
      const gap = level - (from[key]! - guarantee[key]! + at * keySlope);
      const meeting = gap <= 0 ? at : at + gap / (keySlope - slope);
      if (meeting < next || (meeting === next && keySlope > nextSlope)) {
        next = meeting;
        nextKey = key;
        nextSlope = keySlope;
      }
    }
    if (next > at) {
      level = base + next * slope;
      addPoint(trace, level, next, position, target);
      at = next;
    }
    if (nextKey < 0) break;
    slope = nextSlope;
    base = from[nextKey]! - guarantee[nextKey]!;
  }

  trace.position += at * (position - trace.position);
  for (let key = 0; key < keyCount; key++) {
    from[key] = at === 1 ? target[key]! : from[key]! + at * (target[key]! - from[key]!);
  }
}

/** The path jumps to `target`: as a whole, once the level allows it, or never. */
export function jumpTo(trace: Trace, target: readonly number[]): void {
  const { guarantee, limit, value } = trace;
  markWaiting(trace);
  let level = trace.level;
  for (let key = 0; key < target.length; key++) {
    if (target[key]! > limit[key]! + LIMIT_EPSILON) trace.isStopped = true;
    level = Math.max(level, target[key]! - guarantee[key]!);
  }
  if (trace.isStopped) return;
  if (level > trace.level + LEVEL_EPSILON) {
    addPoint(trace, level, 0, trace.position, value);
    markWaiting(trace);
  }
  addPoint(trace, level, 1, trace.position, target);
  for (let key = 0; key < target.length; key++) value[key] = target[key]!;
}

function markWaiting({ stride, pointCount }: Trace): void {
  POINTS[(pointCount - 1) * stride + WAITING] = 1;
}

/** Adds the point that lies `part` of the way from where the trace stands to `target`. */
function addPoint(
  trace: Trace,
  level: number,
  part: number,
  position: number,
  target: readonly number[],
): void {
  const { stride, value } = trace;
  if (level > trace.level + LEVEL_EPSILON) {
    trace.level = level;
    trace.pointCount++;
  } else if (trace.pointCount < 2 || POINTS[(trace.pointCount - 2) * stride] !== trace.level) {
    trace.pointCount++;
  } // Else the same level once more: only the ends of a jump count (invariant 2).
  let offset = (trace.pointCount - 1) * stride;
  POINTS[offset++] = trace.level;
  POINTS[offset++] = trace.position + part * (position - trace.position);
  POINTS[offset++] = 0;
  for (let key = 0; key < value.length; key++) {
    POINTS[offset++] = part === 1 ? target[key]! : value[key]! + part * (target[key]! - value[key]!);
  }
}

/** The point that holds at level 0. */
export function firstPoint({ numbers, stride, pointCount }: Curve): number {
  return pointCount > 1 && numbers[stride] === 0 ? 1 : 0;
}
