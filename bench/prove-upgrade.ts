// Servers of neighbouring versions mixed under load: the version before this one, which knows the first form of events
// only, this one, and a made-up later one, which brings another form. Up, back, and up again until the new form is written.
// Nothing is lost, writes are accepted all the time but for a moment, and what an old server could not read is refused (C12).
// Usage: npm run prove:upgrade -- [--before COMMIT] [--seed N] [--canaries] [--logs DIRECTORY]
// `--before`: the source of this commit is the version before, instead of this source without its newest form.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startPostgres } from "../test/support/postgres.ts";
import { UPGRADE_CANARY } from "./failover/canaries.ts";
import { prove } from "./failover/proof.ts";
import { isQuiet, type Limit, report, reportTimes, sayRound } from "./failover/report.ts";
import { bundleAt, type Upgrade, up, upAndBack, VERSION_AFTER, VERSION_BEFORE } from "./failover/upgrades.ts";
import { tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle } from "./proving/start.ts";

const { values } = parseArgs({
  options: {
    before: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    canaries: { type: "boolean", default: false },
    logs: { type: "string" },
  },
});

type Step = Omit<Upgrade, "databaseUrl">;

const KINDS = ["up and back", "up for good"] as const;
/** Seconds without an accepted write. */
const LIMIT: Limit = { p50: 5, p99: 5 };
const LIMITS: Readonly<Record<string, Limit>> = Object.fromEntries(
  ["to this version", "to a later version"].flatMap((where) =>
    KINDS.map((kind) => [`${kind}, ${where}`, LIMIT]),
  ),
);

const wasQuiet = isQuiet();
let hasFailed = false;
console.log(`seed ${values.seed}`);
try {
  const before =
    values.before === undefined
      ? await bundle("failover/server", ...VERSION_BEFORE)
      : await bundleAt(values.before);
  const here = await bundle("failover/server");
  const after = await bundle("failover/server", VERSION_AFTER);
  const toThis: Step = {
    ...{ from: before, to: here, newForm: 2, bringsArrays: true },
    canGoBack: values.before === undefined,
  };
  const toLater: Step = { from: here, to: after, newForm: 3, bringsArrays: false, canGoBack: true };
  if (values.canaries) {
    for (const [what, step, ...made] of [
      ["this version", toThis],
      ["the version after", toLater, VERSION_AFTER],
    ] as const) {
      const hasty = await bundle("failover/server", UPGRADE_CANARY, ...made);
      const { verdict } = await proveOn([{ ...step, to: hasty }], ["up and back"]);
      const found = UPGRADE_CANARY.finders.flatMap((finder) => verdict.problems[finder] as readonly string[]);
      if (!tell(`${what}: ${UPGRADE_CANARY.what}`, found.length)) hasFailed = true;
    }
  }
  const proof = await proveOn([toThis, toLater], KINDS, values.logs);
  const isInTime = reportTimes(proof.measured, LIMITS, wasQuiet, "longest time without an accepted write");
  if (report(proof) > 0 || !isInTime) hasFailed = true;
} catch (error) {
  console.error(error);
  hasFailed = true;
}
process.exit(hasFailed ? 1 : 0); // Clients of a proof that failed would go on for ever.

async function proveOn(steps: readonly Step[], kinds: readonly (typeof KINDS)[number][], logs?: string) {
  const directory = logs ?? (await mkdtemp(join(tmpdir(), "berth-upgrade-")));
  const postgres = await startPostgres({ max_connections: "100" });
  const databaseUrl = postgres.url;
  const random = seededRandom(Number(values.seed));
  const rounds = steps.flatMap((step) =>
    kinds
      .filter((kind) => kind === "up for good" || step.canGoBack)
      .map((kind) => ({ kind, upgrade: { ...step, databaseUrl } })),
  );
  try {
    return await prove({
      ...{ program: steps[0]!.from, databaseUrl, directory, random, onRound: sayRound },
      rounds: rounds.map(({ kind, upgrade }) => ({
        kind: `${kind}, ${upgrade.newForm === 2 ? "to this version" : "to a later version"}`,
        run: (scene) => (kind === "up for good" ? up(scene, upgrade) : upAndBack(scene, upgrade)),
      })),
    });
  } finally {
    await postgres.remove();
    if (logs === undefined) await rm(directory, { recursive: true, force: true });
  }
}
