// Preemption of real processes: notified, saved, stopped, queued, started again.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WireEvent, WirePoolSettings, WireRequest } from "../../src/protocol/index.ts";
import {
  buildBerth,
  eventually,
  named,
  openWorld,
  QUICK,
  type Running,
  startBerth,
  type World,
  written,
} from "./run-support.ts";
import { sleepersOf, temporaryDirectory, uniqueSeconds } from "./runner-support.ts";

let berth = "";
beforeAll(async () => {
  berth = await buildBerth();
});

const trainPy = fileURLToPath(new URL("../../examples/train.py", import.meta.url));

/** Everything that happened to a request, from the beginning, until it ended. */
async function storyOf({ client }: World, { id }: WireRequest): Promise<WireEvent[]> {
  const story: WireEvent[] = [];
  const enough = new AbortController();
  for await (const event of client.events.stream({ request: id }, { after: 0, signal: enough.signal })) {
    if (event.event !== "stream.opened") story.push(event);
    if (
      ["request.released", "request.preempted", "request.failed", "request.cancelled"].includes(event.event)
    )
      break;
  }
  return story;
}

/** Phase by phase; a phase whose deadline was moved appears as often. */
function phasesOf(story: readonly WireEvent[]): unknown[] {
  return story.filter(({ phase }) => phase !== undefined).map(({ phase }) => phase);
}

function deadlinesOf(story: readonly WireEvent[], wanted: string): number[] {
  return story.filter(({ phase }) => phase === wanted).map(({ deadline }) => Date.parse(deadline as string));
}

interface Scene {
  readonly world: World;
  readonly run: Running;
  /** What the job has written. */
  readonly log: () => string;
  readonly logFile: string;
  readonly name: string;
}

/** A job in the whole pool, which says `ready` when it is. */
async function startVictim(
  world: World,
  name: string,
  script: string,
  options: string[] = [],
): Promise<Scene> {
  const logFile = join(temporaryDirectory(), "log");
  const env = { LOG: logFile, BERTH_BIN: `${process.execPath} ${berth}` };
  const prologue = 'say() { echo "$*" >> "$LOG"; }; say "attempt $BERTH_ATTEMPT resume $BERTH_RESUME"\n';
  const args = ["run", "--gpu", "2", "--name", name, ...options, "--", "sh", "-c", prologue + script];
  const run = startBerth(berth, world, args, { env });
  await written(logFile, "ready");
  return { world, run, logFile, log: () => readFileSync(logFile, "utf8"), name };
}

/** A component of higher priority takes everything, as soon as it is free. */
async function preempt({ world }: Scene): Promise<{ release: () => Promise<void> }> {
  const { client } = world;
  const wanted = { component: "urgent", resources: { gpu: 2 }, name: "urgent" };
  const granted = await client.waitForGrant(await client.requests.submit(wanted));
  const { id, token } = granted;
  return {
    release: async () => void (await client.requests.release(id, { token, outcome: "succeeded" })),
  };
}

const worlds: World[] = [];
afterAll(() => Promise.all(worlds.map((world) => world.close())));

async function worldWith(
  settings: WirePoolSettings = {},
  policies?: Parameters<typeof openWorld>[0],
): Promise<World> {
  const world = await openWorld({ settings: { ...QUICK, ...settings }, data: "memory", ...policies });
  worlds.push(world);
  return world;
}

/** Ends well in the second attempt. */
const secondTimeLucky = '[ "$BERTH_ATTEMPT" = 1 ] || exit 0\n';
const forEver = "while :; do sleep 0.05; done";
const untilTold = 'until [ -e "$BERTH_PREEMPT_FILE" ]; do sleep 0.02; done\n';

describe("without a checkpoint", () => {
  test("it is told to end at once, waits again, and starts over", async () => {
    const world = await worldWith();
    const script = `${secondTimeLucky} trap 'say told; exit 1' TERM; say ready; ${forEver}`;
    const scene = await startVictim(world, "plain", script);
    const urgent = await preempt(scene);
    await eventually("it waits again", () => scene.run.stderr().includes("waits again"));
    const queued = await named(world, "plain", "queued");
    expect(queued).toMatchObject({ attempt: 2, preempted_count: 1, resume: false });
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect(scene.log()).toBe("attempt 1 resume 0\nready\ntold\nattempt 2 resume 0\n");
    expect(phasesOf(await storyOf(world, queued))).toEqual(["terminate"]);
    expect(scene.run.stderr()).toMatch(
      /granted {2}#1 plain.*\nstopping #1 plain · priority · must end within \d+ s\n(Terminated\n)?preempted #1 plain · waits again\n/,
    );
  });

  test("a signal between two attempts is not lost: there is no second one", async () => {
    const world = await worldWith();
    for (const name of ["p", "q", "r"]) {
      const scene = await startVictim(world, name, `say ready; ${forEver}`);
      const urgent = await preempt(scene);
      scene.run.kill("SIGTERM"); // The wrapper may be reporting, or wait again already.
      await urgent.release();
      expect((await scene.run.exited).code).toBe(71);
      expect(scene.log()).toBe("attempt 1 resume 0\nready\n");
      expect((await named(world, name)).status).toBe("cancelled");
    }
  });

  test("who borrows gives back when the owner comes", async () => {
    const policies = [
      { component: "research", priority: 1 },
      { component: "urgent", priority: 1, reserved: { gpu: 2 } },
    ];
    const world = await worldWith({}, { policies });
    const scene = await startVictim(world, "borrower", `${secondTimeLucky} say ready; ${forEver}`);
    const urgent = await preempt(scene);
    expect(scene.run.stderr()).toMatch(/stopping #\d+ borrower · reclaim/);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
  });

  test("a tree that ignores SIGTERM is killed after its grace, all of it", async () => {
    const world = await worldWith({ grace_seconds: 0.3 });
    const seconds = uniqueSeconds();
    const script = `${secondTimeLucky} trap '' TERM; setsid sleep ${seconds} & sleep ${seconds} & say ready; ${forEver}`;
    const scene = await startVictim(world, "deaf", script);
    const urgent = await preempt(scene);
    expect(sleepersOf(seconds)).toEqual([]);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect(phasesOf(await storyOf(world, await named(world, "deaf")))).toContain("terminate");
  });

  test("0 after SIGTERM is the stop that was asked for: it waits again", async () => {
    const world = await worldWith();
    const script = `${secondTimeLucky} trap 'exit 0' TERM; say ready; ${forEver}`;
    const scene = await startVictim(world, "polite", script);
    const urgent = await preempt(scene);
    expect(await named(world, "polite", "queued")).toMatchObject({ attempt: 2, preempted_count: 1 });
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect((await named(world, "polite")).status).toBe("released");
  });

  test("work that finishes while it is being stopped, and says so, has finished", async () => {
    const world = await worldWith();
    const script = `trap 'FINISH=1' TERM; say ready; until [ -n "$FINISH" ]; do sleep 0.02; done
      touch "$BERTH_CHECKPOINT_DIR/finished"; exit 0`;
    const scene = await startVictim(world, "finisher", script);
    await preempt(scene);
    expect((await scene.run.exited).code).toBe(0);
    expect(await named(world, "finisher")).toMatchObject({
      status: "released",
      attempt: 1,
      preempted_count: 0,
    });
  });

  test("75 if it may not come back", async () => {
    const world = await worldWith();
    const report = join(temporaryDirectory(), "report.json");
    const options = ["--requeue", "never", "--report", report];
    const scene = await startVictim(world, "once", `say ready; ${forEver}`, options);
    await preempt(scene);
    expect((await scene.run.exited).code).toBe(75);
    expect((await named(world, "once")).status).toBe("preempted");
    expect(JSON.parse(readFileSync(report, "utf8"))).toMatchObject({
      verdict: "preempted",
      exit_code: 75,
      command: { signal: "SIGTERM" },
      request: { attempts: [{ outcome: "preempted", reason: "priority" }] },
    });
  });
});

describe("with a checkpoint", () => {
  test("the guide shows the Python example as it is", () => {
    const guide = fileURLToPath(new URL("../../docs/guide/running-work.md", import.meta.url));
    expect(readFileSync(guide, "utf8")).toContain(`\`\`\`python\n${readFileSync(trainPy, "utf8")}\`\`\``);
  });

  test("the Python example goes on from the epoch that it has saved", async () => {
    const world = await worldWith();
    const logFile = join(temporaryDirectory(), "log");
    // The first attempt has no end of its own, so that it is still there when it is preempted.
    const script = `if [ "$BERTH_ATTEMPT" = 1 ]; then export EPOCHS=1000000
      else export EPOCHS=$(($(cat "$BERTH_CHECKPOINT_DIR/epoch") + 3)); echo resumed >> ${logFile}; fi
      exec python3 ${trainPy} >> ${logFile}`;
    const args = ["run", "--gpu", "2", "--name", "train", "--checkpoint", "auto", "--", "sh", "-c", script];
    const run = startBerth(berth, world, args, { env: { EPOCH_SECONDS: "0.05" } });
    await written(logFile, "epoch 2");
    const urgent = await preempt({ world, run, logFile, log: () => "", name: "train" });
    expect(await named(world, "train", "queued")).toMatchObject({ attempt: 2, resume: true });
    await urgent.release();
    expect((await run.exited).code).toBe(0);
    const [before = "", after = ""] = readFileSync(logFile, "utf8").split("resumed\n");
    const epochs = `${before}${after}`.trimEnd().split("\n");
    expect(epochs).toEqual(epochs.map((_, epoch) => `epoch ${epoch}`));
    expect(after.match(/epoch/g)).toHaveLength(3);
    expect(run.stderr()).toMatch(/granted.*attempt 2, resumes\n/);
  });

  test("done is answered by the stop, and the next attempt resumes", async () => {
    const world = await worldWith();
    const script = `${secondTimeLucky} say ready; ${untilTold} cat "$BERTH_PREEMPT_FILE" >> "$LOG"
      trap 'say stopped; exit 1' TERM; $BERTH_BIN checkpoint done 2>> "$LOG"; ${forEver}`;
    const scene = await startVictim(world, "saver", script, ["--checkpoint", "manual"]);
    const urgent = await preempt(scene);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect(scene.log()).toMatch(
      /^attempt 1 resume 0\nready\n\{"deadline":"[^"]+","reason":"priority"\}\n(.*\n)*stopped\nattempt 2 resume 1\n$/,
    );
    expect(scene.log()).toContain("\nnoted");
    expect(phasesOf(await storyOf(world, await named(world, "saver")))).toEqual(["checkpoint", "terminate"]);
  });

  test("who does not answer in time is ended, and starts over", async () => {
    const world = await worldWith({ checkpoint_timeout_seconds: 0.4 });
    const scene = await startVictim(world, "silent", `${secondTimeLucky} say ready; ${forEver}`, [
      "--checkpoint",
      "auto",
    ]);
    const urgent = await preempt(scene);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect(scene.log()).toBe("attempt 1 resume 0\nready\nattempt 2 resume 0\n");
    expect(phasesOf(await storyOf(world, await named(world, "silent")))).toEqual(["checkpoint", "terminate"]);
  });

  test("progress earns half the time again", async () => {
    const world = await worldWith({ checkpoint_timeout_seconds: 8 });
    const script = `${secondTimeLucky} trap 'say ended; exit 1' TERM; say ready; ${untilTold}
      touch "$BERTH_CHECKPOINT_DIR/progress"; ${forEver}`;
    const scene = await startVictim(world, "slow", script, ["--checkpoint", "auto"]);
    const urgent = await preempt(scene);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    const story = await storyOf(world, await named(world, "slow"));
    const [told = 0, ...moved] = deadlinesOf(story, "checkpoint");
    expect(moved.at(-1)).toBe(told + 4_000);
    expect(scene.log()).toBe("attempt 1 resume 0\nready\nended\nattempt 2 resume 0\n");
  });

  test("a deferral is granted as far as there is some, and the job is told how much", async () => {
    const world = await worldWith({ checkpoint_timeout_seconds: 60, max_deferral_seconds: 7 });
    const script = `${secondTimeLucky} say ready; ${untilTold}
      $BERTH_BIN checkpoint defer 5 2>> "$LOG"; $BERTH_BIN checkpoint defer 1m 2>> "$LOG"
      echo 9 > "$BERTH_CHECKPOINT_DIR/defer"; $BERTH_BIN checkpoint done 2>> "$LOG"; ${forEver}`;
    const scene = await startVictim(world, "later", script, ["--checkpoint", "auto"]);
    const urgent = await preempt(scene);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect(scene.log()).toMatch(/ready\n5 s more\n2 s more\nnoted.*\n(?:.*\n)*attempt 2 resume 1\n$/);
    const [told = 0, ...moved] = deadlinesOf(await storyOf(world, await named(world, "later")), "checkpoint");
    expect(moved).toEqual([told + 5_000, told + 7_000]);
  });

  test("a signal may ask for it", async () => {
    const world = await worldWith();
    const script = `${secondTimeLucky} trap 'say saved; touch "$BERTH_CHECKPOINT_DIR/done"' USR1; say ready; ${forEver}`;
    const scene = await startVictim(world, "signalled", script, ["--checkpoint-signal", "usr1"]);
    const urgent = await preempt(scene);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect(scene.log()).toBe("attempt 1 resume 0\nready\nsaved\nattempt 2 resume 1\n");
  });

  test("a command may make it; what it has saved is there in the next attempt, and gone after a good end", async () => {
    const world = await worldWith();
    const script = `[ "$BERTH_ATTEMPT" = 1 ] || { say "found $(cat "$BERTH_CHECKPOINT_DIR/state")"; say "$BERTH_CHECKPOINT_DIR"; exit 0; }
      say ready; ${forEver}`;
    const save = ["--checkpoint-cmd", 'echo "state of $BERTH_REQUEST" > "$BERTH_CHECKPOINT_DIR/state"'];
    const scene = await startVictim(world, "helped", script, save);
    const urgent = await preempt(scene);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    const { id } = await named(world, "helped");
    const [, , second, found, directory = ""] = scene.log().split("\n");
    expect([second, found]).toEqual(["attempt 2 resume 1", `found state of ${id}`]);
    expect(directory).toContain(id);
    expect(existsSync(directory)).toBe(false);
  });

  test("a checkpoint command that fails saves nothing", async () => {
    const world = await worldWith({ checkpoint_timeout_seconds: 5 }); // Time enough for a command to start and fail.
    const scene = await startVictim(world, "unlucky", `${secondTimeLucky} say ready; ${forEver}`, [
      ...["--checkpoint-cmd", "exit 3"],
    ]);
    const urgent = await preempt(scene);
    await urgent.release();
    expect((await scene.run.exited).code).toBe(0);
    expect(scene.log()).toContain("attempt 2 resume 0");
    expect(scene.run.stderr()).toContain("The checkpoint command ended with 3.");
  });

  const ends: Record<string, { script: string; options: string[] }> = {
    "a crash while it saves": { script: `${untilTold} exit 4`, options: ["--checkpoint", "auto"] },
    "75 without a checkpoint": { script: `${untilTold} exit 75`, options: ["--checkpoint", "auto"] },
    "a checkpoint signal that nothing handles": { script: forEver, options: ["--checkpoint-signal", "USR1"] },
  };
  for (const [what, { script, options }] of Object.entries(ends)) {
    test(`${what} after the notice destroys nothing: it is preempted, and waits again`, async () => {
      const world = await worldWith();
      const scene = await startVictim(world, "told", `${secondTimeLucky} say ready; ${script}`, options);
      const urgent = await preempt(scene);
      expect(await named(world, "told", "queued")).toMatchObject({ attempt: 2, preempted_count: 1 });
      await urgent.release();
      expect((await scene.run.exited).code).toBe(0);
    });
  }

  test("jumps of the wrapper's clock change nothing", async () => {
    const world = await worldWith();
    const jumps = `const now = Date.now; let jumpMs = 0; let turn = 0;
      Date.now = () => now() + jumpMs;
      setInterval(() => { jumpMs = [31536e6, -31536e6, 0][turn++ % 3]; }, 50).unref();`;
    const logFile = join(temporaryDirectory(), "log");
    const script = `[ "$BERTH_ATTEMPT" = 1 ] || exit 0; echo ready >> ${logFile}; ${untilTold} touch "$BERTH_CHECKPOINT_DIR/done"; ${forEver}`;
    const args = ["run", "--gpu", "2", "--name", "jumpy", "--checkpoint", "auto", "--", "sh", "-c", script];
    const run = startBerth(berth, world, args, {
      env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(jumps)}` },
    });
    await written(logFile, "ready");
    const urgent = await preempt({ world, run, logFile, log: () => "", name: "jumpy" });
    await urgent.release();
    expect((await run.exited).code).toBe(0);
    expect(await named(world, "jumpy")).toMatchObject({ status: "released", attempt: 2, resume: true });
  });
});
