// How many submit → grant → release cycles the engine decides in a second, and how that depends on the depth of
// the queue; and how long one preemption decision takes among many running allocations.
// `npm run bench:engine -- [--discipline priority|class|fair_share] [--depths 1000,100000,1000000]`
// `npm run bench:engine -- --against COMMIT` compares this engine with that of a commit, in all three disciplines, or
// in the one that `--discipline` names. Ends with 1 if a limit is missed.

import { parseArgs } from "node:util";
import { compare, worldOf } from "./engine-against.ts";
import { createBenchWorld, type DisciplineName } from "./engine-world.ts";
import { createGangWorld } from "./gang-world.ts";
import { cpuMs, threadMs } from "./processor-time.ts";

const POOLS = 100;
const LINES = 1000;
/** Enough that what happens once in a long while, such as a table that grows, weighs as little as it should. */
const CYCLES = 160_000;

const { values } = parseArgs({
  options: {
    discipline: { type: "string" },
    depths: { type: "string", default: "1000,100000,1000000" },
    against: { type: "string" },
  },
});
const discipline = (values.discipline ?? "priority") as DisciplineName;
if (!["priority", "class", "fair_share"].includes(discipline)) {
  console.error(`--discipline is priority, class or fair_share, not ${discipline}`);
  process.exit(2);
}
const depths = values.depths.split(",").map(Number);

if (values.against !== undefined) await compareWith(values.against);
else if (discipline === "priority") {
  for (const walltimes of ["equal", "random"] as const) measureDepths(walltimes);
  measurePreemption();
} else {
  compareDisciplines(discipline);
  if (discipline === "fair_share") measureGangs();
}

/** This engine beside that of another commit; then what can only be measured here. */
async function compareWith(commit: string): Promise<void> {
  const theirs = await worldOf(commit);
  const plain = { pools: POOLS, lines: LINES, walltimes: "random" } as const;
  const rich = { ...plain, isRich: true, runsPerPool: 40, waiting: 100_000 };
  const deepest = Math.max(...depths);
  console.log(`cycles per second of processor time, this engine beside ${commit}`);
  const isAsked = (each: DisciplineName) => values.discipline === undefined || each === discipline;
  const show = (name: string, options: Parameters<typeof compare>[1], limit?: number) => {
    if (!isAsked(options.discipline)) return Number.NaN;
    const { ours, theirs: other, ratio, quartiles } = compare(theirs, options);
    const [low, high] = quartiles.map((each) => each.toFixed(2));
    const aim = limit === undefined ? "" : `   limit ${limit}`;
    if (limit !== undefined && ratio < limit) process.exitCode = 1;
    console.log(
      `${name.padEnd(44)} ${pad(Math.round(ours), 8)} ${pad(Math.round(other), 8)}   × ${ratio.toFixed(2)} [${low}–${high}]${aim}`,
    );
    return ours;
  };
  show(
    `priority, ${deepest} waiting`,
    { ...plain, discipline: "priority", waiting: deepest, cycles: 20_000 },
    3,
  );
  show("priority, holds, reserves, nodes, preemption", { ...rich, discipline: "priority", cycles: 2_000 });
  const many = { ...plain, runsPerPool: 100, waiting: 100_000, cycles: 20_000 };
  const priority = show("priority, 100000 waiting, 10000 running", { ...many, discipline: "priority" });
  const byClass = show("class, 100000 waiting, 10000 running", { ...many, discipline: "class" });
  show("class, holds, reserves, nodes, preemption", { ...rich, discipline: "class", cycles: 2_000 });
  const few = { ...plain, runsPerPool: 100, waiting: 10_000, cycles: 4_000 };
  show("fair_share, 10000 waiting, 10000 running", { ...few, discipline: "fair_share" }, 8);
  show("fair_share, holds, reserves, nodes, preemption", {
    ...{ ...rich, discipline: "fair_share", waiting: 10_000, cycles: 500 },
  });
  if (values.discipline === undefined) {
    console.log(`class beside priority: ${(byClass / priority).toFixed(2)}   limit 0.8`);
    if (byClass / priority < 0.8) process.exitCode = 1;
  }
  if (isAsked("fair_share")) measureGangs();
}

/** One change among many operations of one fair-share pool, a tenth of them gangs. */
function measureGangs(): void {
  const world = createGangWorld({ operations: 10_000 });
  for (let i = 0; i < 50; i++) world.change(); // Not timed, so that the code under test is compiled by then.
  const times = Array.from({ length: 400 }, () => {
    const before = threadMs();
    world.change();
    return threadMs() - before;
  }).sort((a, b) => a - b);
  const at = (share: number) => (times[Math.floor(times.length * share)] as number).toFixed(2);
  if (Number(at(0.99)) > 10) process.exitCode = 1;
  console.log(
    `one change among 10000 operations with gangs: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms   limit 10`,
  );
}

function measureDepths(walltimes: "equal" | "random"): void {
  console.log(`\n${walltimes} walltimes, ${LINES} lines over ${POOLS} pools`);
  console.log("   waiting   cycles/s   ratio to the shallowest   bytes per waiting request");
  let shallowest: number | undefined;
  for (const depth of depths) {
    const world = createBenchWorld({ discipline: "priority", pools: POOLS, lines: LINES, walltimes });
    world.fill(LINES);
    const before = heapBytes();
    world.fill(depth - LINES);
    const bytes = depth > LINES ? (heapBytes() - before) / (depth - LINES) : Number.NaN;
    world.cycle(CYCLES / 4);
    const rate = perSecond(CYCLES, () => world.cycle(CYCLES));
    shallowest ??= rate;
    const memory = Number.isNaN(bytes) ? "-" : bytes.toFixed(0);
    console.log(
      `${pad(depth, 10)} ${pad(Math.round(rate), 10)}   ${(rate / shallowest).toFixed(2).padStart(10)} (limit 0.60)   ${memory.padStart(10)} (limit 1024)`,
    );
  }
}

function measurePreemption(): void {
  console.log("\none preemption decision among running allocations");
  console.log("   running   p50 µs   p99 µs");
  const p50s: number[] = [];
  for (const running of [1_000, 10_000, 100_000]) {
    const world = createBenchWorld({ discipline: "priority", pools: 1, lines: 10, walltimes: "random" });
    const times = world.preempt(running, 4_000).sort((a, b) => a - b);
    const at = (share: number) => times[Math.floor(times.length * share)] as number;
    p50s.push(at(0.5));
    console.log(`${pad(running, 10)} ${at(0.5).toFixed(1).padStart(8)} ${at(0.99).toFixed(1).padStart(8)}`);
  }
  console.log(
    `growth from 1 000 to 100 000 running: × ${((p50s[2] as number) / (p50s[0] as number)).toFixed(1)}`,
  );
}

/** The same workload under another discipline: 100 000 waiting (10 000 operations for fair share), 10 000 running. */
function compareDisciplines(other: DisciplineName): void {
  const waiting = other === "fair_share" ? 10_000 : 100_000;
  const rateOf = (each: DisciplineName) => {
    const world = createBenchWorld({
      discipline: each,
      pools: POOLS,
      lines: LINES,
      walltimes: "random",
      runsPerPool: 100,
    });
    world.fill(waiting);
    world.cycle(CYCLES / 8);
    return perSecond(CYCLES / 2, () => world.cycle(CYCLES / 2));
  };
  const peer = rateOf("priority");
  const rate = rateOf(other);
  console.log(`${waiting} waiting, ${POOLS * 100} running`);
  console.log(`priority    ${pad(Math.round(peer), 8)} decisions/s`);
  console.log(
    `${other.padEnd(11)} ${pad(Math.round(rate), 8)} decisions/s   ratio ${(rate / peer).toFixed(2)}${other === "class" ? " (limit 0.50)" : ""}`,
  );
}

/** By processor time, so that a busy machine does not distort the figure. */
function perSecond(count: number, work: () => void): number {
  const before = cpuMs();
  work();
  return (count / (cpuMs() - before)) * 1_000;
}

function heapBytes(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

function pad(value: number, width: number): string {
  return String(value).padStart(width);
}
