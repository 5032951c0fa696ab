// The requests of a state in slices, for one snapshot after the other. The state goes on while a snapshot is written:
// what has not been taken by then is copied right before its first change. And a slice in which nothing has changed
// is the same object in the next snapshot, with what was made of it, so that this is not made again.
//
// Invariants
//   1. Every change of a record goes through the undo log, which calls the watcher right before.
//   2. A slice that stays has the requests that it had: it has as many, between the same two of them, and nobody enters
//      there. Whoever is new, or moves, goes to the end of the order.

import type { RequestProgress } from "./records.ts";
import { bySubmissions, frameOf, type SnapshotFrame, type SnapshotRequest } from "./snapshot.ts";
import type { EngineState, Request } from "./state.ts";

export interface Slice<Made> {
  /** Its requests as they were when the snapshot began, to be used before the state changes again. Once only. */
  take(): readonly SnapshotRequest[];
  /** What was made of it, if anything. It goes with the slice. */
  made: Made | undefined;
}

export interface Slicer<Made> {
  /** The state as it is at the moment of the call, its requests in the order of submission. */
  begin(isBorder: IsBorder): { readonly frame: SnapshotFrame; readonly slices: readonly Slice<Made>[] };
  /** Nothing is copied any more: slices that have not been taken are given up. */
  end(): void;
  /** The state is not watched any more. */
  stop(): void;
}

/** Whether a slice begins with the request that was submitted as event `seq`, and is at this place in the order. */
export type IsBorder = (seq: number, place: number) => boolean;

export function createSlicer<Made>(state: EngineState): Slicer<Made> {
  let slices: readonly RequestSlice<Made>[] = [];
  const stop = state.undo.watch((target, field) => {
    const progress = isProgress(target)
      ? target
      : field === "spec"
        ? (target as Request).progress
        : undefined;
    if (progress !== undefined) sliceAt(slices, progress.seq)?.beforeChange(target);
  });

  return {
    begin(isBorder) {
      const before = new Map(slices.map((slice) => [slice.firstSeq, slice]));
      slices = cut(state, isBorder).map((requests) => {
        const slice = before.get((requests[0] as Request).progress.seq);
        return slice?.isStill(requests) ? slice : new RequestSlice(requests);
      });
      return { frame: frameOf(state), slices };
    },
    end() {
      for (const slice of slices) slice.giveUp();
    },
    stop,
  };
}

/** Each request is visited once: they lie all over memory, and that takes longer than all the rest. */
function cut(state: EngineState, isBorder: IsBorder): Request[][] {
  const { slices, isInOrder } = cutInSlices(state.requests.toArray(), isBorder);
  return isInOrder ? slices : cutInSlices(bySubmissions(state), isBorder).slices;
}

export function cutInSlices<Item extends { readonly progress: { readonly seq: number } }>(
  items: readonly Item[],
  isBorder: IsBorder,
): { readonly slices: Item[][]; readonly isInOrder: boolean } {
  const slices: Item[][] = [];
  let isInOrder = true;
  let lastSeq = 0;
  let from = 0;
  for (let place = 0; place < items.length; place++) {
    const { seq } = (items[place] as Item).progress;
    if (place > 0 && isBorder(seq, place)) {
      slices.push(items.slice(from, place));
      from = place;
    }
    isInOrder &&= lastSeq < seq;
    lastSeq = seq;
  }
  if (from < items.length) slices.push(items.slice(from));
  return { slices, isInOrder };
}

class RequestSlice<Made> implements Slice<Made> {
  made: Made | undefined;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly #size: number;
  #isChanged = false;
  /** Until they are taken. */
  #requests: readonly Request[] | null;
  /** Requests and their progress as they were, where they have changed since. */
  #before: Map<object, object> | null = null;

  constructor(requests: readonly Request[]) {
    this.firstSeq = (requests[0] as Request).progress.seq;
    this.lastSeq = (requests.at(-1) as Request).progress.seq;
    this.#size = requests.length;
    this.#requests = requests;
  }

  isStill(requests: readonly Request[]): boolean {
    if (this.made === undefined || this.#isChanged) return false;
    return requests.length === this.#size && requests.at(-1)?.progress.seq === this.lastSeq;
  }

  covers(seq: number): boolean {
    return this.firstSeq <= seq && seq <= this.lastSeq;
  }

  beforeChange(target: object): void {
    this.#isChanged = true;
    if (this.#requests === null) return;
    this.#before ??= new Map();
    if (!this.#before.has(target)) this.#before.set(target, { ...target });
  }

  take(): readonly SnapshotRequest[] {
    const before = this.#before;
    const requests = this.#requests ?? [];
    this.giveUp();
    if (before === null) return requests;
    const asItWas = <Target extends object>(target: Target) => (before.get(target) ?? target) as Target;
    return requests.map((request) => ({
      spec: asItWas(request).spec,
      progress: asItWas(request.progress),
    }));
  }

  giveUp(): void {
    this.#requests = null;
    this.#before = null;
  }
}

/** Of all that changes in place, only this has a place for a checkpoint. Every change asks, and `in` would be slow. */
function isProgress(target: Partial<RequestProgress>): target is RequestProgress {
  return target.lastCheckpointSeq !== undefined;
}

/** The slice that a request is in, unless it is newer than all of them. */
function sliceAt<Made>(slices: readonly RequestSlice<Made>[], seq: number): RequestSlice<Made> | undefined {
  if (seq > (slices.at(-1)?.lastSeq ?? 0)) return undefined; // As most that change.
  let low = 0;
  let high = slices.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((slices[middle] as RequestSlice<Made>).firstSeq <= seq) low = middle + 1;
    else high = middle;
  }
  const slice = slices[low - 1];
  return slice?.covers(seq) ? slice : undefined;
}
