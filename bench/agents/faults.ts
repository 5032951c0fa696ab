// What happens to a cluster under proof: one fault at a time, in the middle of a start, of a stop or of a checkpoint.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isOver, type Load, type LoadedJob, nowS, type Wish } from "./load.ts";
import { kill, within } from "./machines.ts";
import { LOST_SECONDS, NODE_GPUS, type Node, type Scene } from "./scene.ts";

export const FAULTS = [
  "agent killed",
  "shim killed",
  "node cut",
  "machine reset",
  "server replaced",
] as const;
export type FaultKind = (typeof FAULTS)[number];
export const MOMENTS = ["start", "stop", "checkpoint"] as const;
export type Moment = (typeof MOMENTS)[number];

export interface Round {
  readonly fault: FaultKind;
  readonly moment: Moment;
  /** Of a cut: beyond the time after which the node counts as lost. */
  readonly isLong?: boolean;
  /** Of a cut; left out: in any way. */
  readonly how?: Cut;
  /** The moment is made certain: such a job has begun on the node that is struck, and a cut that is not long lasts until it has ended. */
  readonly under?: Partial<Wish>;
}

/** What the judge must know to tell a lost end from one that cannot be known. */
export interface Struck {
  /** Attempts whose shim was killed, as `request.attempt`. */
  readonly shims: Set<string>;
  /** When machines were reset, in seconds. */
  readonly resets: { readonly node: string; readonly at: number }[];
  /** When nodes could not sync, in seconds. */
  readonly absences: { readonly node: string; readonly from: number; readonly to: number }[];
}

export interface Strikes extends Struck {
  strike(round: Round): Promise<void>;
}

const CUTS = ["cable", "silent", "answers lost", "nothing arrives", "reset"] as const;
type Cut = (typeof CUTS)[number];
const MOMENT_MS_MAX = 20_000;
const READ_MS_MAX = 5_000;
/** How long an agent is away at most. */
const AWAY_MS_MAX = 2_500;
/** Has not ended when its node is lost. */
const LONG_JOB: Partial<Wish> = { kind: "tree", ms: 45_000, requeue: "on_failure" };
/** An agent has noticed by then what its shim has written down. */
const AGENT_MS = 1_500;
/** How long after its cause a moment is struck, at most. */
const AFTER_MS_MAX = { start: 700, stop: 500, checkpoint: 900 };

export function createStrikes(scene: Scene, load: Load, random: () => number): Strikes {
  const struck: Struck = { shims: new Set(), resets: [], absences: [] };
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const nodeNamed = (name: string | undefined): Node =>
    scene.nodes.find(({ machine }) => machine.name === name) ?? pick(scene.nodes);
  const nodeOf = (job: LoadedJob) =>
    nodeNamed(job.latest.where?.[0]?.node ?? job.latest.placement?.[0]?.node);
  const running = (isWanted: (job: LoadedJob) => boolean = () => true) =>
    load.jobs.filter((job) => !isOver(job) && job.latest.phase === "running" && isWanted(job));

  /** Makes the moment come, and says on which node. */
  async function bring(moment: Moment): Promise<Node> {
    if (moment === "start") return nodeOf(await load.submit({ component: "urgent", nodes: 1 }));
    if (moment === "stop") {
      await within(MOMENT_MS_MAX, "a job that runs", () => running().length > 0);
      const job = pick(running());
      await load.cancel(job);
      return nodeOf(job);
    }
    const isVictim = (job: LoadedJob) => job.kind === "saver" && job.latest.stop === null;
    if (running(isVictim).length === 0) await load.submit({ kind: "saver", ms: 15_000, nodes: 1 });
    await within(MOMENT_MS_MAX, "a job that can save", () => running(isVictim).length > 0);
    const victims = running(isVictim);
    const nodes = random() < 0.5 ? 2 : 1;
    await load.submit({ component: "urgent", gpus: NODE_GPUS, nodes, kind: "short", ms: 1_000 });
    const isAsked = async () => {
      for (const job of victims) if ((await load.look(job)).stop !== null) return true;
      return false;
    };
    await within(3_000, "a preemption", isAsked).catch(() => undefined); // There was room elsewhere.
    return nodeOf(victims.find((job) => job.latest.stop !== null) ?? (victims[0] as LoadedJob));
  }

  const hasBegun = ({ id }: LoadedJob, attempt: number) =>
    readdirSync(scene.evidence).some((name) => name.startsWith(`${id}.${attempt}.`));

  /** Submits it, and waits until it has written its first mark: it runs, whatever servers and agents say. */
  async function begun(wish: Partial<Wish>): Promise<LoadedJob> {
    const job = await load.submit({ ...wish, nodes: 1, component: "urgent", isFollowed: true });
    await within(MOMENT_MS_MAX, "a job that has begun", () => hasBegun(job, 1));
    // And is read, unless a planted fault keeps its agent from reporting it.
    const isRead = () => load.followed.some(({ id, output }) => id === job.id && output.stdout !== "");
    await within(READ_MS_MAX, "a log that is followed", isRead).catch(() => load.look(job));
    return job;
  }

  async function absent(node: Node, during: () => Promise<void>): Promise<void> {
    const from = nowS();
    await during();
    struck.absences.push({ node: node.machine.name, from, to: nowS() });
  }

  async function killAgent(node: Node, awayMs: number): Promise<void> {
    await node.machine.killAgent();
    await delay(awayMs);
    await startAgent(node);
  }

  async function killShim(node: Node): Promise<void> {
    const { shims } = node.machine;
    await within(MOMENT_MS_MAX, "a shim", () =>
      scene.nodes.some(({ machine }) => machine.shims().length > 0),
    );
    const found = shims().length > 0 ? shims() : scene.nodes.flatMap(({ machine }) => machine.shims());
    if (found.length === 0) return;
    const { pid, directory } = pick(found);
    const name = attemptIn(directory);
    if (name !== undefined) struck.shims.add(name);
    kill(pid);
  }

  async function cut(node: Node, wanted: Cut | undefined, during: () => Promise<unknown>): Promise<void> {
    const { machine, paths } = node;
    const how = wanted ?? pick(CUTS.filter((one) => one !== "cable" || scene.hasCables));
    if (how === "cable") machine.pullCable();
    for (const path of paths) {
      if (how === "silent") path.silence("both");
      if (how === "answers lost") path.silence("from");
      if (how === "nothing arrives") path.silence("to");
      if (how === "reset") path.reset();
    }
    await during();
    if (how === "cable") machine.plugIn();
    if (how === "answers lost") for (const path of paths) path.reset();
    for (const path of paths) path.heal();
  }

  /** How long a cut lasts; a long one until what was lost runs elsewhere, if there is room. */
  async function cutTime(isLong: boolean, job: LoadedJob | undefined): Promise<void> {
    if (job === undefined) return delay(1_000 * (0.3 + random() * 4));
    if (isLong) {
      await delay(1_000 * (LOST_SECONDS + 2 + random() * 3));
      return within(MOMENT_MS_MAX, "the next attempt", () => hasBegun(job, 2)).catch(() => undefined);
    }
    const { machine } = nodeOf(job);
    await within(MOMENT_MS_MAX, "an end on a node that is cut off", () => machine.hasEnd(job.id));
    await delay(AGENT_MS);
  }

  async function reset(node: Node): Promise<void> {
    struck.resets.push({ node: node.machine.name, at: nowS() });
    await node.machine.reset();
    await startAgent(node);
  }

  /** Resolves with its first sync. */
  async function startAgent({ machine }: Node): Promise<void> {
    const look = () => scene.api.call("GET", `/v1/nodes/${machine.name}`);
    const { heard_at: before } = await look();
    machine.startAgent();
    await within(60_000, `a sync of ${machine.name}`, async () => {
      const { state, heard_at: heard } = await look();
      return state === "ready" && heard !== null && heard !== before;
    });
  }

  return {
    ...struck,
    async strike({ fault, moment, isLong = false, how, under = isLong ? LONG_JOB : undefined }) {
      const job = under && (await begun(under));
      const node = job === undefined ? await bring(moment) : nodeOf(job);
      if (job === undefined) await delay(random() * AFTER_MS_MAX[moment]);
      switch (fault) {
        case "agent killed":
          return absent(node, () => killAgent(node, job === undefined ? random() * AWAY_MS_MAX : 0));
        case "shim killed":
          return killShim(node);
        case "node cut":
          await absent(node, () => cut(node, how, () => cutTime(isLong, job)));
          // What was started again shows before it is cancelled.
          if (job !== undefined && !isLong)
            await within(MOMENT_MS_MAX, "its end", () => isOver(job)).catch(() => undefined);
          return;
        case "machine reset":
          return absent(node, () => reset(node));
        case "server replaced":
          return scene.servers.replace(random() < 0.7 ? "SIGKILL" : "SIGTERM");
      }
    },
  };
}

/** Which attempt a shim was started for, from what its agent has written down. */
function attemptIn(directory: string): string | undefined {
  try {
    const order = JSON.parse(readFileSync(join(directory, "order.json"), "utf8"));
    return `${order.requestId}.${order.job.env.BERTH_ATTEMPT}`;
  } catch {
    return undefined; // It has just been archived.
  }
}
