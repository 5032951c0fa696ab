// Amounts of resources: whole units per key (R1, R2). Records keep them as plain objects; inside a pool
// they become dense vectors over the pool's own keys, so that arithmetic needs no look-ups.

/** Units per resource key, as people write them. */
export type Resources = Readonly<Record<string, number>>;

/** Units over the keys of one pool, in the order of the pool's `keys`. */
export type Vector = readonly number[];

/** Keys that a pool without a row for them does not meter (R4). */
const UNMETERED_WHEN_MISSING = new Set(["mcpu", "memory_mb", "step_run"]);

/** Keys that look like a mistyped built-in one (R5), with what was probably meant. */
const LIKELY_MISTYPED: ReadonlyMap<string, string> = new Map([
  ["cpu", "mcpu"],
  ["cpus", "mcpu"],
  ["vcpu", "mcpu"],
  ["vcpus", "mcpu"],
  ["gpus", "gpu"],
  ["mem", "memory_mb"],
  ["memory", "memory_mb"],
  ["ram", "memory_mb"],
  ["steps", "step_run"],
]);

const KEY_PATTERN = /^[a-z][a-z0-9_.-]{0,62}$/;

export function isResourceKey(key: string): boolean {
  return KEY_PATTERN.test(key);
}

/** Whether a pool that has no row for the key leaves it unmetered instead of having none of it (R4). */
export function isUnmeteredWhenMissing(key: string): boolean {
  return UNMETERED_WHEN_MISSING.has(key);
}

export function likelyMeantKey(key: string): string | undefined {
  return LIKELY_MISTYPED.get(key);
}

export function amountOf(resources: Resources, key: string): number {
  return Object.hasOwn(resources, key) ? (resources[key] as number) : 0;
}

export function toVector(resources: Resources, keys: readonly string[]): number[] {
  return keys.map((key) => amountOf(resources, key));
}

/** Adds amounts into a vector, or with sign -1 takes them out of it. */
export function addInto(target: number[], amounts: Vector, sign = 1): void {
  for (let i = 0; i < amounts.length; i++) target[i] = (target[i] as number) + sign * (amounts[i] as number);
}

/** Adds to one number of a vector. */
export function addAt(target: number[], index: number, amount: number): void {
  target[index] = (target[index] as number) + amount;
}

export function toResources(vector: Vector, keys: readonly string[]): Resources {
  const resources: Record<string, number> = {};
  keys.forEach((key, index) => {
    resources[key] = vector[index] as number;
  });
  return resources;
}

/** Order of names and ids that is the same on every machine. */
export function compareIds(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
