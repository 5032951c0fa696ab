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

/** Where the points of all curves of a pool lie: numbers that the collector need not look at. */
export interface Paper {
  numbers: Float64Array;
  used: number;
  /** How much was in use when curves were last moved together. */
  usedByLiving: number;
  /** Numbers per point: level, position, 1 if it is waiting, and its value on every key. */
  readonly stride: number;
}

export interface Curve {
  readonly paper: Paper;
  start: number;
  pointCount: number;
  /** How many points fit where it lies. */
  readonly room: number;
  /** Whether everybody below has its whole demand from the last level on, so that no limit cuts it. */
  isComplete: boolean;
}

export const POSITION = 1;
export const WAITING = 2;
export const VALUE = 3;

const PAPER_LENGTH_MIN = 1 << 10;

export function newPaper(keyCount: number): Paper {
  return { numbers: new Float64Array(PAPER_LENGTH_MIN), used: 0, usedByLiving: 0, stride: VALUE + keyCount };
}

/** What an element has before its curve is drawn. */
export const BLANK: Curve = {
  paper: { numbers: new Float64Array(0), used: 0, usedByLiving: 0, stride: VALUE },
  start: 0,
  pointCount: 0,
  room: 0,
  isComplete: true,
};

/** A curve in the making. The path has come to `value`, which needs `level`. */
export interface Trace {
  readonly paper: Paper;
  readonly guarantee: readonly number[];
  readonly limit: readonly number[];
  readonly value: number[];
  pointCount: number;
  position: number;
  level: number;
  /** A limit has ended the path. */
  isStopped: boolean;
}

/** On which paper, within which bounds, and instead of which older curve a new one is drawn. */
export interface Drawing {
  readonly paper: Paper;
  readonly guarantee: readonly number[];
  readonly limit: readonly number[];
  readonly former: Curve | undefined;
}

/** A path begins within its guarantee, at level 0. Only one curve is drawn at a time. */
export function beginTrace({ paper, guarantee, limit }: Drawing, start: readonly number[]): Trace {
  const value = start.slice();
  const trace = { paper, guarantee, limit, value, pointCount: 0, position: 0, level: 0, isStopped: false };
  addPoint(trace, 0, 1, 0, start);
  return trace;
}

/** The finished curve; the former one becomes it if it fits there. */
export function endTrace({ paper, pointCount }: Trace, isComplete: boolean, { former }: Drawing): Curve {
  const { numbers, used, stride } = paper;
  if (former !== undefined && former.paper === paper && pointCount <= former.room) {
    numbers.copyWithin(former.start, used, used + pointCount * stride);
    former.pointCount = pointCount;
    former.isComplete = isComplete;
    return former;
  }
  paper.used += pointCount * stride;
  return { paper, start: used, pointCount, room: pointCount, isComplete };
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

function markWaiting({ paper, pointCount }: Trace): void {
  paper.numbers[paper.used + (pointCount - 1) * paper.stride + WAITING] = 1;
}

/** Adds the point that lies `part` of the way from where the trace stands to `target`. */
function addPoint(
  trace: Trace,
  level: number,
  part: number,
  position: number,
  target: readonly number[],
): void {
  const { paper, value } = trace;
  const { stride, used } = paper;
  if (level > trace.level + LEVEL_EPSILON) {
    trace.level = level;
    trace.pointCount++;
  } else if (trace.pointCount < 2 || paper.numbers[used + (trace.pointCount - 2) * stride] !== trace.level) {
    trace.pointCount++;
  } // Else the same level once more: only the ends of a jump count (invariant 2).
  let offset = used + (trace.pointCount - 1) * stride;
  if (offset + stride > paper.numbers.length) extend(paper);
  const { numbers } = paper;
  numbers[offset++] = trace.level;
  numbers[offset++] = trace.position + part * (position - trace.position);
  numbers[offset++] = 0;
  for (let key = 0; key < value.length; key++) {
    numbers[offset++] = part === 1 ? target[key]! : value[key]! + part * (target[key]! - value[key]!);
  }
}

function extend(paper: Paper): void {
  const numbers = new Float64Array(2 * paper.numbers.length);
  numbers.set(paper.numbers);
  paper.numbers = numbers;
}

/** Whether most of the paper is waste: curves that were drawn anew elsewhere, or whose elements have gone. */
export function isWasteful({ used, usedByLiving }: Paper): boolean {
  return used > PAPER_LENGTH_MIN + 4 * usedByLiving;
}

/** Moves curves together. Those that are not given are lost. */
export function moveTogether(paper: Paper, curves: readonly Curve[]): void {
  const numbers = new Float64Array(paper.numbers.length);
  let used = 0;
  for (const curve of curves) {
    const length = curve.room * paper.stride;
    numbers.set(paper.numbers.subarray(curve.start, curve.start + length), used);
    curve.start = used;
    used += length;
  }
  paper.numbers = numbers;
  paper.used = used;
  paper.usedByLiving = used;
}

export function offsetOf({ paper, start }: Curve, point: number): number {
  return start + point * paper.stride;
}

/** The point that holds at level 0. */
export function firstPoint(curve: Curve): number {
  return curve.pointCount > 1 && curve.paper.numbers[offsetOf(curve, 1)] === 0 ? 1 : 0;
}
