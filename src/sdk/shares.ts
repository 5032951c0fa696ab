// Who is owed how much of a pool, and who has it: the rows of `berth share` and of the dashboard.

import type { WirePolicyAnswer, WirePoolAnswer, WireRequest, WireShareElement } from "../protocol/index.ts";
import { ageOf, durationText } from "../words/index.ts";

/** One line: a component of any pool, or an element of a fair-share tree; in units of one key. */
export interface Share {
  readonly pool: string;
  readonly who: string;
  readonly kind: WireShareElement["kind"];
  /** Names from the top of the pool down to it. */
  readonly path: readonly string[];
  readonly key: string;
  readonly capacity: number;
  /** Reserved, or in discipline fair_share the fair share. */
  readonly owed: number;
  readonly got: number;
  /** What it has and what it waits for. */
  readonly demand: number;
  /** What it has above its reserve, and what of its reserve others have; null for operations, which have none. */
  readonly borrowed: number | null;
  readonly lent: number | null;
  /** The rest is known in discipline fair_share only. */
  readonly satisfaction: number | null;
  readonly status: WireShareElement["status"] | null;
  readonly below_since: string | null;
  readonly starves_at: string | null;
  readonly starving_since: string | null;
  readonly exceeds_fair_share: boolean;
}

const HAS_SHARES: Readonly<Record<WirePoolAnswer["discipline"], boolean>> = {
  priority: false,
  fair_share: true,
  class: false,
};

/** Whether components of a pool are owed fair shares by weight; else what is reserved for them, in the order of the queue. */
export function hasShares({ discipline }: Pick<WirePoolAnswer, "discipline">): boolean {
  return HAS_SHARES[discipline];
}

/** The key that a pool is about: the one that its settings name, else the usual ones. */
export function mainKeyOf({ settings }: WirePoolAnswer, keys: readonly string[]): string {
  const main = [settings.main_key, "gpu", "mcpu"].find((key) => key && keys.includes(key));
  return main ?? keys.toSorted()[0] ?? "gpu";
}

// --- Discipline fair_share

export function fairShares(
  pool: WirePoolAnswer,
  elements: readonly WireShareElement[],
  key: string,
  isTree: boolean,
): Share[] {
  const capacity = pool.capacity[key] ?? 0;
  const units = (shares: Readonly<Record<string, number>> | null) => shares && (shares[key] ?? 0) * capacity;
  // Operations are below policies, everything else is below groups.
  const rowsBelow = (parent: string | null, path: readonly string[], isPolicy: boolean): Share[] =>
    elements
      .filter((each) => each.parent === parent && (each.kind === "operation") === isPolicy)
      .flatMap((each) => {
        const row: Share = {
          pool: pool.name,
          who: each.element,
          kind: each.kind,
          path: [...path, each.element],
          key,
          capacity,
          owed: units(each.fair_share) ?? 0,
          got: units(each.usage_share) ?? 0,
          demand: units(each.demand_share) ?? 0,
          borrowed: units(each.borrowed),
          lent: units(each.lent),
          satisfaction: each.satisfaction,
          status: each.status,
          below_since: each.below_since,
          starves_at: each.starves_at,
          starving_since: each.starving_since,
          exceeds_fair_share: each.exceeds_fair_share,
        };
        if (each.kind === "operation") return [row];
        return [row, ...rowsBelow(each.element, row.path, each.kind === "policy")];
      });
  const rows = rowsBelow(null, [], false);
  return isTree ? rows : rows.filter(({ kind }) => kind === "policy");
}

// --- The other disciplines

export function reservedShares(
  pool: WirePoolAnswer,
  policies: readonly WirePolicyAnswer[],
  live: readonly WireRequest[],
  key: string,
): Share[] {
  const capacity = pool.capacity[key] ?? 0;
  const sum = (requests: readonly WireRequest[]) =>
    requests.reduce((total, { resources, nodes }) => total + (resources[key] ?? 0) * nodes, 0);
  const rows = policies.map(({ component, reserved }) => {
    const own = live.filter((request) => request.component === component);
    const got = sum(own.filter((request) => request.pool === pool.name));
    const waiting = sum(own.filter(({ status }) => status === "queued"));
    return { component, got, demand: got + waiting, owed: reserved[key] ?? 0 };
  });
  // Of what is reserved and idle, the part that is free is lent to nobody; all lend alike.
  const idle = rows.reduce((total, { owed, got }) => total + Math.max(0, owed - got), 0);
  const free = Math.max(0, capacity - (pool.usage[key] ?? 0));
  const lentPart = idle > free ? 1 - free / idle : 0;
  return rows.map(({ component, got, demand, owed }) => ({
    pool: pool.name,
    who: component,
    kind: "policy",
    path: [component],
    key,
    capacity,
    owed,
    got,
    demand,
    borrowed: Math.max(0, got - owed),
    lent: Math.max(0, owed - got) * lentPart,
    satisfaction: null,
    status: null,
    below_since: null,
    starves_at: null,
    starving_since: null,
    exceeds_fair_share: false,
  }));
}

// --- In words

export function shareNumberText(amount: number | null): string {
  return amount === null ? "-" : String(Math.round(amount * 10) / 10);
}

export function sharePartText(satisfaction: number | null): string {
  return satisfaction === null ? "-" : `${Math.round(satisfaction * 100)}%`;
}

export function shareStatusText({ status, starves_at, starving_since, exceeds_fair_share }: Share): string {
  const note = exceeds_fair_share ? "; asks for more than it is owed" : "";
  switch (status) {
    case null:
      return "-";
    case "normal":
      return `normal${note}`;
    case "below_fair_share": {
      const left = durationText((Date.parse(starves_at ?? "") - Date.now()) / 1000);
      return `below its fair share, starves in ${left}${note}`;
    }
    case "starving":
      return `starving for ${ageOf(starving_since)}${note}`;
    case "aggressively_starving":
      return `starving for ${ageOf(starving_since)}, takes aggressively${note}`;
  }
}
