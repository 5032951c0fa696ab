// Fair shares of a tree that is written down as a whole, in units: for scenario files and tests.

import { reservedInLine } from "./guarantees.ts";
import {
  addMember,
  type Claim,
  fixGuarantees,
  newShareTree,
  type ShareElement,
  ShareNode,
  type ShareTree,
  setClaim,
} from "./share-tree.ts";
import { updateShares } from "./shares.ts";

/** Units per share key, in the order of `ShareInput.total`. */
export type Units = readonly number[];

interface SnapshotFields {
  /** For people. No rule looks at it. */
  readonly name: string;
  readonly weight?: number;
  /** Undefined for a key that is not given: the guarantee is inferred, the limit is the capacity. */
  readonly reserved?: readonly (number | undefined)[];
  readonly limit?: readonly (number | undefined)[];
}

/** A group, or a policy: both divide what they have among their members. */
export interface SnapshotGroup extends SnapshotFields {
  readonly kind: "group";
  readonly mode?: "fair_share" | "fifo";
  readonly members: readonly SnapshotElement[];
}

export interface SnapshotOperation extends SnapshotFields {
  readonly kind: "operation";
  readonly isGang: boolean;
  readonly demand: Units;
  readonly usage: Units;
  /** Its place among the operations of the pool by original submission. */
  readonly order: number;
}

export type SnapshotElement = SnapshotGroup | SnapshotOperation;

export interface ShareInput {
  readonly total: Units;
  /** The index of the key from which guarantees are inferred. */
  readonly mainKey: number;
  readonly root: SnapshotGroup;
}

/** Fractions of the pool, per share key. */
export interface ElementShare {
  readonly fairShare: readonly number[];
  readonly guarantee: readonly number[];
}

export interface FairShares {
  readonly shares: ReadonlyMap<SnapshotElement, ElementShare>;
  /** Groups whose members are promised more than there is, so that all were scaled down: an alert. */
  readonly overcommitted: readonly SnapshotGroup[];
}

/** An object may stand in a tree only once. */
export function computeFairShares(input: ShareInput): FairShares {
  const { tree, elements } = buildShareTree(input);
  updateShares(tree);
  const overcommitted: SnapshotGroup[] = [];
  for (const [element, { isOvercommitted }] of elements) {
    if (isOvercommitted && element.kind === "group") overcommitted.push(element);
  }
  return { shares: elements, overcommitted };
}

export interface BuiltTree {
  readonly tree: ShareTree;
  readonly elements: ReadonlyMap<SnapshotElement, ShareElement>;
}

export function buildShareTree({ total, mainKey, root }: ShareInput): BuiltTree {
  const elements = new Map<SnapshotElement, ShareElement>();
  const add = (element: SnapshotElement, parent: ShareElement | null): ShareElement => {
    const made = new ShareNode({
      parent,
      weight: element.weight ?? 1,
      isFifo: element.kind === "group" && element.mode === "fifo",
      reserved: reservedOf(element)?.map((units, key) => fraction(units, total[key]!)),
      limit: total.map((units, key) => Math.min(1, fraction(element.limit?.[key], units) ?? 1)),
    });
    elements.set(element, made);
    if (parent !== null) addMember(parent, made);
    if (element.kind === "operation") setClaim(made, claimOf(element, total));
    else for (const member of element.members) add(member, made);
    return made;
  };
  const tree = newShareTree(add(root, null));
  fixGuarantees(tree, mainKey);
  return { tree, elements };
}

export function claimOf({ demand, usage, isGang, order, limit }: SnapshotOperation, total: Units): Claim {
  const fractions = (units: Units) => units.map((amount, key) => fraction(amount, total[key]!));
  return {
    demand: fractions(demand),
    usage: fractions(usage),
    isGang,
    order,
    limit: limit?.map((amount, key) => fraction(amount, total[key]!)),
  };
}

function reservedOf(element: SnapshotElement): SnapshotFields["reserved"] {
  if (element.reserved !== undefined || element.kind === "operation" || element.mode !== "fifo") {
    return element.reserved;
  }
  return reservedInLine(
    element.members.map(({ kind, reserved }) => (kind === "group" ? reserved : undefined)),
  );
}

/** A pool without units of a key has no fractions of it, whatever is asked for. */
export function fraction<T extends number | undefined>(units: T, total: number): T | number {
  if (units === undefined) return units;
  return total > 0 ? units / total : 0;
}
