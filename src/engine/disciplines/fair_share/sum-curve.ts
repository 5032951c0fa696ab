// The curve of a group: what all its members hold together as the water inside it rises (9.1).

import {
  beginTrace,
  type Curve,
  type Drawing,
  endTrace,
  firstPoint,
  jumpTo,
  lineTo,
  offsetOf,
  type Paper,
  VALUE,
} from "./curves.ts";
import type { Member } from "./levels.ts";
import { LEVEL_EPSILON } from "./tolerances.ts";

/**
 * The position on a group's path is the level of the water inside: a member of weight w stands at level w × position
 * of its own curve, and the value is what all of them hold together, equal ones as often as there are.
 */
export function sumCurve(members: readonly Member[], drawing: Drawing): Curve {
  const { paper } = drawing;
  const { stride } = paper;
  const keyCount = stride - VALUE;
  const rise = RISE;
  const events = EVENTS;
  const { sum } = rise;
  rise.begin(keyCount);
  const isComplete = collectEvents(members, paper);
  const trace = beginTrace(drawing, sum);
  let now = 0;
  let jumpAt = -1;
  const order = inOrder(events);
  for (let next = 0; next < events.count; next++) {
    const event = order[next]!;
    const time = events.times[event]!;
    const { curve, weight, count } = members[events.owners[event]!]!;
    const point = events.points[event]!;
    // Jumps that rounding alone tells apart are one jump: it fits as a whole or not at all.
    const joinsJump = jumpAt >= 0 && (time - jumpAt) * weight <= LEVEL_EPSILON;
    if (jumpAt >= 0 && !joinsJump) {
      jumpTo(trace, sum);
      jumpAt = -1;
    }
    if (time > now) {
      rise.go(time - now);
      if (!joinsJump && !trace.isStopped) lineTo(trace, time, sum);
      now = time;
    }
    if (trace.isStopped) break;

    const { numbers } = paper;
    const offset = offsetOf(curve, point);
    if (numbers[offset - stride]! / weight < time) {
      rise.addSlope(paper, offset - stride, weight, -count);
    } else {
      for (let key = 0, at = offset + VALUE; key < keyCount; key++, at++) {
        sum[key]! += count * (numbers[at]! - numbers[at - stride]!);
      }
      if (jumpAt < 0) jumpAt = time;
    }
    if (point + 1 < curve.pointCount && numbers[offset + stride]! / weight > time)
      rise.addSlope(paper, offset, weight, count);
  }
  if (jumpAt >= 0) jumpTo(trace, sum);
  return endTrace(trace, isComplete && !trace.isStopped, drawing);
}

/**
 * Points that the water reaches: when, whose (by place among the members), and which one. Each run is one member's, in
 * order. Only one curve is drawn at a time, so that the same lists serve all of them.
 */
interface Events {
  readonly times: number[];
  readonly owners: number[];
  readonly points: number[];
  count: number;
  readonly runs: number[];
  runCount: number;
}

const EVENTS: Events = { times: [], owners: [], points: [], count: 0, runs: [], runCount: 0 };
/** Where their order is made, and its former state. */
const ORDERS: [number[], number[]] = [[], []];

/** What the members hold together now, and how fast that grows. */
class Rise {
  readonly sum: number[] = [];
  readonly #slopes: number[] = [];
  /** Slopes differ by many orders of magnitude; what rounding loses is kept, so that what remains is right. */
  readonly #lost: number[] = [];

  begin(keyCount: number): void {
    this.sum.length = keyCount;
    for (let key = 0; key < keyCount; key++) {
      this.sum[key] = 0;
      this.#slopes[key] = 0;
      this.#lost[key] = 0;
    }
  }

  /** Begins the stretch from a member's point to its next one for so many equal ones, or ends it, with a count below 0. */
  addSlope({ numbers, stride }: Paper, offset: number, weight: number, count: number): void {
    const slopes = this.#slopes;
    const factor = count / (numbers[offset + stride]! / weight - numbers[offset]! / weight);
    for (let key = 0, at = offset + VALUE; key < this.sum.length; key++, at++) {
      const added = (numbers[at + stride]! - numbers[at]!) * factor;
      if (added === 0) continue;
      const old = slopes[key]!;
      const total = old + added;
      const rounded = total - old;
      this.#lost[key]! += old - (total - rounded) + (added - rounded);
      slopes[key] = total;
    }
  }

  go(distance: number): void {
    const { sum } = this;
    for (let key = 0; key < sum.length; key++) {
      sum[key]! += Math.max(0, this.#slopes[key]! + this.#lost[key]!) * distance;
    }
  }
}

/** Like the events, it serves all curves. */
const RISE = new Rise();

/** Whether all members have their whole demand in the end. */
function collectEvents(members: readonly Member[], paper: Paper): boolean {
  const [events, { sum }] = [EVENTS, RISE];
  events.count = 0;
  events.runCount = 0;
  let isComplete = true;
  for (let owner = 0; owner < members.length; owner++) {
    const { curve, weight, count } = members[owner]!;
    const { numbers } = curve.paper;
    if (!curve.isComplete) isComplete = false;
    const first = firstPoint(curve);
    const offset = offsetOf(curve, first);
    for (let key = 0; key < sum.length; key++) sum[key]! += count * numbers[offset + VALUE + key]!;
    if (first + 1 === curve.pointCount || weight === 0) continue;
    events.runs[events.runCount++] = events.count;
    for (let point = first + 1; point < curve.pointCount; point++) {
      events.times[events.count] = numbers[offsetOf(curve, point)]! / weight;
      events.owners[events.count] = owner;
      events.points[events.count++] = point;
    }
    RISE.addSlope(paper, offset, weight, count);
  }
  return isComplete;
}

/** The events of all members in one order, by merging their runs pair by pair. */
function inOrder({ times, count, runs, runCount }: Events): readonly number[] {
  let [order, merged] = ORDERS;
  for (let index = 0; index < count; index++) order[index] = index;
  for (let left = runCount; left > 1; left = (left + 1) >> 1) mergePairs(left);
  return order;

  /** The starts of merged runs take the place of those of the runs. */
  function mergePairs(startCount: number): void {
    for (let run = 0; run < startCount; run += 2) {
      let left = runs[run]!;
      const leftEnd = run + 1 < startCount ? runs[run + 1]! : count;
      let right = leftEnd;
      const rightEnd = run + 2 < startCount ? runs[run + 2]! : count;
      runs[run >> 1] = left;
      for (let to = left; to < rightEnd; to++) {
        const takesLeft =
          left < leftEnd && (right === rightEnd || times[order[left]!]! <= times[order[right]!]!);
        merged[to] = takesLeft ? order[left++]! : order[right++]!;
      }
    }
    const former = order;
    order = merged;
    merged = former;
  }
}
