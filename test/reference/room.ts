// What is left, node by node, and where a request would go (12). A pool without nodes is one big node.

import type { Amounts } from "./scenario.ts";
import { compare, demandOf, mainKey, type Pool, type Request, runsIn, type World } from "./world.ts";

/** What is left on one node. Below nothing where more is promised or used than there is. */
export interface Room {
  node: string;
  topology: string;
  left: Amounts;
}

/** The room in a pool, if `ended` had ended and the `claims` of others were served first: a hold is for its nodes (V5). */
export function roomIn(world: World, pool: Pool, ended: Request[], claims: Request[]): Room[] {
  return claims.reduce(
    (room, claim) => without(pool, room, claim, claim.heldNodes ?? []),
    bareRoom(world, pool, ended),
  );
}

function bareRoom(world: World, pool: Pool, ended: Request[]): Room[] {
  const runs = runsIn(world, pool).filter((run) => !ended.includes(run));
  if (pool.nodes === undefined) {
    return [{ node: "", topology: "", left: minus(pool.capacity, runs, (run) => demandOf(pool, run)) }];
  }
  return pool.nodes
    .filter((node) => node.state === "ready")
    .map((node) => {
      const here = runs.filter((run) => run.run!.placed?.includes(node.name));
      const left = minus(node.capacity, here, (run) => Object.entries(run.resources));
      return { node: node.name, topology: node.topology ?? "", left };
    });
}

/** The names of the nodes that the request would get, or nothing if there is no room for it. */
export function placementOf(pool: Pool, rooms: Room[], request: Request): string[] | undefined {
  const wanted = pool.nodes === undefined ? demandOf(pool, request) : Object.entries(request.resources);
  const fitting = rooms
    .filter(({ left }) => wanted.every(([key, amount]) => !(key in left) || amount <= left[key]!))
    .sort((a, b) => compareRooms(pool, a, b));
  if (pool.nodes === undefined) return fitting.length > 0 ? [] : undefined;
  const chosen = fewestGroups(fitting, request.nodes);
  return chosen
    ?.slice(0, request.nodes)
    .map((room) => room.node)
    .sort(compare);
}

/** What is left when the request has its whole amount, on these nodes. */
function without(pool: Pool, rooms: Room[], request: Request, nodes: string[]): Room[] {
  const demand = pool.nodes === undefined ? demandOf(pool, request) : Object.entries(request.resources);
  return rooms.map((room) =>
    pool.nodes === undefined || nodes.includes(room.node)
      ? { ...room, left: minus(room.left, [request], () => demand) }
      : room,
  );
}

/** As few topology groups as possible; of equally few, those with the least room that is enough, then by name (N2). */
function fewestGroups(rooms: Room[], count: number): Room[] | undefined {
  const groups = [...new Set(rooms.map((room) => room.topology))].sort(compare);
  const choices = subsetsOf(groups)
    .map((names) => ({ names, rooms: rooms.filter((room) => names.includes(room.topology)) }))
    .filter((choice) => choice.rooms.length >= count);
  choices.sort(
    (a, b) =>
      a.names.length - b.names.length ||
      a.rooms.length - b.rooms.length ||
      compare(a.names.join(" "), b.names.join(" ")),
  );
  return choices[0]?.rooms;
}

function subsetsOf(names: string[]): string[][] {
  const [first, ...rest] = names;
  if (first === undefined) return [[]];
  return subsetsOf(rest).flatMap((subset) => [subset, [first, ...subset]]);
}

/** Best fit: the least of the main key, then of the other keys by name, then the name (9.11). */
function compareRooms(pool: Pool, a: Room, b: Room): number {
  const keys = [mainKey(pool), ...Object.keys(pool.capacity).sort(compare)];
  const key = keys.find((name) => (a.left[name] ?? 0) !== (b.left[name] ?? 0));
  return key === undefined ? compare(a.node, b.node) : (a.left[key] ?? 0) - (b.left[key] ?? 0);
}

function minus(
  amounts: Amounts,
  requests: Request[],
  demand: (request: Request) => [string, number][],
): Amounts {
  const left = { ...amounts };
  for (const [key, amount] of requests.flatMap(demand)) {
    if (key in left) left[key]! -= amount;
  }
  return left;
}
