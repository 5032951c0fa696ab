// Requests that are not in the queue yet (J9): they wait for others to end, or for their turn in an array. Kept by
// what they wait for, so that an end costs what it lets in.

import { operationKey } from "../lines.ts";
import { type RequestSpec, TERMINAL_STATUSES } from "../records.ts";
import { SortedList } from "../sorted-list.ts";
import { type ArrayState, bySubmission, type EngineState, type Request } from "../state.ts";

/** Members of an array share its operation; a request without an array has no key. */
export function arrayKeyOf(spec: RequestSpec): string | null {
  return spec.array == null ? null : operationKey(spec);
}

/** A live request takes its place: among the blocked, or among the active of its array. */
export function joinBlocked(state: EngineState, request: Request): void {
  const { spec, progress } = request;
  const isBlocked = progress.blocked === true;
  const key = arrayKeyOf(spec);
  if (key !== null) {
    const array = arrayOf(state, key);
    if (isBlocked) state.undo.insert(array.blocked, request);
    else state.undo.set(array, "active", array.active + 1);
  }
  if (!isBlocked) return;
  for (const { requestId } of spec.after ?? []) {
    let dependents = state.dependents.get(requestId);
    if (dependents === undefined) {
      dependents = new Set();
      state.undo.put(state.dependents, requestId, dependents);
    }
    state.undo.addTo(dependents, request);
  }
}

/** The opposite: it ends, enters the queue, or is about to change its place. */
export function leaveBlocked(state: EngineState, request: Request): void {
  if (state.arrays.size === 0 && state.dependents.size === 0) return;
  const { spec, progress } = request;
  const isBlocked = progress.blocked === true;
  const key = arrayKeyOf(spec);
  if (key !== null) {
    const array = arrayOf(state, key);
    if (isBlocked) state.undo.remove(array.blocked, request);
    else state.undo.set(array, "active", array.active - 1);
    if (array.active + array.blocked.size === 0) state.undo.drop(state.arrays, key);
  }
  if (!isBlocked) return;
  for (const { requestId } of spec.after ?? []) {
    const dependents = state.dependents.get(requestId);
    if (dependents === undefined) continue; // Named twice.
    state.undo.removeFrom(dependents, request);
    if (dependents.size === 0) state.undo.drop(state.dependents, requestId);
  }
}

function arrayOf(state: EngineState, key: string): ArrayState {
  let array = state.arrays.get(key);
  if (array === undefined) {
    array = { active: 0, blocked: new SortedList<Request>(bySubmission) };
    state.undo.put(state.arrays, key, array);
  }
  return array;
}

const MET = { are: "met" } as const;

/** Whether all that it waits for has ended as it must; `never`: one of them cannot any more. */
export function dependenciesOf(
  { requests }: EngineState,
  { after }: RequestSpec,
): { readonly are: "met" | "open" } | { readonly are: "never"; readonly because: RequestSpec["id"] } {
  if (after == null) return MET;
  let are: "met" | "open" = "met";
  for (const { requestId, when } of after) {
    const status = requests.get(requestId)?.progress.status;
    if (status === undefined) continue; // It ended as it had to, and is no longer in memory.
    if (!TERMINAL_STATUSES.has(status)) are = "open";
    else if (when === "ok" && status !== "released") return { are: "never", because: requestId };
  }
  return { are };
}

/** Whether one more member of its array may enter the queue. */
export function hasTurn(state: EngineState, spec: RequestSpec): boolean {
  const key = arrayKeyOf(spec);
  const atOnce = spec.array?.atOnce ?? null;
  if (key === null || atOnce === null) return true;
  return (state.arrays.get(key)?.active ?? 0) < atOnce;
}
