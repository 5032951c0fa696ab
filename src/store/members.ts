// The servers that share this store, and when each was last alive.

import type { Driver } from "./driver.ts";
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
