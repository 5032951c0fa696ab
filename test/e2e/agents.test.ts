// Jobs run where they are placed (19, 20): a real server, agents, shims and commands.

import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type AgentCluster, hasEnded, openAgentCluster } from "./agents-support.ts";
import { sleepersOf, uniqueSeconds, until } from "./runner-support.ts";

/** Every wait has a limit of its own, which says what was waited for: this one is only the last. */
vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let cluster: AgentCluster;
beforeAll(async () => {
  cluster = await openAgentCluster({ nodes: ["one", "two", "three"] });
});
afterAll(() => cluster.close());

test("J1, E6: a job runs on a node with its devices, its environment and no token; its exit code comes back", async () => {
  const script =
    'echo "gpu=$CUDA_VISIBLE_DEVICES/$ROCR_VISIBLE_DEVICES/$NVIDIA_VISIBLE_DEVICES $WORD"; env; id -u; grep NoNewPrivs /proc/self/status; exit 7';
  const id = await cluster.submit(["sh", "-c", script], {
    resources: { gpu: 2 },
    run: { environment: { WORD: "a b" } },
  });
  const job = await cluster.until(id, "it has ended", hasEnded);
  expect(job).toMatchObject({ status: "failed", exit: { reason: "exited", exit_code: 7 } });
  const output = await cluster.output(id);
  expect(output).toContain("gpu=0,1/0,1/0,1 a b\n");
  expect(output).toContain("BERTH_NODE_RANK=0\n");
  expect(output).not.toMatch(/TOKEN|BERTH_GRANT/);
  if (process.getuid?.() !== 0) return;
  expect(output).not.toMatch(/^0$/m);
  expect(output).toMatch(/NoNewPrivs:\s1/);
});

test("E1: what an agent keeps of its membership is readable by its owner only", () => {
  expect(statSync(join(cluster.directoryOf("one"), "agent.json")).mode & 0o777).toBe(0o600);
});

test("J6: a log is followed while it is written, and its streams are told apart", async () => {
  const go = join(cluster.scratch, "go-on");
  const waits = `while [ ! -e ${go} ]; do sleep 0.05; done`;
  const id = await cluster.submit(["sh", "-c", `echo first; ${waits}; echo last >&2`]);
  await cluster.until(id, "it runs", ({ phase }) => phase === "running");
  const chunks: [string, string][] = [];
  for await (const { stream, data } of cluster.client.jobs.logs(id, { follow: "true" })) {
    chunks.push([stream, Buffer.from(data).toString()]);
    if (chunks.length === 1) writeFileSync(go, ""); // It ends only because its first line has been read.
  }
  expect(chunks).toEqual([
    ["stdout", "first\n"],
    ["stderr", "last\n"],
  ]);
});

test("E7: a gang of two has ranks on two nodes; one failure stops the other, and is the attempt's", async () => {
  const seconds = uniqueSeconds();
  const script = `echo "$BERTH_NODE_RANK of $BERTH_NODE_COUNT at $MASTER_ADDR:$MASTER_PORT"
    if [ "$BERTH_NODE_RANK" = 1 ]; then until [ -e ${cluster.scratch}/fail ]; do sleep 0.05; done; exit 3; fi
    exec sleep ${seconds}`;
  const id = await cluster.submit(["sh", "-c", script], { resources: { gpu: 2 }, nodes: 2 });
  const running = await cluster.until(id, "it runs", ({ phase }) => phase === "running");
  const nodes = running.where?.map(({ node }) => node) ?? [];
  expect(new Set(nodes).size).toBe(2);
  await until("rank 0 sleeps", () => sleepersOf(seconds).length === 1);
  writeFileSync(join(cluster.scratch, "fail"), "");
  const job = await cluster.until(id, "it has ended", hasEnded);
  expect(job).toMatchObject({ status: "failed", exit: { exit_code: 3 } });
  expect(sleepersOf(seconds)).toEqual([]);
});

test("11: a job is preempted on one node, saves, and resumes on another", async () => {
  const saved = join(cluster.scratch, "saved");
  const script = `
    if [ "$BERTH_RESUME" = 1 ]; then echo "$BERTH_NODES $(cat ${saved})"; exit 0; fi
    until [ -e "$BERTH_PREEMPT_FILE" ]; do sleep 0.05; done
    echo 42 > ${saved}; : > "$BERTH_CHECKPOINT_DIR/done"; sleep 1000`;
  const whole = { resources: { gpu: 2 }, component: "urgent" };
  const [filler] = await Promise.all([1, 2].map(() => cluster.submit(["sleep", "1000"], whole)));
  const victim = await cluster.submit(["sh", "-c", script], { resources: { gpu: 2 }, checkpoint: "auto" });
  const before = await cluster.until(victim, "it runs", ({ phase }) => phase === "running");
  const urgent = await cluster.submit(["sleep", "1000"], whole);
  await cluster.until(urgent, "the urgent one has its place", ({ phase }) => phase === "running");
  await cluster.until(victim, "it waits again", ({ status }) => status === "queued");
  await cluster.client.requests.cancel(filler as string);
  const after = await cluster.until(victim, "it has ended", hasEnded);
  expect(after).toMatchObject({ status: "released", attempt: 2 });
  const [node, value] = (await cluster.output(victim)).trim().split(" ");
  expect(value).toBe("42");
  expect(node).not.toBe(before.where?.[0]?.node);
  await cluster.endAll();
});

test("E5: a job goes on while its agent is away, and its end is reported by the next one", async () => {
  const go = join(cluster.scratch, "end-now");
  const id = await cluster.submit([
    "sh",
    "-c",
    `echo one; until [ -e ${go} ]; do sleep 0.05; done; echo two; exit 5`,
  ]);
  const { where } = await cluster.until(id, "it runs", ({ phase }) => phase === "running");
  const node = where?.[0]?.node as string;
  await cluster.restart(node); // It is found again,
  await cluster.agents.get(node)?.close();
  writeFileSync(go, "");
  const [directory] = jobDirectories(node);
  await until("its shim has written the end down", () => existsSync(join(directory as string, "end.json")));
  expect((await cluster.client.jobs.get(id)).status).toBe("allocated");
  await cluster.restart(node); // and so is its end.
  expect(await cluster.until(id, "it has ended", hasEnded)).toMatchObject({ exit: { exit_code: 5 } });
  expect(await cluster.output(id)).toBe("one\ntwo\n");
  await until("the end is acknowledged", () => jobDirectories(node).length === 0);
});

test("E5, J5: the death of a shim ends its job, which is reported when nothing of it is left", async () => {
  const seconds = uniqueSeconds();
  const id = await cluster.submit(["sh", "-c", `setsid sleep ${seconds} & sleep ${seconds}`]);
  const { where } = await cluster.until(id, "it runs", ({ phase }) => phase === "running");
  await until("both sleep", () => sleepersOf(seconds).length === 2);
  process.kill(shimOf(where?.[0]?.node as string), "SIGKILL");
  const job = await cluster.until(id, "it has ended", hasEnded);
  expect(job).toMatchObject({ status: "failed", exit: { message: "Its shim died." } });
  expect(sleepersOf(seconds)).toEqual([]);
});

test("E4: after a restart of the machine its attempts are lost, and none is started again there", async () => {
  const id = await cluster.submit(["sleep", "1000"], { requeue: "never" });
  const { where } = await cluster.until(id, "it runs", ({ phase }) => phase === "running");
  const node = where?.[0]?.node as string;
  await cluster.agents.get(node)?.close();
  process.kill(shimOf(node), "SIGKILL"); // As all processes would be.
  await cluster.restart(node, { bootId: "another" });
  const job = await cluster.until(id, "it has ended", hasEnded);
  expect(job).toMatchObject({ exit: { reason: "lost" } });
  await cluster.restart(node);
});

test("N4: a drained node stops its jobs at the deadline and gets no more", async () => {
  const id = await cluster.submit(["sleep", "1000"], { requeue: "on_preemption" });
  const { where } = await cluster.until(id, "it runs", ({ phase }) => phase === "running");
  const node = where?.[0]?.node as string;
  await cluster.client.nodes.drain(node, { deadline_seconds: 0 } as never);
  const moved = await cluster.until(
    id,
    "it runs elsewhere",
    ({ phase, attempt }) => phase === "running" && attempt === 2,
  );
  expect(moved.where?.[0]?.node).not.toBe(node);
  await cluster.client.nodes.undrain(node);
  await cluster.endAll();
});

test("J4: an end says that it was cancelled, or that its time was over", async () => {
  const cancelled = await cluster.submit(["sleep", uniqueSeconds()]);
  await cluster.until(cancelled, "it runs", ({ phase }) => phase === "running");
  await cluster.client.requests.cancel(cancelled);
  const late = await cluster.submit(["sleep", uniqueSeconds()], { walltime_seconds: 1, requeue: "never" });
  const ends = [cancelled, late].map((id) => cluster.until(id, "it has ended", hasEnded));
  expect((await Promise.all(ends)).map(({ exit }) => exit?.reason)).toEqual(["cancelled", "walltime"]);
});

test("J4: what cannot be started is a failed start, with the reason", async () => {
  const id = await cluster.submit(["/nowhere/to-be-found"]);
  const job = await cluster.until(id, "it has ended", hasEnded);
  expect(job).toMatchObject({ status: "failed", exit: { reason: "start_failed" } });
  expect(job.exit?.message).toContain("/nowhere/to-be-found");
  expect(await cluster.output(id)).toBe(""); // Its node has no output of it, and that is no error.
});

test("J8: a signal goes to the command where it runs, once", async () => {
  const script = 'trap "echo got it" USR1; echo ready; while :; do sleep 0.05; done';
  const id = await cluster.submit(["sh", "-c", script]);
  let output = "";
  for await (const { data } of cluster.client.jobs.logs(id, { follow: "true" })) {
    output += Buffer.from(data).toString();
    if (output === "ready\n") await cluster.client.jobs.signal(id, "SIGUSR1");
    if (output.includes("got it")) break;
  }
  expect(output).toBe("ready\ngot it\n");
  await cluster.endAll();
});

/** Of the only job there. */
function shimOf(node: string): number {
  const [directory = ""] = jobDirectories(node);
  return (JSON.parse(readFileSync(join(directory, "claim.json"), "utf8")) as { pid: number }).pid;
}

function jobDirectories(node: string): string[] {
  const jobs = join(cluster.directoryOf(node), "jobs");
  return readdirSync(jobs).map((name) => join(jobs, name));
}
