// The engine of this checkout and that of another commit, side by side: both are bundled with the same world, live in
// this process, and take turns, so that a change in the machine's mood meets both. Memory is not collected between the
// turns: the compiled code of the one that comes next would be thrown away with it, and half of the time be spent on that.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { type BenchWorld, type BenchWorldOptions, createBenchWorld } from "./engine-world.ts";
import { threadMs } from "./processor-time.ts";

type CreateWorld = typeof createBenchWorld;

const ROUNDS = 12;

/** The world on the engine of another commit. */
export async function worldOf(commit: string): Promise<CreateWorld> {
  const root = execFileSync("git", ["rev-parse", "--show-toplevel"], { encoding: "utf8" }).trim();
  const directory = mkdtempSync(join(tmpdir(), "berth-against-"));
  try {
    const archive = execFileSync("git", ["archive", commit, "src/engine"], { cwd: root, maxBuffer: 2 ** 28 });
    execFileSync("tar", ["-x", "-C", directory], { input: archive });
    cpSync(join(root, "bench", "engine-world.ts"), join(directory, "bench", "engine-world.ts"));
    symlinkSync(join(root, "node_modules"), join(directory, "node_modules"));
    const outfile = join(directory, "world.mjs");
    await build({
      entryPoints: [join(directory, "bench", "engine-world.ts")],
      bundle: true,
      platform: "node",
      format: "esm",
      outfile,
    });
    const bundled = (await import(pathToFileURL(outfile).href)) as { createBenchWorld: CreateWorld };
    return bundled.createBenchWorld;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export interface Comparison {
  /** Cycles per second of the processor time of the thread that decides. */
  readonly ours: number;
  readonly theirs: number;
  /** How many times as many cycles ours makes: the median of the rounds, and the quartiles. */
  readonly ratio: number;
  readonly quartiles: readonly [number, number];
}

export function compare(
  theirs: CreateWorld,
  options: BenchWorldOptions & { readonly waiting: number; readonly cycles: number },
): Comparison {
  const worlds = [createBenchWorld, theirs].map((create) => {
    const world = create(options);
    world.fill(options.waiting);
    world.cycle(options.cycles);
    return world;
  }) as [BenchWorld, BenchWorld];
  const spent = [0, 0];
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const took = [0, 0];
    for (const at of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const before = threadMs();
      (worlds[at] as BenchWorld).cycle(options.cycles);
      took[at] = threadMs() - before;
      spent[at] = (spent[at] as number) + (took[at] as number);
    }
    ratios.push((took[1] as number) / (took[0] as number));
  }
  ratios.sort((a, b) => a - b);
  const at = (share: number) => ratios[Math.floor(ratios.length * share)] as number;
  const rate = (ms: number) => (ROUNDS * options.cycles * 1_000) / ms;
  return {
    ours: rate(spent[0] as number),
    theirs: rate(spent[1] as number),
    ratio: at(0.5),
    quartiles: [at(0.25), at(0.75)],
  };
}
