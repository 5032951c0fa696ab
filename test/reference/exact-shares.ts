// The fair shares of a tree in exact fractions, straight from the rules (9.1, 9.2, 9.11) and slowly.
//
// Nothing is prepared: every element can say what it holds at a level, how fast that grows there, and for
// how long that answer is good. A group lets its own water rise by such steps until its bound is met.

import {
  type Fraction,
  fractionOf,
  greatest,
  isEqual,
  isLess,
  least,
  minus,
  ONE,
  over,
  plus,
  times,
  toNumber,
  ZERO,
} from "./fractions.ts";
import type { Amounts, ShareSnapshot, SnapshotElement } from "./share-snapshot.ts";

type Vector = readonly Fraction[];

interface Element {
  readonly source: SnapshotElement;
  readonly children: readonly Element[];
  readonly weight: Fraction;
  readonly limit: Vector;
  guarantee: Vector;
  share: Vector;
  /** How far the water inside had risen when the element was last asked, what its members said, and at which level. */
  resume: { level: Fraction; inside: Fraction; answers: readonly Answer[] | undefined };
}

/** What an element holds at a level, and how that goes on; `good` is undefined if for ever. */
interface Answer {
  readonly value: Vector;
  readonly growth: Vector;
  readonly good: Fraction | undefined;
  /** The water inside a group, how fast it rises, and whether it stands just below a jump. */
  readonly inside: Fraction;
  readonly insideGrowth: Fraction;
  readonly isBelow: boolean;
}

/** Fractions of the total by name of the element and key. */
export function exactShares(snapshot: ShareSnapshot): Map<string, Map<string, number>> {
  const keys = Object.keys(snapshot.total);
  const givenUp = new Set<SnapshotElement>();
  for (;;) {
    const root = build(snapshot.tree, snapshot);
    setGuarantees(root, keys.indexOf(snapshot.main_key), keys, snapshot.total);
    assign(root, ZERO, false, { snapshot, givenUp });
    const elements = flatten(root);
    const loser = gangThatGivesUp(elements, snapshot);
    if (loser === undefined) return present(elements, keys);
    givenUp.add(loser);
  }
}

function build(source: SnapshotElement, snapshot: ShareSnapshot): Element {
  const limit = Object.entries(snapshot.total).map(([key, total]) =>
    source.limit?.[key] === undefined ? ONE : least(ONE, part(source.limit[key], total)),
  );
  const zero = limit.map(() => ZERO);
  return {
    source,
    children: (source.children ?? []).map((child) => build(child, snapshot)),
    weight: fractionOf(source.weight ?? 1),
    limit,
    guarantee: zero,
    share: zero,
    resume: { level: ZERO, inside: ZERO, answers: undefined },
  };
}

function part(units: number, total: number): Fraction {
  return total === 0 ? ZERO : over(fractionOf(units), fractionOf(total));
}

function flatten(element: Element): Element[] {
  return [element, ...element.children.flatMap(flatten)];
}

function present(elements: readonly Element[], keys: readonly string[]): Map<string, Map<string, number>> {
  return new Map(
    elements.map(({ source, share }) => [
      source.name,
      new Map(keys.map((key, index) => [key, toNumber(share[index]!)])),
    ]),
  );
}

// Guarantees

function setGuarantees(root: Element, main: number, keys: readonly string[], total: Amounts): void {
  const givenBy = ({ source }: Element, index: number): Fraction | undefined => {
    const units = reservedBy(source)?.[keys[index]!];
    return units === undefined ? undefined : part(units, total[keys[index]!]!);
  };
  // A group that reserves nothing is looked through: its members stand in its place.
  const claimants = (element: Element): Element[] =>
    dividers(element).flatMap((child) =>
      reservedBy(child.source) === undefined ? claimants(child) : [child],
    );

  const infer = (owner: Element, base: Vector, isRoot: boolean): void => {
    const below = claimants(owner);
    for (const claimant of below) {
      const ratio = base[main]!.n === 0n ? ZERO : over(givenBy(claimant, main) ?? ZERO, base[main]!);
      claimant.guarantee = base.map((amount, index) => givenBy(claimant, index) ?? times(ratio, amount));
    }
    for (let index = 0; index < base.length && !isRoot; index++) {
      const inferring = below.filter((claimant) => givenBy(claimant, index) === undefined);
      const inferred = sumOf(inferring.map(({ guarantee }) => guarantee[index]!));
      const given = sumOf(below.map((claimant) => givenBy(claimant, index) ?? ZERO));
      const left = greatest(ZERO, minus(base[index]!, given));
      if (!isLess(left, inferred)) continue;
      for (const claimant of inferring) {
        claimant.guarantee = claimant.guarantee.with(
          index,
          over(times(claimant.guarantee[index]!, left), inferred),
        );
      }
    }
    for (const claimant of below) infer(claimant, claimant.guarantee, false);
  };
  infer(
    root,
    root.limit.map(() => ONE),
    true,
  );

  const addUp = (element: Element): Vector => {
    const sums = dividers(element).map(addUp);
    if (reservedBy(element.source) === undefined) {
      element.guarantee = element.limit.map((_, index) => sumOf(sums.map((sum) => sum[index]!)));
    }
    return element.guarantee;
  };
  addUp(root);
  root.guarantee = root.limit;

  const shrink = (owner: Element): void => {
    const below = dividers(owner);
    for (const child of below) {
      child.guarantee = child.guarantee.map((share, index) => least(share, child.limit[index]!));
    }
    const factor = owner.guarantee
      .map((share, index) => {
        const sum = sumOf(below.map(({ guarantee }) => guarantee[index]!));
        return isLess(share, sum) ? over(share, sum) : ONE;
      })
      .reduce(least, ONE);
    for (const child of below) child.guarantee = child.guarantee.map((share) => times(share, factor));
    below.forEach(shrink);
  };
  shrink(root);
}

/** What an element reserves; a FIFO group that does not say, what the policies in it do. */
function reservedBy(source: SnapshotElement): Amounts | undefined {
  if (source.reserved !== undefined || source.mode !== "fifo") return source.reserved;
  const policies = (source.children ?? []).filter(({ type }) => type === "group");
  const given = policies.flatMap(({ reserved }) => (reserved === undefined ? [] : [reserved]));
  if (given.length === 0) return undefined;
  const sum: Record<string, number> = {};
  for (const [key, units] of given.flatMap(Object.entries)) sum[key] = (sum[key] ?? 0) + units;
  return sum;
}

/** The members that divide a group's guarantee and share by level; nobody does in a FIFO group. */
function dividers({ source, children }: Element): readonly Element[] {
  return source.mode === "fifo" ? [] : children;
}

function sumOf(fractions: readonly Fraction[]): Fraction {
  return fractions.reduce(plus, ZERO);
}

// Water

interface World {
  readonly snapshot: ShareSnapshot;
  readonly givenUp: ReadonlySet<SnapshotElement>;
}

/** What the element holds at a level: guarantee + level per key, up to its limit. */
function answerAt(element: Element, level: Fraction, world: World): Answer {
  const bound = element.guarantee.map((share, key) => least(plus(share, level), element.limit[key]!));
  // How fast each bound rises with the level: it stops at the limit.
  const rise = element.limit.map((limit, key) =>
    isLess(plus(element.guarantee[key]!, level), limit) ? ONE : ZERO,
  );
  if (element.source.type === "group" && element.source.mode !== "fifo") {
    return answerOfGroup(element, level, bound, rise, world);
  }

  let done = ZERO;
  let value: Vector = bound.map(() => ZERO);
  for (const { step } of stretches(element, world)) {
    const portion = portionWithin(value, step, bound);
    value = value.map((share, key) => plus(share, times(portion, step[key]!)));
    if (isEqual(portion, ONE)) {
      done = plus(done, ONE);
      continue;
    }
    const moving = { value, step, left: minus(ONE, portion), inside: plus(done, portion) };
    return risingAnswer(element, level, bound, rise, moving);
  }
  return restingAnswer(value, done, undefined, false);
}

function answerOfGroup(element: Element, level: Fraction, bound: Vector, rise: Vector, world: World): Answer {
  const isHigher = !isLess(level, element.resume.level);
  let inside = isHigher ? element.resume.inside : ZERO;
  let known = isHigher ? element.resume.answers : undefined;
  let before: Vector = bound.map(() => ZERO);
  for (;;) {
    const answers: readonly Answer[] =
      known ?? element.children.map((child) => answerAt(child, times(child.weight, inside), world));
    known = undefined;
    const value = bound.map((_, key) => sumOf(answers.map((answer) => answer.value[key]!)));
    if (value.some((share, key) => isLess(bound[key]!, share))) {
      // The sum has jumped past what fits: what was just below counts until the whole jump fits (9.11).
      const never = value.some((share, key) => isLess(element.limit[key]!, share));
      const needed = value.map((share, key) => minus(share, element.guarantee[key]!)).reduce(greatest);
      return restingAnswer(before, inside, never ? undefined : minus(needed, level), true);
    }
    element.resume = { level, inside, answers };
    const step = bound.map((_, key) =>
      sumOf(answers.map((answer, index) => times(answer.growth[key]!, element.children[index]!.weight))),
    );
    const good = answers
      .map((answer, index) => answer.good && over(answer.good, element.children[index]!.weight))
      .reduce(sooner, undefined);
    if (good === undefined && step.every(({ n }) => n === 0n)) {
      return restingAnswer(value, inside, undefined, false);
    }
    const room = roomFor(value, step, bound);
    if (room !== undefined && (good === undefined || isLess(room, good))) {
      const stopped = value.map((share, key) => plus(share, times(room, step[key]!)));
      const left = good && minus(good, room);
      return risingAnswer(element, level, bound, rise, {
        value: stopped,
        step,
        left,
        inside: plus(inside, room),
      });
    }
    before = value.map((share, key) => plus(share, times(good!, step[key]!)));
    inside = plus(inside, good!);
  }
}

function restingAnswer(
  value: Vector,
  inside: Fraction,
  good: Fraction | undefined,
  isBelow: boolean,
): Answer {
  return { value, growth: value.map(() => ZERO), good, inside, insideGrowth: ZERO, isBelow };
}

interface Moving {
  readonly value: Vector;
  /** The direction in which the element would go on, and for how long. */
  readonly step: Vector;
  readonly left: Fraction | undefined;
  readonly inside: Fraction;
}

/** The element is held back by some keys, and goes on as fast as the slowest of their bounds lets it. */
function risingAnswer(
  element: Element,
  level: Fraction,
  bound: Vector,
  rise: Vector,
  { value, step, left, inside }: Moving,
): Answer {
  const speed = step
    .map((size, key) =>
      size.n > 0n && isEqual(value[key]!, bound[key]!) ? over(rise[key]!, size) : undefined,
    )
    .reduce(sooner, undefined)!;
  const growth = step.map((size) => times(size, speed));
  let good = speed.n === 0n || left === undefined ? undefined : over(left, speed);
  for (let key = 0; key < value.length; key++) {
    if (rise[key]!.n > 0n) {
      good = sooner(good, minus(minus(element.limit[key]!, element.guarantee[key]!), level));
    }
    const closing = minus(growth[key]!, rise[key]!);
    if (closing.n > 0n && isLess(value[key]!, bound[key]!)) {
      good = sooner(good, over(minus(bound[key]!, value[key]!), closing));
    }
  }
  return { value, growth, good, inside, insideGrowth: speed, isBelow: false };
}

/** How much of a step, at most all of it, stays within the bound. */
function portionWithin(value: Vector, step: Vector, bound: Vector): Fraction {
  return least(ONE, roomFor(value, step, bound) ?? ONE);
}

function roomFor(value: Vector, step: Vector, bound: Vector): Fraction | undefined {
  return step
    .map((size, key) => (size.n > 0n ? over(minus(bound[key]!, value[key]!), size) : undefined))
    .reduce(sooner, undefined);
}

function sooner(a: Fraction | undefined, b: Fraction | undefined): Fraction | undefined {
  if (a === undefined) return b;
  return b === undefined ? a : least(a, b);
}

interface Stretch {
  readonly owner: Element;
  readonly step: Vector;
}

/** The straight stretches of a path: of an operation, or of all below a FIFO group one after another. */
function stretches(element: Element, world: World): Stretch[] {
  if (element.source.type === "group") return element.children.flatMap((child) => stretches(child, world));
  if (world.givenUp.has(element.source)) return [];
  const { demand = {}, usage = {}, gang } = element.source;
  const totals = Object.entries(world.snapshot.total);
  const wanted = totals.map(([key, total]) => part(demand[key] ?? 0, total));
  const used = totals.map(([key, total], index) =>
    gang ? ZERO : least(part(usage[key] ?? 0, total), wanted[index]!),
  );
  const corners = [...used].sort((a, b) => (isLess(a, b) ? -1 : isLess(b, a) ? 1 : 0));
  const points = [...corners.map((corner) => used.map((share) => least(share, corner))), wanted];
  let from: Vector = wanted.map(() => ZERO);
  const found: Stretch[] = [];
  for (const point of points) {
    const whole = point.map((share, key) => minus(share, from[key]!));
    const portion = portionWithin(from, whole, ownLimit(element, world.snapshot));
    const step = whole.map((size) => times(size, portion));
    if (step.some(({ n }) => n > 0n)) found.push({ owner: element, step });
    if (!isEqual(portion, ONE)) break;
    from = point;
  }
  return found;
}

/** The limit that an operation itself names; elsewhere its demand can be no bound to it. */
function ownLimit({ source }: Element, { total }: ShareSnapshot): Vector {
  return Object.entries(total).map(([key, units]) => {
    const limit = source.limit?.[key] ?? source.demand?.[key] ?? 0;
    return part(limit, units);
  });
}

// From the root down

function assign(element: Element, level: Fraction, isBelow: boolean, world: World): void {
  const answer = isBelow ? answerBelow(element, level, world) : answerAt(element, level, world);
  element.share = answer.value;
  if (element.source.type === "operation") return;
  if (element.source.mode === "fifo") {
    let left = answer.inside;
    for (const { owner, step } of stretches(element, world)) {
      const portion = least(ONE, left);
      left = minus(left, portion);
      owner.share = owner.share.map((share, key) => plus(share, times(portion, step[key]!)));
    }
    for (const policy of element.children.filter(({ source }) => source.type === "group")) {
      const operations = flatten(policy).filter(({ source }) => source.type === "operation");
      policy.share = policy.share.map((_, key) => sumOf(operations.map(({ share }) => share[key]!)));
    }
    return;
  }
  for (const child of element.children) {
    assign(child, times(child.weight, answer.inside), answer.isBelow, world);
  }
  const sum = answer.value.map((_, key) => sumOf(element.children.map(({ share }) => share[key]!)));
  if (!sum.every((share, key) => isEqual(share, answer.value[key]!))) {
    throw new Error(`The members of ${element.source.name} do not add up to its share.`);
  }
}

/** What the element tends to from below: a little lower, as long as one answer is good up to the level. */
function answerBelow(element: Element, level: Fraction, world: World): Answer {
  for (let distance = level; distance.n > 0n; distance = over(distance, fractionOf(2))) {
    const answer = answerAt(element, minus(level, distance), world);
    if (answer.good !== undefined && isLess(answer.good, distance)) continue;
    return {
      ...answer,
      value: answer.value.map((share, key) => plus(share, times(answer.growth[key]!, distance))),
      inside: plus(answer.inside, times(answer.insideGrowth, distance)),
      // Water at rest stays where it is; only water that moves arrives from below.
      isBelow: answer.isBelow || answer.insideGrowth.n > 0n,
    };
  }
  return answerAt(element, level, world);
}

// Gangs

function gangThatGivesUp(
  elements: readonly Element[],
  { total }: ShareSnapshot,
): SnapshotElement | undefined {
  let loser: SnapshotElement | undefined;
  let smallest: Fraction | undefined;
  for (const { source, share } of elements) {
    if (!source.gang) continue;
    const key = Object.keys(total).findIndex((name) => part(source.demand?.[name] ?? 0, total[name]!).n > 0n);
    if (key < 0) continue;
    const name = Object.keys(total)[key]!;
    const has = over(share[key]!, part(source.demand![name]!, total[name]!));
    if (has.n === 0n || isEqual(has, ONE)) continue;
    // Equal parts: the last one submitted, which is the last one met here.
    const isLater = (source.order ?? 0) >= (loser?.order ?? 0);
    if (smallest === undefined || isLess(has, smallest) || (isEqual(has, smallest) && isLater)) {
      smallest = has;
      loser = source;
    }
  }
  return loser;
}
