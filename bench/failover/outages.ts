// What happens to the database under three servers: it restarts, is away, slow, read only, or replaced by its standby.
// None of it may end a holder, lose what was acknowledged, or end a server (C14).

import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import type { TestPostgres } from "../../test/support/postgres.ts";
import { startTcpProxy } from "../../test/support/proxy.ts";
import { type Outcome, type Scene, sound, untilWritten } from "./faults.ts";

/** The database that the servers use, which may be replaced. */
export interface Database {
  current: TestPostgres;
  /** All that were ever used, to be removed. */
  readonly all: TestPostgres[];
}

/** How long the way to a standby is cut before it is promoted: what it does not have by then must not be acknowledged. */
const STANDBY_CUT_MS = 1_000;
/** With the load of a proof some commit begins within this time. */
const IN_FLIGHT_MS = 300;
const SLOW_BY_MS = 150;
const SLOW_FOR_MS = 10_000;
/** Less than the time after which a leader that cannot renew its lease steps down. */
const STALL_MS = 3_000;
const READ_ONLY_MS = 8_000;
/** A read during an outage is answered within this time, by its state or by a refusal. */
const READ_MS_MAX = 7_000;
const PATIENCE_MS = 60_000;

/** It dies with commits on their way that never arrive. */
export async function restart(scene: Scene, database: Database): Promise<Outcome> {
  const { leader } = await sound(scene);
  leader.toDatabase.silence("to");
  await delay(IN_FLIGHT_MS);
  await database.current.crash();
  leader.toDatabase.reset();
  leader.toDatabase.heal();
  await database.current.restart();
  return { recoveredMs: await untilAllWrite(scene), problems: [] };
}

/** Nobody leads meanwhile, nothing expires, and reads are answered or refused. */
export async function away(scene: Scene, database: Database, seconds: number): Promise<Outcome> {
  const { epoch } = await sound(scene);
  await database.current.crash();
  const untilMs = performance.now() + seconds * 1_000;
  const problems: string[] = [];
  while (performance.now() < untilMs) {
    problems.push(...(await wrongReads(scene)));
    await delay(Math.min(2_000, Math.max(0, untilMs - performance.now())));
  }
  await database.current.restart();
  const recoveredMs = await untilAllWrite(scene);
  const after = await sound(scene);
  if (after.epoch > epoch + 2) problems.push(`the lead changed ${after.epoch - epoch} times`);
  return { recoveredMs, problems };
}

async function wrongReads({ cluster, call }: Scene): Promise<string[]> {
  const found = await Promise.all(
    cluster.replicas.map(async (replica) => {
      const path = "/v1/pools/tight";
      const answer = await call(replica, "GET", path, { timeoutMs: READ_MS_MAX }).catch(() => undefined);
      if (answer === undefined) return [`${replica.name} did not answer a read within ${READ_MS_MAX} ms`];
      const isSound = answer.status === 200 || (answer.status === 503 && answer.body?.code !== undefined);
      return isSound ? [] : [`${replica.name} answered a read with ${answer.status}`];
    }),
  );
  return found.flat();
}

/** Every answer of the database takes longer; nobody loses the lead over it. */
export async function slow(scene: Scene): Promise<Outcome> {
  const { epoch } = await sound(scene);
  const before = scene.load.acknowledged();
  for (const { toDatabase } of scene.cluster.replicas) toDatabase.delay(SLOW_BY_MS);
  await delay(SLOW_FOR_MS);
  const writes = scene.load.acknowledged() - before;
  for (const { toDatabase } of scene.cluster.replicas) toDatabase.heal();
  const recoveredMs = await untilAllWrite(scene);
  const problems = writes > 0 ? [] : ["no write was accepted while the database was slow"];
  return { recoveredMs, problems: [...problems, ...(await changed(scene, epoch))] };
}

/** The database does not answer for a moment; nobody loses the lead over it. */
export async function stall(scene: Scene): Promise<Outcome> {
  const { epoch } = await sound(scene);
  for (const { toDatabase } of scene.cluster.replicas) toDatabase.silence("both");
  await delay(STALL_MS);
  for (const { toDatabase } of scene.cluster.replicas) toDatabase.heal();
  const recoveredMs = await untilAllWrite(scene);
  return { recoveredMs, problems: await changed(scene, epoch) };
}

async function changed(scene: Scene, epoch: number): Promise<string[]> {
  const after = await sound(scene);
  return after.epoch === epoch ? [] : [`the lead changed ${after.epoch - epoch} times without need`];
}

/** As a managed database does when its disk is full: writes fail, reads go on. */
export async function readOnly(scene: Scene, database: Database): Promise<Outcome> {
  await sound(scene);
  await administer(database.current, "alter system set default_transaction_read_only = on");
  const untilMs = performance.now() + READ_ONLY_MS;
  const problems: string[] = [];
  while (performance.now() < untilMs) {
    problems.push(...(await wrongReads(scene)));
    await delay(500);
  }
  await administer(database.current, "alter system reset default_transaction_read_only");
  return { recoveredMs: await untilAllWrite(scene), problems };
}

/** The primary dies, and a standby for which every commit has waited takes its place. */
export async function promote(scene: Scene, database: Database): Promise<Outcome> {
  const { promoteIt, cut, link } = await withStandby(database);
  await administer(database.current, "alter system set synchronous_standby_names = 'standby'");
  await untilTrue(database.current, "select 1 from pg_stat_replication where sync_state = 'sync'");
  for (const replica of scene.cluster.replicas) await untilWritten(scene, replica);
  await cut();
  await database.current.crash();
  await promoteIt(scene);
  // The setting came along with the copy, and there is no standby any more.
  await administer(database.current, "alter system reset synchronous_standby_names");
  const recoveredMs = await untilAllWrite(scene);
  await link.close();
  return { recoveredMs, problems: [] };
}

/** A standby of the current database, behind a proxy. */
export async function withStandby(database: Database) {
  const link = await startTcpProxy();
  link.aim(database.current.port);
  const standby = await database.current.startStandby(link.port);
  database.all.push(standby);
  await untilTrue(database.current, "select 1 from pg_stat_replication where state = 'streaming'");
  return {
    link,
    standby,
    async cut() {
      link.silence("both");
      await delay(STANDBY_CUT_MS);
    },
    /** From now on it is the database of all servers. */
    async promoteIt({ cluster }: Scene, look: () => Promise<void> = async () => undefined) {
      await standby.promote();
      await look();
      database.current = standby;
      for (const { toDatabase } of cluster.replicas) {
        toDatabase.aim(standby.port);
        toDatabase.reset();
        toDatabase.heal();
      }
    },
  };
}

async function untilAllWrite(scene: Scene): Promise<number> {
  const beganMs = performance.now();
  for (const replica of scene.cluster.replicas) await untilWritten(scene, replica);
  return performance.now() - beganMs;
}

/** Statements of an administrator, also in read-only mode. */
async function administer({ url }: TestPostgres, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, options: "-c default_transaction_read_only=off" });
  await client.connect();
  try {
    await client.query(statement);
    await client.query("select pg_reload_conf()");
  } finally {
    await client.end();
  }
}

async function untilTrue({ url }: TestPostgres, question: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const untilMs = performance.now() + PATIENCE_MS;
    while ((await client.query(question)).rowCount === 0) {
      if (performance.now() > untilMs)
        throw new Error(
          `The database did not answer with a row within ${PATIENCE_MS / 1_000} s: ${question}`,
        );
      await delay(50);
    }
  } finally {
    await client.end();
  }
}
