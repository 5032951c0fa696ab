// Runs on nodes: their units, those of them that are stopping, and their devices (N2). What a sign says is taken back with
// the other one.

import type { HoldRecord, Placement } from "../records.ts";
import { addInto, compareIds, type Vector } from "../resources.ts";
import type { EngineState, Node, Policy, Pool, Request, Run } from "../state.ts";
import { nodeVector } from "./capacity.ts";
import { hasLabels, type NodeIndex, touch } from "./node-index.ts";
import { covers } from "./node-list.ts";
import type { Ask } from "./room.ts";

/** A run takes its units and devices on its nodes, or with sign -1 gives them back. */
export function occupyNodes(run: Run, sign: 1 | -1): void {
  const { nodes, request, isStopping } = run;
  if (nodes.length === 0) return;
  const need = partOf(run);
  const placement = request.progress.allocation?.placement ?? [];
  nodes.forEach((node, place) => {
    keepIn(node.runs, run, sign > 0);
    for (const device of (placement[place] as Placement).devices) keepIn(node.devices, device, sign > 0);
    node.pool.places.shift(node, () => {
      addInto(node.usage, need, sign);
      addInto(node.free, need, -sign);
      addInto(node.left, need, -sign);
    });
    if (isStopping) addStopping(node, need, sign);
    else judgePromises(node);
  });
}

/** The units of a run are on their way out, or with sign -1 they are not after all. */
export function stopOnNodes(run: Run, sign: 1 | -1): void {
  for (const node of run.nodes) addStopping(node, partOf(run), sign);
}

function partOf({ poolLine }: Run): Vector {
  return (poolLine.ask as Ask).need;
}

function addStopping(node: Node, amounts: Vector, sign: 1 | -1): void {
  addInto(node.stopping, amounts, sign);
  keepIn(node.pool.places.withStopping, node, node.stopping.some(isPositive));
  touch(node);
  judgePromises(node);
}

function isPositive(amount: number): boolean {
  return amount > 0;
}

function keepIn<Item>(set: Set<Item>, item: Item, isIn: boolean): void {
  if (isIn) set.add(item);
  else set.delete(item);
}

/** The nodes of a pool with nothing on them, over the keys that the pool has now. */
export function emptyNodes(state: EngineState, pool: Pool): void {
  if (!pool.record.nodeBacked) return;
  const { undo } = state;
  const { places, keys } = pool;
  const zeros = () => keys.map(() => 0);
  forgetSelections(state, pool);
  undo.set(places, "withStopping", new Set());
  undo.set(places, "strained", new Set());
  undo.set(places, "servable", new Set());
  const homes = [...pool.policies.values()].filter(({ record }) => record.home !== null && !record.closing);
  undo.set(places, "homes", homes);
  for (const node of pool.nodes.values()) {
    const capacity = nodeVector(node.record.capacity, keys);
    undo.set(node, "runs", new Set());
    undo.set(node, "devices", new Set());
    undo.set(node, "holders", new Set());
    undo.set(node, "capacity", capacity);
    undo.set(node, "free", [...capacity]);
    undo.set(node, "left", [...capacity]);
    undo.set(node, "promised", zeros());
    undo.set(node, "usage", zeros());
    undo.set(node, "stopping", zeros());
  }
  forgetSelections(state, pool);
}

/** Sets aside what a hold promises on its nodes, or with sign -1 gives it back (V5). */
export function setAside(request: Request, pool: Pool, sign: 1 | -1): void {
  const need = request.line.pools.get(pool.record.name)?.ask?.need;
  if (need === undefined) return;
  for (const node of placesOf(pool, request.progress.hold)) {
    pool.places.shift(node, () => {
      addInto(node.promised, need, sign);
      addInto(node.left, need, -sign);
    });
    keepIn(node.holders, request, sign > 0);
    judgePromises(node);
  }
}

/** Whether what is promised on a node is free, and whether some of those it is promised to could start. */
export function judgePromises(node: Node): void {
  const { pool, holders, promised, free, stopping } = node;
  const { strained, servable } = pool.places;
  const isStrained = promised.some((n, i) => n > 0 && n > (free[i] as number) + (stopping[i] as number));
  keepIn(strained, node, holders.size > 0 && isStrained);
  let isServable = false;
  for (const { line } of holders)
    isServable ||= covers(free, line.pools.get(pool.record.name)?.ask?.need ?? []);
  keepIn(servable, node, isServable);
}

/** The nodes of a hold, as far as the pool still has them. */
export function placesOf({ nodes }: Pool, hold: HoldRecord | null): Node[] {
  return (hold?.placement ?? []).flatMap(({ node }) => nodes.get(node) ?? []);
}

/** Lists rest on vectors that are about to be replaced, now or when that is taken back. */
function forgetSelections(state: EngineState, { places }: Pool): void {
  places.forgetSelections();
  state.undo.done(forgetAgain, places, null);
}

function forgetAgain(places: NodeIndex): void {
  places.forgetSelections();
}

/** What a run holds on home nodes of other policies, unless they are its own home too; null: nothing (N3). */
export function awayFromHome({ poolLine, nodes }: Run): number[] | null {
  const { policy, pool, need, ask } = poolLine;
  const { homes } = pool.places;
  if (homes.length === 0) return null;
  const isHomeOf = ({ record }: Policy, node: Node) =>
    record.home !== null && hasLabels(node.record, record.home);
  const away = nodes.filter(
    (node) => !isHomeOf(policy, node) && homes.some((other) => other !== policy && isHomeOf(other, node)),
  );
  if (away.length === 0) return null;
  return need.map((amount, i) => Math.min(amount, away.length * ((ask as Ask).need[i] as number)));
}

const NO_PLACES: readonly Placement[] = [];

/** What a grant on these nodes says: in order of name, and of the GPUs the lowest that nobody has (N2). */
export function assignDevices(nodes: readonly Node[], ask: Ask | null): readonly Placement[] {
  if (ask === null) return NO_PLACES;
  return byName(nodes).map((node) => {
    const gpu = node.pool.keys.indexOf("gpu");
    const count = gpu < 0 ? 0 : (ask.need[gpu] as number);
    return { node: node.record.name, devices: lowestFree(node, count) };
  });
}

/** A node has at least as many devices as its capacity says, so there are always enough. */
function lowestFree({ record, devices: taken }: Node, count: number): number[] {
  const devices: number[] = [];
  for (let place = 0; devices.length < count; place++) {
    const device = record.devices === undefined ? place : (record.devices[place] as number);
    if (!taken.has(device)) devices.push(device);
  }
  return devices;
}

/** What a promise on these nodes says: devices are given out when it is kept. */
export function promisedPlaces(nodes: readonly Node[]): Placement[] {
  return byName(nodes).map(({ record }) => ({ node: record.name, devices: [] }));
}

/** A node that has lost the labels it was chosen for is as good as lost. */
export function hasLostNode({ nodes }: Pool, { progress, spec }: Request): boolean {
  return (progress.hold?.placement ?? []).some(({ node: name }) => {
    const record = nodes.get(name)?.record;
    const isUsable = record?.state === "ready" || record?.state === "suspect";
    return !isUsable || !hasLabels(record, spec.constraints);
  });
}

function byName(nodes: readonly Node[]): Node[] {
  return [...nodes].sort((a, b) => compareIds(a.record.name, b.record.name));
}
