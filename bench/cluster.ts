// What decisions cost in one pool of a real cluster's size, and how that grows with the cluster. Processor time, or the
// clock where that says less, so that a busy machine distorts little; the limits are meant for a quiet one.
// `npm run bench:cluster -- [--discipline priority,class,fair_share] [--k 0.02,0.06,0.2,1]`: the limits are those of k = 1,
// and what does not reach it is judged by them all the same. Ends with 1 if a limit is missed. `--world class:1 --above 50` runs
// one world and tells of every slice that takes longer.

import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import type { DisciplineName } from "../src/engine/index.ts";
import { type ClusterWorld, createClusterWorld, type Slice } from "./cluster-world.ts";
import { cpuMs } from "./processor-time.ts";

/** In milliseconds of processor time; fair_share may take four times as long. */
const LIMITS = { submitP50: 0.2, submitP99: 5, releaseP99: 20, slice: 50, buildS: 180, memoryMb: 600 };
const EXPONENT_MAX = { priority: 0.3, class: 0.3, fair_share: 0.6 };
const SUBMITS = 2_000;
const RELEASES = 1_000;

interface Figures {
  readonly k: number;
  readonly running: number;
  readonly waiting: number;
  readonly buildS: number;
  readonly hourS: number;
  readonly submitP50: number;
  readonly submitP99: number;
  readonly releaseP50: number;
  readonly releaseP99: number;
  readonly stopP99: number;
  readonly slice: number;
  readonly memoryMb: number;
}

const { values } = parseArgs({
  options: {
    discipline: { type: "string", default: "priority,class,fair_share" },
    k: { type: "string", default: "0.02,0.06,0.2,1" },
    /** One world, figures as JSON: every world gets a process of its own, so that none pays for another's memory. */
    world: { type: "string" },
    /** With --world: tells of every slice that takes longer than so many milliseconds. */
    above: { type: "string", default: "Infinity" },
  },
});

if (values.world !== undefined) {
  const [discipline, k] = values.world.split(":") as [DisciplineName, string];
  console.log(JSON.stringify(measure(discipline, Number(k), Number(values.above))));
} else {
  const isWithinLimits = values.discipline
    .split(",")
    .map((discipline) => report(discipline as DisciplineName, values.k.split(",").map(Number)));
  process.exitCode = isWithinLimits.every(Boolean) ? 0 : 1;
}

function measure(discipline: DisciplineName, k: number, aboveMs: number): Figures {
  const onSlice = (slice: Slice) => {
    if (slice.tookMs > aboveMs) console.error(tell(slice));
  };
  const world = createClusterWorld({ discipline, k, onSlice });
  const startedMs = cpuMs();
  world.registerNodes();
  world.attachPolicies();
  world.fill();
  world.queue();
  const buildS = (cpuMs() - startedMs) / 1_000;
  const { running, waiting } = world.counts();
  globalThis.gc?.();
  const memoryMb = Math.round(process.memoryUsage().heapUsed / 1e6);
  world.submit(SUBMITS);
  world.release(RELEASES);
  const hourMs = cpuMs();
  world.passAnHour();
  const hourS = (cpuMs() - hourMs) / 1_000;
  return {
    k,
    running,
    waiting,
    buildS,
    hourS,
    submitP50: quantile(world, "submit", 0.5),
    submitP99: quantile(world, "submit", 0.99),
    releaseP50: quantile(world, "release", 0.5),
    releaseP99: quantile(world, "release", 0.99),
    stopP99: quantile(world, "stop", 0.99),
    slice: world.longestSliceMs(),
    memoryMb,
  };
}

function tell({ step, command, events, tookMs }: Slice): string {
  const counts = new Map<string, number>();
  for (const { kind } of events) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const what = [...counts].map(([kind, count]) => `${count} ${kind}`).join(", ");
  return `${tookMs.toFixed(1)} ms: ${command.kind} of step "${step}": ${what}`;
}

function quantile({ timings }: ClusterWorld, step: string, share: number): number {
  const sorted = [...(timings.get(step) ?? [])].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function report(discipline: DisciplineName, scales: readonly number[]): boolean {
  console.log(`\n${discipline}: milliseconds of processor time unless a unit is given`);
  console.log(
    row([
      "k",
      "running",
      "waiting",
      "build",
      "hour",
      "submit p50",
      "p99",
      "release p50",
      "p99",
      "stop p99",
      "slice",
      "memory",
    ]),
  );
  const all = scales.map((k) => {
    const figures = inProcess(discipline, k);
    console.log(describe(figures));
    return figures;
  });
  const factor = discipline === "fair_share" ? 4 : 1;
  const largest = all.at(-1) as Figures;
  const limits: readonly [string, number, number][] = [
    ["build s", largest.buildS, LIMITS.buildS * factor],
    ["submit p50", largest.submitP50, LIMITS.submitP50 * factor],
    ["submit p99", largest.submitP99, LIMITS.submitP99 * factor],
    ["release p99", largest.releaseP99, LIMITS.releaseP99 * factor],
    ["longest slice", largest.slice, LIMITS.slice * factor],
    ["memory MB", largest.memoryMb, LIMITS.memoryMb],
    ...(["submitP50", "submitP99", "releaseP50", "releaseP99"] as const).map(
      (of): [string, number, number] => [`exponent of ${of}`, exponent(all, of), EXPONENT_MAX[discipline]],
    ),
  ];
  for (const [what, value, limit] of limits) {
    const verdict = value <= limit ? "within" : "ABOVE";
    console.log(`  ${what.padEnd(26)} ${value.toFixed(2).padStart(9)}   limit ${limit}   ${verdict}`);
  }
  return limits.every(([, value, limit]) => value <= limit);
}

function inProcess(discipline: DisciplineName, k: number): Figures {
  const program = process.argv[1] as string;
  const args = ["--expose-gc", "--max-old-space-size=6144", program, "--world", `${discipline}:${k}`];
  const { stdout, status } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) throw new Error(`the world of scale ${k} ended with ${status}`);
  return JSON.parse(stdout) as Figures;
}

/** The slope of a line through the logarithms: what doubles when the cluster doubles has the exponent 1. */
function exponent(
  all: readonly Figures[],
  of: "submitP50" | "submitP99" | "releaseP50" | "releaseP99",
): number {
  if (all.length < 2) return 0;
  const points = all.map((figures) => [Math.log(figures.k), Math.log(figures[of])] as const);
  const mean = (at: 0 | 1) => points.reduce((sum, point) => sum + point[at], 0) / points.length;
  const [meanX, meanY] = [mean(0), mean(1)];
  const above = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  const below = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
  return above / below;
}

function describe(figures: Figures): string {
  const ms = (value: number) => value.toFixed(2);
  const s = (value: number) => `${value.toFixed(1)} s`;
  return row([
    String(figures.k),
    String(figures.running),
    String(figures.waiting),
    s(figures.buildS),
    s(figures.hourS),
    ms(figures.submitP50),
    ms(figures.submitP99),
    ms(figures.releaseP50),
    ms(figures.releaseP99),
    ms(figures.stopP99),
    ms(figures.slice),
    `${figures.memoryMb} MB`,
  ]);
}

function row(cells: readonly string[]): string {
  return cells.map((cell) => cell.padStart(11)).join(" ");
}
