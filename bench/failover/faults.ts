// What happens to a cluster under proof, one fault at a time: each waits for a sound cluster, breaks something, measures
// until writes are accepted again, and mends it.

import { setTimeout as delay } from "node:timers/promises";
import type { TcpProxy } from "../../test/support/proxy.ts";
import type { Caller, Witness } from "./calls.ts";
import type { Cluster, Replica } from "./cluster.ts";
import type { Load } from "./load.ts";

export interface Scene {
  readonly cluster: Cluster;
  readonly call: Caller;
  readonly load: Load;
  readonly witness: Witness;
  readonly random: () => number;
}

export interface Outcome {
  /** From the fault until a write was acknowledged by the next leader, or, where none is due, by every server. */
  readonly recoveredMs: number;
  readonly problems: readonly string[];
}

/** How a path breaks. */
export const CUTS = ["answers lost", "silent", "reset", "nothing arrives", "no answers"] as const;
export type Cut = (typeof CUTS)[number];

const PATIENCE_MS = 120_000;
/** For a look at a server that should be well. */
const LOOK_MS = 5_000;
const PROBE_EVERY_MS = 50;
/** How long servers stay cut off from each other. */
const PEER_CUT_MS = 4_000;
/** A frozen or cut server misses at least this much, and at most twice as much, before it comes back. */
const ABSENCE_MS_MIN = 1_000;
/** With fewer writes than this during a cut between servers, clients were cut off, too. */
const WRITES_MIN = 5;

export async function kill(scene: Scene): Promise<Outcome> {
  const { leader, epoch } = await sound(scene);
  const faultMs = performance.now();
  await leader.end("SIGKILL");
  const recoveredMs = await untilNextLeader(scene, { epoch, except: leader, faultMs });
  await leader.start();
  return { recoveredMs, problems: [] };
}

export async function freeze(scene: Scene): Promise<Outcome> {
  const { leader, epoch } = await sound(scene);
  const faultMs = performance.now();
  leader.freeze();
  try {
    const recoveredMs = await untilNextLeader(scene, { epoch, except: leader, faultMs });
    await delay((1 + scene.random()) * ABSENCE_MS_MIN);
    return { recoveredMs, problems: [] };
  } finally {
    leader.thaw();
  }
}

export async function cutDatabase(scene: Scene, how: Cut): Promise<Outcome> {
  const { leader, epoch } = await sound(scene);
  const faultMs = performance.now();
  cut(leader.toDatabase, how);
  try {
    const recoveredMs = await untilNextLeader(scene, { epoch, except: leader, faultMs });
    await delay((1 + scene.random()) * ABSENCE_MS_MIN);
    return { recoveredMs, problems: [] };
  } finally {
    mend(leader.toDatabase, how);
  }
}

/** Nobody loses the lead over this: clients go on at the leader, and soon everywhere. */
export async function cutPeers(scene: Scene, how: Cut): Promise<Outcome> {
  const { leader, epoch } = await sound(scene);
  const before = scene.load.acknowledged();
  cut(leader.fromPeers, how);
  await delay(PEER_CUT_MS);
  mend(leader.fromPeers, how);
  const healedMs = performance.now();
  const writes = scene.load.acknowledged() - before;
  for (const replica of scene.cluster.replicas) await untilWritten(scene, replica);
  const recoveredMs = performance.now() - healedMs;
  const after = await sound(scene);
  const problems = [
    ...(after.epoch === epoch ? [] : [`the lead changed ${after.epoch - epoch} times without need`]),
    ...(writes >= WRITES_MIN ? [] : [`only ${writes} writes were accepted in ${PEER_CUT_MS} ms`]),
  ];
  return { recoveredMs, problems };
}

export async function handOver(scene: Scene): Promise<Outcome> {
  const { leader, epoch } = await sound(scene);
  const faultMs = performance.now();
  const asked = scene.call(leader, "POST", "/v1/cluster/handover");
  const recoveredMs = await untilNextLeader(scene, { epoch, faultMs });
  const { status } = await asked;
  return { recoveredMs, problems: status < 300 ? [] : [`the handover was answered with ${status}`] };
}

function cut(proxy: TcpProxy, how: Cut): void {
  switch (how) {
    case "silent":
      return proxy.silence("both");
    case "no answers":
    case "answers lost":
      return proxy.silence("from");
    case "nothing arrives":
      return proxy.silence("to");
    case "reset":
      return proxy.reset();
  }
}

function mend(proxy: TcpProxy, how: Cut): void {
  if (how === "answers lost") proxy.reset();
  proxy.heal();
}

/** All servers are ready and one leads. */
export async function sound({ cluster, call }: Scene): Promise<{ leader: Replica; epoch: number }> {
  const untilMs = performance.now() + PATIENCE_MS;
  let seen: string[] = [];
  while (performance.now() < untilMs) {
    assertNoneEnded(cluster);
    const found = await Promise.all(
      cluster.replicas.map(async (replica) => {
        const ready = await call(replica, "GET", "/readyz", { timeoutMs: LOOK_MS }).catch(() => undefined);
        const told = await call(replica, "GET", "/v1/cluster", { timeoutMs: LOOK_MS }).catch(() => undefined);
        const isSound = ready?.status === 200 && told?.status === 200;
        return { replica, role: isSound ? String(told.body.role) : "unwell", epoch: told?.epoch ?? 0 };
      }),
    );
    seen = found.map(({ replica, role, epoch }) => `${replica.name} ${role} at epoch ${epoch}`);
    const leading = found.filter(({ role }) => role === "leader");
    const [{ replica: leader, epoch } = { replica: undefined, epoch: 0 }] = leading;
    const agree = found.every((each) => each.role !== "unwell" && each.epoch === epoch);
    if (leader !== undefined && leading.length === 1 && agree) return { leader, epoch };
    await delay(100);
  }
  throw new Error(`The cluster was not sound within ${PATIENCE_MS / 1_000} s: ${seen.join(", ")}.`);
}

/** A server that has ended by itself stays away: the cluster will not be sound again. */
function assertNoneEnded({ replicas }: Cluster): void {
  const [surprise] = replicas.flatMap(({ surprises }) => surprises);
  if (surprise !== undefined) throw new Error(`The proof ends early: ${surprise}.`);
}

/** Writes are sent to the servers all the time; the first that a later leader acknowledges ends it. */
async function untilNextLeader(
  { cluster, load }: Scene,
  { epoch, except, faultMs }: { readonly epoch: number; readonly except?: Replica; readonly faultMs: number },
): Promise<number> {
  const asked = cluster.replicas.filter((replica) => replica !== except);
  return new Promise((resolve, reject) => {
    let isOver = false;
    const probe = async (replica: Replica) => {
      const answer = await load.submitAt(replica, 10_000).catch(() => undefined);
      if (answer === undefined || answer.status >= 300 || answer.epoch <= epoch || isOver) return;
      isOver = true;
      clearInterval(timer);
      resolve(answer.receivedMs - faultMs);
    };
    let turn = 0;
    const timer = setInterval(() => {
      void probe(asked[turn++ % asked.length]!);
      try {
        assertNoneEnded(cluster);
        if (performance.now() - faultMs < PATIENCE_MS) return;
        throw new Error(`No write was accepted within ${PATIENCE_MS / 1_000} s.`);
      } catch (error) {
        clearInterval(timer);
        reject(error as Error);
      }
    }, PROBE_EVERY_MS);
  });
}

export async function untilWritten({ load, cluster }: Scene, replica: Replica): Promise<void> {
  const untilMs = performance.now() + PATIENCE_MS;
  while (performance.now() < untilMs) {
    assertNoneEnded(cluster);
    const answer = await load.submitAt(replica, 2_000).catch(() => undefined);
    if (answer !== undefined && answer.status < 300) return;
    await delay(PROBE_EVERY_MS);
  }
  throw new Error(`${replica.name} accepted no write within ${PATIENCE_MS / 1_000} s.`);
}
