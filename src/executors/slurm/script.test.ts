// The batch script, run by a real shell (S2, S4).

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { REFUSED_RESTART, type ScriptFacts, scriptOf } from "./script.ts";
import { readTrace } from "./traces.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-script-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function start(command: string[], more: Partial<ScriptFacts> = {}, env: NodeJS.ProcessEnv = {}) {
  const at = (name: string) => join(directory, name);
  const script = scriptOf({
    ...{ command, directory, environment: {}, nodeCount: 1 },
    ...{ checkpointDir: at("checkpoint"), preemptFile: at("preempt"), exitFile: at("exit") },
    ...more,
  });
  const child = spawn("/bin/sh", ["-s"], { env, stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(script);
  let output = "";
  child.stdout.on("data", (data: Buffer) => {
    output += data.toString();
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    child,
    ended,
    output: () => output,
    says: (text: string) => vi.waitFor(() => expect(output).toContain(text), { timeout: 20_000 }),
    trace: () => readTrace(at("exit")),
    has: (name: string) => existsSync(at(name)),
  };
}

test("words, values and the directory arrive as they were given", async () => {
  const environment = { A: `it's "$HOME" \`x\`\n\\n` };
  const run = start(["printf", "%s|%s|", "a b", "$A'"], { environment });
  expect(await run.ended).toBe(0);
  expect(run.output()).toBe("a b|$A'|");
  const shown = start(["sh", "-c", 'printf %s "$A"'], { environment, exitFile: join(directory, "second") });
  await shown.ended;
  expect(shown.output()).toBe(environment.A);
});

test("the exit code is kept whole, and returned", async () => {
  const run = start(["sh", "-c", "exit 200"]);
  expect(await run.ended).toBe(200);
  expect(run.trace()).toEqual({ hasBegun: true, exit: { code: 200, wasTold: false } });
});

test("what cannot be started because its directory is missing has ended, and nobody waits for more", async () => {
  const run = start(["echo", "never"], { directory: join(directory, "nowhere") });
  expect(await run.ended).toBe(126);
  expect(run.output()).toBe("");
  expect(run.trace().exit).toEqual({ code: 126, wasTold: false });
});

test("J5: a script that was killed has begun, and says nothing of its command", async () => {
  const run = start(["sh", "-c", "echo $$; exec sleep 60"]);
  await run.says("\n");
  run.child.kill("SIGKILL");
  process.kill(Number(run.output()), "SIGKILL");
  await run.ended;
  expect(run.trace()).toEqual({ hasBegun: true });
});

test("J5: a requeued job does not run again", async () => {
  const run = start(["echo", "again"], {}, { SLURM_RESTART_COUNT: "1" });
  expect(await run.ended).not.toBe(0);
  expect(run.output()).toBe("");
});

test("J5: a job that a controller forgot, and started again, does not run again", async () => {
  expect(await start(["sh", "-c", "exit 3"]).ended).toBe(3);
  const again = start(["echo", "again"]);
  expect(await again.ended).toBe(REFUSED_RESTART);
  expect(again.output()).toBe("");
  expect(again.trace().exit).toEqual({ code: 3, wasTold: false });
});

test("S4: USR1 does not end a program that does not expect it; TERM is waited for", async () => {
  const run = start(["sh", "-c", "trap 'echo bye; exit 7' HUP; echo ready; while :; do sleep 0.1; done"]);
  await run.says("ready");
  run.child.kill("SIGUSR1");
  run.child.kill("SIGTERM"); // To the script alone here; Slurm sends it to all.
  spawn("pkill", ["-HUP", "-P", String(run.child.pid)]);
  await run.says("bye");
  expect(await run.ended).toBe(7);
  expect(run.trace().exit).toEqual({ code: 7, wasTold: true });
});

test("S4: a question that comes before the command is passed on to it", async () => {
  const early = join(directory, "bin");
  mkdirSync(early);
  const mkdir = '#!/bin/sh\nkill -USR1 $PPID; PATH=/usr/bin:/bin exec mkdir "$@"\n';
  writeFileSync(join(early, "mkdir"), mkdir, { mode: 0o755 });
  const run = start(["sh", "-c", `until [ -e "$BERTH_CHECKPOINT_DIR/done" ]; do sleep 0.1; done; exit 5`], {
    ...{ checkpointCommand: ["echo", "beside"], environment: { PATH: `${early}:/usr/bin:/bin` } },
  });
  expect(await run.ended).toBe(5);
  expect(run.output()).toContain("beside");
});

test("S4: the command gets the signal it wants; a checkpoint command that succeeds has saved", async () => {
  const run = start(
    ["sh", "-c", "trap 'echo saving; exit 0' USR2; echo ready; while :; do sleep 0.1; done"],
    {
      checkpointSignal: "SIGUSR2",
      checkpointCommand: ["sh", "-c", "echo beside"],
    },
  );
  await run.says("ready");
  run.child.kill("SIGUSR1");
  await run.says("saving");
  await run.says("beside");
  expect(await run.ended).toBe(0);
  await vi.waitFor(() => expect(run.has("checkpoint/done")).toBe(true), { timeout: 20_000 });
});
