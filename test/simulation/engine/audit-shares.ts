// What must be true of every preemption in a pool of discipline `fair_share` (9.7–9.9), recomputed from the events: who
// takes starves, not too soon after another, nobody who is spared by a rule stops, the newest go first, and no victim
// is left over. At rest no limit that is enforced is exceeded by work that could stop.

import type {
  ChosenVictim,
  Event,
  GroupRecord,
  PolicyRecord,
  PoolName,
  PoolRecord,
  RequestId,
  RequestSpec,
} from "../../../src/engine/index.ts";
import { type Books, isRunning, type Running, rulesOf } from "./books.ts";

type Decision = Extract<Event, { kind: "preemptionDecided" }>;

export class ShareAudit {
  readonly #books: Books;
  readonly #groups = new Map<string, GroupRecord>();
  /** Elements that starve, by pool and key. */
  readonly #starving = new Map<string, "starving" | "aggressively_starving">();
  /** When units were last taken by preemption, by pool and node. */
  readonly #startedAtMs = new Map<string, number>();
  /** Whom a request has displaced, ever: a candidate may be barred for such a one (V6). */
  readonly #displaced = new Map<RequestId, Set<RequestId>>();

  constructor(books: Books) {
    this.#books = books;
  }

  /** To be told before the books are. */
  enter(event: Event): void {
    switch (event.kind) {
      case "groupSet":
        this.#groups.set(inPool(event.group.pool, event.group.name), event.group);
        break;
      case "groupDeleted":
        this.#groups.delete(inPool(event.pool, event.name));
        break;
      case "starvationChanged":
        for (const { element, status } of event.changes) {
          if (status === "starving" || status === "aggressively_starving")
            this.#starving.set(inPool(event.pool, element), status);
          else this.#starving.delete(inPool(event.pool, element));
        }
        break;
      case "preemptionDecided":
        if (event.waiter === null) break;
        for (const place of placesOf(event)) this.#startedAtMs.set(inPool(event.pool, place), event.atMs);
        this.#displaced.set(
          event.waiter,
          new Set([
            ...(this.#displaced.get(event.waiter) ?? []),
            ...event.victims.map((each) => each.requestId),
          ]),
        );
        break;
      default:
    }
  }

  /** What is wrong with a decision; the books are those of the moment before. */
  problemsOf(decision: Decision): string[] {
    const pool = this.#books.pools.get(decision.pool);
    if (pool === undefined || !rulesOf(pool).hasShares) return [];
    const victims = decision.victims.flatMap(({ requestId }) => this.#runOf(requestId) ?? []);
    if (victims.length < decision.victims.length) return ["a victim does not run"];
    const chosen = decision.victims.filter(({ reason }) => reason !== "administration");
    if (chosen.length === 0) return [];
    return [
      ...victims.flatMap((victim) => this.#victimProblems(pool, decision, victim)),
      ...victims.flatMap((victim) => this.#newerProblems(pool, decision, victim, victims)),
      ...(decision.waiter === null ? [] : this.#waiterProblems(pool, decision)),
      ...(pool.nodeBacked || decision.waiter === null ? [] : this.#minimalProblems(pool, decision, victims)),
    ];
  }

  /** What is rare about it. */
  traitsOf(decision: Decision): string[] {
    const pool = this.#books.pools.get(decision.pool);
    if (pool === undefined || !rulesOf(pool).hasShares) return [];
    const waiter = decision.waiter === null ? undefined : this.#books.requests.get(decision.waiter);
    const isAlone = waiter !== undefined && !this.#starving.has(inPool(pool.name, operationOf(waiter.spec)));
    return [
      ...(isAlone ? ["takes because an element above it starves"] : []),
      ...(decision.victims.length > 1 && waiter !== undefined ? ["several stop for a starving request"] : []),
    ];
  }

  /** Where limits are enforced, an element above its limit has no work left that may be stopped (9.9). */
  restProblems(): string[] {
    const pools = [...this.#books.pools.values()];
    return pools
      .filter((pool) => rulesOf(pool).hasShares && pool.settings.enforceLimits)
      .flatMap((pool) => [
        ...this.#books
          .policiesIn(pool.name)
          .flatMap((policy) => this.#excessProblems(pool, policy, [policy])),
        ...[...this.#groups.values()]
          .filter((group) => group.pool === pool.name)
          .flatMap((group) => this.#excessProblems(pool, group, this.#policiesBelow(group))),
      ]);
  }

  #runOf(id: RequestId): Running | undefined {
    const entry = this.#books.requests.get(id);
    return entry !== undefined && isRunning(entry) && !entry.run.isStopping ? entry : undefined;
  }

  #victimProblems(pool: PoolRecord, { waiter, atMs }: Decision, victim: Running): string[] {
    const { spec, run } = victim;
    const found: string[] = [];
    const say = (what: string) => found.push(`${spec.id} stops in ${pool.name}, though it ${what}`);
    if (!spec.preemptible) say("is not preemptible (V2)");
    if (spec.sensitive) say("is sensitive (V2)");
    if (waiter === null) return found;
    if (this.#books.isShielded(pool, victim, atMs)) say("was preempted too often (V6)");
    const entry = this.#books.requests.get(waiter);
    if (entry !== undefined && operationOf(entry.spec) === operationOf(spec))
      say("is of the same operation (9.8)");
    if (this.#starving.has(inPool(pool.name, operationOf(spec))))
      say("is of an operation that starves (9.8)");
    if (atMs - run.startedAtMs < pool.settings.minRuntimeMs) say("has not run long enough (V2)");
    return found;
  }

  /** Of runs of one operation that ask for the same in the same place, the newer one goes first (9.8). */
  #newerProblems(
    pool: PoolRecord,
    { waiter, atMs }: Decision,
    victim: Running,
    victims: Running[],
  ): string[] {
    return this.#books
      .runsIn(pool.name)
      .filter((other) => !other.run.isStopping && !victims.includes(other))
      .filter((other) => waiter === null || !this.#books.isShielded(pool, other, atMs))
      .filter((other) => operationOf(other.spec) === operationOf(victim.spec))
      .filter(({ spec }) => spec.preemptible && !spec.sensitive)
      .filter(({ spec }) => JSON.stringify(askOf(spec)) === JSON.stringify(askOf(victim.spec)))
      .filter(({ run }) => nodesOf(run) === nodesOf(victim.run))
      .filter(({ run }) => waiter === null || atMs - run.startedAtMs >= pool.settings.minRuntimeMs)
      .filter(({ spec }) => waiter === null || !this.#displaced.get(spec.id)?.has(waiter))
      .filter((other) => isNewer(other, victim))
      .map(
        ({ spec }) =>
          `${victim.spec.id} stops in ${pool.name} and ${spec.id}, which is newer, does not (9.8)`,
      );
  }

  /** Who takes starves, or something above it does, and enough time has passed since the last start (9.4, 9.7). */
  #waiterProblems(pool: PoolRecord, decision: Decision): string[] {
    const { waiter, victims, atMs } = decision;
    const entry = this.#books.requests.get(waiter as RequestId);
    if (entry === undefined) return [`${waiter} takes units, but does not wait`];
    const statuses = this.#elementsAbove(pool.name, entry.spec).map((key) =>
      this.#starving.get(inPool(pool.name, key)),
    );
    const isAggressive = victims.some(({ reason }: ChosenVictim) => reason === "aggressive");
    const mayTake = statuses.some((status) =>
      isAggressive ? status === "aggressively_starving" : status !== undefined,
    );
    const tooSoon = placesOf(decision).filter((place) => {
      const lastMs = this.#startedAtMs.get(inPool(pool.name, place));
      const isTaken = place === "" || victims.some(({ requestId }) => this.#isOn(requestId, place));
      return isTaken && lastMs !== undefined && atMs - lastMs < pool.settings.preemptiveBackoffMs;
    });
    return [
      ...(mayTake ? [] : [`${waiter} takes units in ${pool.name}, but does not starve (9.4)`]),
      ...tooSoon.map(
        (place) => `${waiter} takes units in ${pool.name} ${place} too soon after another (9.7)`,
      ),
    ];
  }

  #isOn(id: RequestId, node: string): boolean {
    return this.#books.requests.get(id)?.run?.placement.some((place) => place.node === node) ?? false;
  }

  /** Without any one of them it would not be enough (V4). */
  #minimalProblems(pool: PoolRecord, { shortage }: Decision, victims: readonly Running[]): string[] {
    const given = (spared: Running | undefined, key: string) =>
      victims
        .filter((victim) => victim !== spared)
        .reduce((sum, { spec }) => sum + (this.#books.takenOf(pool, spec)[key] ?? 0), 0);
    const covers = (spared?: Running) =>
      Object.entries(shortage).every(([key, amount]) => given(spared, key) >= amount);
    return [
      ...(covers() ? [] : [`the victims in ${pool.name} are not enough (V3)`]),
      ...victims.filter(covers).map(({ spec }) => `${spec.id} stops in ${pool.name} without need (V4)`),
    ];
  }

  /** The keys under which its operation, its policy and the groups above are recorded. */
  #elementsAbove(pool: PoolName, spec: RequestSpec): string[] {
    const keys = [operationOf(spec), `policy ${spec.component}`];
    let name = this.#books.policyOf(pool, spec.component)?.group ?? null;
    while (name !== null) {
      keys.push(`group ${name}`);
      name = this.#groups.get(inPool(pool, name))?.parent ?? null;
    }
    return keys;
  }

  #policiesBelow({ pool, name }: GroupRecord): PolicyRecord[] {
    return this.#books.policiesIn(pool).filter(({ group }) => {
      let above = group;
      while (above !== null && above !== name) above = this.#groups.get(inPool(pool, above))?.parent ?? null;
      return above === name;
    });
  }

  #excessProblems(
    pool: PoolRecord,
    { limit }: PolicyRecord | GroupRecord,
    policies: readonly PolicyRecord[],
  ): string[] {
    const components = new Set(policies.map(({ component }) => component));
    const runs = this.#books
      .runsIn(pool.name)
      .filter(({ spec, run }) => components.has(spec.component) && !run.isStopping);
    const amountOf = ({ spec }: Running, key: string) => this.#books.takenOf(pool, spec)[key] ?? 0;
    return Object.entries(limit)
      .filter(([key, most]) => runs.reduce((sum, run) => sum + amountOf(run, key), 0) > most)
      .flatMap(([key]) => runs.filter((run) => amountOf(run, key) > 0))
      .filter(({ spec }) => spec.preemptible && !spec.sensitive)
      .map(({ spec }) => `${spec.id} runs on in ${pool.name} above a limit that is enforced (9.9)`);
  }
}

function inPool(pool: PoolName, what: string): string {
  return `${pool}/${what}`;
}

/** As starvation is recorded under it. */
function operationOf({ id, component, operation }: RequestSpec): string {
  return operation === null ? `request ${id}` : `operation ${component}/${operation}`;
}

function placesOf({ placement }: Decision): string[] {
  return placement.length === 0 ? [""] : placement.map(({ node }) => node);
}

function askOf({ resources, nodes, constraints }: RequestSpec): unknown {
  return [Object.entries(resources).sort(), nodes, constraints];
}

function nodesOf({ placement }: Running["run"]): string {
  return placement
    .map(({ node }) => node)
    .sort()
    .join();
}

/** By the start of their current work or their last checkpoint, whichever is later (9.5). */
function isNewer(a: Running, b: Running): boolean {
  const since = ({ run, lastCheckpointAtMs }: Running) => Math.max(run.startedAtMs, lastCheckpointAtMs ?? 0);
  return since(a) > since(b);
}
