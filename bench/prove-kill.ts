// Kills a loaded server with kill -9 at random moments, again and again, on both stores, while clients retry with the
// same keys. Nothing that was acknowledged may be lost, and nothing may take effect twice (L4).
// Usage: npm run prove:kill -- [KILLS PER STORE] [SEED]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { openPostgresStore, openSqliteStore, type Store } from "../src/store/index.ts";
import { startPostgres } from "../test/support/postgres.ts";
import { startClients } from "./proving/clients.ts";
import { judge, type Verdict } from "./proving/judge.ts";
import type { Canary, ServerStarter } from "./proving/operations.ts";
import { seededRandom } from "./proving/random.ts";
import { bundle, childStarter } from "./proving/start.ts";

const KILLS = Number(process.argv[2] ?? 300);
const SEED = Number(process.argv[3] ?? Date.now() % 1_000_000);
const CLIENTS = 24;
/** A kill comes this long after the server is ready; a tenth of them come while it starts. */
const LIFE_MS_MAX = 300;
/** Enough for a server with a mistake made on purpose to be found out; a slow machine needs more than one round. */
const CANARY_KILLS = 8;
const CANARY_ROUNDS = 10;
/** Answers that are asked for again at the end. */
const REPEATED = 500;

const random = seededRandom(SEED);
const directory = await mkdtemp(join(tmpdir(), "berth-kill-"));
const postgres = await startPostgres();
let hasFailed = false;
console.log(`seed ${SEED}`);
try {
  const program = await bundle("child");
  const embedded = (name: string, canary: readonly Canary[]): [ServerStarter, () => Promise<Store>] => {
    const file = join(directory, `${name}.db`);
    return [childStarter(program, ["sqlite", file, ...canary]), () => openSqliteStore({ path: file })];
  };
  for (const canary of ["answers early", "forgets keys"] as const) {
    let found = 0;
    for (let round = 0; found === 0 && round < CANARY_ROUNDS; round++) {
      const { lost, duplicated } = await endure(CANARY_KILLS, ...embedded(`${canary} ${round}`, [canary]));
      found = lost.length + duplicated.length;
    }
    console.log(
      `canary: a server that ${canary} is ${found > 0 ? `found out ${found} times` : "NOT FOUND OUT"}`,
    );
    if (found === 0) hasFailed = true;
  }
  report("embedded", await endure(KILLS, ...embedded("berth", [])));
  const onPostgres = childStarter(program, ["postgres", postgres.url]);
  report("postgres", await endure(KILLS, onPostgres, () => openPostgresStore({ url: postgres.url })));
} catch (error) {
  console.error(error);
  hasFailed = true;
} finally {
  await postgres.remove();
  await rm(directory, { recursive: true, force: true });
}
process.exit(hasFailed ? 1 : 0); // Clients of a proof that failed would go on for ever.

interface Endured extends Verdict {
  readonly kills: number;
  readonly killsAtStart: number;
  readonly acknowledged: number;
  readonly retries: number;
  readonly startsMs: readonly number[];
}

async function endure(kills: number, start: ServerStarter, open: () => Promise<Store>): Promise<Endured> {
  const clients = startClients(CLIENTS, random);
  const startsMs: number[] = [];
  let killsAtStart = 0;
  for (let kill = 0; kill < kills; kill++) {
    const server = start();
    if (random() < 0.1 && startsMs.length > 0) {
      // Before anyone has heard of it: in the middle of opening, taking over or loading.
      await delay(random() * quantile(startsMs, 0.5));
      killsAtStart++;
    } else {
      startsMs.push(await server.ready);
      clients.use(server);
      await delay(random() * LIFE_MS_MAX);
    }
    await server.kill();
  }
  const last = start();
  startsMs.push(await last.ready);
  clients.use(last);
  await clients.finish();
  await clients.repeat(REPEATED);
  await last.kill();

  const store = await open();
  const verdict = await judge(store, clients.acknowledged);
  await store.close();
  const { acknowledged, retries } = clients;
  return { ...verdict, kills, killsAtStart, acknowledged: acknowledged.length, retries, startsMs };
}

function report(name: string, endured: Endured): void {
  const { lost, duplicated, contradicted, damage, startsMs } = endured;
  const restart = `p50 ${quantile(startsMs, 0.5).toFixed(0)} ms, p99 ${quantile(startsMs, 0.99).toFixed(0)} ms`;
  console.log(
    `${name}: ${endured.kills} kills, ${endured.killsAtStart} of them during the start; ` +
      `${endured.acknowledged} answers, ${endured.retries} retries, ${endured.requests} requests, ${endured.events} events`,
  );
  console.log(
    `  lost ${lost.length}, duplicated ${duplicated.length}, contradicted ${contradicted.length}, ` +
      `damaged ${damage.length}; restart ${restart}`,
  );
  const problems = [...lost, ...duplicated, ...contradicted, ...damage];
  for (const problem of problems.slice(0, 20)) console.log(`  ✗ ${problem}`);
  if (problems.length > 0) hasFailed = true;
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] as number;
}
