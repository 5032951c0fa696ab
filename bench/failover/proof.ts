// One run: servers, load and readers are started, faults happen one after the other, all is finished, and judged.

import { setTimeout as delay } from "node:timers/promises";
import { createCaller, createWitness } from "./calls.ts";
import { type ClusterOptions, startCluster } from "./cluster.ts";
import { type Outcome, type Scene, sound } from "./faults.ts";
import { judge, readBooks, type Verdict } from "./judge.ts";
import { preparePools, startLoad } from "./load.ts";
import { judgeLoss, type Loss } from "./loss.ts";
import { type Reader, startReader } from "./streams.ts";

export interface Round {
  readonly kind: string;
  run(scene: Scene): Promise<Outcome>;
}

export interface Measured {
  readonly kind: string;
  readonly recoveredMs: number;
}

export interface Proof {
  readonly measured: readonly Measured[];
  readonly verdict: Verdict;
  readonly seconds: number;
  readonly submissions: number;
  readonly releases: number;
  readonly renewals: number;
  readonly retries: number;
  readonly readings: number;
}

export interface ProofOptions extends ClusterOptions {
  readonly random: () => number;
  readonly rounds: readonly Round[];
  /** Where the judge reads at the end, if not where the servers began. */
  readonly judgeUrl?: () => string;
  /** What the rounds have taken from the history; noted by them. */
  readonly loss?: Loss;
  /** Called after every round. */
  readonly onRound?: (round: Measured, problems: readonly string[]) => void;
}

const WORKERS = 12;
const READERS = 4;
/** What is under way at the end is given this long: units of holders whose release was lost come free by their leases. */
const FINISH_MS = 180_000;
const BROKEN_FINISH_MS = 15_000;
/** The longest rounds wait for a minute, and for a cluster that is sound, some times. */
const ROUND_MS_MAX = 600_000;
const BOOKS_MS_MAX = 120_000;

export async function prove(options: ProofOptions): Promise<Proof> {
  const { random, rounds, databaseUrl, judgeUrl = () => databaseUrl } = options;
  const beganMs = performance.now();
  const cluster = await startCluster(options);
  const witness = createWitness();
  const call = createCaller(cluster.token, witness);
  try {
    await preparePools(call, cluster.replicas[0]!);
    const load = startLoad({ cluster, call, witness, random, workers: WORKERS });
    const readers = Array.from({ length: READERS }, (_, index) =>
      startReader(`reader ${index + 1}`, cluster, random),
    );
    const scene: Scene = { cluster, call, load, witness, random };
    const { measured, problems } = await runAll(rounds, scene, options.onRound);

    const isBroken = measured.length < rounds.length; // Then it would wait in vain.
    const finishMs = isBroken ? BROKEN_FINISH_MS : FINISH_MS;
    await within(finishMs, load.finish(), "the load did not come to its end", problems);
    const books = await orLate(readBooks(judgeUrl()), BOOKS_MS_MAX, "reading the journal");
    await within(finishMs, readTo(readers, books.journal.at(-1)?.seq ?? 0), undefined, problems);
    for (const reader of readers) await reader.stop();
    const { loss } = options;
    const verdict =
      loss === undefined
        ? judge(books, load.history, readers)
        : judgeLoss(books, load.history, readers, loss);
    const { history } = load;
    const surprises = cluster.replicas.flatMap((replica) => replica.surprises);
    return {
      measured,
      verdict: {
        ...verdict,
        problems: {
          ...verdict.problems,
          "stale answers": [...(verdict.problems["stale answers"] ?? []), ...witness.stale],
          "unexpected ends of servers": surprises,
          "other problems": problems,
        },
      },
      seconds: (performance.now() - beganMs) / 1_000,
      submissions: history.submissions.length,
      releases: history.releases.length,
      renewals: history.renewals,
      retries: history.retries,
      readings: readers.reduce((sum, { messages }) => sum + messages.length, 0),
    };
  } finally {
    call.close();
    await cluster.close();
  }
}

async function runAll(rounds: readonly Round[], scene: Scene, onRound: ProofOptions["onRound"]) {
  const measured: Measured[] = [];
  const problems: string[] = [];
  try {
    for (const { kind, run } of rounds) {
      const outcome = await orLate(run(scene), ROUND_MS_MAX, `the round "${kind}"`);
      const round = { kind, recoveredMs: outcome.recoveredMs };
      measured.push(round);
      problems.push(...outcome.problems.map((problem) => `${kind}: ${problem}`));
      onRound?.(round, outcome.problems);
    }
    await sound(scene);
  } catch (error) {
    problems.push((error as Error).message); // The judge tells the rest.
  }
  return { measured, problems };
}

/** Nothing is waited for without end; the error names what did not come. */
async function orLate<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  const over = new AbortController();
  const late = delay(ms, undefined, { signal: over.signal }).then(() => {
    throw new Error(`${what} did not end within ${ms / 1_000} s`);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    over.abort();
    late.catch(() => undefined);
  }
}

async function within(
  ms: number,
  work: Promise<void>,
  problem: string | undefined,
  problems: string[],
): Promise<void> {
  const late = delay(ms, "late" as const, { ref: false });
  if ((await Promise.race([work, late])) === "late" && problem !== undefined) problems.push(problem);
}

/** Each has seen the end of the journal, or as near to it as there are messages. */
async function readTo(readers: readonly Reader[], seq: number): Promise<void> {
  let before = -1;
  for (;;) {
    const seen = readers.reduce((sum, { lastSeq }) => sum + lastSeq, 0);
    if (readers.every(({ lastSeq }) => lastSeq >= seq) || seen === before) return;
    before = seen;
    await delay(5_000);
  }
}
