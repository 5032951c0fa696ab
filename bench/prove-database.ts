// Three servers under load on a PostgreSQL that restarts, stalls, is slow, read only, away for a minute, and replaced by a
// standby: no holder is ended, nothing that was acknowledged is lost, and no server ends (C14).
// Usage: npm run prove:database -- [--restarts N] [--stalls N] [--promotions N] [--losses N] [--away SECONDS] [--seed N]
//        [--canaries [--only TEXT]] [--logs DIRECTORY]
// `--canaries`: servers with planted faults, each of which must be found; then one round of each kind without a fault, in
// which nothing may be found, and with a short absence.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres.ts";
import { DATABASE_CANARIES, type DatabaseCanary } from "./failover/canaries.ts";
import { noLoss, promoteWithLoss } from "./failover/loss.ts";
import { away, type Database, promote, readOnly, restart, slow, stall } from "./failover/outages.ts";
import { type Proof, prove, type Round } from "./failover/proof.ts";
import { isQuiet, type Limit, report, reportTimes, sayRound } from "./failover/report.ts";
import { tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle } from "./proving/start.ts";

const { values } = parseArgs({
  options: {
    restarts: { type: "string" },
    stalls: { type: "string" },
    promotions: { type: "string" },
    losses: { type: "string" },
    away: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    canaries: { type: "boolean", default: false },
    /** Only canaries whose description has this in it. */
    only: { type: "string", default: "" },
    /** Where the logs of the servers are kept. */
    logs: { type: "string" },
  },
});

type Kind = DatabaseCanary["rounds"][number];

/** Seconds from when the database is back until every server accepts writes. */
const LIMITS: Readonly<Record<string, Limit>> = {
  restarted: { p50: 3, p99: 5 },
  away: { p50: 3, p99: 5 },
  stalled: { p50: 3, p99: 5 },
  slow: { p50: 3, p99: 5 },
  "read only": { p50: 3, p99: 5 },
  promoted: { p50: 3, p99: 5 },
  "promoted with loss": { p50: 10, p99: 12 },
};

const awaySeconds = Number(values.away ?? (values.canaries ? 10 : 60));
const random = seededRandom(Number(values.seed));
const wasQuiet = isQuiet();
let hasFailed = false;
console.log(`seed ${values.seed}`);
try {
  if (values.canaries) {
    const chosen = DATABASE_CANARIES.filter(({ what }) => what.includes(values.only));
    for (const canary of chosen) {
      const found = await findOut(canary).catch((error: unknown) => {
        console.error(error); // The others are tried all the same.
        return 0;
      });
      if (!tell(canary.what, found)) hasFailed = true;
    }
  }
  const times = (kind: Kind, wanted: string | undefined, usual: number) =>
    Array.from({ length: Number(wanted ?? (values.canaries ? 1 : usual)) }, () => kind);
  const kinds = [
    ...times("restarted", values.restarts, 5),
    ...times("stalled", values.stalls, 3),
    ...(awaySeconds > 0 ? (["slow", "read only", "away"] as const) : []),
    ...times("promoted", values.promotions, 2),
  ];
  const program = await bundle("failover/server");
  if (kinds.length > 0) verdictOn(await proveOn(program, kinds, values.logs));
  // A cluster for each: a history is lost once.
  for (const kind of times("promoted with loss", values.losses, 1))
    verdictOn(await proveOn(program, [kind], values.logs));
} catch (error) {
  console.error(error);
  hasFailed = true;
}
process.exit(hasFailed ? 1 : 0); // Clients of a proof that failed would go on for ever.

function proveOn(program: string, kinds: readonly Kind[], logs?: string): Promise<Proof> {
  const loss = kinds.includes("promoted with loss") ? noLoss() : undefined;
  return withDatabase(logs, async (database, directory) => {
    const proof = await prove({
      ...{ program, databaseUrl: database.current.url, directory, random, onRound: sayRound },
      judgeUrl: () => database.current.url,
      rounds: kinds.map((kind) => roundOf(kind, database, loss)),
      ...(loss !== undefined && { loss }),
    });
    if (loss !== undefined)
      console.log(`events ${loss.keptSeq + 1} to ${loss.lastSeq} were lost with the primary`);
    return proof;
  });
}

async function withDatabase(
  logs: string | undefined,
  use: (database: Database, directory: string) => Promise<Proof>,
): Promise<Proof> {
  const directory = logs ?? (await mkdtemp(join(tmpdir(), "berth-database-")));
  const first = await startPostgres({ max_connections: "100", wal_keep_size: "512MB" });
  const database: Database = { current: first, all: [first] };
  try {
    return await use(database, directory);
  } finally {
    for (const each of database.all.toReversed()) await each.remove();
    if (logs === undefined) await rm(directory, { recursive: true, force: true });
  }
}

function verdictOn(proof: Proof): void {
  const isInTime = reportTimes(proof.measured, LIMITS, wasQuiet);
  if (report(proof) > 0 || !isInTime) hasFailed = true;
}

async function findOut(canary: DatabaseCanary): Promise<number> {
  const { verdict } = await proveOn(await bundle("failover/server", canary), canary.rounds);
  return canary.finders.flatMap((finder) => verdict.problems[finder] as readonly string[]).length;
}

function roundOf(kind: Kind, database: Database, loss = noLoss()): Round {
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
      return { kind, run: (scene) => away(scene, database, awaySeconds) };
    case "promoted":
      return { kind, run: (scene) => promote(scene, database) };
    case "promoted with loss":
      return { kind, run: (scene) => promoteWithLoss(scene, database, loss) };
  }
}
