// Jobs as people use them, from `berth` as it is installed to commands on three nodes with agents (J7–J9, E6, E7).

import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type AgentCluster, hasEnded, openAgentCluster } from "./agents-support.ts";
import { buildBerth, eventually, type Running, startBerth } from "./run-support.ts";
import { processesNaming, readOrEmpty, sleepersOf, uniqueSeconds, until } from "./runner-support.ts";

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let berth = "";
let cluster: AgentCluster;
beforeAll(async () => {
  [berth, cluster] = await Promise.all([
    buildBerth(),
    openAgentCluster({ nodes: ["one", "two", "three"], gpus: 2 }),
  ]);
});
afterAll(() => cluster.close());

const COMPONENT = { BERTH_COMPONENT: "vision" };
const type = (args: readonly string[], env: Record<string, string> = {}): Running =>
  startBerth(berth, { url: cluster.server.url, token: cluster.server.adminSecret }, args, {
    env: { ...COMPONENT, ...env },
  });
const file = (name: string) => join(cluster.scratch, name);
const run = (words: readonly string[], script: string) =>
  type(["run", "--gpu", "1", "--cwd", cluster.scratch, ...words, "--", "sh", "-c", script]);

/** The numbers that `berth submit` prints. */
async function submit(words: readonly string[], script: string): Promise<string[]> {
  const options = ["submit", "--gpu", "1", "--cwd", cluster.scratch];
  const said = type([...options, ...words, "--", "sh", "-c", script]);
  expect(await said.exited).toEqual({ code: 0, signal: null });
  return said.stdout().trim().split("\n");
}
const idOf = (number: string) => number.replace("#", "");

test("J8: output comes back as it is written, each stream to its own, and the exit code returns", async () => {
  const running = run([], `echo first; until [ -e go ]; do sleep 0.05; done; echo last >&2; exit 7`);
  await eventually("the first line is there", () => running.stdout() === "first\n");
  writeFileSync(file("go"), "");
  expect(await running.exited).toEqual({ code: 7, signal: null });
  expect(running.stdout()).toBe("first\n");
  expect(running.stderr()).toMatch(/granted .* on (one|two|three)\n/);
  expect(running.stderr()).toContain("last\n");
});

test("J8: signals go to the command where it runs", async () => {
  const script = `trap "echo interrupted; exit 9" INT; trap "echo told" USR1; echo ready; while :; do sleep 0.05; done`;
  const running = run([], script);
  await eventually("it is ready", () => running.stdout() === "ready\n");
  running.kill("SIGUSR1");
  await eventually("it is told", () => running.stdout() === "ready\ntold\n");
  running.kill("SIGINT");
  expect(await running.exited).toEqual({ code: 9, signal: null });
  expect(running.stdout()).toBe("ready\ntold\ninterrupted\n");
});

test("J8: closing the terminal ends it", async () => {
  const seconds = uniqueSeconds();
  const running = run(["--name", "closed"], `sleep ${seconds}`);
  await until("it sleeps", () => sleepersOf(seconds).length === 1);
  running.kill("SIGHUP");
  expect((await running.exited).code).toBe(71);
  expect(sleepersOf(seconds)).toEqual([]);
});

test("J8: on nodes without an agent it refuses, and says what to do", async () => {
  await cluster.client.pools.create({ name: "bare" });
  await cluster.client.nodes.create({ name: "far", pool: "bare", capacity: { gpu: 1 } });
  await cluster.client.policies.attach("bare", { component: "vision" });
  const refused = run(["--pool", "bare"], "echo never");
  expect((await refused.exited).code).toBe(69);
  expect(refused.stdout()).toBe("");
  expect(refused.stderr()).toMatch(/placed on node far, which is not this machine/);
  expect(refused.stderr()).toContain("berth pool update bare --set executor=agents");
  const { items } = await cluster.client.requests.list({ status: "queued,allocated" });
  expect(items).toEqual([]);
  await cluster.client.pools.delete("bare", { force: true });
});

test("J9: an array of 20, four at once, each with its own number", async () => {
  const script = `
    : > active.$BERTH_ARRAY_INDEX; ls active.* | wc -l >> seen; echo $BERTH_ARRAY_INDEX >> members
    sleep 0.1; rm active.$BERTH_ARRAY_INDEX`;
  const numbers = await submit(["--operation", "sweep", "--array", "0-19%4"], script);
  expect(numbers).toHaveLength(20);
  for (const number of numbers)
    expect(await cluster.until(idOf(number), "it has ended", hasEnded)).toMatchObject({ status: "released" });
  const lines = (name: string) => readFileSync(file(name), "utf8").trim().split("\n").map(Number);
  expect(lines("members").toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
  expect(Math.max(...lines("seen"))).toBeLessThanOrEqual(4);
  const shown = type(["operation", "show", "sweep"]);
  await shown.exited;
  expect(shown.stdout()).toMatch(/requests +20 released/);
  expect(shown.stdout()).toMatch(/share of lab +uses 0 %/);
});

test("J9: after another has ended well or at all; what can no longer happen is cancelled with the reason", async () => {
  const [good = ""] = await submit([], "until [ -e good.end ]; do sleep 0.05; done");
  const [bad = ""] = await submit([], "until [ -e bad.end ]; do sleep 0.05; done; exit 3");
  const [second = ""] = await submit(["--after", good], "echo second");
  const [never = ""] = await submit(["--after", `${bad}:ok`], "echo never");
  const [anyhow = ""] = await submit(["--after", `${bad}:any`], "echo anyhow");
  for (const number of [second, never, anyhow])
    expect(await cluster.client.jobs.get(idOf(number))).toMatchObject({ status: "queued", blocked: true });
  writeFileSync(file("good.end"), "");
  writeFileSync(file("bad.end"), "");
  const ends = [second, never, anyhow].map((number) => cluster.until(idOf(number), "it has ended", hasEnded));
  expect((await Promise.all(ends)).map(({ status }) => status)).toEqual([
    "released",
    "cancelled",
    "released",
  ]);
  expect(await cluster.output(idOf(second))).toBe("second\n");
  const why = type(["why", idOf(never)]);
  await why.exited;
  expect(why.stdout()).toContain("it waited for a request that has not ended well");
});

test("C11: of several servers one that answers is enough, for a client and for an agent; E6: secrets", async () => {
  const urls = `http://127.0.0.1:61999,${cluster.server.url}`;
  const { join_token } = await cluster.client.call("enrolNode", {
    params: { node: "four" },
    body: { pool: "lab" },
  });
  mkdirSync(cluster.directoryOf("secrets/vision"), { recursive: true });
  writeFileSync(cluster.directoryOf("secrets/vision/HF_TOKEN"), "of vision\n");
  writeFileSync(cluster.directoryOf("secrets/HF_TOKEN"), "of all\n");
  const agent = type([
    ...["agent", "--url", urls, "--name", "four", "--join", join_token, "--capacity", "gpu=1,licence=1"],
    ...["--state-dir", cluster.directoryOf("four"), "--policy", cluster.directoryOf("agent.yaml")],
    ...["--secrets", cluster.directoryOf("secrets")],
  ]);
  await eventually("it is a node", () => agent.stdout().includes("Node four of pool lab"));
  const options = ["submit", "--wait", "-r", "licence=1", "--cwd", cluster.scratch];
  const job = type([...options, "--secret", "HF_TOKEN", "--", "sh", "-c", 'echo "$HF_TOKEN" > secret'], {
    BERTH_URL: urls,
  });
  expect((await job.exited).code).toBe(0);
  expect(readFileSync(file("secret"), "utf8")).toBe("of vision\n");
  const missing = type([...options, "--secret", "NOWHERE", "--", "true"]);
  expect((await missing.exited).code).not.toBe(0);
  const { exit } = await cluster.client.jobs.get(missing.stdout().trim().replace("#", ""));
  expect(exit).toMatchObject({ reason: "start_failed" });
  expect(exit?.message).toContain("There is no secret NOWHERE for vision on this node.");
  agent.kill("SIGTERM");
  expect((await agent.exited).code).toBe(0);
  await cluster.client.nodes.remove("four", { force: true });
});

test("E7: the parts of a gang know their rank, each other and where to meet", async () => {
  const script = `echo "$BERTH_NODE_RANK of $BERTH_NODE_COUNT: $BERTH_NODES, $MASTER_ADDR:$MASTER_PORT" > rank.$BERTH_NODE_RANK`;
  const [number = ""] = await submit(["--nodes", "2"], script);
  const job = await cluster.until(idOf(number), "it has ended", hasEnded);
  expect(job.status).toBe("released");
  const port = 20_000 + (job.number % 10_000);
  const said = [0, 1].map((rank) => readOrEmpty(file(`rank.${rank}`)));
  const hosts = /: (.*),/.exec(said[0] ?? "")?.[1] ?? "";
  expect(new Set(hosts.split(",")).size).toBe(2);
  expect(said).toEqual([0, 1].map((rank) => `${rank} of 2: ${hosts}, ${hosts.split(",")[0]}:${port}\n`));
});

/** A control group with little memory, where this user may make one. */
const MEMORY_GROUP = makeMemoryGroup();
afterAll(() => {
  if (MEMORY_GROUP !== undefined) rmdirSync(MEMORY_GROUP);
});

if (MEMORY_GROUP !== undefined) {
  test("J4: the kernel ends a job for lack of memory, and that is what its end says", async () => {
    const mark = `memory-${uniqueSeconds()}`;
    const grow = `$s = "${mark}"; sleep 0.05 until -e "grow"; $x = "x" x 300_000_000; sleep 1000`;
    const said = type([
      ...["submit", "--gpu", "1", "--cwd", cluster.scratch, "--", "perl"],
      ...["-e", `use Time::HiRes "sleep"; ${grow.replace("sleep 0.05 until", "sleep(0.05) until")}`],
    ]);
    await said.exited;
    const id = idOf(said.stdout().trim());
    await cluster.until(id, "it runs", ({ phase }) => phase === "running");
    for (const pid of await eventually("it is found", () => commandsNaming(mark)))
      writeFileSync(join(MEMORY_GROUP, "cgroup.procs"), String(pid));
    writeFileSync(file("grow"), "");
    const job = await cluster.until(id, "it has ended", hasEnded);
    expect(job).toMatchObject({
      status: "failed",
      exit: { reason: "oom", message: "The kernel ended it for lack of memory." },
    });
  });
}

/** The command itself, not those who carry it. */
function commandsNaming(mark: string): number[] | undefined {
  const found = processesNaming(mark).filter((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("perl\0"),
  );
  return found.length > 0 ? found : undefined;
}

function makeMemoryGroup(): string | undefined {
  const path = `/sys/fs/cgroup/memory/berth-test-${process.pid}`;
  try {
    mkdirSync(path);
    writeFileSync(join(path, "memory.limit_in_bytes"), "50000000");
    return path;
  } catch {
    if (existsSync(path) && readdirSync(path).length > 0) rmdirSync(path);
    return undefined;
  }
}
