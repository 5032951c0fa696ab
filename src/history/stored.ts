// History as it is written down: in a snapshot, whole, and as rows of the store.

import type { EngineState } from "../engine/index.ts";
import {
  type Account,
  createHistory,
  type DayAccount,
  type DueRow,
  type History,
  type KeySums,
} from "./fold.ts";

/** Maps become marked lists of pairs. The runs are left out: they are in the state. */
export function toJson({ runs: _, due: __, ...kept }: History): unknown {
  return plain(kept);
}

export function fromJson(json: unknown, state: EngineState): History {
  const { runs } = createHistory(state); // They follow from the state.
  return { ...(revived(json) as Omit<History, "runs" | "due">), runs, due: [] };
}

const MAP = "$map";

function plain(value: unknown): unknown {
  if (value instanceof Map) return { [MAP]: [...value].map(([key, inner]) => [key, plain(inner)]) };
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

function revived(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const pairs = (value as { [MAP]?: [unknown, unknown][] })[MAP];
  if (pairs !== undefined) return new Map(pairs.map(([key, inner]) => [key, revived(inner)]));
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, revived(inner)]));
}

/** An account as the store has it: short names, since there are many. */
interface StoredAccount {
  /** Own, borrowed, lent, lost, waited: unit-milliseconds. */
  readonly k: readonly (readonly [string, number, number, number, number, number])[];
  readonly s: number;
  readonly p: number;
}

export interface StoredDay extends StoredAccount {
  readonly u: readonly (readonly [string, StoredAccount])[];
}

/** What the store keeps: `part` is the component, or nothing. */
export interface HistoryRow {
  readonly kind: "day" | "sample";
  readonly atMs: number;
  readonly pool: string;
  readonly part: string;
  readonly body: unknown;
}

export function toRow(due: DueRow): HistoryRow {
  const { kind, atMs, pool } = due;
  if (due.kind === "sample") return { kind, atMs, pool, part: "", body: due.sample };
  const users = [...due.account.users].map(([user, account]) => [user, toStored(account)] as const);
  const body: StoredDay = { ...toStored(due.account), u: users };
  return { kind, atMs, pool, part: due.component, body };
}

function toStored({ keys, starts, preempted }: Account): StoredAccount {
  return {
    k: [...keys].map(([key, { own, borrowed, lent, lost, waited }]) => [
      key,
      own,
      borrowed,
      lent,
      lost,
      waited,
    ]),
    s: starts,
    p: preempted,
  };
}

export function accountOfRow(body: unknown): DayAccount {
  const { u, ...own } = body as StoredDay;
  return { ...fromStored(own), users: new Map(u.map(([user, account]) => [user, fromStored(account)])) };
}

function fromStored({ k, s, p }: StoredAccount): Account {
  const keys = new Map<string, KeySums>(
    k.map(([key, own, borrowed, lent, lost, waited]) => [key, { own, borrowed, lent, lost, waited }]),
  );
  return { keys, starts: s, preempted: p };
}
