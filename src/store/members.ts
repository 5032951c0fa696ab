// The servers that share this store, and when each was last alive.

import type { Driver } from "./driver.ts";
import { type MetaRow, selectMeta } from "./meta.ts";
import type { Member, RecentMember } from "./store.ts";

type MemberRow = {
  readonly id: string;
  readonly url: string | null;
  readonly version: string;
  readonly event_form: number;
  readonly seq: number;
};

/** Instead of its position, of a server that has ended in order. */
const LEFT = -1;

/** Servers that were not heard of for so long are forgotten. */
const FORGET_MS = 24 * 3_600_000;

export async function beat(driver: Driver, { id, url, version, eventForm, seq }: Member): Promise<void> {
  const { nowMs } = driver.dialect;
  await driver.transaction([
    {
      sql: `insert into @members (id, url, version, event_form, seq, beat_at_ms) values (?, ?, ?, ?, ?, ${nowMs})
        on conflict (id) do update set url = excluded.url, version = excluded.version,
          event_form = excluded.event_form, seq = excluded.seq, beat_at_ms = excluded.beat_at_ms`,
      rows: [[id, url, version, eventForm, seq]],
    },
    { sql: `delete from @members where beat_at_ms < ${nowMs} - ?`, rows: [[FORGET_MS]] },
  ]);
}

export async function leave(driver: Driver, id: string): Promise<void> {
  await driver.transaction([{ sql: "update @members set seq = ? where id = ?", rows: [[LEFT, id]] }]);
}

const EVENT_FORM = "event_form";

/**
 * The form in which events are written: raised to this one when every server that was alive within this time reads it, by
 * the clock of the database, and never lowered. Returns what it is now.
 */
export async function raiseEventForm(driver: Driver, form: number, withinMs: number): Promise<number> {
  const { nowMs } = driver.dialect;
  await driver.transaction([
    {
      sql: `insert into @meta as kept (key, value)
        select '${EVENT_FORM}', ? where not exists
          (select 1 from @members where beat_at_ms >= ${nowMs} - ? and event_form < ?)
        on conflict (key) do update set value = excluded.value
        where cast(kept.value as integer) < cast(excluded.value as integer)`,
      rows: [[String(form), withinMs, form]],
    },
  ]);
  return eventFormOf(driver);
}

/** The newest form of events that may be in the journal. */
export async function eventFormOf(driver: Driver): Promise<number> {
  const [row] = await driver.query<MetaRow>(`${selectMeta} where key = '${EVENT_FORM}'`);
  return Number(row?.value ?? 1);
}

export async function membersWithin(driver: Driver, withinMs: number): Promise<readonly RecentMember[]> {
  const rows = await driver.query<MemberRow>(
    `select id, url, version, event_form, seq from @members
     where beat_at_ms >= ${driver.dialect.nowMs} - ? order by id`,
    [withinMs],
  );
  return rows.map(({ event_form: eventForm, ...rest }) => ({
    ...rest,
    eventForm,
    hasLeft: rest.seq === LEFT,
  }));
}
