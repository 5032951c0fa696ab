// `berth adapter slurm` as it is installed, from a submission to the command and back, on a Slurm that is played (S1–S7). What a
// real one does is `npm run prove:slurm`.

import { execFileSync } from "node:child_process";
import { chmodSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { endPlayedSlurm, installPlayedSlurm, recordedAnswers } from "../support/played-slurm.ts";
import { buildBerth, eventually, type Running, startBerth } from "./run-support.ts";
import { readOrEmpty, temporaryDirectory } from "./runner-support.ts";
import { openTestServer, type TestServer } from "./server-support.ts";

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const VERSION = "22.05";
const slurm = temporaryDirectory();
const scratch = temporaryDirectory();
const SLURM_BIN = installPlayedSlurm(slurm, VERSION);
const policy = join(slurm, "agent.yaml");
let berth = "";
let server: TestServer;
let secret = "";
let adapter: Running;

beforeAll(async () => {
  chmodSync(scratch, 0o777);
  writeFileSync(policy, `components: { "*": { users: [nobody], directories: [/] } }\n`, { mode: 0o600 });
  [berth, server] = await Promise.all([buildBerth(), openTestServer()]);
  const settings = { executor: "slurm", grace_seconds: 20, checkpoint_timeout_seconds: 120 };
  await server.admin("POST", "/v1/pools", { name: "lab", settings });
  await server.admin("POST", "/v1/pools/lab/policies", { component: "vision", priority: 0 });
  await server.admin("POST", "/v1/pools/lab/policies", { component: "urgent", priority: 100 });
  ({ secret } = await server.token("executor", { pools: ["lab"] }));
  adapter = await startAdapter();
});
afterAll(async () => {
  adapter.kill("SIGTERM");
  await adapter.exited;
  endPlayedSlurm(slurm);
  await server.close();
});

async function startAdapter(): Promise<Running> {
  const words = ["adapter", "slurm", "--pool", "lab", "--nodes", "--partition", "berth", "--policy", policy];
  const places = ["--work-dir", join(slurm, "work"), "--state-dir", join(slurm, "state")];
  const running = startBerth(berth, { url: server.url, token: secret }, [...words, ...places], {
    env: { SLURM_BIN },
  });
  await eventually("the adapter says that it runs", () => running.stdout().includes("runs the jobs"));
  expect(running.stdout()).toBe(
    "Slurm 22.05.8 runs the jobs of pool lab. Ctrl-C stops the adapter; jobs go on.\n",
  );
  return running;
}

/** A person's own command, to its end. */
async function type(component: string, ...words: string[]) {
  const running = startBerth(berth, { url: server.url, token: server.adminSecret }, words, {
    env: { BERTH_COMPONENT: component, SLURM_BIN },
  });
  const { code } = await running.exited;
  return { code, stdout: running.stdout(), stderr: running.stderr() };
}
const submit = (component: string, words: readonly string[], script: string) =>
  type(component, "submit", "--gpu", "2", "--cwd", scratch, ...words, "--", "sh", "-c", script);
const job = async (number: string) => {
  const { body } = await server.admin("GET", `/v1/resource-requests/${number.trim().replace("#", "")}`);
  return (await server.admin("GET", `/v1/jobs/${body.id}`)).body;
};
const file = (name: string) => join(scratch, name);

test("the Slurm that is played answers as the recorded one", () => {
  const recorded = recordedAnswers(VERSION);
  const other = temporaryDirectory();
  const bin = installPlayedSlurm(other, VERSION);
  for (const label of ["version", "submit", "queue held", "nodes idle", "release", "accounts of none"])
    for (const { args, output, program } of recorded[label] ?? []) {
      const input = program === "sbatch" && args.length > 1 ? { input: "exit 0" } : {}; // Others read nothing.
      const said = execFileSync(join(bin, program), args, { ...input, encoding: "utf8" });
      expect(said, label).toBe(label === "nodes idle" ? `${output?.split("\n")[0]}\n` : output);
    }
});

test("S1: its nodes are the pool's nodes", async () => {
  const nodes = await eventually("the node is there", async () => {
    const { body } = await server.admin("GET", "/v1/pools/lab/nodes");
    return body.items.length > 0 && body.items;
  });
  expect(nodes).toMatchObject([{ name: "n1", state: "ready", capacity: { gpu: 2, mcpu: 4_000 } }]);
});

test("S2, S3: a job is held, released and run; its exit code and its output come back", async () => {
  const script = 'echo "hello $GREETED from $SLURMD_NODENAME"; exit 200';
  const { code, stderr } = await submit("vision", ["--env", "GREETED=world", "--wait"], script);
  expect(code, stderr).toBe(200);
  const { stdout } = await type("vision", "logs", "1");
  expect(stdout).toBe("hello world from n1\n");
  expect(await job("1")).toMatchObject({ status: "failed", exit: { reason: "exited", exit_code: 200 } });
});

test("S4: preempted by a higher priority it saves, and goes on where it was", async () => {
  const train = `
    epoch=$(cat "$BERTH_CHECKPOINT_DIR/epoch" 2>/dev/null || echo 0)
    while [ "$epoch" -lt 3 ]; do
      echo "$BERTH_ATTEMPT $epoch" >> epochs; epoch=$((epoch + 1))
      [ "$BERTH_RESUME" = 1 ] || until [ -e "$BERTH_PREEMPT_FILE" ]; do sleep 0.1; done
      [ -e "$BERTH_PREEMPT_FILE" ] || continue
      echo "$epoch" > "$BERTH_CHECKPOINT_DIR/epoch"; : > "$BERTH_CHECKPOINT_DIR/done"; exit 75
    done`;
  const { stdout: number } = await submit("vision", ["--checkpoint", "auto"], train);
  await eventually("it trains", () => readOrEmpty(file("epochs")) === "1 0\n");
  const urgent = await submit("urgent", ["--wait"], "exit 0");
  expect(urgent.code, urgent.stderr).toBe(0);
  const ended = await eventually("it has ended", async () => {
    const found = await job(number);
    return found.status === "released" && found;
  });
  expect(ended.attempts).toMatchObject([{ outcome: "preempted" }, { outcome: "succeeded" }]);
  expect(readOrEmpty(file("epochs"))).toBe("1 0\n2 1\n2 2\n");
});

test("S2, J5: an adapter that was killed finds its jobs again, and starts none twice", async () => {
  const script = "echo started >> starts; until [ -e go ]; do sleep 0.1; done; exit 7";
  const { stdout: number } = await submit("vision", [], script);
  await eventually("it runs", () => readOrEmpty(file("starts")) === "started\n");
  adapter.kill("SIGKILL");
  await adapter.exited;
  const submitted = readdirSync(join(slurm, "jobs")).length;
  writeFileSync(file("go"), "");
  adapter = await startAdapter();
  await eventually("it has ended", async () => (await job(number)).status === "failed");
  expect((await job(number)).exit).toMatchObject({ exit_code: 7 });
  expect(readOrEmpty(file("starts"))).toBe("started\n");
  expect(readdirSync(join(slurm, "jobs"))).toHaveLength(submitted);
});

test("S4: what does not heed SIGTERM is cancelled after the grace", async () => {
  await server.admin("PATCH", "/v1/pools/lab", { settings: { grace_seconds: 1 } });
  const script = 'trap "" TERM; echo ready >> stubborn; while :; do sleep 0.1; done';
  const { stdout: number } = await submit("vision", [], script);
  await eventually("it runs", () => readOrEmpty(file("stubborn")) === "ready\n");
  // Not by the command, which first asks for a plan: on a busy machine that may take longer than a person would wait.
  const { id } = await job(number);
  expect((await server.admin("POST", `/v1/resource-requests/${id}/cancel`)).status).toBe(200);
  await eventually("it is cancelled", async () => (await job(number)).status === "cancelled");
});

test("S3: what another user has cancelled has failed", async () => {
  const { stdout: number } = await submit("vision", [], "echo ready >> foreign; sleep 600");
  await eventually("it runs", () => readOrEmpty(file("foreign")) === "ready\n");
  const own = readdirSync(join(slurm, "jobs")).sort((a, b) => Number(b) - Number(a))[0] as string;
  execFileSync(join(SLURM_BIN, "scancel"), [own]);
  await eventually("it has failed", async () => (await job(number)).status === "failed");
  expect((await job(number)).exit).toMatchObject({ exit_code: 143, message: "Slurm ended it: CANCELLED." });
});

test("doctor: the version, the controller's clock, the partition", async () => {
  const { stdout } = await type("vision", "doctor", "--slurm", "berth");
  expect(stdout).toContain("version 22.05.8");
  expect(stdout).toMatch(/clock of Slurm .* by \d+ s/); // The recorded answer is from another day.
});
