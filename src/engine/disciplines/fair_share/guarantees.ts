// The guarantees that count for shares: given, inferred, and fitted to what there is (9.1).

/** An element of the tree as far as guarantees are concerned. All amounts are fractions of the pool. */
export interface Guaranteed {
  /** Those who divide its guarantee; nobody does in a FIFO group. */
  readonly claimants: readonly Guaranteed[];
  /** What it reserves per key, undefined where it does not say; undefined as a whole if it reserves nothing. */
  readonly reserved: readonly (number | undefined)[] | undefined;
  readonly limit: readonly number[];
  guarantee: number[];
  /** Whether the claimants were promised more than there is. */
  isOvercommitted: boolean;
}

const ROUNDING = 1e-12;

export function setGuarantees(root: Guaranteed, mainKey: number): void {
  root.guarantee = root.limit.map(() => 1);
  inferBelow(root, mainKey, true);
  root.guarantee = [...root.limit];
  fitClaimants(root);
}

/**
 * A key that is not given follows the main key in proportion to what `owner` guarantees. A group that
 * reserves nothing itself promises the sum of what its members do; they claim from `owner` in its place.
 */
function inferBelow(owner: Guaranteed, mainKey: number, isRoot: boolean): void {
  const claimants = reservingClaimants(owner);
  const base = owner.guarantee;
  for (let key = 0; key < base.length; key++) {
    let given = 0;
    let inferred = 0;
    for (const { reserved, guarantee } of claimants) {
      const amount = reserved![key];
      const ratio = base[mainKey]! > 0 ? (reserved![mainKey] ?? 0) / base[mainKey]! : 0;
      guarantee[key] = amount ?? ratio * base[key]!;
      if (amount === undefined) inferred += guarantee[key]!;
      else given += amount;
    }
    const left = Math.max(0, base[key]! - given);
    if (isRoot || inferred <= left) continue;
    for (const { reserved, guarantee } of claimants) {
      if (reserved![key] === undefined) guarantee[key]! *= left / inferred;
    }
  }
  for (const claimant of claimants) inferBelow(claimant, mainKey, false);
  for (const claimant of owner.claimants) sumUp(claimant);
}

function reservingClaimants(owner: Guaranteed): Guaranteed[] {
  return owner.claimants.flatMap((claimant) =>
    claimant.reserved === undefined ? reservingClaimants(claimant) : [claimant],
  );
}

function sumUp(owner: Guaranteed): void {
  if (owner.reserved !== undefined) return;
  for (const claimant of owner.claimants) sumUp(claimant);
  owner.guarantee = sumOfClaims(owner);
}

function sumOfClaims(owner: Guaranteed): number[] {
  const sum = owner.limit.map(() => 0);
  for (const { guarantee } of owner.claimants) {
    for (let key = 0; key < sum.length; key++) sum[key]! += guarantee[key]!;
  }
  return sum;
}

/** From the root down: guarantees are cut to limits, and claimants that exceed their group shrink alike. */
function fitClaimants(owner: Guaranteed): void {
  for (const { guarantee, limit } of owner.claimants) {
    for (let key = 0; key < limit.length; key++) guarantee[key] = Math.min(guarantee[key]!, limit[key]!);
  }
  let factor = 1;
  for (const [key, sum] of sumOfClaims(owner).entries()) {
    if (sum > owner.guarantee[key]! + ROUNDING) factor = Math.min(factor, owner.guarantee[key]! / sum);
  }
  owner.isOvercommitted = factor < 1;
  if (owner.isOvercommitted) {
    for (const claimant of owner.claimants)
      claimant.guarantee = claimant.guarantee.map((share) => share * factor);
  }
  for (const claimant of owner.claimants) fitClaimants(claimant);
}
