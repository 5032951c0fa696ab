// What an element receives, as a function of the level of the water (9.1).
//
// An element moves along a path from nothing to its whole demand. At level x it may hold guarantee + x on
// every key, up to its limit, and it stands at the farthest position of its path that stays within that. A
// `Curve` keeps this as break points; between two of them everything is linear. Where the level stays and
// the value grows the curve jumps: nothing that still holds the element back grows on that stretch.
//
// Invariants
//   1. Levels, positions and values never fall from one point to the next.
//   2. A level has at most two points: what it comes to from below, and what it holds.
//   3. A point marked `isBelow` stands before a jump of the path that has not happened there (9.11).

/** Levels closer than this are one, so that rounding does not turn a jump into a steep slope. */
const LEVEL_EPSILON = 1e-13;
/** How far a value may exceed its limit by rounding alone. */
const LIMIT_EPSILON = 1e-12;

export interface Curve {
  readonly levels: number[];
  readonly positions: number[];
  readonly isBelow: boolean[];
  /** The vectors of all points, one after another. */
  readonly values: number[];
  /** Whether everybody below has its whole demand from the last level on, so that no limit cuts it. */
  isComplete: boolean;
}

/** A curve in the making. The path has come to `value`, which needs `level`. */
export interface Trace {
  readonly curve: Curve;
  readonly guarantee: readonly number[];
  readonly limit: readonly number[];
  readonly value: number[];
  position: number;
  level: number;
  /** A limit has ended the path. */
  isStopped: boolean;
}

/** A path begins within its guarantee, at level 0. */
export function beginTrace(
  start: readonly number[],
  guarantee: readonly number[],
  limit: readonly number[],
): Trace {
  const curve: Curve = {
    levels: [0],
    positions: [0],
    isBelow: [false],
    values: [...start],
    isComplete: true,
  };
  return { curve, guarantee, limit, value: [...start], position: 0, level: 0, isStopped: false };
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
  const { curve, guarantee, limit, value } = trace;
  curve.isBelow[curve.isBelow.length - 1] = true;
  let level = trace.level;
  for (let key = 0; key < target.length; key++) {
    if (target[key]! > limit[key]! + LIMIT_EPSILON) trace.isStopped = true;
    level = Math.max(level, target[key]! - guarantee[key]!);
  }
  if (trace.isStopped) return;
  if (level > trace.level + LEVEL_EPSILON) {
    addPoint(trace, level, 0, trace.position, value);
    curve.isBelow[curve.isBelow.length - 1] = true;
  }
  addPoint(trace, level, 1, trace.position, target);
  for (let key = 0; key < target.length; key++) value[key] = target[key]!;
}

/** Adds the point that lies `part` of the way from where the trace stands to `target`. */
function addPoint(
  trace: Trace,
  level: number,
  part: number,
  position: number,
  target: readonly number[],
): void {
  const { curve, value } = trace;
  const { levels, positions, isBelow, values } = curve;
  const keyCount = value.length;
  let point = levels.length;
  if (level <= trace.level + LEVEL_EPSILON) {
    // The same level once more: only the ends of a jump count (invariant 2).
    if (point >= 2 && levels[point - 2] === trace.level) point--;
  } else {
    trace.level = level;
  }
  levels[point] = trace.level;
  positions[point] = trace.position + part * (position - trace.position);
  isBelow[point] = false;
  const offset = point * keyCount;
  for (let key = 0; key < keyCount; key++) {
    values[offset + key] = part === 1 ? target[key]! : value[key]! + part * (target[key]! - value[key]!);
  }
}

export interface Place {
  readonly position: number;
  /** Whether a jump of the path at this very position has not happened. */
  readonly isBelow: boolean;
}

/** How far apart two levels may be that rounding alone tells apart. */
const SAME_LEVEL = 10 * LEVEL_EPSILON;

/** Where on its path the element stands at a level, or just below it. */
export function placeAt(curve: Curve, level: number, isBelow: boolean): Place {
  const { positions } = curve;
  const { point, part, isArrival } = locate(curve, level, isBelow);
  if (part === 0) return { position: positions[point]!, isBelow: isArrival || curve.isBelow[point]! };
  const [from, to] = [positions[point]!, positions[point + 1]!];
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

function locate({ levels }: Curve, level: number, isBelow: boolean): Location {
  if (isBelow) {
    const arrival = countBelow(levels, level - SAME_LEVEL);
    // There is nothing below level 0: what is guaranteed is there from the beginning.
    if (arrival === 0) return { point: levels[1] === 0 ? 1 : 0, part: 0, isArrival: false };
    if (arrival < levels.length && levels[arrival]! <= level + SAME_LEVEL) {
      return { point: arrival, part: 0, isArrival: true };
    }
  }
  const point = countBelow(levels, level + SAME_LEVEL) - 1;
  const isAtPoint = point === levels.length - 1 || levels[point]! >= level - SAME_LEVEL;
  const part = isAtPoint ? 0 : (level - levels[point]!) / (levels[point + 1]! - levels[point]!);
  return { point, part, isArrival: false };
}

function countBelow(levels: readonly number[], bound: number): number {
  let low = 0;
  let high = levels.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (levels[middle]! < bound) low = middle + 1;
    else high = middle;
  }
  return low;
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
  const high = rising.map(({ curve }) => curve.levels.length);
  let fitting = 0;
  let exceeding = Number.POSITIVE_INFINITY;
  for (;;) {
    const widest = indexOfWidest(low, high);
    if (widest < 0) break;
    const { curve, weight } = rising[widest]!;
    const position = curve.levels[(low[widest]! + high[widest]!) >>> 1]! / weight;
    const fits = isWithin(sumAt(members, position, false, limit.length), limit);
    if (fits) fitting = Math.max(fitting, position);
    else exceeding = Math.min(exceeding, position);
    for (const [index, member] of rising.entries()) {
      const level = member.weight * position;
      if (fits) low[index] = Math.max(low[index]!, countBelow(member.curve.levels, level + SAME_LEVEL));
      else high[index] = Math.min(high[index]!, countBelow(member.curve.levels, level - SAME_LEVEL));
    }
  }
  if (exceeding === Number.POSITIVE_INFINITY) return { position: fitting, isBelow: false };

  const from = sumAt(members, fitting, false, limit.length);
  const to = sumAt(members, exceeding, true, limit.length);
  if (isWithin(to, limit)) return { position: exceeding, isBelow: true };
  let part = 1;
  for (let key = 0; key < limit.length; key++) {
    if (to[key]! > limit[key]! + LIMIT_EPSILON) {
      part = Math.min(part, Math.max(0, (limit[key]! - from[key]!) / (to[key]! - from[key]!)));
    }
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
  for (const { curve, weight } of members) {
    const { values } = curve;
    const { point, part } = locate(curve, weight * position, isBelow);
    for (let key = 0, offset = point * keyCount; key < keyCount; key++, offset++) {
      const value = values[offset]!;
      sum[key]! += part === 0 ? value : value + part * (values[offset + keyCount]! - value);
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
  const sum = new Array<number>(keyCount).fill(0);
  const slopes = new Array<number>(keyCount).fill(0);
  // Slopes differ by many orders of magnitude; what rounding loses is kept, so that what remains is right.
  const lost = new Array<number>(keyCount).fill(0);

  const addSlope = (member: Member, point: number, sign: 1 | -1): void => {
    const { levels, values } = member.curve;
    const factor = sign / (levels[point + 1]! / member.weight - levels[point]! / member.weight);
    for (let key = 0, offset = point * keyCount; key < keyCount; key++, offset++) {
      const added = (values[offset + keyCount]! - values[offset]!) * factor;
      if (added === 0) continue;
      const old = slopes[key]!;
      const total = old + added;
      const rounded = total - old;
      lost[key]! += old - (total - rounded) + (added - rounded);
      slopes[key] = total;
    }
  };

  // One event per break point, in the order of the level at which the water reaches it.
  const times: number[] = [];
  const owners: Member[] = [];
  const points: number[] = [];
  const runs: number[] = [];
  let isComplete = true;
  for (const member of members) {
    const { levels, values } = member.curve;
    if (!member.curve.isComplete) isComplete = false;
    const start = levels[1] === 0 ? 1 : 0;
    for (let key = 0; key < keyCount; key++) sum[key]! += values[start * keyCount + key]!;
    if (start + 1 === levels.length || member.weight === 0) continue;
    runs.push(times.length);
    for (let point = start + 1; point < levels.length; point++) {
      times.push(levels[point]! / member.weight);
      owners.push(member);
      points.push(point);
    }
    addSlope(member, start, 1);
  }

  const trace = beginTrace(sum, guarantee, limit);
  let now = 0;
  let jumpAt = -1;
  for (const event of mergeRuns(times, runs)) {
    const time = times[event]!;
    const member = owners[event]!;
    const point = points[event]!;
    const { levels, values } = member.curve;
    // Jumps that rounding alone tells apart are one jump: it fits as a whole or not at all.
    const joinsJump = jumpAt >= 0 && (time - jumpAt) * member.weight <= LEVEL_EPSILON;
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

    if (levels[point - 1]! / member.weight < time) {
      addSlope(member, point - 1, -1);
    } else {
      for (let key = 0, offset = point * keyCount; key < keyCount; key++, offset++) {
        sum[key]! += values[offset]! - values[offset - keyCount]!;
      }
      if (jumpAt < 0) jumpAt = time;
    }
    if (point + 1 < levels.length && levels[point + 1]! / member.weight > time) addSlope(member, point, 1);
  }
  if (jumpAt >= 0) jumpTo(trace, sum);
  trace.curve.isComplete = isComplete && !trace.isStopped;
  return trace.curve;
}

/** The indices of `keys` in ascending order, given where its ascending runs begin. */
function mergeRuns(keys: readonly number[], runs: readonly number[]): number[] {
  let order = Array.from(keys, (_, index) => index);
  let starts = [...runs, keys.length];
  let merged = new Array<number>(keys.length);
  while (starts.length > 2) {
    const nextStarts: number[] = [];
    for (let run = 0; run + 1 < starts.length; run += 2) {
      let left = starts[run]!;
      const leftEnd = starts[run + 1]!;
      let right = leftEnd;
      const rightEnd = starts[run + 2] ?? leftEnd;
      nextStarts.push(left);
      for (let to = left; to < rightEnd; to++) {
        const takesLeft =
          left < leftEnd && (right === rightEnd || keys[order[left]!]! <= keys[order[right]!]!);
        merged[to] = takesLeft ? order[left++]! : order[right++]!;
      }
    }
    nextStarts.push(keys.length);
    starts = nextStarts;
    [order, merged] = [merged, order];
  }
  return order;
}
