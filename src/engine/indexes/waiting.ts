// Who waits where: lines in the queues of their pools, and waiters that hold units.

import { setAside } from "../placement/occupancy.ts";
import { Room } from "../placement/room.ts";
import { type EngineState, fitsFree, type Line, type Pool, type Request, requirePool } from "../state.ts";
import { touchHolder, touchMembers } from "./order.ts";
import { touchWaiter } from "./shares.ts";

/** Puts a waiting request where it belongs: among the holders or into its line; a delayed one is nowhere yet. */
export function enqueue(state: EngineState, request: Request): void {
  const { line, progress } = request;
  if (progress.delayed) return;
  touchWaiter(state, request);
  if (progress.hold !== null) {
    const holdPool = requirePool(state, progress.hold.pool);
    hold(holdPool, request);
    state.undo.done(release, holdPool, request);
    state.unsettled.add(holdPool);
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
    release(holdPool, request);
    state.undo.done(holdAgain, holdPool, request);
    state.unsettled.add(holdPool); // Even if it does not admit the request any more.
  } else {
    leave(line, request);
    state.undo.done(join, line, request);
  }
}

// --- what these are made of: pairs, of which one takes back what the other has done ------------------------

function hold(pool: Pool, request: Request): void {
  touchHolder(request);
  pool.promised.add(request);
  request.line.pools.get(pool.record.name)?.policy.holders.add(request);
  setAside(request, pool, 1);
  for (const { pool: other, verdict } of request.line.poolLines)
    if (other !== pool && verdict === null) other.passers.add(request);
}

function release(pool: Pool, request: Request): void {
  touchHolder(request);
  pool.promised.delete(request);
  request.line.pools.get(pool.record.name)?.policy.holders.delete(request);
  setAside(request, pool, -1);
  for (const { pool: other } of request.line.poolLines) other.passers.delete(request);
}

/** Its promise had ended, and that is taken back: nobody has looked whether it is lost since (V5). */
function holdAgain(pool: Pool, request: Request): void {
  hold(pool, request);
  pool.order?.suspectHolds();
}

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
