// Random share trees with small whole numbers, so that ties, exact fits and jumps are common.

import type { Amounts, ShareSnapshot, SnapshotElement } from "./share-snapshot.ts";

export interface Random {
  /** A whole number from `min` to `max`, both included. */
  int(min: number, max: number): number;
}

const WEIGHTS = [1, 1, 1, 2, 3, 0.5, 10];

export function randomShareTree(random: Random): ShareSnapshot {
  const keys = ["gpu", "mcpu", "memory_mb"].slice(0, random.int(1, 3));
  const total: Amounts = Object.fromEntries(keys.map((key) => [key, random.int(1, 4) * 5]));
  const gangPercent = [0, 0, 30, 80][random.int(0, 3)]!;
  const chance = (percent: number): boolean => random.int(1, 100) <= percent;
  const amounts = (percent: number, most: (key: string) => number): Amounts =>
    Object.fromEntries(keys.filter(() => chance(percent)).map((key) => [key, random.int(0, most(key))]));
  let names = 0;

  const operation = (): SnapshotElement => {
    const demand = amounts(85, (key) => Math.ceil(total[key]! * [0.3, 0.7, 1.5][random.int(0, 2)]!));
    const usage = chance(60) ? amounts(80, (key) => demand[key] ?? 0) : {};
    return {
      name: `operation-${names++}`,
      type: "operation",
      ...(chance(15) && { weight: WEIGHTS[random.int(0, WEIGHTS.length - 1)]! }),
      ...(chance(gangPercent) ? { gang: true } : chance(10) && { limit: amounts(50, (key) => total[key]!) }),
      demand,
      usage,
    };
  };

  const policy = (children: SnapshotElement[]): SnapshotElement => ({
    name: `policy-${names++}`,
    type: "group",
    ...(chance(50) && { reserved: amounts(60, (key) => Math.ceil(total[key]! * 0.2)) }),
    ...(chance(30) && { limit: amounts(60, (key) => total[key]!) }),
    children,
  });

  const group = (depth: number): SnapshotElement => {
    const isFifo = chance(25);
    const members = Array.from({ length: random.int(0, 4) }, () =>
      depth > 0 && !isFifo && chance(60) ? group(depth - 1) : operation(),
    );
    // The operations of a FIFO group may stand below policies, whose own terms do not count there.
    const children = isFifo && chance(30) ? [policy(members), policy([operation()])] : members;
    const reserved = amounts(40, (key) => Math.ceil(total[key]! * 0.4));
    return {
      name: `group-${names++}`,
      type: "group",
      ...(isFifo && { mode: "fifo" as const }),
      ...(chance(50) && { weight: WEIGHTS[random.int(0, WEIGHTS.length - 1)]! }),
      ...(chance(45) && { reserved: chance(60) ? { gpu: random.int(0, total.gpu!) } : reserved }),
      ...(chance(20) && { limit: amounts(60, (key) => total[key]!) }),
      children,
    };
  };

  const children = Array.from({ length: random.int(1, 4) }, () => (chance(80) ? group(2) : operation()));
  return { total, main_key: keys[0]!, tree: { name: "root", type: "group", children } };
}
