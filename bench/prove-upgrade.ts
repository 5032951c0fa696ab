// Servers of this version and of a made-up later one, which brings a new form of events, mixed under load: up, back, and up
// again until the new form is written. Nothing is lost, and writes are accepted all the time but for a moment (C12).
// Usage: npm run prove:upgrade -- [--seed N] [--canaries] [--logs DIRECTORY]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres.ts";
import { UPGRADE_CANARY } from "./failover/canaries.ts";
import { prove } from "./failover/proof.ts";
import { isQuiet, type Limit, report, reportTimes } from "./failover/report.ts";
import { NEXT_VERSION, up, upAndBack } from "./failover/upgrades.ts";
import { tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle } from "./proving/start.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    canaries: { type: "boolean", default: false },
    logs: { type: "string" },
  },
});

/** Seconds without an accepted write. */
const LIMITS: Readonly<Record<string, Limit>> = {
  "up and back": { p50: 5, p99: 5 },
  "up for good": { p50: 5, p99: 5 },
};

const wasQuiet = isQuiet();
let hasFailed = false;
console.log(`seed ${values.seed}`);
try {
  const [old, next] = [await bundle("failover/server"), await bundle("failover/server", NEXT_VERSION)];
  if (values.canaries) {
    const hasty = await bundle("failover/server", UPGRADE_CANARY, NEXT_VERSION);
    const { verdict } = await proveOn(old, hasty, ["up and back"]);
    const found = UPGRADE_CANARY.finders.flatMap((finder) => verdict.problems[finder] as readonly string[]);
    if (!tell(UPGRADE_CANARY.what, found.length)) hasFailed = true;
  }
  const proof = await proveOn(old, next, ["up and back", "up for good"], values.logs);
  const isInTime = reportTimes(proof.measured, LIMITS, wasQuiet, "longest time without an accepted write");
  if (report(proof) > 0 || !isInTime) hasFailed = true;
} catch (error) {
  console.error(error);
  hasFailed = true;
}
process.exit(hasFailed ? 1 : 0); // Clients of a proof that failed would go on for ever.

async function proveOn(
  old: string,
  next: string,
  kinds: readonly ("up and back" | "up for good")[],
  logs?: string,
) {
  const directory = logs ?? (await mkdtemp(join(tmpdir(), "berth-upgrade-")));
  const postgres = await startPostgres({ max_connections: "100" });
  const databaseUrl = postgres.url;
  const builds = { old, next, databaseUrl };
  const random = seededRandom(Number(values.seed));
  try {
    return await prove({
      ...{ program: old, databaseUrl, directory, random },
      rounds: kinds.map((kind) => ({
        kind,
        run: (scene) => (kind === "up for good" ? up(scene, builds) : upAndBack(scene, builds)),
      })),
    });
  } finally {
    await postgres.remove();
    if (logs === undefined) await rm(directory, { recursive: true, force: true });
  }
}
