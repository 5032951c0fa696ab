// Explanations, suggestions and plans are true: random worlds of every discipline, with nodes and without, in which
// everything that waits, runs or stops is explained and judged by the reference scheduler, which shares no code with it.
// Usage: npm run prove:why -- [EXPLANATIONS] [PLANS] [SEED] [--canaries]

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { newTally, type Tally, tryWorld, WORLDS } from "../test/reference/why-trial.ts";
import { type Fault, planted, tell } from "./proving/canaries.ts";

const numbers = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const EXPLANATIONS = Number(numbers[0] ?? 20_000);
const PLANS = Number(numbers[1] ?? 2_000);
const SEED = Number(numbers[2] ?? 1);
const SHOWN_MAX = 5;
const MINIMAL_MIN = 0.95;
const HELPED_MIN = 0.9;

const options = { explainEvery: 2, suggestEvery: 4, planEvery: 3 };
const tallies = new Map(Object.keys(WORLDS).map((kind) => [kind, newTally()]));
const kinds = Object.entries(WORLDS);
const isDone = ({ explanations, plans }: Tally) =>
  explanations >= EXPLANATIONS / kinds.length && plans >= PLANS / kinds.length;

const beganMs = performance.now();
for (let seed = SEED; [...tallies.values()].some((tally) => !isDone(tally)); seed++) {
  for (const [kind, worldOf] of kinds) {
    const tally = tallies.get(kind) as Tally;
    if (!isDone(tally)) tryWorld(worldOf(seed), options, tally);
  }
}

let isWrong = false;
for (const [kind, tally] of tallies) {
  const { explanations, waiting, running, stopping, asked, helped, suggestions, minimal, plans } = tally;
  const part = (some: number, all: number) => `${all === 0 ? "-" : ((100 * some) / all).toFixed(1)} %`;
  console.log(
    `${kind}: ${explanations} explanations (${waiting} wait, ${running} run, ${stopping} stop), ${tally.falsehoods.length} falsehoods; ` +
      `${suggestions} suggestions, ${tally.unsound.length} unsound, minimal ${part(minimal, suggestions)}, ` +
      `some for ${part(helped, asked)} of ${asked}; ${plans} plans, ${tally.inexact.length} inexact`,
  );
  for (const found of [...tally.falsehoods, ...tally.unsound, ...tally.inexact].slice(0, SHOWN_MAX))
    console.log(`  ${found}`);
  const isShort = helped < HELPED_MIN * asked || minimal < MINIMAL_MIN * suggestions;
  if (isShort) console.log("  below what is aimed at");
  const found = tally.falsehoods.length + tally.unsound.length + tally.inexact.length;
  isWrong ||= found > 0 || isShort;
}
console.log(`${Math.round((performance.now() - beganMs) / 1000)} s`);

// --- Faults that must be found

const CANARIES: readonly Fault[] = [
  {
    what: "a wrong rule: work that borrows is said to use its own reserve",
    file: "src/engine/disciplines/priority/explain.ts",
    text: "borrows(short).every(Boolean)",
    instead: "!borrows(short).every(Boolean)",
  },
  {
    what: "the two values of the order are swapped",
    file: "src/engine/disciplines/queue/explain.ts",
    text: "return { rule, part, theirs: value, mine: other };",
    instead: "return { rule, part, theirs: other, mine: value };",
  },
  {
    what: "the place in the queue is one too high",
    file: "src/engine/disciplines/queue/explain.ts",
    text: "return before + 1;",
    instead: "return before + 2;",
  },
  {
    what: "an unsound suggestion: what was refused or granted nothing is suggested all the same",
    file: "src/foresight/suggestions.ts",
    text: "return starts === undefined ? null : { starts, startsByMs, effects };",
    instead: 'return { starts: starts ?? "now", startsByMs, effects };',
  },
  {
    what: "protected runs of a fair share are said to be free",
    file: "src/engine/disciplines/fair_share/verdicts.ts",
    text: 'return barred("protected_share");',
    instead: 'return permitted("beyond_share");',
  },
  {
    what: "a plan without the events of its last step",
    file: "src/foresight/plan.ts",
    text: "events.push(decision.events);",
    instead: "events.push(step === 0 ? decision.events : []);",
  },
];
const CANARY_EXPLANATIONS = 400;
const CANARY_MS_MAX = 300_000;

async function isFoundOut(fault: Fault): Promise<boolean> {
  const root = fileURLToPath(new URL("../", import.meta.url));
  // Below the root, so that the program finds its packages.
  const directory = mkdtempSync(join(root, "node_modules/.cache/berth-why-"));
  const program = join(directory, "prove-why.mjs");
  try {
    await build({
      ...{ entryPoints: [fileURLToPath(import.meta.url)], outfile: program, bundle: true, logLevel: "error" },
      ...{ platform: "node", format: "esm", plugins: [planted(root, fault)] },
      banner: {
        js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
      },
      external: ["esbuild"],
    });
    const { stdout } = spawnSync(
      process.execPath,
      [program, String(CANARY_EXPLANATIONS), "60", String(SEED)],
      {
        encoding: "utf8",
        timeout: CANARY_MS_MAX,
      },
    );
    const counts = [...stdout.matchAll(/(\d+) (?:falsehoods|unsound|inexact)/g)].map(([, count]) =>
      Number(count),
    );
    return tell(
      fault.what,
      counts.reduce((sum, count) => sum + count, 0),
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

if (process.argv.includes("--canaries")) {
  for (const fault of CANARIES) if (!(await isFoundOut(fault))) isWrong = true;
}
process.exitCode = isWrong ? 1 : 0;
