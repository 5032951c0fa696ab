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

export interface Curve {
  /** Per point: level, position, 1 if it is waiting, and its value on every key. */
  readonly data: readonly number[];
  readonly pointCount: number;
  /** Whether everybody below has its whole demand from the last level on, so that no limit cuts it. */
  readonly isComplete: boolean;
}

const POSITION = 1;
const WAITING = 2;
const VALUE = 3;

/** Levels closer than this are one, so that rounding does not turn a jump into a steep slope. */
const LEVEL_EPSILON = 1e-13;
/** How far apart two levels may be that rounding alone tells apart. */
const SAME_LEVEL = 10 * LEVEL_EPSILON;
/** How far a value may exceed its limit by rounding alone. */
const LIMIT_EPSILON = 1e-12;

/** A curve in the making. The path has come to `value`, which needs `level`. */
export interface Trace {
  readonly data: number[];
  readonly guarantee: readonly number[];
  readonly limit: readonly number[];
  readonly value: number[];
  pointCount: number;
  position: number;
  level: number;
  /** A limit has ended the path. */
  isStopped: boolean;
}

/** Only one curve is drawn at a time; sharing the paper spares the collector most of its work. */
const paper: number[] = [];

/** A path begins within its guarantee, at level 0. */
export function beginTrace(
  start: readonly number[],
  guarantee: readonly number[],
  limit: readonly number[],
): Trace {
  const value = start.slice();
  const trace = {
    data: paper,
    guarantee,
    limit,
    value,
    pointCount: 0,
    position: 0,
    level: 0,
    isStopped: false,
  };
  addPoint(trace, 0, 1, 0, start);
  return trace;
}

export function endTrace({ data, pointCount, value }: Trace, isComplete: boolean): Curve {
  return { data: data.slice(0, pointCount * (VALUE + value.length)), pointCount, isComplete };
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
function jumpTo(trace: Trace, target: readonly number[]): void {
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

function markWaiting({ data, pointCount, value }: Trace): void {
  data[(pointCount - 1) * (VALUE + value.length) + WAITING] = 1;
}

/** Adds the point that lies `part` of the way from where the trace stands to `target`. */
function addPoint(
  trace: Trace,
  level: number,
  part: number,
  position: number,
  target: readonly number[],
): void {
  const { data, value } = trace;
  const stride = VALUE + value.length;
  if (level > trace.level + LEVEL_EPSILON) {
    trace.level = level;
    trace.pointCount++;
  } else if (trace.pointCount < 2 || data[(trace.pointCount - 2) * stride] !== trace.level) {
    trace.pointCount++;
  } // Else the same level once more: only the ends of a jump count (invariant 2).
  let offset = (trace.pointCount - 1) * stride;
  data[offset++] = trace.level;
  data[offset++] = trace.position + part * (position - trace.position);
  data[offset++] = 0;
  for (let key = 0; key < value.length; key++) {
    data[offset++] = part === 1 ? target[key]! : value[key]! + part * (target[key]! - value[key]!);
  }
}

export interface Place {
  readonly position: number;
  /** Whether a jump of the path at this very position has not happened. */
  readonly isBelow: boolean;
}

export function endOf(curve: Curve): Place {
  const last = (curve.pointCount - 1) * strideOf(curve);
  return { position: curve.data[last + POSITION]!, isBelow: curve.data[last + WAITING] === 1 };
}

/** Whether everybody below has its whole demand at this level. */
export function isSatisfiedAt(curve: Curve, level: number): boolean {
  return curve.isComplete && level > curve.data[(curve.pointCount - 1) * strideOf(curve)]!;
}

/** Where on its path the element stands at a level, or just below it. */
export function placeAt(curve: Curve, level: number, isBelow: boolean): Place {
  const { data } = curve;
  const stride = strideOf(curve);
  const { point, part, isArrival } = locate(curve, level, isBelow);
  const from = data[point * stride + POSITION]!;
  if (part === 0) return { position: from, isBelow: isArrival || data[point * stride + WAITING] === 1 };
  const to = data[(point + 1) * stride + POSITION]!;
  // The level rises and the position does not: the path waits before a jump.
  return { position: from + part * (to - from), isBelow: from === to };
}

interface Location {
  /** The last point at or before the level, and the part of the way to the next one. */
  readonly point: number;
  readonly part: number;
  /** Whether the level itself is the point's, but has not quite been reached. */
  readonly isArrival: boolean;
}

function locate(curve: Curve, level: number, isBelow: boolean): Location {
  const { data, pointCount } = curve;
  const stride = strideOf(curve);
  if (isBelow) {
    const arrival = countBelow(curve, level - SAME_LEVEL);
    // There is nothing below level 0: what is guaranteed is there from the beginning.
    if (arrival === 0) return { point: firstPoint(curve), part: 0, isArrival: false };
    if (arrival < pointCount && data[arrival * stride]! <= level + SAME_LEVEL) {
      return { point: arrival, part: 0, isArrival: true };
    }
  }
  const point = countBelow(curve, level + SAME_LEVEL) - 1;
  const pointLevel = data[point * stride]!;
  const isAtPoint = point === pointCount - 1 || pointLevel >= level - SAME_LEVEL;
  const part = isAtPoint ? 0 : (level - pointLevel) / (data[(point + 1) * stride]! - pointLevel);
  return { point, part, isArrival: false };
}

/** How many points lie below a level. */
function countBelow(curve: Curve, level: number): number {
  const { data, pointCount } = curve;
  const stride = strideOf(curve);
  let low = 0;
  let high = pointCount;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (data[middle * stride]! < level) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The point that holds at level 0. */
function firstPoint(curve: Curve): number {
  return curve.pointCount > 1 && curve.data[strideOf(curve)] === 0 ? 1 : 0;
}

function strideOf({ data, pointCount }: Curve): number {
  return data.length / pointCount;
}

export interface Member {
  readonly curve: Curve;
  readonly weight: number;
}

/** The highest position of a group's path, as `sumCurve` describes it, that stays within `limit`. */
export function highestPlace(members: readonly Member[], limit: readonly number[]): Place {
  // Per member: how many of its points lie at or below a position that fits, and how many may still do.
  const rising = members.filter(({ weight }) => weight > 0);
  const low = rising.map(() => 0);
  const high = rising.map(({ curve }) => curve.pointCount);
  let fitting = 0;
  let exceeding = Number.POSITIVE_INFINITY;
  for (;;) {
    const widest = indexOfWidest(low, high);
    if (widest < 0) break;
    const { curve, weight } = rising[widest]!;
    const middle = (low[widest]! + high[widest]!) >>> 1;
    const position = curve.data[middle * strideOf(curve)]! / weight;
    const fits = isWithin(sumAt(members, position, false, limit.length), limit);
    if (fits) fitting = Math.max(fitting, position);
    else exceeding = Math.min(exceeding, position);
    for (let index = 0; index < rising.length; index++) {
      if (low[index] === high[index]) continue;
      const member = rising[index]!;
      const level = member.weight * position;
      if (fits) low[index] = Math.max(low[index]!, countBelow(member.curve, level + SAME_LEVEL));
      else high[index] = Math.min(high[index]!, countBelow(member.curve, level - SAME_LEVEL));
    }
  }
  if (exceeding === Number.POSITIVE_INFINITY) return { position: fitting, isBelow: false };

  const from = sumAt(members, fitting, false, limit.length);
  const to = sumAt(members, exceeding, true, limit.length);
  if (isWithin(to, limit)) return { position: exceeding, isBelow: true };
  let part = 1;
  for (let key = 0; key < limit.length; key++) {
    if (to[key]! <= limit[key]! + LIMIT_EPSILON) continue;
    part = Math.min(part, Math.max(0, (limit[key]! - from[key]!) / (to[key]! - from[key]!)));
  }
  return { position: fitting + part * (exceeding - fitting), isBelow: false };
}

function indexOfWidest(low: readonly number[], high: readonly number[]): number {
  let widest = -1;
  let width = 0;
  for (let index = 0; index < low.length; index++) {
    if (high[index]! - low[index]! <= width) continue;
    width = high[index]! - low[index]!;
    widest = index;
  }
  return widest;
}

function isWithin(value: readonly number[], limit: readonly number[]): boolean {
  return value.every((share, key) => share <= limit[key]! + LIMIT_EPSILON);
}

function sumAt(members: readonly Member[], position: number, isBelow: boolean, keyCount: number): number[] {
  const sum = new Array<number>(keyCount).fill(0);
  const stride = VALUE + keyCount;
  for (const { curve, weight } of members) {
    const { data } = curve;
    const { point, part } = locate(curve, weight * position, isBelow);
    for (let key = 0, offset = point * stride + VALUE; key < keyCount; key++, offset++) {
      const value = data[offset]!;
      sum[key]! += part === 0 ? value : value + part * (data[offset + stride]! - value);
    }
  }
  return sum;
}

/**
 * The curve of a group. The position on its path is the level of the water inside: a member of weight w
 * stands at level w × position of its own curve, and the value is what all of them hold together.
 */
export function sumCurve(
  members: readonly Member[],
  guarantee: readonly number[],
  limit: readonly number[],
): Curve {
  const keyCount = guarantee.length;
  const stride = VALUE + keyCount;
  const sum = new Array<number>(keyCount).fill(0);
  const slopes = new Array<number>(keyCount).fill(0);
  // Slopes differ by many orders of magnitude; what rounding loses is kept, so that what remains is right.
  const lost = new Array<number>(keyCount).fill(0);

  /** Begins or ends the stretch from a member's point to its next one. */
  const addSlope = ({ curve: { data }, weight }: Member, point: number, sign: 1 | -1): void => {
    let offset = point * stride;
    const factor = sign / (data[offset + stride]! / weight - data[offset]! / weight);
    offset += VALUE;
    for (let key = 0; key < keyCount; key++, offset++) {
      const added = (data[offset + stride]! - data[offset]!) * factor;
      if (added === 0) continue;
      const old = slopes[key]!;
      const total = old + added;
      const rounded = total - old;
      lost[key]! += old - (total - rounded) + (added - rounded);
      slopes[key] = total;
    }
  };

  // One event per point, in the order in which the rising water reaches them.
  const events: Events = { times: [], owners: [], points: [], runs: [] };
  let isComplete = true;
  for (const member of members) {
    const { data, pointCount } = member.curve;
    if (!member.curve.isComplete) isComplete = false;
    const first = firstPoint(member.curve);
    for (let key = 0; key < keyCount; key++) sum[key]! += data[first * stride + VALUE + key]!;
    if (first + 1 === pointCount || member.weight === 0) continue;
    events.runs.push(events.times.length);
    for (let point = first + 1; point < pointCount; point++) {
      events.times.push(data[point * stride]! / member.weight);
      events.owners.push(member);
      events.points.push(point);
    }
    addSlope(member, first, 1);
  }

  const trace = beginTrace(sum, guarantee, limit);
  let now = 0;
  let jumpAt = -1;
  for (const event of inOrder(events)) {
    const time = events.times[event]!;
    const member = events.owners[event]!;
    const point = events.points[event]!;
    const { weight } = member;
    const { data, pointCount } = member.curve;
    // Jumps that rounding alone tells apart are one jump: it fits as a whole or not at all.
    const joinsJump = jumpAt >= 0 && (time - jumpAt) * weight <= LEVEL_EPSILON;
    if (jumpAt >= 0 && !joinsJump) {
      jumpTo(trace, sum);
      jumpAt = -1;
    }
    if (time > now) {
      for (let key = 0; key < keyCount; key++) {
        sum[key]! += Math.max(0, slopes[key]! + lost[key]!) * (time - now);
      }
      if (!joinsJump && !trace.isStopped) lineTo(trace, time, sum);
      now = time;
    }
    if (trace.isStopped) break;

    const offset = point * stride;
    if (data[offset - stride]! / weight < time) {
      addSlope(member, point - 1, -1);
    } else {
      for (let key = VALUE; key < stride; key++)
        sum[key - VALUE]! += data[offset + key]! - data[offset + key - stride]!;
      if (jumpAt < 0) jumpAt = time;
    }
    if (point + 1 < pointCount && data[offset + stride]! / weight > time) addSlope(member, point, 1);
  }
  if (jumpAt >= 0) jumpTo(trace, sum);
  return endTrace(trace, isComplete && !trace.isStopped);
}

/** Points that the water reaches: when, whose, and which one. Each run is one member's, in order. */
interface Events {
  readonly times: number[];
  readonly owners: Member[];
  readonly points: number[];
  readonly runs: number[];
}

/** The events of all members in one order, by merging their runs pair by pair. */
function inOrder({ times, runs }: Events): number[] {
  const count = times.length;
  let order = new Array<number>(count);
  for (let index = 0; index < count; index++) order[index] = index;
  let merged = runs.length > 1 ? order.slice() : order;
  for (let starts = runs; starts.length > 1; ) {
    const nextStarts: number[] = [];
    for (let run = 0; run < starts.length; run += 2) {
      let left = starts[run]!;
      const leftEnd = starts[run + 1] ?? count;
      let right = leftEnd;
      const rightEnd = starts[run + 2] ?? count;
      nextStarts.push(left);
      for (let to = left; to < rightEnd; to++) {
        const takesLeft =
          left < leftEnd && (right === rightEnd || times[order[left]!]! <= times[order[right]!]!);
        merged[to] = takesLeft ? order[left++]! : order[right++]!;
      }
    }
    starts = nextStarts;
    [order, merged] = [merged, order];
  }
  return order;
}
