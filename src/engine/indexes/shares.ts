// What of a fair-share pool has to be looked at again (9).

import { disciplineOf } from "../disciplines/disciplines.ts";
import { lookAgain } from "../disciplines/fair_share/operations.ts";
import type { StarvationChange } from "../events.ts";
import { operationKey } from "../lines.ts";
import { SortedList } from "../sorted-list.ts";
import { bySubmission, type EngineState, type Pool, type PoolLine, type Request } from "../state.ts";

/** Demand or usage by a request changed: the shares of its pool are looked at again (9). */
export function touchShares(state: EngineState, { pool }: Pick<PoolLine, "pool">, request: Request): void {
  if (!disciplineOf(pool).hasShares) return;
  state.undo.addTo(state.unsettled, pool);
  pool.staleRequests.add(request);
  state.undo.touchIfTakenBack(pool.takenBackRequests, request);
}

export function touchWaiter(state: EngineState, request: Request): void {
  for (const poolLine of request.line.poolLines) touchShares(state, poolLine, request);
}

/** Something about the pool itself changed: nothing of what was computed holds any more. */
export function forgetShares(state: EngineState, pool: Pool): void {
  forget(pool);
  forgetSharesWhenTakenBack(state, pool);
}

/** What only the first look at a new tree finds. */
export function forgetSharesWhenTakenBack(state: EngineState, pool: Pool): void {
  state.undo.done(forget, pool, null);
}

function forget(pool: Pool): void {
  pool.shareTree = null;
}

/** Somebody else found how elements stand, as in a replay: the next look does not take it from the tree. */
export function recheck(state: EngineState, { shareTree }: Pool, changes: readonly StarvationChange[]): void {
  if (shareTree !== null) for (const { element } of changes) lookAgain(state, shareTree, element);
}

/** The tree knows what the last look found; when that is taken back, those elements are looked at again (9.4). */
export function recheckWhenTakenBack(
  state: EngineState,
  pool: Pool,
  changes: readonly StarvationChange[],
): void {
  const recheckAll = () => {
    const tree = pool.shareTree;
    if (tree !== null && !changes.every(({ element }) => lookAgain(state, tree, element)))
      pool.shareTree = null;
  };
  state.undo.done(recheckAll, null, null);
}

/** An operation is as old as its first request, also when that has ended (9.11). */
export function rememberOperation(state: EngineState, request: Request): void {
  if (request.spec.operation === null) return;
  const key = operationKey(request.spec);
  let requests = state.operations.get(key);
  if (requests === undefined) {
    requests = new SortedList(bySubmission);
    state.undo.put(state.operations, key, requests);
  }
  state.undo.insert(requests, request);
}

/** An operation that goes on becomes younger with the record of its first request, and older when that is taken back. */
function touchOperation(state: EngineState, request: Request): void {
  // Not that of its line: a component that had neither requests nor policies for a while is another object since.
  const policies = state.components.get(request.spec.component)?.policies.values() ?? [];
  for (const policy of policies) {
    const { shareTree, takenBackRequests } = policy.pool;
    if (shareTree?.named.has(operationKey(request.spec))) touchShares(state, policy, request);
    else state.undo.touchIfTakenBack(takenBackRequests, request); // A tree that is built meanwhile knows the younger one.
  }
}

export function forgetOperation(state: EngineState, request: Request): void {
  if (request.spec.operation === null) return;
  const key = operationKey(request.spec);
  const requests = state.operations.get(key);
  if (requests === undefined) return;
  if (requests.first() === request) touchOperation(state, request);
  state.undo.remove(requests, request);
  if (requests.size === 0) state.undo.drop(state.operations, key);
}
