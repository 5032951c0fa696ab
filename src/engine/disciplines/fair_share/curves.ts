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

/** Where the points of all curves of a pool lie: numbers that the collector need not look at. */
export interface Paper {
  numbers: Float64Array;
  used: number;
  /** Numbers per point: level, position, 1 if it is waiting, and its value on every key. */
  readonly stride: number;
}

export interface Curve {
  readonly paper: Paper;
  readonly start: number;
  readonly pointCount: number;
  /** How many points fit where it lies. */
  readonly room: number;
  /** Whether everybody below has its whole demand from the last level on, so that no limit cuts it. */
  readonly isComplete: boolean;
}

const POSITION = 1;
const WAITING = 2;
const VALUE = 3;

export function newPaper(keyCount: number): Paper {
  return { numbers: new Float64Array(1 << 12), used: 0, stride: VALUE + keyCount };
}

/** What an element has before its curve is drawn. */
export const BLANK: Curve = {
  paper: { numbers: new Float64Array(0), used: 0, stride: VALUE },
  start: 0,
  pointCount: 0,
  room: 0,
  isComplete: true,
};

/** Levels closer than this are one, so that rounding does not turn a jump into a steep slope. */
const LEVEL_EPSILON = 1e-13;
/** How far apart two levels may be that rounding alone tells apart. */
const SAME_LEVEL = 10 * LEVEL_EPSILON;
/** How far a value may exceed its limit by rounding alone. */
const LIMIT_EPSILON = 1e-12;

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

/** The finished curve, in the place of the former one if it fits there. */
export function endTrace({ paper, pointCount }: Trace, isComplete: boolean, { former }: Drawing): Curve {
  const { numbers, used, stride } = paper;
  if (former !== undefined && former.paper === paper && pointCount <= former.room) {
    numbers.copyWithin(former.start, used, used + pointCount * stride);
    return { paper, start: former.start, pointCount, room: former.room, isComplete };
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

export interface Place {
  readonly position: number;
  /** Whether a jump of the path at this very position has not happened. */
  readonly isBelow: boolean;
}

/** Whether rounding alone tells them apart. */
export function isSamePlace(a: Place, b: Place): boolean {
  return (
    a.isBelow === b.isBelow && Math.abs(a.position - b.position) <= PLACE_ROUNDING * Math.abs(a.position)
  );
}

const PLACE_ROUNDING = 1e-14;

export function endOf(curve: Curve): Place {
  const { numbers } = curve.paper;
  const last = offsetOf(curve, curve.pointCount - 1);
  return { position: numbers[last + POSITION]!, isBelow: numbers[last + WAITING] === 1 };
}

function offsetOf({ paper, start }: Curve, point: number): number {
  return start + point * paper.stride;
}

/** Whether everybody below has its whole demand at this level. */
export function isSatisfiedAt(curve: Curve, level: number): boolean {
  return curve.isComplete && level > curve.paper.numbers[offsetOf(curve, curve.pointCount - 1)]!;
}

/** Where on its path the element stands at a level, or just below it. */
export function placeAt(curve: Curve, level: number, isBelow: boolean): Place {
  const { numbers, stride } = curve.paper;
  const { point, part, isArrival } = locate(curve, level, isBelow);
  const offset = offsetOf(curve, point);
  const from = numbers[offset + POSITION]!;
  if (part === 0) return { position: from, isBelow: isArrival || numbers[offset + WAITING] === 1 };
  const to = numbers[offset + stride + POSITION]!;
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
  const { numbers, stride } = curve.paper;
  if (isBelow) {
    const arrival = countBelow(curve, level - SAME_LEVEL);
    // There is nothing below level 0: what is guaranteed is there from the beginning.
    if (arrival === 0) return { point: firstPoint(curve), part: 0, isArrival: false };
    if (arrival < curve.pointCount && numbers[offsetOf(curve, arrival)]! <= level + SAME_LEVEL) {
      return { point: arrival, part: 0, isArrival: true };
    }
  }
  const point = countBelow(curve, level + SAME_LEVEL) - 1;
  const offset = offsetOf(curve, point);
  const pointLevel = numbers[offset]!;
  const isAtPoint = point === curve.pointCount - 1 || pointLevel >= level - SAME_LEVEL;
  const part = isAtPoint ? 0 : (level - pointLevel) / (numbers[offset + stride]! - pointLevel);
  return { point, part, isArrival: false };
}

/** How many points lie below a level. */
function countBelow({ paper, start, pointCount }: Curve, level: number): number {
  const { numbers, stride } = paper;
  let low = 0;
  let high = pointCount;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[start + middle * stride]! < level) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The point that holds at level 0. */
function firstPoint(curve: Curve): number {
  return curve.pointCount > 1 && curve.paper.numbers[offsetOf(curve, 1)] === 0 ? 1 : 0;
}

export interface Member {
  readonly curve: Curve;
  readonly weight: number;
}

/**
 * The highest position of a group's path, as `sumCurve` describes it, that stays within `limit`. A position that was
 * the highest lately mostly lies between the same two points as the one that is now.
 */
export function highestPlace(members: readonly Member[], limit: readonly number[], lately?: Place): Place {
  const rising = members.filter(({ weight }) => weight > 0);
  const fits = (position: number) => isWithin(sumAt(members, position, false, limit.length), limit);
  const known = lately && stretchAround(rising, lately);
  const isRight =
    known !== undefined &&
    fits(known.fitting) &&
    (known.exceeding === Number.POSITIVE_INFINITY || !fits(known.exceeding));
  const { fitting, exceeding } = isRight ? known : findStretch(rising, fits);
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

/** Two positions with no member's point between them. */
interface Stretch {
  readonly fitting: number;
  readonly exceeding: number;
}

function stretchAround(members: readonly Member[], { position, isBelow }: Place): Stretch {
  let fitting = 0;
  let exceeding = Number.POSITIVE_INFINITY;
  for (const { curve, weight } of members) {
    const { numbers } = curve.paper;
    const level = weight * position;
    const count = countBelow(curve, isBelow ? level - SAME_LEVEL : level + SAME_LEVEL);
    if (count > 0) fitting = Math.max(fitting, numbers[offsetOf(curve, count - 1)]! / weight);
    if (count < curve.pointCount) exceeding = Math.min(exceeding, numbers[offsetOf(curve, count)]! / weight);
  }
  return { fitting, exceeding };
}

/** By halving, all members at once. */
function findStretch(members: readonly Member[], fits: (position: number) => boolean): Stretch {
  // Per member: how many of its points lie at or below a position that fits, and how many may still do.
  const low = members.map(() => 0);
  const high = members.map(({ curve }) => curve.pointCount);
  let fitting = 0;
  let exceeding = Number.POSITIVE_INFINITY;
  for (;;) {
    const position = middlePosition(members, low, high);
    if (position === undefined) return { fitting, exceeding };
    const isFitting = fits(position);
    if (isFitting) fitting = Math.max(fitting, position);
    else exceeding = Math.min(exceeding, position);
    for (let index = 0; index < members.length; index++) {
      if (low[index] === high[index]) continue;
      const member = members[index]!;
      const level = member.weight * position;
      if (isFitting) low[index] = Math.max(low[index]!, countBelow(member.curve, level + SAME_LEVEL));
      else high[index] = Math.min(high[index]!, countBelow(member.curve, level - SAME_LEVEL));
    }
  }
}

/** The median of the members' middle points, each counting as often as it has points left to decide on. */
function middlePosition(members: readonly Member[], low: number[], high: number[]): number | undefined {
  const middles: { position: number; count: number }[] = [];
  let left = 0;
  for (const [index, { curve, weight }] of members.entries()) {
    const count = high[index]! - low[index]!;
    if (count <= 0) continue;
    const offset = offsetOf(curve, (low[index]! + high[index]!) >>> 1);
    middles.push({ position: curve.paper.numbers[offset]! / weight, count });
    left += count;
  }
  middles.sort((a, b) => a.position - b.position);
  let passed = 0;
  return middles.find(({ count }) => {
    passed += count;
    return 2 * passed >= left;
  })?.position;
}

function isWithin(value: readonly number[], limit: readonly number[]): boolean {
  return value.every((share, key) => share <= limit[key]! + LIMIT_EPSILON);
}

function sumAt(members: readonly Member[], position: number, isBelow: boolean, keyCount: number): number[] {
  const sum = new Array<number>(keyCount).fill(0);
  for (const { curve, weight } of members) {
    const { numbers, stride } = curve.paper;
    const { point, part } = locate(curve, weight * position, isBelow);
    for (let key = 0, offset = offsetOf(curve, point) + VALUE; key < keyCount; key++, offset++) {
      const value = numbers[offset]!;
      sum[key]! += part === 0 ? value : value + part * (numbers[offset + stride]! - value);
    }
  }
  return sum;
}

/**
 * The curve of a group. The position on its path is the level of the water inside: a member of weight w
 * stands at level w × position of its own curve, and the value is what all of them hold together.
 */
export function sumCurve(members: readonly Member[], drawing: Drawing): Curve {
  const { paper } = drawing;
  const { stride } = paper;
  const keyCount = stride - VALUE;
  const sum = new Array<number>(keyCount).fill(0);
  const slopes = new Array<number>(keyCount).fill(0);
  // Slopes differ by many orders of magnitude; what rounding loses is kept, so that what remains is right.
  const lost = new Array<number>(keyCount).fill(0);

  /** Begins or ends the stretch from a member's point to its next one. */
  const addSlope = (offset: number, weight: number, sign: 1 | -1): void => {
    const { numbers } = paper;
    const factor = sign / (numbers[offset + stride]! / weight - numbers[offset]! / weight);
    for (let key = 0, at = offset + VALUE; key < keyCount; key++, at++) {
      const added = (numbers[at + stride]! - numbers[at]!) * factor;
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
    const { curve, weight } = member;
    if (!curve.isComplete) isComplete = false;
    const first = firstPoint(curve);
    const offset = offsetOf(curve, first);
    for (let key = 0; key < keyCount; key++) sum[key]! += paper.numbers[offset + VALUE + key]!;
    if (first + 1 === curve.pointCount || weight === 0) continue;
    events.runs.push(events.times.length);
    for (let point = first + 1; point < curve.pointCount; point++) {
      events.times.push(paper.numbers[offsetOf(curve, point)]! / weight);
      events.owners.push(member);
      events.points.push(point);
    }
    addSlope(offset, weight, 1);
  }

  const trace = beginTrace(drawing, sum);
  let now = 0;
  let jumpAt = -1;
  const order = inOrder(events);
  for (let next = 0; next < order.length; next++) {
    const event = order[next]!;
    const time = events.times[event]!;
    const { curve, weight } = events.owners[event]!;
    const point = events.points[event]!;
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

    const { numbers } = paper;
    const offset = offsetOf(curve, point);
    if (numbers[offset - stride]! / weight < time) {
      addSlope(offset - stride, weight, -1);
    } else {
      for (let key = 0, at = offset + VALUE; key < keyCount; key++, at++) {
        sum[key]! += numbers[at]! - numbers[at - stride]!;
      }
      if (jumpAt < 0) jumpAt = time;
    }
    if (point + 1 < curve.pointCount && numbers[offset + stride]! / weight > time)
      addSlope(offset, weight, 1);
  }
  if (jumpAt >= 0) jumpTo(trace, sum);
  return endTrace(trace, isComplete && !trace.isStopped, drawing);
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
