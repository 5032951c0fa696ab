// Six hours in the life of two pools: reserves, borrowing, a reclaim, a preemption by priority, a queue with several reasons, and
// teams of a share tree that are owed more and less than they have.

import type { Playground } from "./playground.ts";

type Submission = Parameters<Playground["client"]["requests"]["submit"]>[0];

const PATIENT = { lease_seconds: 86_400, renewal_seconds: 3_600 };

export async function furnish({ client }: Playground): Promise<void> {
  await client.pools.create({ name: "local", capacity: { gpu: 8, mcpu: 64_000 }, settings: PATIENT });
  await client.policies.attach("local", {
    component: "carol",
    priority: 5,
    reserved: { gpu: 4 },
    limit: { gpu: 8 },
  });
  await client.policies.attach("local", { component: "alice", priority: 0 });
  await client.policies.attach("local", {
    component: "bob",
    priority: 10,
    reserved: { gpu: 2 },
    limit: { gpu: 4 },
  });
  await client.policies.attach("local", { component: "ops", priority: 1, limit: { gpu: 1 } });
  await client.pools.create({
    name: "training",
    discipline: "fair_share",
    capacity: { gpu: 64 },
    settings: PATIENT,
  });
  await client.groups.create("training", { name: "research", weight: 2 });
  await client.groups.create("training", { name: "product", weight: 1 });
  for (const [component, group] of [
    ["vision", "research"],
    ["speech", "research"],
    ["search", "product"],
    ["ranking", "product"],
  ] as const) {
    await client.policies.attach("training", { component, group, weight: 1 });
  }
}

export async function live(playground: Playground): Promise<void> {
  const { client, pass, passTheRest } = playground;
  const stage = stageOf(playground);
  await stage.submit({ name: "eval-7b", component: "carol", resources: { gpu: 2, mcpu: 8_000 } });
  await stage.submit({ name: "sweep-1", component: "alice", resources: { gpu: 2, mcpu: 8_000 } });
  await stage.submit({ name: "search-large", component: "search", resources: { gpu: 24 } });
  await stage.submit({ name: "rank-nightly", component: "ranking", resources: { gpu: 8 } });
  await pass(35);
  await stage.submit({ name: "sweep-2", component: "alice", resources: { gpu: 2, mcpu: 8_000 } });
  await stage.submit({ name: "captions", component: "vision", resources: { gpu: 16 } });
  await pass(50);
  await stage.finish("eval-7b");
  await stage.submit({
    ...{ name: "sweep-3", component: "alice", resources: { gpu: 2, mcpu: 4_000 }, checkpoint: "auto" },
  });
  await stage.submit({ name: "asr-base", component: "speech", resources: { gpu: 8 } });
  await pass(30);
  await stage.save("sweep-3");
  await pass(15);
  await stage.submit({ name: "llm-base", component: "carol", resources: { gpu: 4, mcpu: 16_000 } });
  await stage.makeRoom();
  await pass(40);
  await stage.finish("rank-nightly");
  await stage.submit({ name: "rank-hourly", component: "ranking", resources: { gpu: 8 } });
  await stage.submit({ name: "sweep-4", component: "alice", resources: { gpu: 1 } });
  await pass(40);
  await stage.finish("llm-base");
  await pass(25);
  await stage.submit({ name: "hotfix", component: "bob", resources: { gpu: 4 } });
  await stage.makeRoom();
  await pass(30);
  await stage.finish("sweep-1", "failed");
  await stage.submit({ name: "llm-large", component: "carol", resources: { gpu: 6 } });
  await stage.submit({ name: "captions-2", component: "vision", resources: { gpu: 24 } });
  await pass(20);
  await stage.submit({ name: "asr-large", component: "speech", resources: { gpu: 16 } });
  for (const name of ["probe-1", "probe-2"])
    await stage.submit({ name, component: "ops", resources: { gpu: 1 } });
  await stage.submit({ name: "sweep-5", component: "alice", resources: { gpu: 2 } });
  await pass(13);
  await stage.submit({ name: "search-fine", component: "search", resources: { gpu: 8 } });
  await stage.submit({ name: "ablation", component: "alice", resources: { gpu: 1 } });
  await passTheRest();
  // A last event at the present time, so that everything is counted up to now.
  await client.pools.update("local", { description: "Room 4" });
}

/** Requests by name, with what is needed to end them. */
function stageOf({ client }: Playground) {
  const tokenOf = async (id: string) => (await client.requests.get(id)).token ?? "";
  const idOf = async (name: string) => {
    for await (const request of client.requests.all({ status: "allocated,preempting" })) {
      if (request.name === name) return request.id;
    }
    return undefined;
  };
  return {
    submit: (submission: Submission) => client.requests.submit(submission),
    async finish(name: string, outcome: "succeeded" | "failed" = "succeeded") {
      const id = await idOf(name);
      if (id !== undefined) await client.requests.release(id, { token: await tokenOf(id), outcome });
    },
    /** A checkpoint is complete. */
    async save(name: string) {
      const id = await idOf(name);
      if (id !== undefined)
        await client.requests.checkpoint(id, { token: await tokenOf(id), report: "done" });
    },
    /** Whoever was asked to stop does. */
    async makeRoom() {
      for await (const { id } of client.requests.all({ status: "preempting" })) {
        await client.requests.release(id, { token: await tokenOf(id), outcome: "stopped" });
      }
    },
  };
}
