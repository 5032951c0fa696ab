// The guarantees that count for shares: given, inferred, and fitted to what there is (9.1).

/** An element of the tree as far as guarantees are concerned. All amounts are fractions of the pool. */
export interface Guaranteed {
  /** Those who divide its guarantee; nobody does in a FIFO group. */
  readonly claimants: readonly Guaranteed[];
  /** What it reserves per key, undefined where it does not say; undefined as a whole if it reserves nothing. */
  readonly reserved: readonly (number | undefined)[] | undefined;
  readonly limit: readonly number[];
  guarantee: readonly number[];
  /** Whether the claimants were promised more than there is. */
  isOvercommitted: boolean;
}

const ROUNDING = 1e-12;

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
  for (const claimant of owner.claimants) sumUp(claimant);
}

function collectReserving(owner: Guaranteed, found: Guaranteed[]): void {
  for (const claimant of owner.claimants) {
    if (claimant.reserved === undefined) collectReserving(claimant, found);
    else found.push(claimant);
  }
}

function sumUp(owner: Guaranteed): void {
  if (owner.reserved !== undefined || owner.claimants.length === 0) return;
  for (const claimant of owner.claimants) sumUp(claimant);
  owner.guarantee = sumOfClaims(owner);
}

function sumOfClaims({ claimants, limit }: Guaranteed): number[] {
  const sum = new Array<number>(limit.length).fill(0);
  for (const { guarantee } of claimants) {
    for (let key = 0; key < sum.length; key++) sum[key]! += guarantee[key]!;
  }
  return sum;
}

/** From the root down: guarantees are cut to limits, and claimants that exceed their group shrink alike. */
function fitClaimants(owner: Guaranteed): void {
  if (owner.claimants.length === 0) return;
  for (const claimant of owner.claimants) {
    const { guarantee, limit } = claimant;
    if (guarantee.some((share, key) => share > limit[key]!)) {
      claimant.guarantee = guarantee.map((share, key) => Math.min(share, limit[key]!));
    }
  }
  let factor = 1;
  const sum = sumOfClaims(owner);
  for (let key = 0; key < sum.length; key++) {
    const own = owner.guarantee[key]!;
    if (sum[key]! > own + ROUNDING) factor = Math.min(factor, own / sum[key]!);
  }
  owner.isOvercommitted = factor < 1;
  for (const claimant of owner.claimants) {
    if (factor < 1) claimant.guarantee = claimant.guarantee.map((share) => share * factor);
    fitClaimants(claimant);
  }
}
