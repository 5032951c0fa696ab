// Runs on nodes: their units, those of them that are stopping, and their devices (N2). All through the undo log.

import type { HoldRecord, Placement } from "../records.ts";
import { addInto, compareIds, type Vector } from "../resources.ts";
import type { EngineState, Node, Policy, Pool, Request, Run } from "../state.ts";
import { nodeVector } from "./capacity.ts";
import { hasLabels, touch } from "./node-index.ts";
import { covers } from "./node-list.ts";
import type { Ask } from "./room.ts";

/** A run takes its units and devices on its nodes. */
export function occupyNodes(state: EngineState, run: Run): void {
  if (run.nodes.length === 0) return;
  settle(state, run, 1);
  for (const node of run.nodes) addUnits(state, run, node, 1);
}

export function vacateNodes(state: EngineState, run: Run): void {
  if (run.nodes.length === 0) return;
  for (const node of run.nodes) addUnits(state, run, node, -1);
  settle(state, run, -1);
}

/** Who runs where, and on which devices. */
function settle(state: EngineState, run: Run, sign: 1 | -1): void {
  const placement = run.request.progress.allocation?.placement ?? [];
  run.nodes.forEach((node, place) => {
    const { devices } = placement[place] as Placement;
    const come = () => {
      node.runs.add(run);
      for (const device of devices) node.devices.add(device);
    };
    const go = () => {
      node.runs.delete(run);
      for (const device of devices) node.devices.delete(device);
    };
    if (sign > 0) state.undo.run(come, go);
    else state.undo.run(go, come);
  });
}

function addUnits(state: EngineState, { poolLine, isStopping }: Run, node: Node, sign: 1 | -1): void {
  const { need } = poolLine.ask as Ask;
  const add = (direction: number) => () => {
    node.pool.places.shift(node, () => {
      addInto(node.usage, need, direction);
      addInto(node.free, need, -direction);
      addInto(node.left, need, -direction);
    });
    judgePromises(node);
  };
  state.undo.run(add(sign), add(-sign));
  if (isStopping) addStopping(state, node, need, sign);
}

/** The nodes of a pool with nothing on them, over the keys that the pool has now; `fillNodes` puts the runs back. */
export function emptyNodes(state: EngineState, pool: Pool): void {
  if (!pool.record.nodeBacked) return;
  const { undo } = state;
  const { places, keys } = pool;
  forgetSelections(state, pool);
  undo.clear(places.withStopping);
  undo.clear(places.withPromises);
  const homes = [...pool.policies.values()].filter(({ record }) => record.home !== null && !record.closing);
  undo.set(places, "homes", homes);
  undo.clear(places.strained);
  undo.clear(places.servable);
  for (const node of pool.nodes.values()) {
    undo.clear(node.holders);
    const capacity = nodeVector(node.record.capacity, keys);
    undo.set(node, "capacity", capacity);
    undo.set(node, "free", [...capacity]);
    undo.set(node, "left", [...capacity]);
    undo.set(
      node,
      "promised",
      keys.map(() => 0),
    );
    undo.set(
      node,
      "usage",
      keys.map(() => 0),
    );
    undo.set(
      node,
      "stopping",
      keys.map(() => 0),
    );
  }
  forgetSelections(state, pool);
}

export function fillNodes(state: EngineState, pool: Pool, runs: readonly Run[]): void {
  if (!pool.record.nodeBacked) return;
  for (const run of runs) for (const node of run.nodes) addUnits(state, run, node, 1);
  for (const request of pool.promised) setAside(state, request, pool, 1);
}

/** Sets aside what a hold promises on its nodes, or with sign -1 gives it back (V5). */
export function setAside(state: EngineState, request: Request, pool: Pool, sign: 1 | -1): void {
  const need = request.line.pools.get(pool.record.name)?.ask?.need;
  if (need === undefined) return;
  for (const node of placesOf(pool, request.progress.hold)) {
    const add = (direction: number) => () => {
      pool.places.shift(node, () => {
        addInto(node.promised, need, direction);
        addInto(node.left, need, -direction);
      });
      if (node.promised.some((amount) => amount > 0)) pool.places.withPromises.add(node);
      else pool.places.withPromises.delete(node);
      if (direction > 0) node.holders.add(request);
      else node.holders.delete(request);
      judgePromises(node);
    };
    state.undo.run(add(sign), add(-sign));
  }
}

/** Whether what is promised on a node is free, and whether some of those it is promised to could start. */
export function judgePromises(node: Node): void {
  const { pool, holders, promised, free, stopping } = node;
  const { strained, servable } = pool.places;
  if (holders.size === 0) {
    strained.delete(node);
    servable.delete(node);
    return;
  }
  if (promised.some((amount, i) => amount > 0 && amount > (free[i] as number) + (stopping[i] as number)))
    strained.add(node);
  else strained.delete(node);
  let isServable = false;
  for (const { line } of holders) {
    isServable ||= covers(free, line.pools.get(pool.record.name)?.ask?.need ?? []);
  }
  if (isServable) servable.add(node);
  else servable.delete(node);
}

/** The nodes of a hold, as far as the pool still has them. */
export function placesOf({ nodes }: Pool, hold: HoldRecord | null): Node[] {
  return (hold?.placement ?? []).flatMap(({ node }) => nodes.get(node) ?? []);
}

/** Lists rest on vectors that are about to be replaced, now or when that is taken back. */
function forgetSelections(state: EngineState, { places }: Pool): void {
  const forget = () => places.forgetSelections();
  state.undo.run(forget, forget);
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

/** The units of a run that was asked to stop are on their way out. */
export function stopOnNodes(state: EngineState, run: Run): void {
  const { ask } = run.poolLine;
  if (ask !== null) for (const node of run.nodes) addStopping(state, node, ask.need, 1);
}

function addStopping(state: EngineState, node: Node, amounts: Vector, sign: 1 | -1): void {
  const { places } = node.pool;
  const add = (direction: number) => () => {
    addInto(node.stopping, amounts, direction);
    if (node.stopping.some((amount) => amount > 0)) places.withStopping.add(node);
    else places.withStopping.delete(node);
    touch(node);
    judgePromises(node);
  };
  state.undo.run(add(sign), add(-sign));
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
