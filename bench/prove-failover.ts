// Three servers on one PostgreSQL, with a proxy on every path, under load: the leader is killed, frozen and thawed, cut
// off from the database, cut off from the other servers, and asked to hand over, again and again. No stale answer, nothing
// lost, nothing twice, nothing above capacity, streams whole (C1–C9); and how long until writes are accepted again.
// Usage: npm run prove:failover -- [--kills N] [--freezes N] [--database-cuts N] [--peer-cuts N] [--handovers N]
//        [--seed N] [--canaries [--only TEXT]] [--logs DIRECTORY]
// `--canaries`: servers with planted faults, each of which must be found; then one round of each kind without a fault, in
// which nothing may be found.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { DEFAULT_REPLICA_TIMES } from "../src/replica/index.ts";
import { startPostgres } from "../test/support/postgres.ts";
import { CANARIES, type Canary } from "./failover/canaries.ts";
import { CUTS, type Cut, cutDatabase, cutPeers, freeze, handOver, kill } from "./failover/faults.ts";
import { prove, type Round } from "./failover/proof.ts";
import { isQuiet, type Limit, report, reportTimes, sayRound } from "./failover/report.ts";
import { tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle } from "./proving/start.ts";

const { values } = parseArgs({
  options: {
    kills: { type: "string" },
    freezes: { type: "string" },
    "database-cuts": { type: "string" },
    "peer-cuts": { type: "string" },
    handovers: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    canaries: { type: "boolean", default: false },
    /** Only canaries whose description has this in it. */
    only: { type: "string", default: "" },
    /** Where the logs of the servers are kept. */
    logs: { type: "string" },
  },
});

/** Seconds until writes are accepted again. Between servers nothing changes hands: writes go on at the leader. */
const LIMITS: Readonly<Record<string, Limit>> = {
  kill: { p50: 2, p99: 3 },
  freeze: { p50: 10, p99: 12 },
  "cut from the database": { p50: 10, p99: 12 },
  "cut between servers": { p50: 10, p99: 12 },
  handover: { p50: 0.5, p99: 1 },
};

const random = seededRandom(Number(values.seed));
const wasQuiet = isQuiet();
const { renewEveryMs, sureMs, freshMs, silenceMs, hintedSilenceMs, watchEveryMs } = DEFAULT_REPLICA_TIMES;
console.log(
  `seed ${values.seed}; lease renewed every ${renewEveryMs} ms, answers for ${sureMs} ms after a renewal, ` +
    `stepping down after ${freshMs} ms, candidates look every ${watchEveryMs} ms and wait for ${silenceMs} ms, with the hint for ${hintedSilenceMs} ms`,
);
let hasFailed = false;
try {
  if (values.canaries) {
    const chosen = CANARIES.filter(({ what }) => what.includes(values.only));
    for (const canary of chosen) {
      const found = await findOut(canary).catch((error: unknown) => {
        console.error(error); // The others are tried all the same.
        return 0;
      });
      if (!tell(canary.what, found)) hasFailed = true;
    }
  }
  const rounds = shuffled([
    ...times("kill", values.kills, 50),
    ...times("freeze", values.freezes, 20),
    ...times("database", values["database-cuts"], 20),
    ...times("peers", values["peer-cuts"], 20),
    ...times("handover", values.handovers, 10),
  ]);
  if (rounds.length > 0) {
    const proof = await proveOn(await bundle("failover/server"), rounds, values.logs);
    const isInTime = reportTimes(proof.measured, LIMITS, wasQuiet);
    if (report(proof) > 0 || !isInTime) hasFailed = true;
  }
} catch (error) {
  console.error(error);
  hasFailed = true;
}
process.exit(hasFailed ? 1 : 0); // Clients of a proof that failed would go on for ever.

async function proveOn(program: string, rounds: readonly Round[], logs?: string) {
  const directory = logs ?? (await mkdtemp(join(tmpdir(), "berth-failover-")));
  const postgres = await startPostgres({ max_connections: "100" });
  try {
    return await prove({
      ...{ program, databaseUrl: postgres.url, directory, random, rounds, onRound: sayRound },
    });
  } finally {
    await postgres.remove();
    if (logs === undefined) await rm(directory, { recursive: true, force: true });
  }
}

async function findOut(canary: Canary): Promise<number> {
  const program = await bundle("failover/server", canary);
  const { verdict } = await proveOn(
    program,
    canary.rounds.map((kind, index) => roundOf(kind, index, canary.cut)),
  );
  return canary.finders.flatMap((finder) => verdict.problems[finder] as readonly string[]).length;
}

function times(kind: Canary["rounds"][number], wanted: string | undefined, usual: number): Round[] {
  const length = Number(wanted ?? (values.canaries ? 1 : usual));
  return Array.from({ length }, (_, index) => roundOf(kind, index));
}

/** Paths break in every way, in turn. */
function roundOf(kind: Canary["rounds"][number], index = 0, cut?: Cut): Round {
  const how = cut ?? CUTS[index % CUTS.length]!;
  switch (kind) {
    case "kill":
      return { kind: "kill", run: kill };
    case "freeze":
      return { kind: "freeze", run: freeze };
    case "database":
      return { kind: "cut from the database", run: (scene) => cutDatabase(scene, how) };
    case "peers":
      return { kind: "cut between servers", run: (scene) => cutPeers(scene, how) };
    case "handover":
      return { kind: "handover", run: handOver };
  }
}

function shuffled(rounds: readonly Round[]): Round[] {
  return rounds
    .map((round) => ({ round, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ round }) => round);
}
