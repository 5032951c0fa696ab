// One proof: a scene, a load, rounds of faults, and the verdict.

import { loadavg } from "node:os";
import type { Programs } from "./build.ts";
import { createStrikes, type Round } from "./faults.ts";
import { judge, type Verdict } from "./judge.ts";
import { FULL_LOAD, type LoadOptions, startLoad } from "./load.ts";
import { openScene } from "./scene.ts";
import type { StoreKind } from "./servers.ts";

export interface Proof {
  readonly verdict: Verdict;
  readonly rounds: readonly Round[];
  readonly seconds: number;
  /** How machines were made. */
  readonly kind: string;
}

export async function prove(options: {
  readonly programs: Programs;
  readonly store: StoreKind;
  readonly directory: string;
  readonly rounds: readonly Round[];
  readonly random: () => number;
  readonly namespaces: boolean;
  readonly load?: LoadOptions | undefined;
  readonly onRound: (text: string) => void;
}): Promise<Proof> {
  const { rounds, random, onRound } = options;
  const beganMs = performance.now();
  const scene = await openScene(options);
  const load = startLoad(scene, random, options.load ?? FULL_LOAD);
  const strikes = createStrikes(scene, load, random);
  const done: Round[] = [];
  const others: string[] = [];
  try {
    const note = (error: Error) => void others.push(error.message); // The judge tells the rest.
    const run = async () => {
      for (const round of rounds) {
        const startMs = performance.now();
        await strikes.strike(round);
        done.push(round);
        const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
        onRound(
          `${done.length}/${rounds.length} ${round.fault}${round.isLong ? " for long" : ""} at a ${round.moment}: ${seconds} s, load ${loadavg()[0]?.toFixed(1)}`,
        );
      }
    };
    await run().catch(note);
    await load.finish().catch(note);
    others.push(...scene.servers.surprises());
    const { api, evidence } = scene;
    const { jobs, survivors, followed } = load;
    const verdict = await judge({ api, jobs, evidence, struck: strikes, survivors, followed, others });
    const kind = scene.hasCables ? "machines in namespaces" : "machines behind proxies";
    return { verdict, rounds: done, seconds: (performance.now() - beganMs) / 1000, kind };
  } finally {
    load.stop();
    await scene.close();
  }
}
