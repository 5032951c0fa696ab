// Requests by id, in the order in which they were added. A map does the same, but it visits the ids of others on the way
// to one, or to find that one is not there, and in a deep queue each lies somewhere else in memory. Here their hashes
// lie side by side, and whoever has another is passed without a visit.

import type { RequestId } from "./records.ts";
import type { Request } from "./state.ts";

/** A power of two, as all sizes of the table are. */
const ROWS_MIN = 16;

/** Where a request was that has been deleted: those that came after it are found behind its row. */
const GONE = -1;

export class RequestsById {
  size = 0;
  /** With gaps where some were deleted. */
  #requests: (Request | undefined)[] = [];
  /** Open addressing. A row is a hash and the place of its request, counted from one; zero where no request ever was. */
  #rows = new Int32Array(2 * ROWS_MIN);

  get(id: RequestId): Request | undefined {
    const row = this.#rowOf(id);
    return row < 0 ? undefined : this.#requestIn(row);
  }

  has(id: RequestId): boolean {
    return this.#rowOf(id) >= 0;
  }

  /** There must be none of this id. */
  set(id: RequestId, request: Request): void {
    if (8 * this.#requests.length >= 3 * this.#rows.length) this.#rebuild(); // Three quarters are taken.
    this.#requests.push(request);
    this.size++;
    enter(this.#rows, hashOf(id), this.#requests.length);
  }

  /** Answers whom it has deleted. */
  take(id: RequestId): Request | undefined {
    const row = this.#rowOf(id);
    if (row < 0) return undefined;
    const request = this.#requestIn(row);
    this.#requests[(this.#rows[row + 1] as number) - 1] = undefined;
    this.#rows[row + 1] = GONE;
    this.size--;
    return request;
  }

  delete(id: RequestId): boolean {
    return this.take(id) !== undefined;
  }

  /** The one that was added last, unless it is gone. */
  get newest(): Request | undefined {
    return this.#requests[this.#requests.length - 1];
  }

  *values(): Generator<Request> {
    for (const request of this.#requests) if (request !== undefined) yield request;
  }

  /** All at once, for a walk over a deep queue that must not take long: a generator is slower. */
  toArray(): Request[] {
    return this.#requests.filter((request) => request !== undefined);
  }

  *keys(): Generator<RequestId> {
    for (const { spec } of this.values()) yield spec.id;
  }

  #requestIn(row: number): Request {
    return this.#requests[(this.#rows[row + 1] as number) - 1] as Request;
  }

  /** -1: there is none. */
  #rowOf(id: RequestId): number {
    const rows = this.#rows;
    const hash = hashOf(id);
    for (let row = firstRow(rows, hash); ; row = nextRow(rows, row)) {
      const place = rows[row + 1] as number;
      if (place === 0) return -1;
      if (rows[row] === hash && place !== GONE && this.#requestIn(row).spec.id === id) return row;
    }
  }

  /** With room for half as many again at least, and without gaps. No id is read: the hashes are known. */
  #rebuild(): void {
    const before = this.#requests;
    this.#requests = [];
    const places = new Int32Array(before.length + 1);
    for (let i = 0; i < before.length; i++) {
      const request = before[i];
      if (request !== undefined) places[i + 1] = this.#requests.push(request);
    }
    let rowCount = ROWS_MIN;
    while (rowCount < 2 * this.size) rowCount *= 2;
    const rows = new Int32Array(2 * rowCount);
    for (let row = 0; row < this.#rows.length; row += 2) {
      const place = this.#rows[row + 1] as number;
      if (place > 0) enter(rows, this.#rows[row] as number, places[place] as number);
    }
    this.#rows = rows;
  }
}

function enter(rows: Int32Array, hash: number, place: number): void {
  let row = firstRow(rows, hash);
  while (rows[row + 1] !== 0) row = nextRow(rows, row);
  rows[row] = hash;
  rows[row + 1] = place;
}

function firstRow(rows: Int32Array, hash: number): number {
  return (2 * hash) & (rows.length - 1);
}

function nextRow(rows: Int32Array, row: number): number {
  return (row + 2) & (rows.length - 1);
}

/** FNV-1a; the last step brings the upper half into the lower, of which a place is made. */
function hashOf(id: string): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  return hash ^ (hash >>> 15);
}
