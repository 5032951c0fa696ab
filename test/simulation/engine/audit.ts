// The auditors: what every event decides is held against the rules, and what is rare about it is counted.

import type { Event, RequestId } from "../../../src/engine/index.ts";
import { decisionProblems, decisionTraits } from "./audit-class.ts";
import { grantProblems, grantTraits, placeProblems, restProblems } from "./audit-grants.ts";
import { ShareAudit } from "./audit-shares.ts";
import { Books } from "./books.ts";

export class Audit {
  readonly #books = new Books();
  readonly #shares = new ShareAudit(this.#books);
  readonly #count: (what: string) => void;

  constructor(count: (what: string) => void) {
    this.#count = count;
  }

  /** Enters an event; returns what it breaks. */
  enter(event: Event): string[] {
    const problems = this.#problemsOf(event);
    if (problems.length === 0) for (const trait of this.#traitsOf(event)) this.#count(trait);
    this.#shares.enter(event);
    this.#books.enter(event);
    return problems;
  }

  /** What is wrong when a command has been carried out. */
  atRest(): string[] {
    return [...restProblems(this.#books), ...this.#shares.restProblems()];
  }

  #problemsOf(event: Event): string[] {
    switch (event.kind) {
      case "requestAllocated":
        return grantProblems(this.#books, event);
      case "holdTaken":
        return this.#promiseProblems(event.requestId, event);
      case "preemptionDecided": {
        const promised = event.waiter === null ? [] : this.#promiseProblems(event.waiter, event);
        return [...decisionProblems(this.#books, event), ...this.#shares.problemsOf(event), ...promised];
      }
      default:
        return [];
    }
  }

  #promiseProblems(
    id: RequestId,
    { pool: name, placement }: Pick<Extract<Event, { kind: "holdTaken" }>, "pool" | "placement">,
  ): string[] {
    const entry = this.#books.requests.get(id);
    const pool = this.#books.pools.get(name);
    if (entry === undefined || pool === undefined) return [`units are promised to ${id}, who does not wait`];
    return placeProblems(this.#books, pool, entry, placement);
  }

  #traitsOf(event: Event): string[] {
    switch (event.kind) {
      case "requestAllocated":
        return grantTraits(this.#books, event);
      case "preemptionDecided":
        return [...decisionTraits(this.#books, event), ...this.#shares.traitsOf(event)];
      case "nodeStateChanged":
        return [`node ${event.state}`];
      case "attemptEnded": {
        const isGang = (this.#books.requests.get(event.requestId)?.run?.placement.length ?? 0) > 1;
        return isGang && event.outcome === "lost" ? ["gang lost with one of its nodes"] : [];
      }
      default:
        return [];
    }
  }
}
