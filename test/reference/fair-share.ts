// Discipline `fair_share` by the rules of section 9, slowly: the whole tree is built and shared out anew, in exact
// fractions, for every look, and nothing is kept but clocks.

import { exactShares } from "./exact-shares.ts";
import { placementOf, type Room } from "./room.ts";
import type { Amounts, GroupSpec } from "./scenario.ts";
import type { SnapshotElement } from "./share-snapshot.ts";
import { mayComeBack, start, tellToStop } from "./stopping.ts";
import {
  admittingPools,
  amountOf,
  compare,
  demandOf,
  groupsAbove,
  hasDisplaced,
  isBlockedByQuota,
  isShielded,
  isStopping,
  isWaiting,
  type Policy,
  type Pool,
  type Request,
  runsIn,
  settingsOf,
  sum,
  type World,
} from "./world.ts";

/** What time has to do with it; everything else follows from the requests. */
export interface Clocks {
  /** Since when an element has been below its fair share. */
  belowSince: Map<string, number>;
  /** The last preemptive start on a node; "" without nodes. */
  startedAt: Map<string, number>;
  /** Since when a node has held more than it has. */
  overcommittedSince: Map<string, number>;
}

const EPSILON = 1e-9;

const DEFAULTS = {
  fair_share_starvation_timeout: 30,
  fair_share_aggressive_starvation_timeout: 120,
  fair_share_starvation_tolerance: 0.8,
  preemption_satisfaction_threshold: 1,
  aggressive_preemption_satisfaction_threshold: 0.2,
  non_preemptible_resource_usage_threshold: {} as Amounts,
  enable_aggressive_starvation: false,
  allow_aggressive_preemption: true,
  preemptive_scheduling_backoff: 5,
  enforce_limits: false,
};
type Settings = typeof DEFAULTS;

export interface Element {
  key: string;
  name: string;
  type: "group" | "policy" | "operation";
  parent: Element | undefined;
  children: Element[];
  settings: Settings;
  group?: GroupSpec;
  policy?: Policy;
  /** Of an operation. */
  requests: Request[];
  /** Position of the first request, also when that has ended (9.11). */
  age: number;
  share: Amounts;
}

/** One look at a pool: shares, statuses, and what follows from them. */
export interface Look {
  world: World;
  pool: Pool;
  keys: string[];
  root: Element;
  elements: Element[];
  operations: Element[];
  clocks: Clocks;
}

export function clocksOf(world: World, pool: Pool): Clocks {
  world.clocks ??= new Map();
  let clocks = world.clocks.get(pool.name);
  if (clocks === undefined) {
    clocks = { belowSince: new Map(), startedAt: new Map(), overcommittedSince: new Map() };
    world.clocks.set(pool.name, clocks);
  }
  return clocks;
}

/** To a fixed point. */
export function scheduleFairShare(world: World, pool: Pool): void {
  for (;;) {
    endHolds(world, pool);
    const look = evaluate(world, pool);
    if (!(grantHold(look) || regular(look) || enforce(look) || preemptive(look))) return;
  }
}

// --- the tree ------------------------------------------------------------------------------------------

export function lookAt(world: World, pool: Pool): Look {
  const keys = shareKeys(pool);
  const settings: Settings = { ...DEFAULTS, ...(pool.settings as Partial<Settings>) };
  const element = (fields: Pick<Element, "key" | "name" | "type" | "parent" | "settings">): Element => {
    const made = { ...fields, children: [], requests: [], age: 0, share: {} };
    fields.parent?.children.push(made);
    return made;
  };
  const root = element({ key: "root", name: "", type: "group", parent: undefined, settings });
  const elements: Element[] = [];
  const groupElement = (name: string | undefined): Element => {
    if (name === undefined) return root;
    const known = elements.find(({ key }) => key === `group ${name}`);
    if (known !== undefined) return known;
    const group = pool.groups.find((other) => other.name === name)!;
    const parent = groupElement(group.parent);
    const made = element({
      key: `group ${name}`,
      name,
      type: "group",
      parent,
      settings: { ...parent.settings, ...(group.settings as Partial<Settings>) },
    });
    made.group = group;
    elements.push(made);
    return made;
  };
  for (const group of pool.groups) groupElement(group.name);
  for (const policy of world.policies.filter((other) => other.pool === pool.name)) {
    const parent = groupElement(policy.group);
    const { component } = policy;
    const made = element({
      key: `policy ${component}`,
      name: component,
      type: "policy",
      parent,
      settings: parent.settings,
    });
    made.policy = policy;
    elements.push(made);
    const names = new Set(world.requests.filter((r) => r.component === component).map(operationOf));
    for (const name of names) {
      const all = world.requests.filter((r) => r.component === component && operationOf(r) === name);
      const requests = all.filter((r) => r.run?.pool === pool.name || waitsIn(world, pool, r));
      if (requests.length === 0) continue;
      const operation = element({
        key: `operation ${component} ${name}`,
        name: all[0]!.operation ?? all[0]!.id,
        type: "operation",
        parent: made,
        settings: parent.settings,
      });
      operation.requests = requests;
      operation.age = Math.min(...all.map(({ position }) => position));
      elements.push(operation);
    }
  }
  const operations = elements.filter(({ type }) => type === "operation");
  const look = { world, pool, keys, root, elements, operations, clocks: clocksOf(world, pool) };
  shareOut(look);
  return look;
}

/** An operation by its name, else by the request's id; the two never mean the same. */
function operationOf({ operation, id }: Request): string {
  return operation === undefined ? `#${id}` : operation;
}

function waitsIn(world: World, pool: Pool, request: Request): boolean {
  return isWaiting(request) && admittingPools(world, request).includes(pool);
}

function shareKeys(pool: Pool): string[] {
  const all = Object.keys(pool.capacity).sort(compare);
  const { share_keys: chosen } = pool.settings;
  if (chosen) return all.filter((key) => chosen.includes(key));
  const usual = all.filter((key) => ["gpu", "mcpu", "memory_mb"].includes(key));
  return usual.length > 0 ? usual : all.filter((key) => key !== "step_run");
}

export function requestsBelow({ requests, children }: Element): Request[] {
  return [...requests, ...children.flatMap(requestsBelow)];
}

/** What is allocated or held, without what is stopping. */
function usageOf(look: Look, element: Element, without: Request[] = []): Amounts {
  const counted = requestsBelow(element).filter(
    (request) =>
      !without.includes(request) && (request.run ? !isStopping(request) : request.hold === look.pool.name),
  );
  return fractions(look, counted);
}

/** What is queued, running, or stopping and coming back. */
function demandShareOf(look: Look, element: Element): Amounts {
  const counted = requestsBelow(element).filter(
    (request) => request.run === undefined || !isStopping(request) || mayComeBack(request),
  );
  return fractions(look, counted);
}

function fractions({ pool, keys }: Look, requests: Request[]): Amounts {
  const part = (key: string) => {
    const total = pool.capacity[key]!;
    return total === 0 ? 0 : sum(pool, requests, key) / total;
  };
  return Object.fromEntries(keys.map((key) => [key, part(key)]));
}

/** Fair shares in exact fractions; below a FIFO group operations follow directly, in the order of submission. */
function shareOut(look: Look): void {
  const { pool, keys, root, elements } = look;
  const given = (amounts: Amounts | undefined): Amounts | undefined => {
    const named = Object.entries(amounts ?? {}).filter(([key]) => keys.includes(key));
    return named.length === 0 ? undefined : Object.fromEntries(named);
  };
  const units = (requests: Request[]) =>
    Object.fromEntries(keys.map((key) => [key, sum(pool, requests, key)]));
  const snapshotOf = (element: Element): SnapshotElement => {
    if (element.type === "operation") {
      const { requests, key, age } = element;
      const isCounted = (request: Request) =>
        request.run ? !isStopping(request) : request.hold === pool.name;
      const isWanted = (request: Request) =>
        request.run === undefined || !isStopping(request) || mayComeBack(request);
      return {
        name: key,
        type: "operation",
        gang: requests.some((request) => request.gang || request.nodes > 1),
        usage: units(requests.filter(isCounted)),
        demand: units(requests.filter(isWanted)),
        order: age,
      };
    }
    const isFifo = element.group?.mode === "fifo";
    const children = isFifo ? operationsBelow(element) : element.children;
    const own = element.policy ?? element.group;
    const inLine = isFifo ? sumOf(element.children.map(({ policy }) => given(policy?.reserved))) : undefined;
    const reserved = given(own?.reserved) ?? inLine;
    const limit = given(own?.limit);
    return {
      name: element.key,
      type: "group",
      mode: isFifo ? "fifo" : "fair_share",
      weight: own?.weight ?? 1,
      ...(reserved && { reserved }),
      ...(limit && { limit }),
      children: children.toSorted((a, b) => a.age - b.age).map(snapshotOf),
    };
  };
  const total = Object.fromEntries(keys.map((key) => [key, pool.capacity[key]!]));
  const main = [pool.settings.main_key ?? "gpu", "gpu", "mcpu"].find((key) => keys.includes(key)) ?? keys[0]!;
  const shares = exactShares({ total, main_key: main, tree: snapshotOf(root) });
  for (const element of [root, ...elements]) {
    const found = shares.get(element.key);
    if (found !== undefined) element.share = Object.fromEntries(found);
  }
  for (const element of elements.filter(({ type, share }) => type === "policy" && !(keys[0]! in share))) {
    element.share = sumOf(element.children.map(({ share }) => share)) ?? {};
    for (const key of keys) element.share[key] ??= 0;
  }
}

function operationsBelow(element: Element): Element[] {
  return element.type === "operation" ? [element] : element.children.flatMap(operationsBelow);
}

function sumOf(all: (Amounts | undefined)[]): Amounts | undefined {
  let total: Amounts | undefined;
  for (const amounts of all) {
    for (const [key, amount] of Object.entries(amounts ?? {})) {
      total ??= {};
      total[key] = (total[key] ?? 0) + amount;
    }
  }
  return total;
}

// --- statuses --------------------------------------------------------------------------------------------

/** A look that counts: clocks begin, go on, or are reset (9.3, 9.4, 9.9). */
function evaluate(world: World, pool: Pool): Look {
  const look = lookAt(world, pool);
  const { belowSince, overcommittedSince } = look.clocks;
  const below = new Set(look.elements.filter((element) => isBelow(look, element)).map(({ key }) => key));
  for (const key of below) if (!belowSince.has(key)) belowSince.set(key, world.now);
  for (const key of belowSince.keys()) if (!below.has(key)) belowSince.delete(key);
  const over = new Set((pool.nodes ?? []).filter((node) => isOver(look, node.name)).map(({ name }) => name));
  for (const name of over) if (!overcommittedSince.has(name)) overcommittedSince.set(name, world.now);
  for (const name of overcommittedSince.keys()) if (!over.has(name)) overcommittedSince.delete(name);
  return look;
}

function isBelow(look: Look, element: Element): boolean {
  if (!requestsBelow(element).some(isWaiting)) return false;
  const [usage, demand] = [usageOf(look, element), demandShareOf(look, element)];
  const { share, settings } = element;
  const covered = look.keys.every((key) => demand[key]! <= share[key]! + EPSILON);
  const tolerance = covered ? 1 : settings.fair_share_starvation_tolerance;
  const unmet = look.keys.filter((key) => demand[key]! > usage[key]! + EPSILON);
  return unmet.length > 0 && unmet.every((key) => usage[key]! < share[key]! * tolerance - EPSILON);
}

export function statusOf({ world, clocks }: Look, { key, settings }: Element): string {
  const since = clocks.belowSince.get(key);
  if (since === undefined) return "normal";
  const waited = world.now - since;
  if (settings.enable_aggressive_starvation && waited >= settings.fair_share_aggressive_starvation_timeout)
    return "aggressively_starving";
  return waited >= settings.fair_share_starvation_timeout ? "starving" : "below_fair_share";
}

export function isStarving(look: Look, element: Element): boolean {
  return ["starving", "aggressively_starving"].includes(statusOf(look, element));
}

/** A starving group or policy passes the right on (9.4). */
export function mayPreempt(look: Look, operation: Element, stage: "preemptive" | "aggressive"): boolean {
  for (let element: Element | undefined = operation; element !== undefined; element = element.parent) {
    if (stage === "preemptive" && isStarving(look, element)) return true;
    if (statusOf(look, element) === "aggressively_starving") return true;
  }
  return false;
}

/** Moments at which time itself is an event in this pool. */
export function fairMoments(world: World, pool: Pool): number[] {
  const look = lookAt(world, pool);
  const { belowSince, startedAt, overcommittedSince } = look.clocks;
  const settings: Settings = look.root.settings;
  return [
    ...look.elements.flatMap((element) => {
      const since = belowSince.get(element.key) ?? Number.NEGATIVE_INFINITY;
      const { fair_share_starvation_timeout: soon, fair_share_aggressive_starvation_timeout: late } =
        element.settings;
      return [since + soon, since + late];
    }),
    ...[...startedAt.values()].map((at) => at + settings.preemptive_scheduling_backoff),
    ...[...overcommittedSince.values()].map((at) => at + 15),
  ];
}

// --- order -----------------------------------------------------------------------------------------------

/** Usage ÷ fair share (9.6), of what is left without some victims. */
export function satisfaction(look: Look, element: Element, victims: Request[] = []): number {
  const usage = usageOf(look, element, victims);
  const demand = demandShareOf(look, element);
  const { share } = element;
  if (look.keys.every((key) => share[key]! <= EPSILON)) return Number.POSITIVE_INFINITY;
  const ratio = (key: string) => {
    if (share[key]! > EPSILON) return usage[key]! / share[key]!;
    return usage[key]! > EPSILON ? Number.POSITIVE_INFINITY : 0;
  };
  if (look.keys.some((key) => usage[key]! > share[key]! + EPSILON)) return Math.max(...look.keys.map(ratio));
  const lacking = look.keys.filter((key) => demand[key]! > share[key]! + EPSILON);
  if (lacking.length > 0) return Math.max(...lacking.map(ratio));
  return Math.min(...look.keys.filter((key) => share[key]! > EPSILON).map(ratio));
}

export function inOrder(look: Look, element: Element = look.root): Element[] {
  if (element.type === "operation") return requestsBelow(element).some(isWaiting) ? [element] : [];
  const members = element.group?.mode === "fifo" ? operationsBelow(element) : element.children;
  const waiting = members.filter((member) => requestsBelow(member).some(isWaiting));
  const ranked = waiting.map((member) => ({
    member,
    step: Math.round(satisfaction(look, member) * 1e9),
    age: Math.min(...inAnyOrder(member).map(({ age }) => age)),
  }));
  ranked.sort((a, b) => (a.step === b.step ? a.age - b.age : a.step - b.step));
  return ranked.flatMap(({ member }) => inOrder(look, member));
}

function inAnyOrder(element: Element): Element[] {
  return operationsBelow(element).filter((operation) => operation.requests.some(isWaiting));
}

export function waitersOf(operation: Element): Request[] {
  return operation.requests.filter(isWaiting).sort((a, b) => a.position - b.position);
}

export function fairQueue(world: World, pool: Pool): Request[] {
  return inOrder(lookAt(world, pool)).flatMap(waitersOf);
}

// --- groups of allocations -------------------------------------------------------------------------------

type Protection = "non_preemptible" | "aggressively_preemptible" | "preemptible";
const PROTECTIONS: Protection[] = ["preemptible", "aggressively_preemptible", "non_preemptible"];

function freshness({ run }: Request): number {
  return Math.max(run!.position, run!.checkpointPosition ?? 0);
}

/** (9.5) */
export function allocationGroups(look: Look, operation: Element): Map<Request, Protection> {
  const { keys, pool } = look;
  const { share, settings } = operation;
  const demand = demandShareOf(look, operation);
  const runs = operation.requests
    .filter((request) => request.run !== undefined && !isStopping(request))
    .sort((a, b) => Number(a.preemptible) - Number(b.preemptible) || freshness(a) - freshness(b));
  const lacking = keys.filter((key) => demand[key]! > share[key]! + EPSILON);
  const groups = new Map<Request, Protection>();
  let least = 2;
  runs.forEach((request, index) => {
    const older = runs.slice(0, index);
    const usage = fractions(look, older);
    const isBelowShare = (threshold: number) => {
      const below = (key: string) => usage[key]! < share[key]! * threshold - EPSILON;
      return lacking.length > 0 ? lacking.every(below) : keys.some(below);
    };
    const named = Object.entries(settings.non_preemptible_resource_usage_threshold);
    const isUnderThreshold =
      named.length > 0 && named.every(([key, amount]) => sum(pool, older, key) < amount);
    let rank = 0;
    if (lacking.length === 0 || isBelowShare(settings.preemption_satisfaction_threshold)) rank = 1;
    if (isBelowShare(settings.aggressive_preemption_satisfaction_threshold) || isUnderThreshold) rank = 2;
    least = Math.min(least, rank);
    groups.set(request, PROTECTIONS[least]!);
  });
  return groups;
}

// --- room ------------------------------------------------------------------------------------------------

/** What is left in every place that takes work, when some have ended and some holds are served. */
export function roomsIn({ world, pool }: Look, ended: Request[], holders: Request[]): Room[] {
  const runs = runsIn(world, pool).filter((request) => !ended.includes(request));
  const left = (capacity: Amounts, present: Request[], amount: (request: Request, key: string) => number) =>
    Object.fromEntries(
      Object.entries(capacity).map(([key, total]) => [
        key,
        present.reduce((rest, request) => rest - amount(request, key), total),
      ]),
    );
  if (pool.nodes === undefined) {
    const all = [...runs, ...holders];
    return [{ node: "", topology: "", left: left(pool.capacity, all, (r, key) => amountOf(pool, r, key)) }];
  }
  return pool.nodes
    .filter((node) => node.state === "ready")
    .sort((a, b) => compare(a.name, b.name))
    .map((node) => {
      const here = [
        ...runs.filter((request) => request.run!.placed!.includes(node.name)),
        ...holders.filter((request) => request.heldNodes!.includes(node.name)),
      ];
      return {
        node: node.name,
        topology: node.topology ?? "",
        left: left(node.capacity, here, (request, key) => request.resources[key] ?? 0),
      };
    });
}

export function holdersIn({ world, pool }: Look): Request[] {
  return world.requests.filter((request) => request.hold === pool.name).sort((a, b) => a.heldAt! - b.heldAt!);
}

export function stoppingIn({ world, pool }: Look): Request[] {
  return runsIn(world, pool).filter(isStopping);
}

/** How much each place lacks for a part of the request. */
export function lackOf({ pool }: Look, { left }: Room, request: Request): Amounts {
  const wanted = pool.nodes === undefined ? demandOf(pool, request) : Object.entries(request.resources);
  return Object.fromEntries(
    wanted.filter(([key]) => key in left).map(([key, amount]) => [key, amount - left[key]!]),
  );
}

export function isCovered(lack: Amounts): boolean {
  return Object.values(lack).every((amount) => amount <= 0);
}

// --- stages ----------------------------------------------------------------------------------------------

/** A hold ends only when it is no longer admitted, or its node is lost or draining (9.7). */
function endHolds(world: World, pool: Pool): void {
  for (const request of world.requests) {
    if (request.hold !== pool.name) continue;
    const isUsable = (name: string) =>
      pool.nodes?.some((node) => node.name === name && node.state === "ready") ?? false;
    const stands = waitsIn(world, pool, request) && (request.heldNodes ?? []).every(isUsable);
    if (!stands) endHold(request);
  }
}

function endHold(request: Request): void {
  delete request.hold;
  delete request.heldNodes;
  delete request.heldAt;
}

function grant({ world, pool }: Look, request: Request, placed: string[]): true {
  endHold(request);
  start(world, request, pool.name, false);
  if (pool.nodes !== undefined) request.run!.placed = placed.toSorted(compare);
  return true;
}

function hold({ world, pool }: Look, request: Request, nodes: string[]): true {
  world.position += 1;
  request.hold = pool.name;
  request.heldAt = world.position;
  if (pool.nodes !== undefined) request.heldNodes = nodes;
  return true;
}

/** Units that are free go to the holds in the order of the decisions. */
function grantHold(look: Look): boolean {
  const holders = holdersIn(look);
  for (const [index, request] of holders.entries()) {
    const before = holders.slice(0, index);
    if (isBlockedByQuota(look.world, look.pool, request, before, false)) continue;
    const rooms = roomsIn(look, [], before).filter(
      (room) => request.heldNodes === undefined || request.heldNodes.includes(room.node),
    );
    if (rooms.every((room) => isCovered(lackOf(look, room, request))))
      return grant(look, request, request.heldNodes ?? []);
  }
  return false;
}

/** Everyone, on free units; nobody behind a starving operation that a preemptive stage could serve now (9.11). */
function regular(look: Look): boolean {
  const { world, pool } = look;
  const holders = holdersIn(look);
  const rooms = roomsIn(look, [], holders);
  for (const operation of inOrder(look)) {
    for (const request of waitersOf(operation)) {
      if (request.hold !== undefined) continue;
      const placed = placementOf(pool, rooms, request);
      if (placed === undefined || isBlockedByQuota(world, pool, request, holders, false)) continue;
      return grant(look, request, placed);
    }
    const stages = ["preemptive", "aggressive"] as const;
    if (stages.some((stage) => serviceFor(look, operation, stage) !== undefined)) return false;
  }
  return false;
}

interface Service {
  request: Request;
  nodes: string[];
  victims: Request[];
}

function preemptive(look: Look): boolean {
  const { world, pool, clocks } = look;
  for (const stage of ["preemptive", "aggressive"] as const) {
    for (const operation of inOrder(look)) {
      const service = serviceFor(look, operation, stage);
      if (service === undefined) continue;
      const { request, nodes, victims } = service;
      if (victims.length > 0) {
        for (const name of pool.nodes === undefined ? [""] : nodes) clocks.startedAt.set(name, world.now);
      }
      takeAway(look, victims, stage === "aggressive" ? "aggressive" : "fair_share", request);
      return hold(look, request, nodes);
    }
  }
  return false;
}

function takeAway({ world, pool }: Look, victims: Request[], reason: string, waiter?: Request): void {
  for (const victim of victims) {
    if (waiter !== undefined) world.displaced.push({ pool: pool.name, by: waiter.id, of: victim.id });
    tellToStop(world, pool, victim, reason);
  }
}

/** What a preemptive stage would do for the first request of an operation that it can serve. */
function serviceFor(look: Look, operation: Element, stage: "preemptive" | "aggressive"): Service | undefined {
  if (!mayPreempt(look, operation, stage)) return undefined;
  const { world, pool } = look;
  const holders = holdersIn(look);
  for (const request of waitersOf(operation)) {
    if (request.hold !== undefined) continue;
    const lacksUnits = placementOf(pool, roomsIn(look, [], holders), request) === undefined;
    if (isBlockedByQuota(world, pool, request, holders, lacksUnits)) continue;
    const rooms = roomsIn(look, stoppingIn(look), holders);
    const coveredRoom = rooms.find((room) => isCovered(lackOf(look, room, request)));
    if (coveredRoom !== undefined) return { request, nodes: [coveredRoom.node], victims: [] };
    const options = rooms
      .filter(({ node }) => !backsOff(look, node))
      .map((room) => ({ room, victims: victimsFor(look, operation, request, room, stage) }))
      .filter((option) => option.victims !== undefined)
      .map(({ room, victims }) => ({ room, victims: victims! }));
    const newest = (victims: Request[]) => victims.map(freshness).sort((a, b) => b - a);
    options.sort((a, b) => {
      if (a.victims.length !== b.victims.length) return a.victims.length - b.victims.length;
      const [one, other] = [newest(a.victims), newest(b.victims)];
      const place = one.findIndex((value, index) => value !== other[index]);
      return place < 0 ? compare(a.room.node, b.room.node) : other[place]! - one[place]!;
    });
    const best = options[0];
    if (best !== undefined) return { request, nodes: [best.room.node], victims: best.victims };
  }
  return undefined;
}

export function backsOff({ world, clocks, root }: Look, node: string): boolean {
  const at = clocks.startedAt.get(node);
  return at !== undefined && world.now < at + root.settings.preemptive_scheduling_backoff;
}

// --- victims ---------------------------------------------------------------------------------------------

interface Candidate {
  request: Request;
  operation: Element;
  group: Protection;
}

/** Less protected first, the newest of each first. */
function candidatesIn(look: Look): Candidate[] {
  const all = look.operations.flatMap((operation) =>
    [...allocationGroups(look, operation)].map(([request, group]) => ({ request, operation, group })),
  );
  return all
    .filter(({ request: { preemptible, sensitive } }) => preemptible && !sensitive)
    .sort(
      (a, b) =>
        PROTECTIONS.indexOf(a.group) - PROTECTIONS.indexOf(b.group) ||
        freshness(b.request) - freshness(a.request),
    );
}

export function victimsFor(
  look: Look,
  waiter: Element,
  request: Request,
  room: Room,
  stage: "preemptive" | "aggressive",
): Request[] | undefined {
  const { world, pool } = look;
  const lack = lackOf(look, room, request);
  const short = Object.keys(lack).filter((key) => pool.nodes !== undefined || lack[key]! > 0);
  const chosen: Candidate[] = [];
  const isEnough = (victims: Candidate[]) =>
    Object.keys(lack).every(
      (key) =>
        victims.reduce((rest, victim) => rest - heldIn(look, room, victim.request, key), lack[key]!) <= 0,
    );
  for (const candidate of candidatesIn(look)) {
    if (isEnough(chosen)) break;
    const { operation, group } = candidate;
    const victim = candidate.request;
    if (group === "non_preemptible" || operation === waiter || isStarving(look, operation)) continue;
    if (isShielded(look.world, look.pool, victim)) continue;
    if (group === "aggressively_preemptible" && stage === "preemptive") continue;
    if (group === "aggressively_preemptible" && !operation.settings.allow_aggressive_preemption) continue;
    if (world.now - victim.run!.startedAt < settingsOf(pool).min_runtime_seconds) continue;
    if (!short.some((key) => heldIn(look, room, victim, key) > 0)) continue;
    if (hasDisplaced(world, victim.id, request.id)) continue;
    const taken = chosen.filter((other) => other.operation === operation).map((other) => other.request);
    if (isLeftTooPoor(look, operation, [...taken, victim], waiter)) continue;
    chosen.push(candidate);
  }
  return isEnough(chosen) ? minimal(chosen, isEnough).map((victim) => victim.request) : undefined;
}

/** What a run holds in a place. */
function heldIn({ pool }: Look, { node }: Room, request: Request, key: string): number {
  if (pool.nodes === undefined) return amountOf(pool, request, key);
  return request.run!.placed!.includes(node) ? (request.resources[key] ?? 0) : 0;
}

/** The oldest is spared first. */
function minimal(chosen: Candidate[], isEnough: (victims: Candidate[]) => boolean): Candidate[] {
  let kept = chosen;
  for (const candidate of chosen.toReversed()) {
    const others = kept.filter((other) => other !== candidate);
    if (isEnough(others)) kept = others;
  }
  return kept;
}

export function isLeftTooPoor(look: Look, operation: Element, victims: Request[], waiter: Element): boolean {
  const isHigher = (one: number, other: number) =>
    other < Number.POSITIVE_INFINITY && one > other + (one === Number.POSITIVE_INFINITY ? 0 : EPSILON);
  if (!isHigher(satisfaction(look, operation, victims), satisfaction(look, waiter))) return true;
  const part = (element: Element, without: Request[], key: string) => {
    const share = element.share[key]!;
    return share > EPSILON ? usageOf(look, element, without)[key]! / share : Number.POSITIVE_INFINITY;
  };
  return look.keys.some((key) => {
    const isAskedFor = demandShareOf(look, waiter)[key]! > 0;
    if (!isAskedFor || sum(look.pool, victims, key) === 0) return false;
    return !isHigher(part(operation, victims, key), part(waiter, [], key));
  });
}

// --- other reasons (9.9) -----------------------------------------------------------------------------------

function isOver(look: Look, node: string): boolean {
  const capacity = look.pool.nodes!.find(({ name }) => name === node)!.capacity;
  const here = runsIn(look.world, look.pool).filter(
    (request) => !isStopping(request) && request.run!.placed!.includes(node),
  );
  return Object.entries(capacity).some(
    ([key, total]) => here.reduce((used, request) => used + (request.resources[key] ?? 0), 0) > total,
  );
}

/** Nodes, then policies, then groups, those below before those above them. */
function enforce(look: Look): boolean {
  const { world, pool, clocks, root } = look;
  const nodes = [...clocks.overcommittedSince]
    .filter(([, since]) => world.now - since >= 15)
    .map(([name]) => name)
    .sort(compare);
  for (const name of nodes) {
    const { capacity } = pool.nodes!.find((node) => node.name === name)!;
    const isHere = (request: Request) => request.run!.placed!.includes(name);
    if (shed(look, capacity, isHere, (r, key) => r.resources[key] ?? 0, "overcommit")) return true;
  }
  if (!root.settings.enforce_limits) return false;
  const policies = world.policies
    .filter((policy) => policy.pool === pool.name)
    .sort((a, b) => compare(a.component, b.component));
  for (const { component, limit } of policies) {
    const isOwn = (request: Request) => request.component === component;
    if (shed(look, limit, isOwn, (r, key) => amountOf(pool, r, key), "limit")) return true;
  }
  const depth = ({ parent }: GroupSpec): number =>
    parent === undefined ? 0 : 1 + depth(pool.groups.find(({ name }) => name === parent)!);
  const groups = pool.groups.toSorted((a, b) => depth(b) - depth(a) || compare(b.name, a.name));
  for (const { name, limit } of groups) {
    const isBelowGroup = (request: Request) =>
      groupsAbove(world, pool, request.component).some((group) => group.name === name);
    if (shed(look, limit ?? {}, isBelowGroup, (r, key) => amountOf(pool, r, key), "limit")) return true;
  }
  return false;
}

/** Takes as much as is too much, or all that may be taken. */
function shed(
  look: Look,
  limit: Amounts,
  isMember: (request: Request) => boolean,
  amount: (request: Request, key: string) => number,
  reason: string,
): boolean {
  const runs = runsIn(look.world, look.pool).filter((request) => !isStopping(request) && isMember(request));
  const used = (requests: Request[], key: string) =>
    requests.reduce((total, request) => total + amount(request, key), 0);
  const excess = Object.entries(limit)
    .map(([key, bound]) => [key, used(runs, key) - bound] as const)
    .filter(([, units]) => units > 0);
  const candidates = candidatesIn(look).filter(
    ({ request }) => runs.includes(request) && excess.some(([key]) => amount(request, key) > 0),
  );
  const everybody = candidates.map(({ request }) => request);
  const isEnough = (victims: Candidate[]) =>
    excess.every(
      ([key, units]) =>
        used(
          victims.map(({ request }) => request),
          key,
        ) >= Math.min(units, used(everybody, key)),
    );
  let count = 0;
  while (!isEnough(candidates.slice(0, count))) count += 1;
  const victims = minimal(candidates.slice(0, count), isEnough).map(({ request }) => request);
  takeAway(look, victims, reason);
  return victims.length > 0;
}
