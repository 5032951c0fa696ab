// What happens to a cluster under proof: one fault at a time, in the middle of a start, of a stop or of a checkpoint.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isOver, type Load, type LoadedJob, nowS } from "./load.ts";
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
}

/** What the judge must know to tell a lost end from one that nobody could know. */
export interface Struck {
  /** Attempts whose shim was killed, as `request.attempt`. */
  readonly shims: Set<string>;
  /** When machines were reset, in seconds. */
  readonly resets: { readonly node: string; readonly at: number }[];
  /** When nodes could not be heard of, in seconds. */
  readonly absences: { readonly node: string; readonly from: number; readonly to: number }[];
}

export interface Strikes extends Struck {
  strike(round: Round): Promise<void>;
}

const CUTS = ["cable", "silent", "answers lost", "nothing arrives", "reset"] as const;
type Cut = (typeof CUTS)[number];
const MOMENT_MS_MAX = 20_000;
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

  /** A node with a job that has not ended when the node is lost. */
  async function longRunning(): Promise<Node> {
    const wish = { kind: "tree", ms: 45_000, nodes: 1, component: "urgent", requeue: "on_failure" } as const;
    const job = await load.submit(wish);
    await within(MOMENT_MS_MAX, "a long job that runs", () => job.latest.phase === "running");
    return nodeOf(job);
  }

  async function absent(node: Node, during: () => Promise<void>): Promise<void> {
    const from = nowS();
    await during();
    struck.absences.push({ node: node.machine.name, from, to: nowS() });
  }

  async function killAgent(node: Node): Promise<void> {
    await node.machine.killAgent();
    await delay(random() * 2_500);
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

  async function cut({ machine, paths }: Node, isLong: boolean, wanted: Cut | undefined): Promise<void> {
    const how = wanted ?? pick(CUTS.filter((one) => one !== "cable" || scene.hasCables));
    if (how === "cable") machine.pullCable();
    for (const path of paths) {
      if (how === "silent") path.silence("both");
      if (how === "answers lost") path.silence("from");
      if (how === "nothing arrives") path.silence("to");
      if (how === "reset") path.reset();
    }
    await delay(1_000 * (isLong ? LOST_SECONDS + 5 + random() * 3 : 0.3 + random() * 4));
    if (how === "cable") machine.plugIn();
    if (how === "answers lost") for (const path of paths) path.reset();
    for (const path of paths) path.heal();
  }

  async function reset(node: Node): Promise<void> {
    struck.resets.push({ node: node.machine.name, at: nowS() });
    await node.machine.reset();
    await startAgent(node);
  }

  /** Resolves when a server has heard of it. */
  async function startAgent({ machine }: Node): Promise<void> {
    const look = () => scene.api.call("GET", `/v1/nodes/${machine.name}`);
    const { heard_at: before } = await look();
    machine.startAgent();
    await within(60_000, `${machine.name} to be heard of`, async () => {
      const { state, heard_at: heard } = await look();
      return state === "ready" && heard !== null && heard !== before;
    });
  }

  return {
    ...struck,
    async strike({ fault, moment, isLong = false, how }) {
      const node = isLong ? await longRunning() : await bring(moment);
      await delay(random() * AFTER_MS_MAX[moment]);
      switch (fault) {
        case "agent killed":
          return absent(node, () => killAgent(node));
        case "shim killed":
          return killShim(node);
        case "node cut":
          return absent(node, () => cut(node, isLong, how));
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
