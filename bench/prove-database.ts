// Three servers under load on a PostgreSQL that restarts, stalls, is slow, read only, away for a minute, and replaced by a
// standby: no holder is ended, nothing that was acknowledged is lost, and no server ends (C14).
// Usage: npm run prove:database -- [--restarts N] [--stalls N] [--promotions N] [--away SECONDS] [--seed N]
//        [--canaries [--only TEXT]] [--logs DIRECTORY]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres.ts";
import { DATABASE_CANARIES, type DatabaseCanary } from "./failover/canaries.ts";
import { away, type Database, promote, readOnly, restart, slow, stall } from "./failover/outages.ts";
import { prove, type Round } from "./failover/proof.ts";
import { isQuiet, type Limit, report, reportTimes } from "./failover/report.ts";
import { tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle } from "./proving/start.ts";

const { values } = parseArgs({
  options: {
    restarts: { type: "string", default: "5" },
    stalls: { type: "string", default: "3" },
    promotions: { type: "string", default: "2" },
    away: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    canaries: { type: "boolean", default: false },
    /** Only canaries whose description has this in it. */
    only: { type: "string", default: "" },
    /** Where the logs of the servers are kept. */
    logs: { type: "string" },
  },
});

/** Seconds from when the database is back until every server accepts writes. */
const LIMITS: Readonly<Record<string, Limit>> = {
  restarted: { p50: 3, p99: 5 },
  away: { p50: 3, p99: 5 },
  stalled: { p50: 3, p99: 5 },
  slow: { p50: 3, p99: 5 },
  "read only": { p50: 3, p99: 5 },
  promoted: { p50: 3, p99: 5 },
};

const random = seededRandom(Number(values.seed));
const wasQuiet = isQuiet();
let hasFailed = false;
console.log(`seed ${values.seed}`);
try {
  if (values.canaries) {
    const chosen = DATABASE_CANARIES.filter(({ what }) => what.includes(values.only));
    for (const canary of chosen) if (!tell(canary.what, await findOut(canary))) hasFailed = true;
  }
  const times = (count: string, kind: DatabaseCanary["rounds"][number]) =>
    Array.from({ length: Number(count) }, () => kind);
  const kinds = [
    ...times(values.restarts, "restarted"),
    ...times(values.stalls, "stalled"),
    ...(Number(values.away) > 0 ? (["slow", "read only", "away"] as const) : []),
    ...times(values.promotions, "promoted"),
  ];
  if (kinds.length > 0) {
    const proof = await proveOn(await bundle("failover/server"), kinds, values.logs);
    const isInTime = reportTimes(proof.measured, LIMITS, wasQuiet);
    if (report(proof) > 0 || !isInTime) hasFailed = true;
  }
} catch (error) {
  console.error(error);
  hasFailed = true;
}
process.exit(hasFailed ? 1 : 0); // Clients of a proof that failed would go on for ever.

async function proveOn(program: string, kinds: DatabaseCanary["rounds"], logs?: string) {
  const directory = logs ?? (await mkdtemp(join(tmpdir(), "berth-database-")));
  const first = await startPostgres({ max_connections: "100", wal_keep_size: "512MB" });
  const database: Database = { current: first, all: [first] };
  try {
    return await prove({
      ...{ program, databaseUrl: first.url, directory, random },
      judgeUrl: () => database.current.url,
      rounds: kinds.map((kind) => roundOf(kind, database)),
    });
  } finally {
    for (const each of database.all.toReversed()) await each.remove();
    if (logs === undefined) await rm(directory, { recursive: true, force: true });
  }
}

async function findOut(canary: DatabaseCanary): Promise<number> {
  const { verdict } = await proveOn(await bundle("failover/server", canary), canary.rounds);
  return canary.finders.flatMap((finder) => verdict.problems[finder] as readonly string[]).length;
}

function roundOf(kind: DatabaseCanary["rounds"][number], database: Database): Round {
  switch (kind) {
    case "restarted":
      return { kind, run: (scene) => restart(scene, database) };
    case "stalled":
      return { kind, run: stall };
    case "slow":
      return { kind, run: slow };
    case "read only":
      return { kind, run: (scene) => readOnly(scene, database) };
    case "away":
      return { kind, run: (scene) => away(scene, database, Number(values.away)) };
    case "promoted":
      return { kind, run: (scene) => promote(scene, database) };
  }
}
