// Explanations, suggestions and plans are true: random worlds of every discipline, with nodes and without, in which
// everything that waits, runs or stops is explained and judged by the reference scheduler, which shares no code with it.
// Usage: npm run prove:why -- [EXPLANATIONS] [PLANS] [SEED] [--canaries]

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Fault, planted, tell } from "./proving/canaries.ts";
import { CANARIES, type Canary } from "./why/canaries.ts";
import type { Seen } from "./why/worlds.ts";

const KINDS = [
  // The dearest first, so that no core is left alone with them.
  ...["fair_share on nodes", "fair_share", "class on nodes", "priority on nodes", "class", "priority"],
];
const numbers = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const EXPLANATIONS = Number(numbers[0] ?? 20_000);
const PLANS = Number(numbers[1] ?? 2_000);
const SEED = Number(numbers[2] ?? 1);
const MINIMAL_MIN = 0.95;
const HELPED_MIN = 0.9;
const CANARY_EXPLANATIONS = 1_000;
const CANARY_PLANS = 100;
const PROGRESS_MS = 15_000;
const ROOT = fileURLToPath(new URL("../", import.meta.url));

const beganMs = performance.now();
const seconds = () => Math.round((performance.now() - beganMs) / 1000);
let isWrong = false;

await withProgram(undefined, async (program) => {
  const seenOf = new Map<string, Seen>();
  const size = { explanations: EXPLANATIONS / KINDS.length, plans: PLANS / KINDS.length };
  const progress = setInterval(() => console.log(progressText([...seenOf.values()])), PROGRESS_MS);
  const work = KINDS.map((kind) => () => play(program, kind, size, (seen) => seenOf.set(kind, seen)));
  await shared(work).finally(() => clearInterval(progress));
  for (const [kind, seen] of seenOf) report(kind, seen);
  console.log(`${totalText([...seenOf.values()])} in ${seconds()} s`);
  reportHelp([...seenOf.values()]);
});

if (process.argv.includes("--canaries")) {
  const found = await shared(CANARIES.map((canary) => () => isFoundOut(canary)));
  if (found.includes(false)) isWrong = true;
}
process.exitCode = isWrong ? 1 : 0;

// --- What was seen

function report(kind: string, seen: Seen): void {
  const { waiting, running, stopping, asked, helped, suggestions, minimal, plans } = seen;
  const { falsehoods, unsound, inexact } = seen;
  console.log(
    `${kind}: ${explainedIn(seen)} explanations (${waiting} wait, ${running} run, ${stopping} stop), ${falsehoods} false; ` +
      `${suggestions} suggestions, ${unsound} unsound, minimal ${part(minimal, suggestions)} (≥ ${100 * MINIMAL_MIN} %), ` +
      `some for ${part(helped, asked)} of ${asked}; ${plans} plans, ${inexact} inexact`,
  );
  for (const finding of seen.findings) console.log(`  ${finding}`);
  const isShort = minimal < MINIMAL_MIN * suggestions;
  if (isShort) console.log("  below the limit");
  isWrong ||= seen.findings.length > 0 || isShort;
}

/** Of all who wait (Y12): the others are told what blocks them at once. */
function reportHelp(all: readonly Seen[]): void {
  const asked = all.reduce((sum, seen) => sum + seen.asked, 0);
  const helped = all.reduce((sum, seen) => sum + seen.helped, 0);
  console.log(`suggestions for ${part(helped, asked)} of ${asked} who wait (≥ ${100 * HELPED_MIN} %)`);
  isWrong ||= helped < HELPED_MIN * asked;
}

function part(some: number, all: number): string {
  return `${all === 0 ? "-" : ((100 * some) / all).toFixed(1)} %`;
}

function explainedIn({ waiting, running, stopping }: Seen): number {
  return waiting + running + stopping;
}

function totalText(all: readonly Seen[]): string {
  const sum = (count: (seen: Seen) => number) => all.reduce((total, seen) => total + count(seen), 0);
  const findings = sum((seen) => seen.falsehoods + seen.unsound + seen.inexact);
  return `${sum(explainedIn)} explanations, ${sum(({ plans }) => plans)} plans, ${findings} findings`;
}

function progressText(all: readonly Seen[]): string {
  return `  ${seconds()} s: ${totalText(all)} so far, ${all.filter(({ isDone }) => isDone).length} of ${KINDS.length} kinds done`;
}

// --- Processes

/** As many at once as there are cores, in the order given. */
async function shared<T>(work: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const left = work.entries();
  const takeTurns = async () => {
    for (const [index, run] of left) results[index] = await run();
  };
  await Promise.all(Array.from({ length: availableParallelism() }, takeTurns));
  return results;
}

async function play(
  program: string,
  kind: string,
  { explanations, plans }: { explanations: number; plans: number },
  onSeen: (seen: Seen) => void,
  until = "enough",
): Promise<void> {
  const child = fork(program, [kind, String(explanations), String(plans), String(SEED), until], {
    execArgv: [],
  });
  child.on("message", (seen) => onSeen(seen as Seen));
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`The worlds of kind "${kind}" ended with ${code}.`);
}

/** The program of the worlds, with a fault in it or without. */
async function withProgram(fault: Fault | undefined, run: (program: string) => Promise<void>): Promise<void> {
  // Below the root, so that the program finds its packages.
  const cache = join(ROOT, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(join(cache, "berth-why-"));
  const program = join(directory, "worlds.mjs");
  try {
    await build({
      ...{ entryPoints: [join(ROOT, "bench/why/worlds.ts")], outfile: program, bundle: true },
      ...{ platform: "node", format: "esm", logLevel: "error" },
      plugins: fault === undefined ? [] : [planted(ROOT, fault)],
      banner: {
        js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);',
      },
    });
    await run(program);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function isFoundOut(canary: Canary): Promise<boolean> {
  let found = 0;
  await withProgram(canary, async (program) => {
    const size = { explanations: CANARY_EXPLANATIONS, plans: CANARY_PLANS };
    for (const kind of canary.kinds)
      await play(program, kind, size, (seen) => (found = Math.max(found, seen.findings.length)), "first");
  });
  return tell(canary.what, found);
}
