// The guarantees that count for shares: given, inferred, and fitted to what there is (9.1).

import type { ShareElement } from "./share-tree.ts";
import { LIMIT_EPSILON } from "./tolerances.ts";

type Guaranteed = Pick<
  ShareElement,
  "isFifo" | "path" | "reserved" | "limit" | "guarantee" | "isOvercommitted"
> & {
  readonly members: readonly Guaranteed[];
};

export function setGuarantees(root: Guaranteed, mainKey: number): void {
  root.guarantee = root.limit.map(() => 1);
  inferBelow(root, mainKey, true);
  root.guarantee = root.limit;
  fitClaimants(root);
}

/**
 * A key that is not given follows the main key in proportion to what `owner` guarantees. A group that
 * reserves nothing itself promises the sum of what its members do; they claim from `owner` in its place.
 */
function inferBelow(owner: Guaranteed, mainKey: number, isRoot: boolean): void {
  const claimants: Guaranteed[] = [];
  collectReserving(owner, claimants);
  const base = owner.guarantee;
  const claims = claimants.map(({ reserved }) => {
    const ratio = base[mainKey]! > 0 ? (reserved![mainKey] ?? 0) / base[mainKey]! : 0;
    return base.map((share, key) => reserved![key] ?? ratio * share);
  });
  for (let key = 0; key < base.length && !isRoot; key++) {
    let given = 0;
    let inferred = 0;
    for (const [index, { reserved }] of claimants.entries()) {
      if (reserved![key] === undefined) inferred += claims[index]![key]!;
      else given += reserved?.[key] ?? 0;
    }
    const left = Math.max(0, base[key]! - given);
    if (inferred <= left) continue;
    for (const [index, { reserved }] of claimants.entries()) {
      if (reserved![key] === undefined) claims[index]![key]! *= left / inferred;
    }
  }
  for (const [index, claimant] of claimants.entries()) {
    claimant.guarantee = claims[index]!;
    inferBelow(claimant, mainKey, false);
  }
  for (const claimant of claimantsOf(owner)) sumUp(claimant);
}

/** Those who divide its guarantee: all but operations that reserve nothing; nobody does in a FIFO group. */
function claimantsOf({ isFifo, members }: Guaranteed): readonly Guaranteed[] {
  return isFifo ? [] : members.filter(({ path, reserved }) => path === null || reserved !== undefined);
}

/** A FIFO group promises the sum of what its policies do, but they do not divide it (9.1). */
export function reservedInLine(
  all: readonly (readonly (number | undefined)[] | undefined)[],
): (number | undefined)[] | undefined {
  let sum: (number | undefined)[] | undefined;
  for (const reserved of all) {
    if (reserved === undefined) continue;
    sum = reserved.map((share, key) => (share === undefined ? sum?.[key] : (sum?.[key] ?? 0) + share));
  }
  return sum;
}

function collectReserving(owner: Guaranteed, found: Guaranteed[]): void {
  for (const claimant of claimantsOf(owner)) {
    if (claimant.reserved === undefined) collectReserving(claimant, found);
    else found.push(claimant);
  }
}

function sumUp(owner: Guaranteed): void {
  if (owner.reserved !== undefined || claimantsOf(owner).length === 0) return;
  for (const claimant of claimantsOf(owner)) sumUp(claimant);
  owner.guarantee = sumOfClaims(owner);
}

function sumOfClaims(owner: Guaranteed): number[] {
  const sum = owner.limit.map(() => 0);
  for (const { guarantee } of claimantsOf(owner)) {
    for (let key = 0; key < sum.length; key++) sum[key]! += guarantee[key]!;
  }
  return sum;
}

/** From the root down: guarantees are cut to limits, and claimants that exceed their group shrink alike. */
function fitClaimants(owner: Guaranteed): void {
  if (claimantsOf(owner).length === 0) return;
  for (const claimant of claimantsOf(owner)) {
    const { guarantee, limit } = claimant;
    if (guarantee.some((share, key) => share > limit[key]!)) {
      claimant.guarantee = guarantee.map((share, key) => Math.min(share, limit[key]!));
    }
  }
  let factor = 1;
  const sum = sumOfClaims(owner);
  for (let key = 0; key < sum.length; key++) {
    const own = owner.guarantee[key]!;
    if (sum[key]! > own + LIMIT_EPSILON) factor = Math.min(factor, own / sum[key]!);
  }
  owner.isOvercommitted = factor < 1;
  for (const claimant of claimantsOf(owner)) {
    if (factor < 1) claimant.guarantee = claimant.guarantee.map((share) => share * factor);
    fitClaimants(claimant);
  }
}
