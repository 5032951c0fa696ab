// The stories of `berth demo`.

import { QUICK, type Stage } from "./stage.ts";

/** Two teams share four GPUs: borrowing, a queue, a reclaim with a graceful stop, and the reasons. */
export async function borrowing({ client, say, start, why, ended, happened, pause }: Stage): Promise<void> {
  say("A pool of 4 GPUs. Two teams, vision and nlp, have 2 of them reserved each.");
  await client.pools.create({ name: "lab", capacity: { gpu: 4 }, settings: QUICK });
  for (const component of ["vision", "nlp"]) {
    await client.policies.attach("lab", { component, priority: 1, reserved: { gpu: 2 } });
  }

  say("vision is away. nlp runs one job on its own GPUs, and another on vision's idle ones: it borrows.");
  const job = { component: "nlp", resources: { gpu: 2 }, checkpoint: "auto" } as const;
  await start({ ...job, name: "pretrain", seconds: 16, savingSeconds: 1 });
  await start({ ...job, name: "captions", seconds: 10, savingSeconds: 1.5 });
  await pause(2);

  say("A third job of nlp finds nothing free. It waits, and anybody may ask why.");
  await start({ ...job, name: "tune", seconds: 2, savingSeconds: 1 });
  await pause(1);
  await why("tune");
  await pause(2);

  say(
    "vision is back and asks for its 2 GPUs. They are its own, so what borrows them has to go: not killed, but\nasked to save first. The units are promised to vision from this moment on.",
  );
  await start({ name: "retrain", component: "vision", resources: { gpu: 2 }, seconds: 3 });
  await happened("captions", "request.preempting");
  await why("retrain");
  await happened("retrain", "request.allocated");

  say(
    "captions keeps its place in line: when vision is done it goes on from where it had saved, before tune.",
  );
  await ended("retrain");
  await Promise.all(["captions", "pretrain", "tune"].map(ended));
}

/** An urgent run of class 8 arrives; two trainings of class 2 save, stop, come back and resume, the cheaper first. */
export async function urgent({ client, say, start, ended, happened, pause, why }: Stage): Promise<void> {
  say(
    "Another pool of 4 GPUs, in discipline class: work has a class from 0 to 10, and stopping it has a cost.\nTwo trainings of class 2 use it all. Saving takes one of them a minute, and the other ten.",
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
  await start({ ...training, name: "big-model", checkpoint_seconds: 600, seconds: 7, savingSeconds: 2 });
  await start({ ...training, name: "small-model", checkpoint_seconds: 60, seconds: 6, savingSeconds: 1 });
  await pause(2);

  say("An incident: a run of class 8 needs all 4 GPUs now.");
  const hotfix = { component: "incident", resources: { gpu: 4 }, preemption_class: 8 };
  await start({ ...hotfix, name: "hotfix", seconds: 3 });
  await happened("hotfix", "request.allocated");
  await tellCosts(client, say);

  say(
    "Meanwhile an evaluation of class 5 asks for 2 GPUs. It comes before the trainings, and only one of them\nwill find room beside it: the one that is cheaper to stop again.",
  );
  await start({ ...training, name: "evaluation", preemption_class: 5, seconds: 2, savingSeconds: 1 });
  await pause(0.5);
  await why("big-model");
  await ended("hotfix");
  await Promise.all(["evaluation", "small-model", "big-model"].map(ended));
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
    const name = items.find(({ id }) => id === requestId)?.name ?? "somebody";
    return `${name} costs ${minutes(cost)} minutes`;
  });
  say(`The decision, in its own numbers: ${victims.join(", ")}; hotfix is worth ${minutes(decision.value)}.`);
}

interface DecisionFacts {
  readonly victims?: readonly { readonly requestId: string; readonly cost?: number }[];
  readonly value?: number;
}
