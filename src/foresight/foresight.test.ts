import { EventEmitter } from "node:events";
import type { Worker } from "node:worker_threads";
import { expect, onTestFinished, test, vi } from "vitest";
import { createPool, createRig, pool, type Rig, request, submit } from "../../test/simulation/rig.ts";
import { createState, decide } from "../engine/index.ts";
import { stateHash } from "../leader/index.ts";
import type { Store } from "../store/index.ts";
import { createBudget } from "./budget.ts";
import { type Foresight, startForesight } from "./foresight.ts";
import type { FromThread, ToThread } from "./messages.ts";
import { planOf as planOnFork } from "./plan.ts";
import { startWorker } from "./worker.ts";

const silentLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function foresee(rig: Rig, run: (foresight: Foresight) => Promise<void>): Promise<void> {
  const foresight = startForesight({ leader: rig.leader, store: rig.store, log: silentLog });
  try {
    await run(foresight);
  } finally {
    await foresight.close();
  }
}

/** Two ask for the only GPU. */
async function contended(): Promise<Rig> {
  const rig = await createRig();
  await createPool(rig, { gpu: 1 });
  await rig.do(submit("a"));
  await rig.do(submit("b"));
  return rig;
}

const more = (gpu: number) => ({ kind: "updatePool", name: pool("main"), capacity: { gpu } }) as const;
const planOf = (gpu: number) => ({ kind: "plan", steps: [{ commands: [more(gpu)] }] }) as const;

test("a plan gives the events of the change, and changes nothing (X3)", async () => {
  const rig = await contended();
  const before = await rig.leader.read(({ state }) => stateHash(state));
  await foresee(rig, async (foresight) => {
    const plan = await foresight.ask(planOf(2));
    expect(plan).toMatchObject({ outcome: "planned", atSeq: rig.leader.seq() });
    const planned = plan.outcome === "planned" ? plan.events.flat() : [];
    expect(planned.map(({ kind }) => kind)).toEqual(["poolSet", "requestAllocated"]);
    expect(await foresight.ask(planOf(2))).toEqual(plan);
    expect(await rig.leader.read(({ state }) => stateHash(state))).toBe(before);

    const done = await rig.do(more(2));
    expect(done.outcome === "accepted" && done.events).toEqual(planned);
  });
});

test("a question sees everything that was committed before it, and steps see those before them", async () => {
  const rig = await contended();
  await foresee(rig, async (foresight) => {
    await foresight.ask(planOf(2));
    for (const id of ["c", "d", "e"]) {
      await rig.do(submit(id));
      const { facts, atSeq } = await foresight.ask({
        ...{ kind: "explain", requestId: request(id), suggestions: false, pools: null },
      });
      expect(atSeq).toBe(rig.leader.seq());
      expect(facts?.status).toBe("queued");
    }
    const both = await foresight.ask({
      ...{ kind: "plan", steps: [{ commands: [more(2)] }, { commands: [more(3)] }] },
    });
    expect(both.outcome === "planned" && both.events.map((events) => events.length)).toEqual([2, 2]);
  });
});

test("a step that is refused is named", async () => {
  await foresee(await contended(), async (foresight) => {
    const plan = await foresight.ask({
      kind: "plan",
      steps: [{ commands: [more(2)] }, { commands: [{ ...more(2), name: pool("other") }] }],
    });
    expect(plan).toMatchObject({ outcome: "refused", step: 1, refusal: { code: "not_found" } });
  });
});

test("a plan that costs too much is given up, and says in which step: plan_too_large (X7)", () => {
  const state = createState();
  decide(state, { kind: "createPool", name: pool("main"), capacity: { gpu: 1 } }, 0);
  const question = { kind: "plan", steps: [2, 3, 4].map((gpu) => ({ commands: [more(gpu)] })) } as const;
  const bounded = (decisions: number) =>
    planOnFork(state, question, 0, createBudget({ cpuMs: Number.POSITIVE_INFINITY, decisions }));
  const before = stateHash(state);
  expect(bounded(1)).toEqual({ outcome: "too_large", atSeq: state.seq, step: 1, steps: 3 });
  expect(bounded(3)).toMatchObject({ outcome: "planned" });
  const noTime = createBudget({ cpuMs: 0, decisions: 100 });
  expect.soft(stateHash(state)).toBe(before);
  while (!noTime.isTimeUp());
  expect(planOnFork(state, question, 0, noTime)).toMatchObject({ outcome: "too_large", step: 0 });
});

test("the replica begins with the newest snapshot", async () => {
  const rig = await contended();
  await rig.leader.close(); // Saves a snapshot.
  const again = await createRig({ store: rig.store });
  await foresee(again, async (foresight) => {
    const { facts } = await foresight.ask({
      ...{ kind: "explain", requestId: request("b"), suggestions: true, pools: null },
    });
    expect(facts?.pools[0]).toMatchObject({ pool: "main", position: 1 });
  });
});

test("without a thread the server goes on, and says that it cannot foresee (X4)", async () => {
  const rig = await contended();
  const start = () => {
    throw new Error("no memory");
  };
  const foresight = startForesight({ leader: rig.leader, store: rig.store, log: silentLog, start });
  foresight.warmUp();
  await expect(foresight.ask(planOf(2))).rejects.toMatchObject({ code: "foresight_unavailable" });
  await foresight.close();
});

test("a question that the thread cannot answer fails alone", async () => {
  await foresee(await contended(), async (foresight) => {
    const senseless = { kind: "plan", steps: [{ commands: [] }] } as const;
    await expect(foresight.ask(senseless)).rejects.toMatchObject({ code: "foresight_unavailable" });
    expect(await foresight.ask(planOf(2))).toMatchObject({ outcome: "planned" });
  });
});

test("a thread that dies fails the questions on their way, and another takes its place (X7)", async () => {
  const rig = await contended();
  const started: Worker[] = [];
  const start = () => {
    const worker = startWorker();
    started.push(worker);
    return worker;
  };
  const foresight = startForesight({ leader: rig.leader, store: rig.store, log: silentLog, start });
  await foresight.ask(planOf(2));
  const asked = expect(foresight.ask(planOf(2))).rejects.toMatchObject({ code: "foresight_unavailable" });
  await started[0]?.terminate();
  await asked;
  await expect
    .poll(() => foresight.ask(planOf(2)).catch(() => undefined))
    .toMatchObject({ outcome: "planned" });
  expect(started).toHaveLength(2);
  await foresight.close();
});

/** A thread that follows as far as it is let, and answers no question. */
class SlowThread extends EventEmitter {
  follows = true;
  asked = 0;

  postMessage(message: ToThread): void {
    if (message.kind === "ask") this.asked++;
    if (!this.follows || (message.kind !== "snapshot" && message.kind !== "events")) return;
    const seq = message.kind === "snapshot" ? message.seq : (message.events.at(-1)?.seq ?? 0);
    const position: FromThread = { kind: "at", seq, bytes: 1 };
    setImmediate(() => this.emit("message", position));
  }

  unref(): void {}

  async terminate(): Promise<number> {
    return 0;
  }
}

function slowly(
  rig: Rig,
  store: Pick<Store, "latestSnapshot"> = rig.store,
): { thread: SlowThread; foresight: Foresight } {
  const thread = new SlowThread();
  const start = () => thread as unknown as Worker;
  const foresight = startForesight({ leader: rig.leader, store, log: silentLog, start });
  onTestFinished(() => foresight.close());
  return { thread, foresight };
}

test("each token has one plan at a time, and 8 wait; a plan more is refused: foresight_busy (X7)", async () => {
  const { thread, foresight } = slowly(await contended());
  const left = Array.from({ length: 9 }, () => foresight.ask(planOf(2), "ann"));
  const ends = Promise.all(
    left.map((plan) => expect(plan).rejects.toMatchObject({ code: "foresight_unavailable" })),
  );
  await expect.poll(() => thread.asked).toBe(1);
  await expect(foresight.ask(planOf(2), "ann")).rejects.toMatchObject({ code: "foresight_busy" });
  const others = expect(foresight.ask(planOf(2), "ben")).rejects.toMatchObject({
    code: "foresight_unavailable",
  });
  await expect.poll(() => thread.asked).toBe(2);
  await foresight.close();
  await Promise.all([ends, others]);
});

test("a thread that is more than 5 s behind is not asked (X4)", async () => {
  const rig = await contended();
  const { thread, foresight } = slowly(rig);
  foresight.warmUp();
  await expect.poll(() => foresight.status().seq).toBe(rig.leader.seq());
  thread.follows = false;
  await rig.do(submit("c"));
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const asked = expect(foresight.ask(planOf(2))).rejects.toMatchObject({ code: "foresight_unavailable" });
  await vi.advanceTimersByTimeAsync(5_000);
  await asked;
  expect(thread.asked).toBe(0);
});

test("a thread that does not answer within 10 s is not waited for (X4)", async () => {
  const rig = await contended();
  const { thread, foresight } = slowly(rig);
  foresight.warmUp();
  await expect.poll(() => foresight.status().seq).toBe(rig.leader.seq());
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const asked = expect(foresight.ask(planOf(2))).rejects.toMatchObject({ code: "foresight_unavailable" });
  await vi.advanceTimersByTimeAsync(10_000);
  await asked;
  expect(thread.asked).toBe(1);
});

test("a thread whose leader has ended gets no snapshot again", async () => {
  const rig = await contended();
  const latestSnapshot = vi.fn<Store["latestSnapshot"]>(() => rig.store.latestSnapshot());
  const { foresight } = slowly(rig, { latestSnapshot });
  foresight.warmUp();
  await expect.poll(() => foresight.status().seq).toBe(rig.leader.seq());
  latestSnapshot.mockReturnValue(new Promise(() => undefined)); // Asked for without end, it would leave no time for anything else.
  await rig.leader.close();
  await new Promise((resolve) => setImmediate(resolve));
  expect(latestSnapshot).toHaveBeenCalledTimes(1);
});
