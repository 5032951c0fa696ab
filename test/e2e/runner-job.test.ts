// Jobs made of real processes, at every level of containment that this machine offers.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodeOf, identify, isRunning, type Job, sendCheckpointReport } from "../../src/runner/index.ts";
import {
  escapingFamily,
  familyOf,
  levels,
  processesNaming,
  readOrEmpty,
  sleepersOf,
  start,
  stateOf,
  temporaryDirectory,
  uniqueSeconds,
  until,
} from "./runner-support.ts";

describe.each(levels)("a job at level %s", (containment) => {
  const exits: Record<string, { command: string[]; want: number }> = {
    "success is 0": { command: ["true"], want: 0 },
    "failure is the command's own code": { command: ["sh", "-c", "exit 41"], want: 41 },
    "a signal is 128 and its number": { command: ["sh", "-c", "kill -TERM $$"], want: 143 },
    "SIGKILL is 137": { command: ["sh", "-c", "kill -KILL $$"], want: 137 },
    "a missing interpreter is 127": { command: [brokenScript()], want: 127 },
  };
  for (const [name, { command, want }] of Object.entries(exits)) {
    test(name, async () => {
      const outcome = await start({ command, containment }).then(
        async ({ job }) => {
          const exit = await job.exited;
          await finish(job);
          return exitCodeOf(exit);
        },
        (refusal: { exitCode: number }) => refusal.exitCode,
      );
      expect(outcome).toBe(want);
    });
  }

  test("kill ends double forks, other sessions and grandchildren", async () => {
    const seconds = uniqueSeconds();
    const { job } = await start({ command: escapingFamily(seconds), containment });
    await familyOf(seconds);
    expect(await job.kill()).toEqual({ kind: "gone" });
    expect(processesNaming(seconds)).toEqual([]);
    expect(exitCodeOf(await job.exited)).toBe(137);
    await finish(job);
  });

  test("terminate tells the whole family, and nothing needs to be killed", async () => {
    const seconds = uniqueSeconds();
    const { job } = await start({ command: escapingFamily(seconds), containment });
    await familyOf(seconds);
    expect(await job.terminate(40_000)).toEqual({ kind: "gone" });
    expect(processesNaming(seconds)).toEqual([]);
    expect(await job.exited).toEqual({ code: null, signal: "SIGTERM", isOutOfMemory: false });
    await finish(job);
  });

  test("a family that ignores SIGTERM is killed after its grace", async () => {
    const seconds = uniqueSeconds();
    // An ignored signal stays ignored in all children.
    const { job } = await start({ command: escapingFamily(seconds, 'trap "" TERM'), containment });
    await familyOf(seconds);
    expect(await job.terminate(200)).toEqual({ kind: "gone" });
    expect(processesNaming(seconds)).toEqual([]);
    expect(await job.exited).toEqual({ code: null, signal: "SIGKILL", isOutOfMemory: false });
    await finish(job);
  });

  test("a child keeps its grace when the command itself ends at once", async () => {
    const directory = temporaryDirectory();
    const saver = `trap 'while [ ! -e "$1/go" ]; do sleep 0.02; done; echo saved > "$1/state"; exit' TERM
      echo ready; while :; do sleep 0.02; done`;
    const command = ["sh", "-c", 'sh -c "$1" sh "$2" & wait', "sh", saver, directory];
    const { job, output } = await start({ command, containment });
    await until("the child is ready", () => output().includes("ready"));
    const end = job.terminate(40_000);
    expect(await job.exited).toEqual({ code: null, signal: "SIGTERM", isOutOfMemory: false });
    writeFileSync(join(directory, "go"), "");
    expect(await end).toEqual({ kind: "gone" });
    expect(readOrEmpty(join(directory, "state"))).toBe("saved\n");
    await finish(job);
  });

  test("what a command leaves behind ends with it", async () => {
    const seconds = uniqueSeconds();
    const command = ["sh", "-c", '(setsid sleep "$1" &) ; exit 7', "sh", seconds];
    const { job } = await start({ command, containment });
    expect(await job.exited).toEqual({ code: 7, signal: null, isOutOfMemory: false });
    await job.gone;
    expect(processesNaming(seconds)).toEqual([]);
    await finish(job);
  });

  test("freeze stops everything, thaw lets it go on, and a frozen job can be ended", async () => {
    const directory = temporaryDirectory();
    const file = join(directory, "ticks");
    const ticker = 'while :; do echo tick >> "$1"; sleep 0.01; done';
    const command = ["sh", "-c", '(setsid sh -c "$1" sh "$2" &) ; sh -c "$1" sh "$2"', "sh", ticker, file];
    const { job } = await start({ command, containment });
    const ticks = () => readOrEmpty(file).length;
    await until("it ticks", () => ticks() > 100);

    expect(await job.freeze()).toBe(true);
    const frozenAt = ticks();
    // Another process gets to run meanwhile; nothing of the job may.
    await finish((await start({ command: ["sh", "-c", "sleep 0.2"] })).job);
    expect(ticks()).toBe(frozenAt);

    job.thaw();
    await until("it ticks again", () => ticks() > frozenAt + 100);
    expect(await job.freeze()).toBe(true);
    expect(await job.terminate(40_000)).toEqual({ kind: "gone" });
    await finish(job);
  });

  test("a frozen job that ignores SIGTERM is killed", async () => {
    const seconds = uniqueSeconds();
    const { job } = await start({ command: escapingFamily(seconds, 'trap "" TERM'), containment });
    await familyOf(seconds);
    expect(await job.freeze()).toBe(true);
    expect(await job.kill()).toEqual({ kind: "gone" });
    expect(processesNaming(seconds)).toEqual([]);
    await finish(job);
  });

  test("a process whose first thread has ended is alive, and is killed", async () => {
    const file = join(temporaryDirectory(), "go");
    const program = `
import ctypes, os, sys, threading, time
threading.Thread(target=threading.Event().wait).start()
print("ready", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
ctypes.CDLL(None).pthread_exit(None)`;
    const { job, output } = await start({ command: ["python3", "-c", program, file], containment });
    await until("it is ready", () => output().includes("ready"));
    const [pid = 0] = processesNaming(file);
    writeFileSync(file, "");
    await until("its first thread has ended", () => stateOf(pid) === "Z");
    const identity = identify(pid);
    expect(identity && isRunning(identity)).toBe(true);
    expect(await job.freeze()).toBe(true);
    expect(await job.kill()).toEqual({ kind: "gone" });
    expect(identity && isRunning(identity)).toBe(false);
    await finish(job);
  });

  test("the identity is that of a running process until the end", async () => {
    const { job } = await start({ command: ["sleep", uniqueSeconds()], containment });
    const identity = identify(job.pid);
    expect(job.identity).toEqual(identity);
    expect(identity && isRunning(identity)).toBe(true);
    expect(identity && isRunning({ ...identity, startTime: `${identity.startTime}0` })).toBe(false);
    await job.kill();
    await finish(job);
    expect(identity && isRunning(identity)).toBe(false);
  });

  test("SIGUSR1 goes to the command alone, SIGTERM to everyone", async () => {
    const seconds = uniqueSeconds();
    const { job, output } = await start({
      command: escapingFamily(seconds, 'trap "echo usr1" USR1; trap "echo term; exit 5" TERM'),
      containment,
    });
    await familyOf(seconds);
    job.forward("SIGUSR1");
    await until("the command has it", () => output().includes("usr1"));
    expect(sleepersOf(seconds)).toHaveLength(7);
    job.forward("SIGTERM");
    expect(await job.exited).toEqual({ code: 5, signal: null, isOutOfMemory: false });
    expect(output()).toBe("usr1\nterm\n");
    await finish(job);
    expect(processesNaming(seconds)).toEqual([]);
  });

  test("the checkpoint signal reaches the command after the file is there", async () => {
    const script = "trap 'cat \"$BERTH_PREEMPT_FILE\"; exit' USR1; echo ready; while :; do sleep 0.02; done";
    const command = ["sh", "-c", script];
    const { job, output } = await start({ command, containment, checkpointSignal: "SIGUSR1" });
    await until("it is ready", () => output().includes("ready"));
    await job.requestCheckpoint({ deadlineAtMs: Date.UTC(2030, 0, 2), reason: "urgent needs 2 gpu" });
    await job.exited;
    await finish(job);
    const notice = { deadline: "2030-01-02T00:00:00.000Z", reason: "urgent needs 2 gpu" };
    expect(JSON.parse(output().replace("ready\n", ""))).toEqual(notice);
  });

  const endings: Record<string, { checkpointCommand: string[]; want: unknown }> = {
    "a checkpoint command that succeeds means done": {
      checkpointCommand: ["sh", "-c", 'test -s "$BERTH_PREEMPT_FILE"'],
      want: { kind: "done" },
    },
    "a checkpoint command that fails says so": {
      checkpointCommand: ["sh", "-c", "exit 9"],
      want: { kind: "failed", message: "The checkpoint command ended with 9." },
    },
  };
  for (const [name, { checkpointCommand, want }] of Object.entries(endings)) {
    test(name, async () => {
      const command = ["sleep", uniqueSeconds()];
      const { job } = await start({ command, containment, checkpointCommand });
      const report = new Promise((resolve) => job.onCheckpointReport((told) => void resolve(told)));
      await job.requestCheckpoint({ deadlineAtMs: Date.now() + 60_000, reason: "test" });
      expect(await report).toEqual(want);
      await job.kill();
      await finish(job);
    });
  }

  test("a hanging checkpoint command ends with the job", async () => {
    const seconds = uniqueSeconds();
    const { job } = await start({
      command: ["sleep", uniqueSeconds()],
      checkpointCommand: ["setsid", "sleep", seconds],
      containment,
    });
    await job.requestCheckpoint({ deadlineAtMs: Date.now() + 60_000, reason: "test" });
    await until("it hangs", () => sleepersOf(seconds).length === 1);
    expect(await job.kill()).toEqual({ kind: "gone" });
    expect(processesNaming(seconds)).toEqual([]);
    await finish(job);
  });

  test("the job answers over the socket and gets an answer back", async () => {
    const socket = join(temporaryDirectory(), "socket");
    const { job } = await start({ command: ["sleep", uniqueSeconds()], containment, socketPath: socket });
    job.onCheckpointReport((report) =>
      report.kind === "defer" ? { accepted: true, message: `granted ${report.seconds / 2}` } : undefined,
    );
    expect(await sendCheckpointReport(socket, { kind: "done" })).toEqual({ accepted: true });
    expect(await sendCheckpointReport(socket, { kind: "defer", seconds: 60 })).toEqual({
      accepted: true,
      message: "granted 30",
    });
    await job.kill();
    await finish(job);
    await expect(sendCheckpointReport(socket, { kind: "done" })).rejects.toThrow();
  });

  test("the job answers by files", async () => {
    const script = `cd "$BERTH_CHECKPOINT_DIR"
      while [ ! -e "$BERTH_PREEMPT_FILE" ]; do sleep 0.02; done
      : > progress; while [ -e progress ]; do sleep 0.02; done
      echo 45 > defer; while [ -e defer ]; do sleep 0.02; done
      touch done; while [ -e done ]; do sleep 0.02; done`;
    const { job } = await start({ command: ["sh", "-c", script], containment });
    const reports: unknown[] = [];
    job.onCheckpointReport((report) => void reports.push(report));
    await job.requestCheckpoint({ deadlineAtMs: Date.now() + 60_000, reason: "test" });
    expect(await job.exited).toEqual({ code: 0, signal: null, isOutOfMemory: false });
    expect(reports).toEqual([{ kind: "progress" }, { kind: "defer", seconds: 45 }, { kind: "done" }]);
    await finish(job);
  });

  test("the environment is what was given and what a job needs, without the API token", async () => {
    const env = {
      PATH: process.env.PATH ?? "",
      "odd-name.x": "1",
      BERTH_API_TOKEN: "secret",
      BERTH_GRANT: "7",
    };
    const { job, outputEnded } = await start({ command: ["env", "-0"], env, containment });
    const names = (await outputEnded)
      .toString()
      .split("\0")
      .filter(Boolean)
      .map((entry) => entry.split("=")[0]);
    const own = ["BERTH_CHECKPOINT_DIR", "BERTH_JOB", "BERTH_PREEMPT_FILE", "BERTH_SOCKET"];
    expect(names.sort()).toEqual([...own, "BERTH_GRANT", "PATH", "odd-name.x"].sort());
    await finish(job);
  });
});

test("a stopped sleeper is seen as stopped, so that the freeze tests can fail", async () => {
  const { job } = await start({ command: ["sleep", uniqueSeconds()], containment: "sweep" });
  expect(stateOf(job.pid)).not.toBe("T");
  await job.freeze();
  expect(stateOf(job.pid)).toBe("T");
  await job.kill();
  await finish(job);
});

function brokenScript(): string {
  const path = join(temporaryDirectory(), "broken");
  writeFileSync(path, "#!/no/such/interpreter\n", { mode: 0o755 });
  return path;
}

async function finish(job: Job): Promise<void> {
  await job.gone;
  job.close();
}
