// What must hold over time, told from the events alone: nobody is lost, statuses move only as they may,
// nothing is preempted for nothing. The ledger knows no more of the engine than its journal.

import type { Event, RequestId, RequestStatus } from "../../../src/engine/index.ts";

/** The only transitions (Q2). */
const TRANSITIONS: Readonly<Record<RequestStatus, readonly RequestStatus[]>> = {
  queued: ["allocated", "rejected", "cancelled", "expired"],
  allocated: ["released", "failed", "cancelled", "preempting", "queued", "expired"],
  preempting: ["released", "preempted", "failed", "cancelled", "queued", "expired"],
  released: [],
  preempted: [],
  failed: [],
  cancelled: [],
  rejected: [],
  expired: [],
};

export class Ledger {
  readonly #statuses = new Map<RequestId, RequestStatus>();
  /** Waiters that had victims and have not been served yet. */
  readonly #promises = new Set<RequestId>();
  readonly counts = new Map<string, number>();

  /** Enters an event; returns what it breaks. */
  enter(event: Event): string[] {
    switch (event.kind) {
      case "requestSubmitted":
        if (this.#statuses.has(event.spec.id)) return [`${event.spec.id} was submitted twice`];
        this.#statuses.set(event.spec.id, "queued");
        return [];
      case "requestAllocated":
        this.count(event.opportunistic ? "grant that fills a gap" : "grant");
        this.#promises.delete(event.requestId);
        return this.#move(event.requestId, "allocated");
      case "requestRejected":
        this.count("rejection");
        this.#promises.delete(event.requestId);
        return this.#move(event.requestId, "rejected");
      case "requestCancelled":
        if (this.#promises.delete(event.requestId)) this.count("waiter cancelled while its victims stop");
        return this.#move(event.requestId, "cancelled");
      case "requestExpired":
        if (this.#promises.delete(event.requestId)) this.count("waiter expired while its victims stop");
        this.count("wait timeout");
        return this.#move(event.requestId, "expired");
      case "holdTaken":
        this.count("hold without victims");
        return [];
      case "holdEnded":
        this.count(`hold ended: ${event.why}`);
        this.#promises.delete(event.requestId);
        return [];
      case "preemptionDecided":
        return this.#decided(event);
      case "stopChanged":
        this.#countStop(event);
        return [];
      case "checkpointCompleted":
        this.count("checkpoint completed");
        return [];
      case "attemptEnded":
        this.count(`attempt ended: ${event.outcome}, ${event.status}`);
        if (event.shielded === true) this.count("shielded after too many preemptions");
        if (event.queuedAtMs !== null && event.queuedAtMs > event.atMs) this.count("retry after a delay");
        return this.#move(event.requestId, event.status);
      default:
        this.count(event.kind);
        return [];
    }
  }

  /** Every waiter that had victims is served, or an event says why not (no useless preemption). */
  openPromises(): ReadonlySet<RequestId> {
    return this.#promises;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  #decided(event: Extract<Event, { kind: "preemptionDecided" }>): string[] {
    if (event.waiter !== null) this.#promises.add(event.waiter);
    if (event.victims.length > 1) this.count("several victims at once");
    return event.victims.flatMap(({ requestId, reason }) => {
      this.count(`preemption: ${reason}`);
      return this.#move(requestId, "preempting");
    });
  }

  #countStop({ stop }: Extract<Event, { kind: "stopChanged" }>): void {
    if (stop.cause !== "preemption") this.count(`stop: ${stop.cause}`);
    if (stop.extended) this.count("stop: extended after progress");
    if (stop.deferredMs > 0) this.count("stop: deferred");
    if (stop.phase === "kill") this.count("stop: killed without a confirmation");
  }

  #move(id: RequestId, to: RequestStatus): string[] {
    const from = this.#statuses.get(id);
    this.#statuses.set(id, to);
    if (from === undefined) return [`${id} became ${to} but was never submitted`];
    return TRANSITIONS[from].includes(to) ? [] : [`${id} went from ${from} to ${to}`];
  }
}
