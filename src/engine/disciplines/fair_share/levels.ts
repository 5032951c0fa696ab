// Where elements stand at a level of the water, and how high it may rise before a group is full (9.1).

import { type Curve, firstPoint, offsetOf, POSITION, VALUE, WAITING } from "./curves.ts";
import { LEVEL_EPSILON, LIMIT_EPSILON, PLACE_ROUNDING, SAME_LEVEL } from "./tolerances.ts";

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

export function endOf(curve: Curve): Place {
  const { numbers } = curve.paper;
  const last = offsetOf(curve, curve.pointCount - 1);
  return { position: numbers[last + POSITION]!, isBelow: numbers[last + WAITING] === 1 };
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

/** Only its position. */
export function positionAt(curve: Curve, level: number, isBelow: boolean): number {
  const { numbers, stride } = curve.paper;
  const { point, part } = locate(curve, level, isBelow);
  const offset = offsetOf(curve, point) + POSITION;
  const from = numbers[offset]!;
  return part === 0 ? from : from + part * (numbers[offset + stride]! - from);
}

/** What an element holds at a level, and on which keys that grows right above it. */
export interface Growth {
  readonly value: number[];
  readonly isGrowing: boolean[];
  /** Not where the curve jumps or ends: there it is not so simple. */
  isKnown: boolean;
}

export function newGrowth(): Growth {
  return { value: [], isGrowing: [], isKnown: false };
}

/** Into an object of the caller: there are very many. */
export function growthAt(curve: Curve, level: number, growth: Growth): Growth {
  const { numbers, stride } = curve.paper;
  const { point, part } = locate(curve, level, false);
  const offset = offsetOf(curve, point);
  const isJump = part === 0 && (jumpsAt(curve, point) || (point > 0 && jumpsAt(curve, point - 1)));
  growth.isKnown = point + 1 < curve.pointCount && !isJump;
  for (let key = 0, at = offset + VALUE; growth.isKnown && at < offset + stride; key++, at++) {
    const difference = numbers[at + stride]! - numbers[at]!;
    growth.value[key] = numbers[at]! + part * difference;
    growth.isGrowing[key] = difference > LIMIT_EPSILON;
  }
  return growth;
}

/** Whether the next point has the same level; the last one has no next. */
function jumpsAt(curve: Curve, point: number): boolean {
  const { numbers, stride } = curve.paper;
  const offset = offsetOf(curve, point);
  return point + 1 < curve.pointCount && numbers[offset + stride]! - numbers[offset]! <= SAME_LEVEL;
}

/** Whether others cannot tell two curves apart at a level: neither what is held nor what would be asked for next. */
export function isSameGrowth(a: Growth, b: Growth): boolean {
  if (!a.isKnown || !b.isKnown) return false;
  for (let key = 0; key < a.value.length; key++) {
    if (Math.abs(a.value[key]! - b.value[key]!) > LEVEL_EPSILON) return false;
    if (a.isGrowing[key] !== b.isGrowing[key]) return false;
  }
  return true;
}

interface Location {
  /** The last point at or before the level, and the part of the way to the next one. */
  point: number;
  part: number;
  /** Whether the level itself is the point's, but has not quite been reached. */
  isArrival: boolean;
}

/** What was located last: it is read at once, and there are very many. */
const LOCATED: Location = { point: 0, part: 0, isArrival: false };

function locatedAt(point: number, part: number, isArrival: boolean): Location {
  LOCATED.point = point;
  LOCATED.part = part;
  LOCATED.isArrival = isArrival;
  return LOCATED;
}

function locate(curve: Curve, level: number, isBelow: boolean): Location {
  const { numbers, stride } = curve.paper;
  if (isBelow) {
    const arrival = countBelow(curve, level - SAME_LEVEL);
    // There is nothing below level 0: what is guaranteed counts from the beginning.
    if (arrival === 0) return locatedAt(firstPoint(curve), 0, false);
    if (arrival < curve.pointCount && numbers[offsetOf(curve, arrival)]! <= level + SAME_LEVEL) {
      return locatedAt(arrival, 0, true);
    }
  }
  const point = countBelow(curve, level + SAME_LEVEL) - 1;
  const offset = offsetOf(curve, point);
  const pointLevel = numbers[offset]!;
  const isAtPoint = point === curve.pointCount - 1 || pointLevel >= level - SAME_LEVEL;
  const part = isAtPoint ? 0 : (level - pointLevel) / (numbers[offset + stride]! - pointLevel);
  return locatedAt(point, part, false);
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

export interface Member {
  readonly curve: Curve;
  readonly weight: number;
  readonly count: number;
}

/**
 * The highest position of a group's path, as `sumCurve` describes it, that stays within `limit`. A position that was
 * the highest lately is mostly not far from the one that is now.
 */
export function highestPlace(members: readonly Member[], limit: readonly number[], lately?: Place): Place {
  const sums = new Map<number, readonly number[]>();
  const sumIn = (position: number): readonly number[] => {
    const sum = sums.get(position) ?? sumAt(members, position, false, limit.length);
    sums.set(position, sum);
    return sum;
  };
  const fits = (position: number) => isWithin(sumIn(position), limit);
  const near = lately === undefined ? undefined : findStretchNear(members, fits, lately);
  const { fitting, exceeding } = near ?? findStretch(members, fits);
  if (exceeding === Number.POSITIVE_INFINITY) return { position: fitting, isBelow: false };

  const from = sumIn(fitting);
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

/** How many stretches to either side are tried before all of them are. */
const NEAR_STEPS_MAX = 8;

/** From the stretch around a place to its neighbours; undefined: it is farther away. */
function findStretchNear(
  members: readonly Member[],
  fits: (position: number) => boolean,
  place: Place,
): Stretch | undefined {
  let stretch = stretchAround(members, place);
  for (let step = 0; step < NEAR_STEPS_MAX; step++) {
    const { fitting, exceeding } = stretch;
    if (!fits(fitting)) {
      if (fitting === 0) return undefined;
      stretch = stretchAround(members, { position: fitting, isBelow: true });
    } else if (exceeding === Number.POSITIVE_INFINITY || !fits(exceeding)) return stretch;
    else stretch = stretchAround(members, { position: exceeding, isBelow: false });
  }
  return undefined;
}

function stretchAround(members: readonly Member[], { position, isBelow }: Place): Stretch {
  let fitting = 0;
  let exceeding = Number.POSITIVE_INFINITY;
  for (const { curve, weight } of members) {
    if (weight === 0) continue;
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
      const member = members[index]!;
      if (low[index] === high[index] || member.weight === 0) continue;
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
    if (count <= 0 || weight === 0) continue;
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
  for (let key = 0; key < limit.length; key++) if (value[key]! > limit[key]! + LIMIT_EPSILON) return false;
  return true;
}

function sumAt(members: readonly Member[], position: number, isBelow: boolean, keyCount: number): number[] {
  const sum = new Array<number>(keyCount).fill(0);
  for (const { curve, weight, count } of members) {
    const { numbers, stride } = curve.paper;
    const { point, part } = locate(curve, weight * position, isBelow);
    for (let key = 0, offset = offsetOf(curve, point) + VALUE; key < keyCount; key++, offset++) {
      const value = numbers[offset]!;
      sum[key]! += count * (part === 0 ? value : value + part * (numbers[offset + stride]! - value));
    }
  }
  return sum;
}
