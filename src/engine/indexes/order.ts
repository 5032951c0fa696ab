// What of the kept order of a pool's queue has to be looked at again (6).

import type { EngineState, Line, Policy, Pool, Request, Run } from "../state.ts";

/** A member has come to the line or is about to leave it; as its first, or not. */
export function touchMembers(state: EngineState, line: Line, isFirst: boolean): void {
  for (const poolLine of line.poolLines) {
    const { order } = poolLine.pool;
    if (order === null) continue;
    state.undo.touch(order.lines.stale, poolLine);
    if (isFirst) state.undo.touch(order.staleLines, poolLine);
  }
}

/** The usage of a component, or what is promised to it, changed. */
export function touchReserve(state: EngineState, policy: Policy): void {
  const { order } = policy.pool;
  if (order !== null) state.undo.touch(order.stalePolicies, policy);
}

/** A run came into the share of its component: those that come after it there may borrow now (G6). */
export function touchBorrowers(state: EngineState, { poolLine: { policy } }: Run): void {
  const { order } = policy.pool;
  if (order !== null) state.undo.touch(order.staleBorrowers, policy);
}

/** A run has left it: they may borrow again only if that is taken back. */
export function touchBorrowersIfUndone(state: EngineState, { poolLine: { policy } }: Run): void {
  const { order } = policy.pool;
  if (order !== null) state.undo.touchIfTakenBack(order.staleBorrowers, policy);
}

/** A request began or ceased to hold units, which concerns every pool that admits it. */
export function touchHolder(state: EngineState, request: Request): void {
  for (const { pool, policy } of request.line.poolLines) {
    if (pool.order === null) continue;
    state.undo.touch(pool.order.staleHolders, request);
    state.undo.touch(pool.order.stalePolicies, policy);
  }
}

/** A promise ends: should that be taken back, nobody has looked whether it is lost since (V5). */
export function suspectHoldIfUndone(state: EngineState, pool: Pool): void {
  state.undo.run(
    () => undefined,
    () => pool.order?.suspectHolds(),
  );
}

/** Something about the pool itself changed: its queue is sorted anew when it is next used. */
export function forgetOrder(state: EngineState, pool: Pool): void {
  const forget = () => {
    pool.order = null;
  };
  state.undo.run(forget, forget);
}

/** A component without lines came, went or has another priority: only the order of the components is made anew. */
export function forgetPolicies(state: EngineState, pool: Pool): void {
  const forget = () => pool.order?.forgetPolicies();
  state.undo.run(forget, forget);
}
