// Who waits where: lines in the queues of their pools, and waiters that hold units.

import { setAside } from "../placement/occupancy.ts";
import { Room } from "../placement/room.ts";
import { type EngineState, fitsFree, type Line, type Request, requirePool } from "../state.ts";
import { suspectHoldIfUndone, touchHolder, touchMembers } from "./order.ts";
import { touchWaiter } from "./shares.ts";

/** Puts a waiting request where it belongs: among the holders or into its line; a delayed one is nowhere yet. */
export function enqueue(state: EngineState, request: Request): void {
  const { line, progress } = request;
  if (progress.delayed) return;
  touchWaiter(state, request);
  if (progress.hold !== null) {
    const holdPool = requirePool(state, progress.hold.pool);
    touchHolder(state, request);
    state.undo.addTo(holdPool.promised, request);
    const own = line.pools.get(holdPool.record.name)?.policy;
    if (own !== undefined) state.undo.addTo(own.holders, request);
    setAside(state, request, holdPool, 1);
    state.unsettled.add(holdPool);
    for (const { pool, verdict } of line.poolLines) {
      if (pool !== holdPool && verdict === null) state.undo.addTo(pool.passers, request);
    }
  } else {
    join(line, request);
    state.undo.done(leave, line, request);
    if (line.members.first() !== request) return unsettleBehind(state, request);
  }
  unsettleLine(state, line);
}

/**
 * Who joins a line behind others can change nothing where those could not start either, so that a deep queue
 * costs nothing. The exception is backfill by walltime, which may prefer a later member.
 */
function unsettleBehind(state: EngineState, { line, spec }: Request): void {
  for (const { pool, need, ask, verdict } of line.poolLines) {
    const mayPass = spec.walltimeMs !== null && pool.record.settings.backfill !== "none";
    if (verdict !== null || !mayPass) continue;
    if (ask === null ? fitsFree(pool, need) : new Room(pool).hasRoomFor(ask)) state.unsettled.add(pool);
  }
}

export function dequeue(state: EngineState, request: Request): void {
  const { line, progress } = request;
  if (progress.delayed) return;
  unsettleLine(state, line);
  touchWaiter(state, request);
  if (progress.hold !== null) {
    const holdPool = requirePool(state, progress.hold.pool);
    touchHolder(state, request);
    suspectHoldIfUndone(state, holdPool);
    state.undo.removeFrom(holdPool.promised, request);
    const own = line.pools.get(holdPool.record.name)?.policy;
    if (own !== undefined) state.undo.removeFrom(own.holders, request);
    setAside(state, request, holdPool, -1);
    state.unsettled.add(holdPool); // Even if it does not admit the request any more.
    for (const { pool } of line.poolLines) state.undo.removeFrom(pool.passers, request);
  } else {
    leave(line, request);
    state.undo.done(join, line, request);
  }
}

/** What `leave` takes back, and the other way round. */
function join(line: Line, request: Request): void {
  line.members.insert(request);
  touchMembers(line, line.members.first() === request);
  if (line.members.size > 1) return;
  for (const poolLine of line.poolLines) if (poolLine.verdict === null) poolLine.pool.waiting.add(poolLine);
}

function leave(line: Line, request: Request): void {
  touchMembers(line, line.members.first() === request);
  line.members.remove(request);
  if (line.members.size > 0) return;
  for (const poolLine of line.poolLines) poolLine.pool.waiting.delete(poolLine);
}

/** Something about a request changed that may let it start, or others. */
export function unsettleWaiter(state: EngineState, request: Request | undefined): void {
  if (request?.progress.status === "queued") unsettleLine(state, request.line);
}

function unsettleLine(state: EngineState, line: Line): void {
  for (const poolLine of line.poolLines) {
    if (poolLine.verdict === null) state.unsettled.add(poolLine.pool);
  }
}
