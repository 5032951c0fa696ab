// The server goes away and comes back; or only seems to. Timers are short by the settings of the pool.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { listProcesses, type ProcessRow } from "../../src/runner/processes.ts";
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
import { readOrEmpty, sleepersOf, stateOf, temporaryDirectory, uniqueSeconds } from "./runner-support.ts";

vi.setConfig({ testTimeout: 180_000 }); // Whole leases pass in here, also on a busy machine.

let berth = "";
beforeAll(async () => {
  berth = await buildBerth();
});

let world: World;
afterEach(() => world.close());

/** Short enough to wait for its end, long enough that a busy machine does not miss it. */
const SHORT_LEASE = { ...QUICK, lease_seconds: 10, renewal_seconds: 0.5 };

/** Adds a line to its log every moment, until the gate opens. */
const ticking =
  'echo "pid $$" >> "$LOG"; until [ -e "$GATE" ]; do echo tick >> "$LOG"; sleep 0.05; done; echo end >> "$LOG"';

function startTicking(
  options: string[],
  name: string,
  script = ticking,
): { run: Running; log: string; gate: string } {
  const directory = temporaryDirectory();
  const [log, gate] = [join(directory, "log"), join(directory, "gate")];
  const args = ["run", "--name", name, ...options, "--", "sh", "-c", script];
  return { run: startBerth(berth, world, args, { env: { LOG: log, GATE: gate } }), log, gate };
}

/** The shells that a wrapper has started to watch over its own standstill. */
function watchdogsOf(wrapper: number): number[] {
  const isWatchdog = ({ pid, parentPid }: ProcessRow) =>
    parentPid === wrapper && readOrEmpty(`/proc/${pid}/cmdline`).includes("berth-watchdog");
  return listProcesses()
    .filter(isWatchdog)
    .map(({ pid }) => pid);
}

/** By its control group, or each process by itself. */
function isSuspended(pid: number): boolean {
  const [, mount = ""] = /^\S+ (\S+) cgroup2 /m.exec(readOrEmpty("/proc/mounts")) ?? [];
  const [, group = ""] = /^0::(.*)$/m.exec(readOrEmpty(`/proc/${pid}/cgroup`)) ?? [];
  return readOrEmpty(`${mount}${group}/cgroup.events`).includes("frozen 1") || stateOf(pid) === "T";
}

test("an outage ends nobody's work, and all who wait go on waiting", async () => {
  world = await openWorld({ gpu: 3 });
  const running = ["a", "b", "c"].map((name) => startTicking(["--gpu", "1"], name));
  for (const name of ["a", "b", "c"]) await named(world, name, "allocated");
  const waiting = ["d", "e"].map((name) =>
    startBerth(berth, world, ["run", "--gpu", "1", "--name", name, "--", "echo", name]),
  );
  for (const name of ["d", "e"]) await named(world, name, "queued");
  for (const { log } of running) await written(log, "tick");

  await world.stopServer();
  for (const run of waiting) await eventually("it notices", () => run.stderr().includes("cannot be reached"));
  await world.startServer();

  expect(await named(world, "a", "allocated")).toMatchObject({ attempt: 1 });
  for (const { gate } of running) writeFileSync(gate, "");
  const ends = await Promise.all([
    ...running.map(({ run }) => run.exited),
    ...waiting.map((run) => run.exited),
  ]);
  expect(ends.map(({ code }) => code)).toEqual([0, 0, 0, 0, 0]);
  expect(waiting.map((run) => run.stdout())).toEqual(["d\n", "e\n"]);
  for (const name of ["a", "b", "c", "d", "e"]) {
    expect(await named(world, name)).toMatchObject({ status: "released", attempt: 1 });
  }
});

test("a command that ends during the outage is reported when the server is back", async () => {
  world = await openWorld();
  const { run, gate, log } = startTicking(["--gpu", "1"], "ended");
  await written(log, "tick");
  await world.stopServer();
  writeFileSync(gate, "");
  await written(log, "end");
  await world.startServer();
  expect((await run.exited).code).toBe(0);
  const { id, status, ended_at, attempts } = await named(world, "ended");
  expect(status).toBe("released");
  // The end is when it happened, not when it could be reported.
  expect(attempts[0]).toMatchObject({ ended_at, exit_code: 0 });
  for await (const { event, at } of world.client.events.stream({ request: id }, { after: 0 })) {
    if (event !== "request.released") continue;
    expect(Date.parse(ended_at ?? "")).toBeLessThan(Date.parse(at as string));
    break;
  }
});

test("nobody has to wait for that: the guardian reports in their place", async () => {
  world = await openWorld();
  // It hears no Ctrl-C, because the first may come before it has gone.
  const { run, gate, log } = startTicking(["--gpu", "1"], "left", `trap '' INT; ${ticking}`);
  await written(log, "tick");
  await world.stopServer();
  writeFileSync(gate, "");
  await written(log, "end");
  // The wrapper takes signals for itself once the command has gone; until then they are the command's.
  const leaving = setInterval(() => run.kill("SIGINT"), 100);
  expect((await run.exited).code).toBe(0);
  clearInterval(leaving);
  expect(run.stderr()).toContain("could not be reported yet");
  await world.startServer();
  await named(world, "left", "released");
});

test("a server that was never there is named at once, and Ctrl-C ends the waiting for it", async () => {
  world = await openWorld();
  const nowhere = { url: "http://127.0.0.1:9", token: world.token };
  const run = startBerth(berth, nowhere, ["run", "--gpu", "1", "--", "true"]);
  await eventually("it says so", () => run.stderr().includes("http://127.0.0.1:9 cannot be reached"));
  run.kill("SIGINT");
  expect((await run.exited).code).toBe(71);
});

test("of several servers, one is enough", async () => {
  world = await openWorld();
  const several = { url: `http://127.0.0.1:9,${world.url}`, token: world.token };
  const run = startBerth(berth, several, ["run", "--gpu", "1", "--", "echo", "fine"]);
  expect((await run.exited).code).toBe(0);
  expect(run.stdout()).toBe("fine\n");
});

describe("a wrapper that stands still for a lease", () => {
  const timed = 'echo "pid $$" >> "$LOG"; until [ -e "$GATE" ]; do date +%s%3N >> "$LOG"; sleep 0.05; done';
  const lastTick = (log: string) => Number(readOrEmpty(log).trimEnd().split("\n").at(-1));
  const pidOf = (log: string) => Number(/pid (\d+)/.exec(readOrEmpty(log))?.[1]);

  /** A grant that was never renewed would end after one lease, as not taken up: 60 ticks are six renewals. */
  async function renewedAndWatched(run: Running, log: string): Promise<void> {
    await eventually("it has renewed", () => readOrEmpty(log).split("\n").length > 60);
    await eventually("the watch has begun", () => watchdogsOf(run.pid).length > 0);
  }

  test("finds its job frozen, and lets it go on if the grant is still its own", async () => {
    world = await openWorld({ settings: SHORT_LEASE });
    const { run, gate, log } = startTicking(["--gpu", "1"], "paused", timed);
    await renewedAndWatched(run, log);
    run.kill("SIGSTOP");
    await eventually("its job stands still", () => isSuspended(pidOf(log)));
    run.kill("SIGCONT");
    await eventually("its job goes on", () => !isSuspended(pidOf(log)));
    writeFileSync(gate, "");
    expect((await run.exited).code).toBe(0);
  });

  test("has lost its job when its units are given to others, and nothing of it ran until then", async () => {
    world = await openWorld({ settings: SHORT_LEASE });
    const { run, log } = startTicking(["--gpu", "1"], "overdue", timed);
    await renewedAndWatched(run, log);
    run.kill("SIGSTOP");
    const { ended_at, attempts } = await named(world, "overdue", "expired");
    expect(attempts).toMatchObject([{ outcome: "lost", cause: "holder_silent" }]);
    run.kill("SIGCONT");
    expect((await run.exited).code).toBe(74);
    expect(lastTick(log)).toBeLessThan(Date.parse(ended_at ?? ""));
  });
});

describe("after a whole lease without contact", () => {
  test("the job is suspended, and goes on when the server is back and the grant still ours", async () => {
    world = await openWorld({ settings: SHORT_LEASE });
    const { run, gate, log } = startTicking(["--gpu", "1"], "frozen");
    await written(log, "tick");
    await world.stopServer();
    await eventually("it says so", () => run.stderr().includes("the job is suspended"));
    const pid = Number(/^pid (\d+)$/m.exec(readOrEmpty(log))?.[1]);
    await eventually("it stands still", () => isSuspended(pid));
    await world.startServer();
    await eventually("it goes on", () => run.stderr().includes("the grant is still ours"));
    writeFileSync(gate, "");
    expect((await run.exited).code).toBe(0);
    expect(await named(world, "frozen")).toMatchObject({ status: "released", attempt: 1 });
  });

  test("or it runs on", async () => {
    world = await openWorld({ settings: SHORT_LEASE });
    const { run, gate, log } = startTicking(["--gpu", "1", "--on-lost", "run-on"], "running on");
    await written(log, "tick");
    await world.stopServer();
    await eventually("it says so", () => run.stderr().includes("the job runs on"));
    const before = readOrEmpty(log);
    await eventually("it does", () => readOrEmpty(log).length > before.length);
    await world.startServer();
    await eventually("it is heard of", () => run.stderr().includes("the grant is still ours"));
    writeFileSync(gate, "");
    expect((await run.exited).code).toBe(0);
  });

  test("or it is stopped: 74", async () => {
    world = await openWorld({ settings: SHORT_LEASE });
    const { run, log } = startTicking(["--gpu", "1", "--on-lost", "kill"], "killed");
    await written(log, "tick");
    await world.stopServer();
    await eventually("it is stopped", () => run.stderr().includes("could not be reported yet"));
    expect((await run.exited).code).toBe(74);
    await world.startServer();
    await named(world, "killed", "failed");
  });
});

test("a holder that was silent too long finds its token refused, and its job is killed: 74", async () => {
  world = await openWorld({ settings: SHORT_LEASE });
  const seconds = uniqueSeconds();
  const script = `setsid sleep ${seconds} & sleep ${seconds}`;
  const run = startBerth(berth, world, ["run", "--gpu", "2", "--name", "mute", "--", "sh", "-c", script]);
  await eventually("the job runs", () => sleepersOf(seconds).length === 2);
  run.kill("SIGSTOP");
  await named(world, "mute", "expired");
  const next = await world.client.requests.submit({ component: "research", resources: { gpu: 2 } });
  expect(next.status).toBe("allocated");
  run.kill("SIGCONT");
  expect((await run.exited).code).toBe(74);
  expect(sleepersOf(seconds)).toEqual([]);
  expect(run.stderr()).toContain("[stale_token]");
  expect((await world.client.requests.get(next.id)).status).toBe("allocated");
});

test("a waiting client that was silent too long is told that its request has expired: 74", async () => {
  world = await openWorld({ settings: SHORT_LEASE });
  const holder = startTicking(["--gpu", "2"], "holder");
  await written(holder.log, "tick");
  const run = startBerth(berth, world, ["run", "--gpu", "1", "--name", "asleep", "--", "true"]);
  await named(world, "asleep", "queued");
  run.kill("SIGSTOP");
  await named(world, "asleep", "expired");
  run.kill("SIGCONT");
  expect((await run.exited).code).toBe(74);
  expect(run.stderr()).toContain("[holder_lost]");
  writeFileSync(holder.gate, "");
  expect((await holder.run.exited).code).toBe(0);
});
