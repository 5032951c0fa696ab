// The stories of `berth demo`.

import { QUICK, type Stage } from "./stage.ts";

/** Two teams share four GPUs: borrowing, a queue, a reclaim with a graceful stop, and the reasons. */
export async function borrowing(stage: Stage): Promise<void> {
  const { client, say, start, runs, goesOn, isPromised, save, finish, why, pause } = stage;
  say("A pool of 4 GPUs. Two teams, vision and nlp, have 2 of them reserved each.");
  await client.pools.create({ name: "lab", capacity: { gpu: 4 }, settings: QUICK });
  for (const component of ["vision", "nlp"]) {
    await client.policies.attach("lab", { component, priority: 1, reserved: { gpu: 2 } });
  }
  await pause(1);

  say("vision is away. nlp runs one job on its own GPUs, and another on vision's idle ones: it borrows.");
  const job = { component: "nlp", resources: { gpu: 2 }, checkpoint: "auto" } as const;
  for (const name of ["pretrain", "captions"]) {
    await start({ ...job, name });
    await runs(name);
  }
  await pause(2);

  say("A third job of nlp finds nothing free. It waits, and every user may ask why.");
  await start({ ...job, name: "tune" });
  await pause(1);
  await why("tune");
  await pause(3);

  say(
    "vision is back and asks for its 2 GPUs. They are its own, so what borrows them has to go: not killed, but asked to save first. The units are promised to vision from this moment on.",
  );
  await start({ name: "retrain", component: "vision", resources: { gpu: 2 } });
  await isPromised("retrain");
  await why("retrain");
  await pause(2);
  await save("captions");
  await runs("retrain");
  await pause(1);

  say(
    "captions keeps its place in line: when vision is done it goes on from where it had saved, before tune.",
  );
  await pause(2);
  await finish("retrain");
  await goesOn("captions");
  await pause(1);
  await finish("captions");
  await runs("tune");
  await pause(1);
  await finish("tune");
  await finish("pretrain");
  await pause(1);
}

/** An urgent run of class 8 arrives; two trainings of class 2 save, stop, come back and resume, the cheaper first. */
export async function urgent(stage: Stage): Promise<void> {
  const { client, say, start, runs, goesOn, isPromised, save, finish, why, pause } = stage;
  say(
    "Another pool of 4 GPUs, in discipline class: work has a class from 0 to 10, and stopping it has a cost. Two trainings of class 2 use it all. Saving takes one of them a minute, and the other ten.",
  );
  await client.pools.create({ name: "trainers", discipline: "class", capacity: { gpu: 4 }, settings: QUICK });
  for (const component of ["research", "incident"]) {
    await client.policies.attach("trainers", { component, kind: "training" });
  }
  const training = {
    component: "research",
    resources: { gpu: 2 },
    preemption_class: 2,
    checkpoint: "auto",
  } as const;
  for (const [name, checkpoint_seconds] of [
    ["big-model", 600],
    ["small-model", 60],
  ] as const) {
    await start({ ...training, name, checkpoint_seconds });
    await runs(name);
  }
  await pause(2);

  say("An incident: a run of class 8 needs all 4 GPUs now.");
  await start({ name: "hotfix", component: "incident", resources: { gpu: 4 }, preemption_class: 8 });
  await isPromised("hotfix");
  await pause(2);
  await save("small-model");
  await pause(1);
  await save("big-model");
  await runs("hotfix");
  await tellCosts(client, say);
  await pause(2);

  say(
    "Meanwhile an evaluation of class 5 asks for 2 GPUs. It comes before the trainings, and only one of them will find room beside it: the one that is cheaper to stop again.",
  );
  await start({ ...training, name: "evaluation", preemption_class: 5 });
  await why("big-model");
  await pause(3);
  await finish("hotfix");
  await goesOn("small-model");
  await pause(1);
  await finish("evaluation");
  await goesOn("big-model");
  await pause(1);
  await finish("small-model");
  await finish("big-model");
}

/** What the decision was made of, in its own numbers. */
async function tellCosts(client: Stage["client"], say: Stage["say"]): Promise<void> {
  const { items } = await client.requests.list({ limit: 100 });
  const hotfix = items.find(({ name }) => name === "hotfix");
  if (hotfix === undefined) return;
  const { items: decisions } = await client.requests.decisions(hotfix.id);
  const decision = decisions
    .map(({ decision: record }) => (record as { decision: DecisionFacts }).decision)
    .find(({ victims = [] }) => victims.length > 0);
  if (decision === undefined) return;
  const minutes = (hundredths = 0) => (hundredths / 100).toFixed(1);
  const victims = (decision.victims ?? []).map(({ requestId, cost }) => {
    const name = items.find(({ id }) => id === requestId)?.name ?? "another run";
    return `${name} costs ${minutes(cost)} minutes`;
  });
  say(`The decision, in its own numbers: ${victims.join(", ")}; hotfix is worth ${minutes(decision.value)}.`);
}

interface DecisionFacts {
  readonly victims?: readonly { readonly requestId: string; readonly cost?: number }[];
  readonly value?: number;
}
