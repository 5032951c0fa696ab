// Usage (H6): the accounts of days in the store, and of those that are not over from memory, summed as they are asked for.

import {
  type Account,
  accountOfRow,
  DAY_MS,
  type DayAccount,
  type KeySums,
  openDays,
} from "../history/index.ts";
import type { Leader, View } from "../leader/index.ts";
import type { WireUsage, WireUsageRow } from "../protocol/index.ts";
import type { Store } from "../store/index.ts";
import { toSeconds, toTimestamp } from "../translation/index.ts";
import { type Identity, reachesComponent, reachesPool } from "./identity.ts";

export interface UsageQuestion {
  readonly pool?: string | undefined;
  readonly component?: string | undefined;
  readonly fromMs: number;
  readonly toMs: number;
  readonly by: ReadonlySet<string>;
  readonly halfLifeMs?: number | undefined;
}

interface Day {
  readonly atMs: number;
  readonly pool: string;
  readonly component: string;
  readonly account: DayAccount;
}

/** For those whose names the caller may not know. */
const OTHERS = "others";

export async function usageOf(
  { leader, store }: { readonly leader: Leader; readonly store: Store },
  identity: Identity,
  question: UsageQuestion,
): Promise<WireUsage> {
  // Memory first: a day that ends meanwhile is then met twice, and taken once.
  const now = await leader.read((view) => ({
    open: openDays(view.history, view.nowMs),
    seq: view.seq,
    nowMs: view.nowMs,
    keptSinceMs: view.history.keptSinceMs,
    hiding: hidingPools(view),
  }));
  const sums = createSums(question, now.nowMs);
  const names = (day: Day) => reachesPool(identity, day.pool) && isAskedFor(day, question);
  const isNamed = ({ pool, component }: Day) =>
    !now.hiding.has(pool) || reachesComponent(identity, component);
  const taken = new Set<string>();
  for (const day of now.open) {
    taken.add(keyOf(day));
    if (names(day)) sums.add(day, isNamed(day));
  }
  const { fromMs, toMs, pool } = question;
  for await (const rows of store.listHistory({
    kind: "day",
    fromMs,
    toMs,
    ...(pool !== undefined && { pool }),
  })) {
    for (const { atMs, pool: name, part, body } of rows) {
      const day = { atMs, pool: name, component: part, account: accountOfRow(body) };
      if (!taken.has(keyOf(day)) && names(day)) sums.add(day, isNamed(day));
    }
  }
  return {
    seq: now.seq,
    time: toTimestamp(now.nowMs),
    from: toTimestamp(fromMs),
    to: toTimestamp(toMs),
    kept_since: now.keptSinceMs > fromMs ? toTimestamp(now.keptSinceMs) : null,
    rows: sums.rows(),
  };
}

/** Those in which others' work is only counted (14). */
function hidingPools({ state }: View): ReadonlySet<string> {
  const hiding = new Set<string>();
  for (const { record } of state.pools.values())
    if (record.settings.visibility === "own") hiding.add(record.name);
  return hiding;
}

function keyOf({ atMs, pool, component }: Day): string {
  return JSON.stringify([atMs, pool, component]);
}

function isAskedFor({ atMs, pool, component }: Day, question: UsageQuestion): boolean {
  if (question.pool !== undefined && pool !== question.pool) return false;
  if (question.component !== undefined && component !== question.component) return false;
  return atMs >= question.fromMs && atMs < question.toMs;
}

function createSums({ by, halfLifeMs }: UsageQuestion, nowMs: number) {
  const rows = new Map<string, WireUsageRow>();

  function addAccount(day: Day, account: Account, names: { team: string; user: string | null }): void {
    const date = toTimestamp(day.atMs).slice(0, 10);
    const about = {
      ...(by.has("pool") && { pool: day.pool }),
      ...(by.has("team") && { team: names.team }),
      ...(names.user !== null && { user: names.user }),
      ...(by.has("month") && { month: date.slice(0, 7) }),
      ...(by.has("day") && { day: date }),
    };
    const ageMs = Math.max(0, nowMs - Math.min(nowMs, day.atMs + DAY_MS / 2));
    const weight = halfLifeMs === undefined ? undefined : 0.5 ** (ageMs / halfLifeMs);
    for (const [key, sums] of account.keys) {
      const id = JSON.stringify([about, key]);
      const row = rows.get(id) ?? emptyRow({ ...about, key }, weight);
      rows.set(id, row);
      addSums(row, sums, account, weight);
    }
  }

  return {
    add(day: Day, isNamed: boolean): void {
      const team = isNamed ? day.component : OTHERS;
      if (!by.has("user")) return addAccount(day, day.account, { team, user: null });
      for (const [user, account] of day.account.users)
        addAccount(day, account, { team, user: isNamed ? user : OTHERS });
    },
    rows(): WireUsageRow[] {
      const sorted = [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
      for (const row of sorted) {
        for (const field of TIMES) row[field] = toSeconds(row[field]);
        if (row.decayed !== undefined) row.decayed = Math.round(row.decayed / 1000);
      }
      return sorted;
    },
  };
}

const TIMES = ["in_share", "borrowed", "lent", "lost", "waited"] as const;

function emptyRow(about: Pick<WireUsageRow, "key">, weight: number | undefined): WireUsageRow {
  const sums = { in_share: 0, borrowed: 0, lent: 0, lost: 0, waited: 0, starts: 0, preempted: 0 };
  return { ...about, ...sums, ...(weight !== undefined && { decayed: 0 }) };
}

/** In unit-milliseconds until the rows are handed out. */
function addSums(
  row: WireUsageRow,
  sums: KeySums,
  { starts, preempted }: Account,
  weight: number | undefined,
): void {
  row.in_share += sums.own;
  row.borrowed += sums.borrowed;
  row.lent += sums.lent;
  row.lost += sums.lost;
  row.waited += sums.waited;
  row.starts += starts;
  row.preempted += preempted;
  if (weight !== undefined) row.decayed = (row.decayed ?? 0) + (sums.own + sums.borrowed) * weight;
}
