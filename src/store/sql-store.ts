// The store on top of a database: everything that SQLite and PostgreSQL do alike.

import { randomUUID } from "node:crypto";
import { fenced, rowsOf } from "./commit.ts";
import type { Driver } from "./driver.ts";
import { beginHistory, noteOrigin, readMeta, readOrigin } from "./history.ts";
import {
  raiseEpoch,
  readAfter,
  readEvents,
  readFloor,
  readHead,
  readLease,
  releaseLease,
  renewLease,
} from "./journal.ts";
import { beat, leave, membersWithin, raiseEventForm } from "./members.ts";
import { compareWithNoted } from "./noted-head.ts";
import { prune } from "./prune.ts";
import {
  type AttachmentRow,
  type AuditRow,
  attachmentRecord,
  auditRecord,
  cleanText,
  type DecisionRow,
  decisionRecord,
  type HistoryRow,
  historyRecord,
  type IdempotencyRow,
  idempotencyRecord,
  type RequestRow,
  requestRecord,
  type TargetRow,
  type TokenRow,
  targetRecord,
  tokenRecord,
  type Value,
} from "./rows.ts";
import { latestSnapshot, saveSnapshot } from "./snapshots.ts";
import type {
  Commit,
  Head,
  HistoryQuery,
  HistoryRecord,
  IdempotencyKey,
  Page,
  RequestQuery,
  RequestRecord,
  Sizes,
  Store,
} from "./store.ts";
import { verify } from "./verify.ts";

export function createSqlStore(driver: Driver): Store {
  // The head as the commits under way will have made it. Only a hint: the compare-and-swap has the last word.
  let expectedHead: Head | undefined;
  let { meta } = driver;
  /** Counts what has set it: a commit that fails late must not unset what another one, or a new leader, has set. */
  let expectedBy = 0;
  /** The outcome of the last commit, until it is certain. */
  let underWay: Promise<boolean> | undefined;
  let lastCommit: Promise<unknown> = Promise.resolve();
  let queued = 0;
  const commitIdPrefix = randomUUID();
  let commitCount = 0;

  async function commitNow(commit: Commit): Promise<Head> {
    const previous = expectedHead ?? (await readHead(driver));
    expectedHead = undefined; // Unknown, if these are not rows that can follow on it.
    const rows = rowsOf(previous, commit, `${commitIdPrefix}.${++commitCount}`);
    expectedHead = rows.head;
    const mine = ++expectedBy;
    const outcome = driver.commit(rows, underWay);
    underWay = outcome;
    try {
      if (!(await outcome)) throw fenced(commit, await readHead(driver));
      return rows.head;
    } catch (error) {
      if (mine === expectedBy) expectedHead = undefined;
      throw error;
    } finally {
      if (underWay === outcome) underWay = undefined;
    }
  }

  /** What to follow on is known when the commits before are certain. */
  async function commitLater(commit: Commit): Promise<Head> {
    queued++;
    await lastCommit;
    queued--;
    return commitNow(commit);
  }

  return {
    get meta() {
      return meta;
    },
    async refreshMeta() {
      meta = await readMeta(driver);
      return meta;
    },
    async beginHistory() {
      meta = await beginHistory(driver);
    },
    origin: () => readOrigin(driver),
    noteOrigin: (origin) => noteOrigin(driver, origin),
    commit(commit) {
      const isKnown = expectedHead !== undefined && queued === 0;
      const outcome = isKnown ? commitNow(commit) : commitLater(commit);
      lastCommit = outcome.catch(() => undefined);
      return outcome;
    },
    commitsAtOnce: driver.commitsAtOnce,
    head: () => readHead(driver),
    async takeOver(takeOver) {
      expectedHead = await raiseEpoch(driver, takeOver);
      expectedBy++;
      underWay = undefined; // What follows does not follow on what was under way before.
      return expectedHead;
    },
    lease: () => readLease(driver),
    renewLease: (epoch) => renewLease(driver, epoch),
    releaseLease: (epoch, offeredTo) => releaseLease(driver, epoch, offeredTo),
    ...(driver.hint && { hint: driver.hint }),
    ...(driver.onNews && { onNews: driver.onNews }),
    warmUp: () => driver.warmUp?.(),
    beat: (member) => beat(driver, member),
    raiseEventForm: (form, withinMs) => raiseEventForm(driver, form, withinMs),
    leave: (memberId) => leave(driver, memberId),
    async clockMs() {
      if (driver.meta.kind !== "postgres") return undefined;
      const [row] = await driver.query<{ now_ms: number }>(`select ${driver.dialect.nowMs} as now_ms`);
      return row?.now_ms;
    },
    members: (withinMs) => membersWithin(driver, withinMs),
    readEvents: (fromSeq, limit) => readEvents(driver, fromSeq, limit),
    readAfter: (position, commitsMax) => readAfter(driver, position, commitsMax),
    saveSnapshot: (draft) => saveSnapshot(driver, draft),
    latestSnapshot: (beforeSeq) => latestSnapshot(driver, beforeSeq),
    getRequest: (id) => findRequest(driver, "id", cleanText(id)),
    getRequestByNumber: async (number) =>
      Number.isSafeInteger(number) ? findRequest(driver, "number", number) : undefined,
    listRequests: (query) => listRequests(driver, query),
    async listDecisions(requestId) {
      const rows = await driver.query<DecisionRow>(
        "select * from @decisions where request_id = ? order by seq",
        [cleanText(requestId)],
      );
      return rows.map(decisionRecord);
    },
    async getAttachment(requestId, part) {
      const [row] = await driver.query<AttachmentRow>(
        "select * from @attachments where request_id = ? and part = ?",
        [cleanText(requestId), cleanText(part)],
      );
      return row && attachmentRecord(row);
    },
    async listAudit({ limit, cursor }) {
      const rows = await driver.query<AuditRow>(
        "select * from @audit where id < ? order by id desc limit ?",
        [positionOf(cursor), limit + 1],
      );
      return pageOf(rows, limit, { cursorOf: (row) => row.id, present: auditRecord });
    },
    listHistory: (query) => listHistory(driver, query),
    findAnswers: (keys) => findAnswers(driver, keys),
    async listTokens() {
      const rows = await driver.query<TokenRow>("select * from @tokens order by created_at_ms, id");
      return rows.map(tokenRecord);
    },
    async listTargets() {
      const rows = await driver.query<TargetRow>("select * from @targets order by name");
      return rows.map(targetRecord);
    },
    prune: (retention, nowMs) => prune(driver, retention, nowMs),
    hasRoom: () => driver.hasRoom(),
    verify: () => verify(driver),
    compareWithNoted: (noted) => compareWithNoted(driver, noted),
    sizes: () => sizes(driver),
    async close() {
      await lastCommit;
      await driver.close();
    },
  };
}

async function findRequest(
  driver: Driver,
  column: "id" | "number",
  value: Value,
): Promise<RequestRecord | undefined> {
  const [row] = await driver.query<RequestRow>(`select * from @requests where ${column} = ?`, [value]);
  return row && requestRecord(row);
}

async function listRequests(driver: Driver, query: RequestQuery): Promise<Page<RequestRecord>> {
  // Few of many have ended lately: those are found by their end, the latest first.
  const isByEnd = query.endedSinceMs !== undefined;
  const conditions = [isByEnd ? "(ended_at_ms, number) < (?, ?)" : "number < ?"];
  const values: Value[] = isByEnd ? endPositionOf(query.cursor) : [positionOf(query.cursor)];
  const require = (condition: string, ...wanted: Value[]) => {
    conditions.push(condition);
    values.push(...wanted.map((value) => (typeof value === "string" ? cleanText(value) : value)));
  };
  if (query.status !== undefined) {
    require(`status in (${["null", ...query.status.map(() => "?")].join(", ")})`, ...query.status);
  }
  if (query.pool !== undefined) require("pool = ?", query.pool);
  if (query.component !== undefined) require("component = ?", query.component);
  if (query.operation !== undefined) require("operation = ?", query.operation);
  if (query.label !== undefined) require(driver.dialect.hasLabel, query.label.key, query.label.value);
  if (query.idPrefix !== undefined)
    require("id >= ? and id < ?", query.idPrefix, `${query.idPrefix}\u{10ffff}`);
  if (query.ended !== undefined) require(`ended_at_ms is ${query.ended ? "not null" : "null"}`);
  if (query.endedSinceMs !== undefined) require("ended_at_ms >= ?", query.endedSinceMs);
  if (query.submittedBeforeMs !== undefined) require("submitted_at_ms < ?", query.submittedBeforeMs);

  const rows = await driver.query<RequestRow>(
    `select * from @requests where ${conditions.join(" and ")}
       order by ${isByEnd ? "ended_at_ms desc, " : ""}number desc limit ?`,
    [...values, query.limit + 1],
  );
  const cursorOf = (row: RequestRow) => (isByEnd ? `${row.ended_at_ms}.${row.number}` : row.number);
  return pageOf(rows, query.limit, { cursorOf, present: requestRecord });
}

const HISTORY_PER_READ = 500;

async function* listHistory(
  driver: Driver,
  { kind, pool, fromMs, toMs }: HistoryQuery,
): AsyncGenerator<readonly HistoryRecord[]> {
  let after: readonly Value[] = [fromMs, "", ""];
  for (let isFirst = true; ; isFirst = false) {
    // The first row may be the one that begins there.
    const rows = await driver.query<HistoryRow>(
      `select * from @history where kind = ? and at_ms < ?${pool === undefined ? "" : " and pool = ?"}
         and (at_ms, pool, part) ${isFirst ? ">=" : ">"} (?, ?, ?) order by at_ms, pool, part limit ?`,
      [kind, toMs, ...(pool === undefined ? [] : [cleanText(pool)]), ...after, HISTORY_PER_READ],
    );
    if (rows.length > 0) yield rows.map(historyRecord);
    const last = rows.at(-1);
    if (last === undefined || rows.length < HISTORY_PER_READ) return;
    after = [last.at_ms, last.pool, last.part];
  }
}

async function findAnswers(driver: Driver, keys: readonly IdempotencyKey[]) {
  if (keys.length === 0) return [];
  const pairs = keys.map(({ scope, key }) => [cleanText(scope), cleanText(key)] as const);
  const rows = await driver.query<IdempotencyRow>(
    `select * from @idempotency
     where (scope, key) in (select value ->> 0, value ->> 1 from ${driver.dialect.jsonElements})`,
    [JSON.stringify(pairs)],
  );
  const found = new Map(rows.map((row) => [JSON.stringify([row.scope, row.key]), row]));
  return pairs.map((pair) => {
    const row = found.get(JSON.stringify(pair));
    return row && idempotencyRecord(row);
  });
}

async function sizes(driver: Driver): Promise<Sizes> {
  const count = async (table: string) => {
    const [row] = await driver.query<{ rows: number }>(`select count(*) as rows from @${table}`);
    return row?.rows ?? 0;
  };
  const head = await readHead(driver);
  const floor = await readFloor(driver);
  return {
    bytes: await driver.bytes(),
    events: head.seq - floor.journal_seq,
    firstSeq: floor.journal_seq + 1,
    snapshots: await count("snapshots"),
    requests: await count("requests"),
    decisions: await count("decisions"),
    idempotency: await count("idempotency"),
    audit: head.auditId - floor.audit_id,
    tokens: await count("tokens"),
    targets: await count("targets"),
    history: await count("history"),
  };
}

/** Cursors come from outside: before one that we never gave, there is nothing. */
function positionOf(cursor: string | undefined): number {
  if (cursor === undefined) return Number.MAX_SAFE_INTEGER;
  const position = Number(cursor);
  return Number.isSafeInteger(position) ? position : 0;
}

/** An end and a number. */
function endPositionOf(cursor: string | undefined): number[] {
  const [end, number] = cursor?.split(".") ?? [];
  return [positionOf(end), positionOf(number)];
}

/** One row more than the limit was asked for: its presence says that there is a next page. */
function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  { cursorOf, present }: { cursorOf: (row: Row) => number | string; present: (row: Row) => Item },
): Page<Item> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map(present),
    nextCursor: rows.length > limit && last !== undefined ? String(cursorOf(last)) : null,
  };
}
