// Kills a loaded server with kill -9 at random moments, again and again, on both stores, while clients retry with the
// same keys and the wall clock of the server jumps. Nothing that was acknowledged may be lost, nothing may take effect
// twice (L4), and no more may be granted than there is. Then a backup is restored and goes on, and the system calls of
// the embedded store show that no answer goes out before the disk has what it says.
// Usage: npm run prove:kill -- [KILLS PER STORE] [SEED] [--part=PART] [--canaries]. Needs strace. PART is one of
// canaries, trace, restore, embedded, postgres.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  backupSqlite,
  openPostgresStore,
  openSqliteStore,
  restoreSqlite,
  type Store,
} from "../src/store/index.ts";
import { startPostgres } from "../test/support/postgres.ts";
import { type Fault, tell } from "./proving/canaries.ts";
import { type Acknowledged, startClients } from "./proving/clients.ts";
import { traceAnswers } from "./proving/durability.ts";
import { judge, reissues, type Verdict } from "./proving/judge.ts";
import { Finding, within } from "./proving/limits.ts";
import type { Canary, ServerStarter } from "./proving/operations.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle, childStarter } from "./proving/start.ts";

const { values: options, positionals: numbers } = parseArgs({
  options: { canaries: { type: "boolean" }, part: { type: "string" } },
  allowPositionals: true,
});
const KILLS = Number(numbers[0] ?? 200);
const SEED = Number(numbers[1] ?? Date.now() % 1_000_000);
const CLIENTS = 24;
/** A kill comes this long after the server is ready; a tenth of them come while it starts. */
const LIFE_MS_MAX = 300;
/** Enough for a server with a mistake made on purpose to be found out; a slow machine needs more than one round. */
const CANARY_KILLS = 8;
const CANARY_ROUNDS = 10;
/** A canary that was not found within this time is not looked for any longer. */
const CANARY_MS_MAX = 120_000;
/** After the last start of a server its clients must have all their answers within this time. */
const FINISH_MS_MAX = 60_000;
/** A server with a fault that only shows under load lives at most this long. */
const CANARY_LIFE_MS = 2_000;
/** Answers that are asked for again at the end: at once, when old records are removed, and after that. */
const REPEATED = 500;
const PRUNING_MS = 1_500;
/** Submissions with their releases whose system calls are read. */
const TRACED_CYCLES = 100;
/** Kills before a backup, after it, and after it was restored. */
const RESTORE_KILLS = 5;
/**
 * By how much the wall clock of a server may be wrong; together less than the 24 hours for which keys are remembered
 * (Q4). With more, answers are lost and doubled, as they must be: a canary shows it.
 */
const SKEWS_MS = [0, -43_200_000, 600_000];

/** Faults in a copy of the source, and who must find them. */
const FAULTS: readonly (Fault & { readonly finder: "trace" | "judge" })[] = [
  {
    what: "a store that does not wait for the disk",
    finder: "trace",
    file: "src/store/sqlite/sqlite.ts",
    text: "pragma synchronous = full",
    instead: "pragma synchronous = off",
  },
  {
    what: "a store that waits only now and then",
    finder: "trace",
    file: "src/store/sqlite/sqlite.ts",
    text: "pragma synchronous = full",
    instead: "pragma synchronous = normal",
  },
  {
    what: "an answer before the commit",
    finder: "trace",
    file: "src/store/sqlite/sqlite.ts",
    text: "commit: async (rows) => {",
    instead: `commit: async (rows) => {
      if (rows !== undefined) {
        setTimeout(() => inTransaction(() => executeAll(commitStatements(rows))), 20);
        return true;
      }`,
  },
  {
    what: "a pool that grants more than it has",
    finder: "judge",
    file: "src/engine/placement/capacity.ts",
    text: "capacity: toVector(record.capacity, keys) };",
    instead: "capacity: toVector(record.capacity, keys).map((amount) => amount + 1) };",
  },
  {
    what: "an old token that still ends the grant",
    finder: "judge",
    file: "src/engine/decide.ts",
    text: "if (token !== undefined && token !== allocation?.token) {",
    instead: "if (token !== undefined && allocation === null) {",
  },
  {
    what: "a number of a grant given out twice",
    finder: "judge",
    file: "src/server/grants.ts",
    text: "const number = engineToken + signer.offset;",
    instead: "const number = engineToken - (engineToken % 100) + 100;",
  },
];

const random = seededRandom(SEED);
const directory = await mkdtemp(join(tmpdir(), "berth-kill-"));
const postgres = await startPostgres();
let hasFailed = false;
console.log(`seed ${SEED}`);
try {
  const program = await bundle("proving/child");
  const embedded: Embedded = (name, canary = [], skew = someSkew) => {
    const file = join(directory, `${name}.db`);
    const start = childStarter(program, () => ["sqlite", file, skew(), ...canary]);
    return [start, () => openSqliteStore({ path: file })];
  };
  const onPostgres = childStarter(program, () => ["postgres", postgres.url, someSkew()]);
  const parts = {
    canaries: () => findCanaries(embedded),
    trace: () => proveDurability(program),
    restore: () => proveRestore(program),
    embedded: async () => report("embedded", await endure(KILLS, ...embedded("berth"))),
    postgres: async () =>
      report("postgres", await endure(KILLS, onPostgres, () => openPostgresStore({ url: postgres.url }))),
  };
  for (const [name, prove] of Object.entries(parts)) {
    if (options.part === undefined || options.part === name) await prove();
  }
} catch (error) {
  console.error(error);
  hasFailed = true;
} finally {
  await postgres.remove();
  await rm(directory, { recursive: true, force: true });
}
process.exit(hasFailed ? 1 : 0);

/** Servers on a new file, what they do wrong and by how much their clocks are wrong; and the way to their store. */
type Embedded = (
  name: string,
  canary?: readonly Canary[],
  skew?: () => string,
) => [ServerStarter, () => Promise<Store>];

interface Load {
  readonly kills: number;
  readonly killsAtStart: number;
  readonly acknowledged: readonly Acknowledged[];
  readonly retries: number;
  readonly startsMs: readonly number[];
}

type Endured = Load & Verdict;

function someSkew(): string {
  return String(SKEWS_MS[Math.floor(random() * SKEWS_MS.length)]);
}

async function findCanaries(embedded: Embedded): Promise<void> {
  for (const canary of ["answers early", "forgets keys"] as const) {
    const found = await inRounds(async (round) => {
      const servers = embedded(`${canary} ${round}`, [canary], () => "0");
      const { lost, duplicated } = await endure(CANARY_KILLS, ...servers);
      return lost.length + duplicated.length;
    });
    if (!tell(`a server that ${canary}`, found)) hasFailed = true;
  }
  const found = await inRounds(async (round) => {
    let starts = 0;
    const skew = () => (++starts <= 2 ? "-86400000" : "600000");
    const servers = embedded(`clocks ${round}`, [], skew);
    // Long enough lives for answers whose keys are then too old.
    const { lost, duplicated } = await endure(4, ...servers, CANARY_LIFE_MS);
    return lost.length + duplicated.length;
  });
  if (!tell("clocks that differ by more than the 24 hours for which keys are remembered", found))
    hasFailed = true;
  if (options.canaries !== true) return;
  for (const fault of FAULTS) if (!tell(fault.what, await findOut(fault))) hasFailed = true;
}

async function findOut(fault: (typeof FAULTS)[number]): Promise<number> {
  const program = await bundle("proving/child", fault);
  return inRounds(async (round) => {
    const file = join(directory, `${fault.what} ${round}.db`);
    if (fault.finder === "trace") {
      return (await traceAnswers(program, { file, cycles: TRACED_CYCLES })).early.length;
    }
    const open = () => openSqliteStore({ path: file });
    const start = childStarter(program, ["sqlite", file]);
    const { excess, reissued, unfenced } = await endure(2, start, open, CANARY_LIFE_MS);
    return excess.length + reissued.length + unfenced.length;
  });
}

/** Rounds until something is found. A server that ends by itself, or keeps its clients waiting, is found out as well. */
async function inRounds(search: (round: number) => Promise<number>): Promise<number> {
  const beganMs = performance.now();
  let found = 0;
  for (let round = 0; round < CANARY_ROUNDS && found === 0; round++) {
    if (performance.now() - beganMs > CANARY_MS_MAX) break;
    found = await search(round).catch((error: unknown) => {
      if (!(error instanceof Finding)) throw error;
      console.log(`  ${error.message}`);
      return 1;
    });
  }
  return found;
}

async function proveDurability(program: string): Promise<void> {
  const traced = { file: join(directory, "traced.db"), cycles: TRACED_CYCLES };
  const { answers, syncs, early } = await traceAnswers(program, traced);
  console.log(
    `system calls: ${answers} answers, ${syncs} syncs of the log; ${early.length} answers too early`,
  );
  for (const line of early.slice(0, 20)) console.log(`  ✗ ${line}`);
  if (early.length > 0 || answers < TRACED_CYCLES) hasFailed = true;
}

/** What was answered after the backup is lost with the rest, but the numbers of its grants never come again (L1). */
async function proveRestore(program: string): Promise<void> {
  const [from, backup, to] = ["from", "backup", "restored"].map((name) => join(directory, `${name}.db`)) as [
    string,
    string,
    string,
  ];
  const login = {};
  const on = (file: string) => childStarter(program, () => ["sqlite", file, someSkew()], { login });
  const before = await load(RESTORE_KILLS, on(from), { prefix: "before" });
  await backupSqlite({ from, to: backup });
  const forgotten = await load(RESTORE_KILLS, on(from), { prefix: "forgotten" });
  await restoreSqlite({ from: backup, to });
  const after = await load(RESTORE_KILLS, on(to), { prefix: "after" });
  const store = await openSqliteStore({ path: to });
  const verdict = await judge(store, inOrder(before, after));
  await store.close();
  const acknowledged = inOrder(before, forgotten, after);
  report("restored", { ...verdict, ...after, acknowledged, reissued: reissues(acknowledged) });
}

/** The answers of one load after those of another. */
function inOrder(...loads: readonly Load[]): Acknowledged[] {
  const all: Acknowledged[] = [];
  for (const { acknowledged } of loads) {
    const earlier = all.length;
    for (const each of acknowledged) all.push({ ...each, after: each.after + earlier });
  }
  return all;
}

async function endure(
  kills: number,
  start: ServerStarter,
  open: () => Promise<Store>,
  lifeMsMax = LIFE_MS_MAX,
): Promise<Endured> {
  const endured = await load(kills, start, { lifeMsMax });
  const store = await open();
  const verdict = await judge(store, endured.acknowledged);
  await store.close();
  return { ...verdict, ...endured };
}

/** Kills servers under clients, and lets the last one finish. */
async function load(
  kills: number,
  start: ServerStarter,
  { prefix, lifeMsMax = LIFE_MS_MAX }: { readonly prefix?: string; readonly lifeMsMax?: number } = {},
): Promise<Load> {
  const clients = startClients(CLIENTS, random, prefix);
  const startsMs: number[] = [];
  let killsAtStart = 0;
  for (let kill = 0; kill < kills; kill++) {
    const server = start();
    if (random() < 0.1 && startsMs.length > 0) {
      // Before any client has heard of it: in the middle of opening, taking over or loading.
      await delay(random() * quantile(startsMs, 0.5));
      killsAtStart++;
    } else {
      startsMs.push(await server.ready);
      clients.use(server);
      await delay(random() * lifeMsMax);
    }
    await server.kill();
  }
  const last = start();
  try {
    startsMs.push(await last.ready);
    clients.use(last);
    await within(FINISH_MS_MAX, "The last answers of all clients", clients.finish());
    for (const pauseMs of [0, PRUNING_MS, PRUNING_MS]) {
      await delay(pauseMs);
      await within(FINISH_MS_MAX, "The same answers once more", clients.repeat(REPEATED));
    }
  } finally {
    clients.abandon();
    await last.kill();
  }
  const { acknowledged, retries } = clients;
  return { kills, killsAtStart, acknowledged, retries, startsMs };
}

function report(name: string, endured: Endured): void {
  const { lost, duplicated, contradicted, damage, excess, reissued, unfenced, startsMs } = endured;
  const restart = `p50 ${quantile(startsMs, 0.5).toFixed(0)} ms, p99 ${quantile(startsMs, 0.99).toFixed(0)} ms`;
  console.log(
    `${name}: ${endured.kills} kills, ${endured.killsAtStart} of them during the start; ` +
      `${endured.acknowledged.length} answers, ${endured.retries} retries, ${endured.requests} requests, ${endured.events} events, ` +
      `${endured.renewals} renewals, ${endured.preemptions} preemptions`,
  );
  console.log(
    `  lost ${lost.length}, duplicated ${duplicated.length}, contradicted ${contradicted.length}, ` +
      `damaged ${damage.length}, granted above capacity ${excess.length}, tokens reissued ${reissued.length}, ` +
      `old tokens accepted ${unfenced.length} of ${endured.acknowledged.filter(({ operation }) => operation.kind === "stale").length}; ` +
      `restart ${restart}`,
  );
  const problems = [
    ...[...lost, ...duplicated, ...contradicted, ...damage],
    ...[...excess, ...reissued, ...unfenced],
  ];
  for (const problem of problems.slice(0, 20)) console.log(`  ✗ ${problem}`);
  if (problems.length > 0) hasFailed = true;
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] as number;
}
