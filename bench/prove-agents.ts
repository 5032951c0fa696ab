// Three machines with agents, under load: agents and shims are killed, nodes cut off, machines reset, servers replaced, in the
// middle of starts, stops and checkpoints. No attempt is started twice, no exit is lost, nothing outlives its end, no request
// is alive twice, and logs are complete (J5, J6, E2–E7).
// Usage: npm run prove:agents -- [--rounds N] [--store sqlite|postgres] [--seed N] [--proxies] [--keep DIRECTORY]
//        [--canaries [--only TEXT]]

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildPrograms } from "./agents/build.ts";
import { CANARIES, type Canary } from "./agents/canaries.ts";
import { FAULTS, MOMENTS, type Round } from "./agents/faults.ts";
import { QUESTIONS } from "./agents/judge.ts";
import { type Proof, prove } from "./agents/proof.ts";
import type { StoreKind } from "./agents/servers.ts";
import { tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";

const { values } = parseArgs({
  options: {
    /** In all, half of them on each kind of store; default: 100, beside canaries each fault at each moment once. */
    rounds: { type: "string" },
    store: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    /** No namespaces, even where they could be had. */
    proxies: { type: "boolean", default: false },
    /** Where stores, logs and evidence are left. */
    keep: { type: "string" },
    canaries: { type: "boolean", default: false },
    only: { type: "string", default: "" },
  },
});

const random = seededRandom(Number(values.seed));
console.log(`seed ${values.seed}`);
let hasFailed = false;
try {
  if (values.canaries) {
    for (const canary of CANARIES.filter(({ what }) => what.includes(values.only)))
      if (!tell(canary.what, await findOut(canary))) hasFailed = true;
  }
  const stores = (values.store === undefined ? ["postgres", "sqlite"] : [values.store]) as StoreKind[];
  const rounds = drawRounds(
    Number(values.rounds ?? (values.canaries ? FAULTS.length * MOMENTS.length : 100)),
  );
  const share = Math.ceil(rounds.length / stores.length);
  for (const [index, store] of stores.entries()) {
    const own = rounds.slice(index * share, (index + 1) * share);
    if (own.length > 0 && report(store, await proveOn({ store, rounds: own, name: "sound" })))
      hasFailed = true;
  }
} catch (error) {
  console.error(error);
  hasFailed = true;
}
process.exit(hasFailed ? 1 : 0); // Readers of logs would go on for ever.

async function proveOn(options: {
  readonly name: string;
  readonly store: StoreKind;
  readonly rounds: readonly Round[];
  readonly faults?: Canary["faults"];
  readonly load?: Canary["load"];
}): Promise<Proof> {
  const { name, store, rounds, load, faults = [] } = options;
  const programs = await buildPrograms(name, faults);
  const directory = mkdtempSync(join(values.keep ?? tmpdir(), "berth-proof-"));
  const onRound = (text: string) => (faults.length === 0 ? console.log(text) : undefined);
  try {
    return await prove({
      programs,
      store,
      directory,
      rounds,
      random,
      load,
      namespaces: !values.proxies,
      onRound,
    });
  } finally {
    if (values.keep === undefined) rmSync(directory, { recursive: true, force: true });
  }
}

async function findOut({ what, faults, rounds, finders, load }: Canary): Promise<number> {
  const { verdict } = await proveOn({ name: what, store: "sqlite", rounds, faults, load });
  const found = finders.flatMap((finder) => verdict.problems[finder]).length;
  if (found === 0) for (const problem of Object.values(verdict.problems).flat()) console.log(`  ${problem}`);
  return found;
}

/** All pairs of fault and moment as often as each other; every fourth cut is a long one. */
function drawRounds(count: number): Round[] {
  const pairs = shuffled(FAULTS.flatMap((fault) => MOMENTS.map((moment) => ({ fault, moment }))));
  let cuts = 0;
  const rounds = Array.from({ length: count }, (_, index) => pairs[index % pairs.length] as Round);
  return shuffled(rounds).map((round) =>
    round.fault === "node cut" && cuts++ % 4 === 0 ? { ...round, isLong: true } : round,
  );
}

function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}

/** Whether anything was wrong. */
function report(store: StoreKind, { verdict, rounds, seconds, kind }: Proof): boolean {
  const { starts, ends, attempts, lines, saved, resumed, lost, followed } = verdict;
  const counted = FAULTS.map((fault) => `${rounds.filter((one) => one.fault === fault).length} × ${fault}`);
  const moments = MOMENTS.map(
    (moment) => `${moment} ${rounds.filter((one) => one.moment === moment).length}`,
  );
  console.log(
    `${store}, ${kind}, ${seconds.toFixed(0)} s: ${counted.join(", ")}; in the middle of ${moments.join(", ")}`,
  );
  console.log(
    `${attempts} attempts (${lost} lost), ${starts} starts, ${ends} ends, ${saved} saved, ${resumed} resumed, ` +
      `${lines} lines of logs, ${followed} logs followed to their end`,
  );
  for (const question of QUESTIONS) {
    console.log(`${question}: ${verdict.problems[question].length}`);
    for (const problem of verdict.problems[question].slice(0, 10)) console.log(`  ${problem}`);
  }
  return QUESTIONS.some((question) => verdict.problems[question].length > 0);
}
