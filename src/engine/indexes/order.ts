// What of the kept order of a pool's queue has to be looked at again (6).

import type { EngineState, Line, Policy, Pool, Request, Run } from "../state.ts";

/** A member has come to the line or is about to leave it; as its first, or not. */
export function touchMembers(line: Line, isFirst: boolean): void {
  for (const poolLine of line.poolLines) {
    const { order } = poolLine.pool;
    if (order === null) continue;
    order.lines.stale.add(poolLine);
    if (isFirst) order.staleLines.add(poolLine);
  }
}

/** The usage of a component, or what is promised to it, changed. */
export function touchReserve(policy: Policy): void {
  policy.pool.order?.stalePolicies.add(policy);
}

/** A run came into the share of its component: those that come after it there may borrow now (G6). */
export function touchBorrowers({ poolLine: { policy } }: Run): void {
  policy.pool.order?.hopeless.noteChange(policy);
}

/** A request began or ceased to hold units, which concerns every pool that admits it. */
export function touchHolder(request: Request): void {
  for (const { pool, policy } of request.line.poolLines) {
    pool.order?.staleHolders.add(request);
    pool.order?.stalePolicies.add(policy);
  }
}

/** Something about the pool itself changed: its queue is sorted anew when it is next used. */
export function forgetOrder(state: EngineState, pool: Pool): void {
  forget(pool);
  state.undo.done(forget, pool, null);
}

function forget(pool: Pool): void {
  pool.order = null;
}
