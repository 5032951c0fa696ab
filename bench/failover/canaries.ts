// Faults of a cluster that the proof of failover must find, each planted in a copy of the source.

import type { Fault } from "../proving/canaries.ts";
import type { Cut } from "./faults.ts";

interface Findable<Kind extends string> extends Fault {
  /** Which rounds bring the fault to light. */
  readonly rounds: readonly Kind[];
  /** The kinds of problems by which it must be found: one that shows by chance proves nothing. */
  readonly finders: readonly string[];
}

export interface Canary extends Findable<"kill" | "freeze" | "database" | "peers" | "handover"> {
  /** How paths break, if not in every way in turn. */
  readonly cut?: Cut;
}

export const CANARIES: readonly Canary[] = [
  {
    what: "a leader that answers without knowing that it still leads",
    file: "src/replica/keeper.ts",
    text: "!isStopped && clock.monotonicMs() - lastSentMs < ms;",
    instead: "!isStopped && ms > 0;",
    rounds: ["freeze", "freeze"],
    finders: ["stale answers"],
  },
  {
    what: "a leader that answers for longer than a candidate with the hint waits",
    file: "src/replica/keeper.ts",
    text: "const isSure = () => isWithin(times.sureMs);",
    instead: "const isSure = () => isWithin(times.freshMs);",
    rounds: ["database", "database", "database"],
    cut: "reset",
    finders: ["stale answers"],
  },
  {
    what: "a commit that does not compare the head",
    file: "src/store/postgres/schema.ts",
    text: "where epoch = old_epoch and last_seq = old_seq and commit_id = old_commit_id;",
    instead:
      "where true; delete from @journal where last_seq > old_seq; delete from @audit where id > new_audit_id - 99; perform 1;",
    rounds: ["database", "database"],
    finders: ["lost", "breaks in the journal"],
  },
  {
    what: "a follower that forgets an event",
    file: "src/replica/follower.ts",
    text: "journal.filter(({ seq }) => seq > stream.seq)",
    instead: "journal.filter(({ seq }) => seq > stream.seq && seq % 10 !== 0)",
    rounds: ["handover"],
    finders: ["gaps and repetitions in streams"],
  },
  {
    what: "a follower that repeats calls without a key",
    file: "src/server/forwarding.ts",
    text: "if (!isRepeatable) throw outcomeUnknown();",
    instead: "if (Number.isNaN(untilMs)) throw outcomeUnknown();",
    rounds: ["peers"],
    finders: ["doubled"],
  },
  {
    what: "a stream that repeats when it is resumed",
    file: "src/server/streams.ts",
    text: "leader.events(startSeq + 1, signal)",
    instead: "leader.events(startSeq, signal)",
    rounds: ["kill"],
    finders: ["gaps and repetitions in streams"],
  },
  {
    what: "a stream that skips when it is resumed",
    file: "src/server/streams.ts",
    text: "leader.events(startSeq + 1, signal)",
    instead: "leader.events(startSeq + 2, signal)",
    rounds: ["kill", "kill"],
    finders: ["gaps and repetitions in streams"],
  },
  {
    what: "a number of a grant given out twice",
    file: "src/server/grants.ts",
    text: "const number = engineToken + signer.offset;",
    instead: "const number = engineToken - (engineToken % 100) + 100;",
    rounds: ["handover"],
    finders: ["tokens reissued"],
  },
  {
    what: "an answer before the commit",
    file: "src/store/postgres/postgres.ts",
    text: "const commit = async (rows: CommitRows, before: Promise<boolean> | undefined): Promise<boolean> => {",
    instead: `let earlier: Promise<unknown> = Promise.resolve();
      const commit = async (rows: CommitRows): Promise<boolean> => {
        earlier = earlier.then(() => delay(100)).then(() => commitLater(rows, undefined)).catch(() => undefined);
        return true;
      };
      const commitLater = async (rows: CommitRows, before: Promise<boolean> | undefined): Promise<boolean> => {`,
    rounds: ["kill", "kill", "kill", "kill", "kill"],
    finders: ["lost"],
  },
  {
    what: "a leader whose keys nobody else knows",
    file: "src/store/commit.ts",
    text: "(commit.idempotency ?? []).map(idempotencyRow)",
    // Without scope is what servers keep for themselves, such as the keys that sign grants.
    instead: '(commit.idempotency ?? []).filter(({ scope }) => scope === "").map(idempotencyRow)',
    rounds: ["kill"],
    finders: ["doubled"],
  },
  {
    what: "a candidate that waits for nobody",
    file: "src/replica/watch.ts",
    text: "silentMs >= (isHinted ? times.hintedSilenceMs : times.silenceMs)",
    instead: "silentMs > 0",
    rounds: ["peers"],
    finders: ["other problems"],
  },
];

/** Faults that the proof with a failing database must find. */
export type DatabaseCanary = Findable<
  "restarted" | "stalled" | "slow" | "read only" | "away" | "promoted" | "promoted with loss"
>;

export const DATABASE_CANARIES: readonly DatabaseCanary[] = [
  {
    what: "an unknown outcome that is taken for a success",
    file: "src/store/postgres/postgres.ts",
    text: "        isUnknown = true;",
    instead: "        return true;",
    rounds: ["restarted"],
    finders: ["lost", "unexpected ends of servers"],
  },
  {
    what: "a server that ends when the database is read only",
    file: "src/store/postgres/errors.ts",
    text: 'case "25006":',
    instead: 'case "25999":',
    rounds: ["read only"],
    finders: ["unexpected ends of servers"],
  },
  {
    what: "a commit that does not wait for the standby",
    file: "src/store/postgres/postgres.ts",
    text: "\"select set_config(name, setting, false) from pg_settings where name = 'synchronous_commit'\"",
    instead: "\"select set_config('synchronous_commit', 'local', false)\"",
    rounds: ["promoted"],
    finders: ["lost"],
  },
  {
    what: "holders who are ended because the database was away",
    file: "src/leader/leases.ts",
    text: "for (const lease of all.values()) lease.renewedAtMs = nowMs;",
    instead: "for (const lease of all.values()) lease.renewedAtMs = nowMs - lease.group.terms.patienceMs;",
    rounds: ["away", "away"],
    finders: ["holders ended"],
  },
  {
    what: "readers who do not learn that another history has begun",
    file: "src/server/streams.ts",
    text: 'about("stream.reset", seq)',
    instead: 'about("stream.opened", seq)',
    rounds: ["promoted with loss"],
    finders: ["gaps and repetitions in streams"],
  },
  {
    what: "a loss of which one event is not reported",
    file: "src/replica/history.ts",
    text: "const fromSeq = Math.min(head.seq, from.seq - 1) + 1;",
    instead: "const fromSeq = Math.min(head.seq, from.seq - 1) + 2;",
    rounds: ["promoted with loss"],
    finders: ["other problems"],
  },
];

/** A fault that the proof of upgrades must find. */
export const UPGRADE_CANARY: Fault & { readonly finders: readonly string[] } = {
  what: "a new form that is written before all servers can read it",
  file: "src/replica/members.ts",
  text: "eventForm = await store.raiseEventForm(NEWEST_FORM, MEMBER_WITHIN_MS)",
  instead: "eventForm = NEWEST_FORM",
  finders: ["unexpected ends of servers", "other problems"],
};
