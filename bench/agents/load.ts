// Jobs for a cluster under proof: always a few more than there is room for, of all kinds, and what the servers say of them.

import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Body, Refused } from "./calls.ts";
import { type Followed, follow } from "./followers.ts";
import { environmentOf, pids, stateOf, within } from "./machines.ts";
import type { Scene } from "./scene.ts";

/** Seconds of the clock that jobs write into their marks. */
export const nowS = () => Number(process.hrtime.bigint()) / 1e9;

export interface LoadedJob {
  readonly id: string;
  readonly kind: string;
  readonly code: number;
  readonly onLost: Wish["onLost"];
  readonly isFollowed: boolean;
  /** What a server said last. */
  latest: Body;
  /** By attempt: when an answer first had its end. */
  readonly heardEnds: Map<number, number>;
}

export interface Load {
  readonly jobs: readonly LoadedJob[];
  /** Processes that ran although their attempt had ended. */
  readonly survivors: readonly string[];
  readonly followed: readonly Followed[];
  submit(wish?: Partial<Wish>): Promise<LoadedJob>;
  cancel(job: LoadedJob): Promise<void>;
  look(job: LoadedJob): Promise<Body>;
  /** Nothing new; what waits or runs on is cancelled, and all have ended. */
  finish(): Promise<void>;
  stop(): void;
}

export interface LoadOptions {
  /** So many that wait or run. */
  readonly live: number;
  /** What all jobs have in common, apart from those that the rounds need. */
  readonly usual: Partial<Wish>;
  /** For jobs that run to end by themselves, before they are cancelled. */
  readonly patienceMs: number;
}

/** A few more than there is room for. */
export const FULL_LOAD: LoadOptions = { live: 9, usual: {}, patienceMs: 20_000 };

export interface Wish {
  readonly kind: "short" | "saver" | "tree" | "deaf" | "loud";
  readonly ms: number;
  readonly gpus: number;
  readonly nodes: number;
  readonly component: string;
  readonly onLost: "suspend" | "kill";
  readonly requeue: "never" | "on_preemption" | "on_failure";
  /** Its output is read while it is written. */
  readonly isFollowed: boolean;
}

const KINDS = ["short", "short", "saver", "saver", "saver", "saver", "tree", "deaf", "loud"] as const;
const POLL_MS = 400;
const END_MS_MAX = 120_000;
const LEFT_MS_MAX = 30_000;
const WORKER = fileURLToPath(new URL("worker.pl", import.meta.url));
const OVER = new Set(["released", "preempted", "failed", "cancelled", "expired", "rejected"]);

export const isOver = ({ latest }: LoadedJob) => OVER.has(latest.status);

/** It is gone, or only its name is left. */
const hasEnded = (pid: number) => ["Z", "X", ""].includes(stateOf(pid));

export function startLoad(scene: Scene, random: () => number, options: LoadOptions): Load {
  const { live, usual, patienceMs } = options;
  const { api, evidence, directory } = scene;
  const jobs: LoadedJob[] = [];
  const survivors: string[] = [];
  const followed: Followed[] = [];
  const stopping = new AbortController();
  let isFeeding = true;

  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;

  function wishFor(given: Partial<Wish>): Wish {
    const kind = given.kind ?? usual.kind ?? pick(KINDS);
    return {
      kind,
      ms: 500 + Math.floor(random() * (kind === "saver" ? 12_000 : 6_000)),
      gpus: 2,
      nodes: random() < 0.1 ? 2 : 1,
      component: "vision",
      onLost: pick(["suspend", "suspend", "kill"] as const),
      // Who saves wants to go on.
      requeue: kind === "saver" ? "on_failure" : pick(["never", "on_preemption", "on_failure"] as const),
      isFollowed: jobs.length % 3 === 0,
      ...usual,
      ...given,
    };
  }

  async function submit(given: Partial<Wish> = {}): Promise<LoadedJob> {
    const { kind, ms, gpus, nodes, component, onLost, requeue, isFollowed } = wishFor(given);
    const code = pick([0, 0, 3, 11, 42]);
    const latest = await api.call("POST", "/v1/jobs", {
      ...{ component, requeue, resources: { gpu: gpus }, name: `${kind} ${jobs.length + 1}` },
      ...(nodes > 1 && { nodes }),
      ...(kind === "saver" && { checkpoint: "auto" }),
      ...(requeue === "on_failure" && { retries: { max: 2 } }),
      run: {
        command: ["perl", WORKER, evidence, kind, String(ms), String(code)],
        directory: join(directory, "scratch"),
        on_lost: onLost,
      },
    });
    const heardEnds = new Map<number, number>();
    const job = { id: latest.id as string, kind, code, onLost, isFollowed, latest, heardEnds };
    jobs.push(job);
    return job;
  }

  async function look(job: LoadedJob): Promise<Body> {
    job.latest = await api.call("GET", `/v1/jobs/${job.id}`);
    const heard = nowS();
    for (const { attempt } of job.latest.attempts)
      if (!job.heardEnds.has(attempt)) job.heardEnds.set(attempt, heard);
    const { attempt, phase } = job.latest;
    const isRead = followed.some((one) => one.id === job.id && one.attempt === attempt);
    if (phase === "running" && !isRead && job.isFollowed)
      followed.push(follow(api, { id: job.id, attempt }, stopping.signal));
    return job.latest;
  }

  async function cancel({ id }: LoadedJob): Promise<void> {
    try {
      await api.call("POST", `/v1/resource-requests/${id}/cancel`, {});
    } catch (error) {
      if (!(error instanceof Refused)) throw error; // It has just ended.
    }
  }

  /** An attempt whose end was in an answer has no process; one that was lost stands still until its node is back. */
  function countSurvivors(): void {
    const ends = new Map(jobs.map((job) => [job.id, job]));
    for (const pid of pids()) {
      const { BERTH_REQUEST: id = "", BERTH_ATTEMPT: attempt = "" } = environmentOf(pid);
      const job = ends.get(id);
      if (job === undefined || !job.heardEnds.has(Number(attempt))) continue;
      const { outcome } = job.latest.attempts.find((one: Body) => one.attempt === Number(attempt));
      if (outcome !== "lost" && !hasEnded(pid))
        survivors.push(`process ${pid} of attempt ${attempt} of ${id}, which had ended as ${outcome}`);
    }
  }

  async function watch(): Promise<void> {
    while (!stopping.signal.aborted) {
      for (const job of jobs.filter((one) => !isOver(one))) await look(job);
      countSurvivors();
      while (isFeeding && jobs.filter((one) => !isOver(one)).length < live) await submit();
      await delay(POLL_MS, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }
  const watching = watch();
  watching.catch(() => undefined);

  return {
    jobs,
    survivors,
    followed,
    submit,
    look,
    cancel,
    async finish() {
      isFeeding = false;
      const isDone = () => jobs.every(isOver);
      await Promise.race([
        within(patienceMs, "jobs to end by themselves", isDone).catch(() => undefined),
        watching,
      ]);
      for (const job of jobs.filter((one) => !isOver(one))) await cancel(job);
      const left = () => jobs.filter((one) => !isOver(one)).map(({ id, latest }) => `${id} ${latest.phase}`);
      await Promise.race([
        within(END_MS_MAX, "all jobs to have ended", isDone).catch((error: Error) => {
          throw new Error(`${error.message} Left: ${left().join(", ")}`);
        }),
        watching,
      ]);
      countSurvivors();
      // Nodes are back, so that nothing of anything is left soon, also of what was lost.
      const ids = new Set(jobs.map(({ id }) => id));
      const rest = () =>
        pids().filter((pid) => ids.has(environmentOf(pid).BERTH_REQUEST ?? "") && !hasEnded(pid));
      await within(LEFT_MS_MAX, "the last processes to end", () => rest().length === 0).catch(() => {
        survivors.push(...rest().map((pid) => `process ${pid}, long after all jobs had ended`));
      });
    },
    stop: () => stopping.abort(),
  };
}
