// Who sees what (14): the one filter for lists, objects, events, explanations, decisions, plans and metrics.
//
// A token reaches pools and components. Pools that it does not reach do not exist for it. In those that it reaches it
// sees what runs and waits there, its own or not: names, amounts, times, decisions. In a pool with `visibility: own` the
// work of components that it does not reach is only counted. Labels, notes and grant tokens are for those who answer for
// the work: its submitter, the operators of its component, administrators.

import { type ComponentName, type PoolName, queuesOf, type RequestId, requestOf } from "../engine/index.ts";
import type { RequestBody, View } from "../leader/index.ts";
import type { WireEvent, WireRequest } from "../protocol/index.ts";
import type { RequestRecord } from "../store/index.ts";
import { type Identity, reachesAll, reachesComponent, reachesPool } from "./identity.ts";

/** What decides who sees a request. */
export interface Owned {
  readonly component: string;
  readonly submittedBy: string;
  /** Where it runs or ran last. */
  readonly pool: string | null;
  /** Where it waits. */
  readonly queues: readonly string[];
}

/** What a filter has to know about the world. */
export interface World {
  poolsOf(component: string): Iterable<string>;
  /** The components with a policy there. */
  membersOf(pool: string): Iterable<string>;
  /** The pool has `visibility: own`. */
  hidesOthers(pool: string): boolean;
  /** Whether any pool does. */
  readonly hidesAny: boolean;
  request(id: string): Owned | undefined;
}

/**
 * How much of a request is seen. `none`: it does not exist; `counted`: that it exists and what it holds, but not which
 * one it is; `named`: all but what is private; `whole`: everything.
 */
export type Degree = "none" | "counted" | "named" | "whole";

export class Sight {
  readonly #identity: Identity;
  readonly #world: World;
  /** Made when it is first asked for: most answers are about one request, and need none. */
  #named: Map<string, boolean> | undefined;

  constructor(identity: Identity, world: World) {
    this.#identity = identity;
    this.#world = world;
  }

  seesPool(pool: string | null): boolean {
    return pool === null || reachesPool(this.#identity, pool);
  }

  /** Whether a component may be named where the pool is spoken of. */
  namesComponent(pool: string, component: string): boolean {
    return (
      this.seesPool(pool) && (reachesComponent(this.#identity, component) || !this.#world.hidesOthers(pool))
    );
  }

  /** Whether anything of a component can be seen by name; if not, its requests need no look one by one. */
  mayNameSome(component: string): boolean {
    this.#named ??= new Map();
    let known = this.#named.get(component);
    if (known === undefined) {
      const pools = [...this.#world.poolsOf(component)];
      known =
        reachesComponent(this.#identity, component) ||
        pools.some((pool) => this.namesComponent(pool, component));
      this.#named.set(component, known);
    }
    return known;
  }

  degreeOf(request: Owned): Degree {
    if (this.reaches(request)) return mayEnd(this.#identity, request) ? "whole" : "named";
    const pools = placesOf(request).filter((pool) => reachesPool(this.#identity, pool));
    if (pools.length === 0) return "none";
    return pools.every((pool) => this.#world.hidesOthers(pool)) ? "counted" : "named";
  }

  sees(request: Owned): boolean {
    const degree = this.degreeOf(request);
    return degree === "named" || degree === "whole";
  }

  /** Whether it belongs to the part of the world in which the token may act. */
  reaches(request: Owned): boolean {
    const { name, components, pools } = this.#identity;
    if (components !== null && !components.has(request.component)) return false;
    if (pools === null || request.submittedBy === name) return true;
    const where = placesOf(request);
    if (where.length > 0) return where.some((pool) => pools.has(pool));
    // It has neither run nor does it wait: it belongs to all pools that its component may use.
    for (const pool of this.#world.poolsOf(request.component)) if (pools.has(pool)) return true;
    return false;
  }

  /** What may be said about a request that is part of the story of another one. */
  idOrNull<Id extends string>(id: Id | null): Id | null {
    if (id === null) return null;
    const { components, pools } = this.#identity;
    // Whatever it is: nothing is hidden from this token. It need not be in memory any more.
    if (pools === null && (components === null || !this.#world.hidesAny)) return id;
    const request = this.#world.request(id);
    return request !== undefined && this.sees(request) ? id : null;
  }

  /** Whether it reaches everybody whom a change of the pool concerns. */
  reachesMembers(pool: string): boolean {
    const { components } = this.#identity;
    return components === null || [...this.#world.membersOf(pool)].every((member) => components.has(member));
  }

  /** Takes out of a request what is not for the caller. */
  filter(shown: WireRequest, request: Owned): WireRequest {
    if (seesAllOf(this.#identity, request)) return shown;
    const isWhole = this.degreeOf(request) === "whole";
    if (!isWhole) {
      shown.labels = {};
      shown.note = "";
      shown.origin = null;
      delete shown.token;
    }
    if (!this.seesPool(shown.pool)) shown.pool = null;
    if (shown.pools !== null) shown.pools = shown.pools.filter((pool) => this.seesPool(pool));
    if (shown.hold !== null && !this.seesPool(shown.hold.pool)) shown.hold = null;
    if (shown.stop !== null)
      shown.stop = { ...shown.stop, for_request: this.idOrNull(shown.stop.for_request) };
    shown.reasons = shown.reasons && this.reasons(shown.reasons);
    shown.attempts = shown.attempts.map(({ nodes, ...attempt }) => ({
      ...attempt,
      ...(this.seesPool(attempt.pool) ? { pool: attempt.pool, ...(nodes && { nodes }) } : { pool: null }),
      preempted_for: this.idOrNull(attempt.preempted_for),
      message: isWhole ? attempt.message : null,
    }));
    return shown;
  }

  reasons<Reason extends { readonly pool: string | null }>(reasons: readonly Reason[]): Reason[] {
    return reasons.filter(({ pool }) => this.seesPool(pool));
  }

  /** An event as the caller may see it; undefined: not at all. */
  event(event: WireEvent): WireEvent | undefined {
    const { pool, component } = event;
    if (event.request_id !== undefined) return this.#requestEvent(event, event.request_id);
    if (typeof pool === "string" && !this.seesPool(pool)) return undefined;
    // Of a node that is gone nobody knows any more where it was.
    if (event.node !== undefined && pool === undefined && this.#identity.pools !== null) return undefined;
    if (typeof component === "string" && !this.namesComponent(pool as string, component)) return undefined;
    if (event.event !== "pool.starvation_changed") return event;
    const changes = (event.changes as StarvationChange[]).filter(({ element }) =>
      this.#seesElement(pool as string, element),
    );
    return changes.length === 0 ? undefined : { ...event, changes };
  }

  #requestEvent(event: WireEvent, id: string): WireEvent | undefined {
    const request = this.#world.request(id);
    if (request === undefined || !this.sees(request)) return undefined;
    if (reachesAll(this.#identity)) return event;
    const shown: Record<string, unknown> = { ...event };
    if (typeof event.pool === "string" && !this.seesPool(event.pool)) shown.pool = null;
    for (const field of ["for_request", "by"]) {
      if (field in event) shown[field] = this.idOrNull(event[field] as string | null);
    }
    if ("victims" in event) {
      shown.victims = (event.victims as string[]).filter((victim) => this.idOrNull(victim) !== null);
    }
    if ("reasons" in event) shown.reasons = this.reasons(event.reasons as { pool: string | null }[]);
    return shown as WireEvent;
  }

  /** Keys of elements begin with their kind; of operations they do not say reliably whose they are. */
  #seesElement(pool: string, key: string): boolean {
    if (this.#identity.components === null || !this.#world.hidesOthers(pool)) return true;
    if (key.startsWith("group ")) return true;
    return key.startsWith("policy ") && reachesComponent(this.#identity, key.slice("policy ".length));
  }
}

/** Where it waits; else where it runs or ran last. */
function placesOf({ pool, queues }: Owned): readonly string[] {
  if (queues.length > 0) return queues;
  return pool === null ? [] : [pool];
}

interface StarvationChange {
  readonly element: string;
}

/** Q5: its submitter, an operator of its component, or an administrator. */
export function mayEnd(identity: Identity, { submittedBy }: Pick<Owned, "submittedBy">): boolean {
  return identity.role === "admin" || identity.role === "operator" || identity.name === submittedBy;
}

/** Nothing about the request is hidden from the token, wherever it runs or waits. */
export function seesAllOf(identity: Identity, request: Pick<Owned, "submittedBy">): boolean {
  return reachesAll(identity) && mayEnd(identity, request);
}

// --- The world as it is now

export function sightOf(identity: Identity, view: View): Sight {
  return new Sight(identity, new LiveWorld(view));
}

/** A class, since one is made for every answer: an object with a getter of its own costs more than what it is asked. */
class LiveWorld implements World {
  readonly #view: View;

  constructor(view: View) {
    this.#view = view;
  }

  *poolsOf(component: string): Iterable<string> {
    for (const [name, { policies }] of this.#pools) if (policies.has(component as ComponentName)) yield name;
  }

  membersOf(pool: string): Iterable<string> {
    return this.#pools.get(pool as PoolName)?.policies.keys() ?? [];
  }

  hidesOthers(pool: string): boolean {
    return this.#pools.get(pool as PoolName)?.record.settings.visibility === "own";
  }

  get hidesAny(): boolean {
    for (const { record } of this.#pools.values()) if (record.settings.visibility === "own") return true;
    return false;
  }

  request(id: string): Owned | undefined {
    return ownedOf(this.#view, id as RequestId);
  }

  get #pools() {
    return this.#view.state.pools;
  }
}

export function ownedOf(view: View, id: RequestId): Owned | undefined {
  const request = requestOf(view.state, id);
  if (request === undefined) return undefined;
  const { spec, progress } = request;
  return {
    component: spec.component,
    submittedBy: spec.submittedBy,
    pool: progress.allocation?.pool ?? view.attemptsOf(id).at(-1)?.pool ?? null,
    queues: queuesOf(view.state, id),
  };
}

/** Of a request that need not be in memory: then it has ended. */
export function ownedOfRecord({ component, pool, body }: RequestRecord): Owned {
  const { submittedBy } = (body as RequestBody).spec;
  return { component, pool, submittedBy, queues: [] };
}
