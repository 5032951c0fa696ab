// `berth adapter kubernetes` as it is installed, between a real server and a cluster of recorded objects (K1–K4).

import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { kubeconfigFor } from "../recorded/kubernetes-support.ts";
import { type PlayedCluster, playCluster } from "../support/played-kubernetes.ts";
import { buildBerth, eventually, type Running, startBerth } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";
import { openTestServer, type TestServer } from "./server-support.ts";

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

let berth = "";
let server: TestServer;
let cluster: PlayedCluster;
let secret = "";
let stateDirectory = "";
let adapters: Running[] = [];

beforeAll(async () => {
  berth = await buildBerth();
});

beforeEach(async () => {
  [server, cluster] = await Promise.all([openTestServer(), playCluster("1.20")]);
  const settings = { executor: "kubernetes", grace_seconds: 7 };
  await server.admin("POST", "/v1/pools", { name: "lab", settings });
  await server.admin("POST", "/v1/pools/lab/policies", { component: "vision" });
  secret = (await server.token("executor", { pools: ["lab"] })).secret;
  stateDirectory = join(temporaryDirectory(), "adapter");
});

afterEach(async () => {
  for (const { kill } of adapters) kill("SIGKILL");
  await Promise.all(adapters.map(({ exited }) => exited));
  adapters = [];
  cluster.close();
  await server.close();
});

const type = (...words: string[]): Running =>
  startBerth(berth, { url: server.url, token: server.adminSecret }, words, {
    env: { BERTH_COMPONENT: "vision" },
  });

async function said(...words: string[]): Promise<string> {
  const running = type(...words);
  expect(await running.exited, running.stderr()).toEqual({ code: 0, signal: null });
  return running.stdout();
}

function adapt(...words: string[]): Running {
  const where = ["--pool", "lab", "--state-dir", stateDirectory, "--kubeconfig", cluster.kubeconfig];
  const given = ["adapter", "kubernetes", ...where, "--image", "registry.example/job:1", ...words];
  const running = startBerth(berth, { url: server.url, token: secret }, given);
  adapters.push(running);
  return running;
}

/** An adapter with the nodes of the cluster. */
async function adaptNodes(...words: string[]): Promise<Running> {
  const adapter = adapt("--nodes", ...words);
  await eventually("the nodes of the cluster are those of the pool", async () => {
    const { body } = await server.admin("GET", "/v1/pools/lab/nodes");
    return body.items.map(({ name }: { name: string }) => name).join() === "n1,n2";
  });
  return adapter;
}

const job = async (id: string) => (await server.admin("GET", `/v1/jobs/${id}`)).body;
const phase = (id: string, wanted: string) =>
  eventually(`${id} is ${wanted}`, async () => (await job(id)).phase === wanted);
const status = (id: string, wanted: string) =>
  eventually(`${id} is ${wanted}`, async () => (await job(id)).status === wanted);
const sent = (call: string) => cluster.asked.filter((one) => one.call.startsWith(call));
const JOBS = "/apis/batch/v1/namespaces/berth-jobs/jobs";

test("a job runs on the node that Berth chose, and its output, exit code and end come back", async () => {
  const adapter = await adaptNodes("--selector", "berth.dev/proof=1");
  expect(adapter.stdout()).toMatch(/^Kubernetes 1\.20\.\S+ runs the jobs of pool lab\. Ctrl-C stops/);

  expect(await said("submit", "--gpu", "1", "--", "python", "train.py")).toBe("#1\n");
  await phase("1", "starting");
  const [made] = sent(`POST ${JOBS}`);
  const { id, where } = await job("1");
  expect(made?.body.metadata).toMatchObject({
    name: "berth-1-1",
    annotations: { "berth.dev/request": id, "berth.dev/number": "1" },
  });
  const { spec } = made?.body.spec.template ?? {};
  const [term] = spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms;
  expect(term).toEqual({ matchFields: [{ key: "metadata.name", operator: "In", values: [where[0].node] }] });
  expect(spec).toMatchObject({ restartPolicy: "Never", terminationGracePeriodSeconds: 7 });
  const limits = { "nvidia.com/gpu": "1" };
  expect(spec.containers).toMatchObject([
    { command: ["python", "train.py"], resources: { limits, requests: limits } },
  ]);

  cluster.reach("Running");
  await phase("1", "running");
  await eventually("its output can be read", async () => (await said("logs", "1")) === "one\ntwo\n");
  cluster.reach("Failed");
  await status("1", "failed");
  expect(await job("1")).toMatchObject({ exit: { exit_code: 3, reason: "exited" } });
  expect(await said("logs", "1")).toBe("one\ntwo\n");
  // What is acknowledged is taken out of the cluster: the job in the foreground, then the mark that kept its pod.
  await eventually("its pod is let go", () => sent("PATCH").length > 0);
  expect(sent("DELETE").map(({ call }) => call)).toEqual([
    `DELETE ${JOBS}/berth-1-1?propagationPolicy=Foreground`,
  ]);
  expect(sent("POST")).toHaveLength(1);

  adapter.kill("SIGTERM");
  expect(await adapter.exited).toEqual({ code: 0, signal: null });
  expect(adapter.stderr()).toBe("");
});

test("J5: an adapter that is killed finds its job again, also when the cluster is away meanwhile", async () => {
  const first = await adaptNodes();
  await said("submit", "--gpu", "1", "--", "python", "train.py");
  await eventually("it is made", () => sent(`POST ${JOBS}`).length > 0);
  first.kill("SIGKILL");
  await first.exited;
  cluster.reach("Running");
  adapt("--nodes");
  await phase("1", "running");
  cluster.cut();
  cluster.reach("Failed");
  await status("1", "failed");
  expect((await job("1")).exit).toMatchObject({ exit_code: 3 });
  // It may be made again while nobody has written down that it was: the name shows that it is there.
  expect(new Set(sent(`POST ${JOBS}`).map(({ body }) => body.metadata.name))).toEqual(new Set(["berth-1-1"]));
});

test("K2: a job that is cancelled is deleted in the foreground, and its units are free when its pod has ended", async () => {
  await adaptNodes();
  await said("submit", "--gpu", "1", "--", "python", "train.py");
  await phase("1", "starting");
  cluster.reach("Running");
  await phase("1", "running");
  // Not by the command, which first asks for a plan: on a busy machine that may take longer than a person would wait.
  const { id } = await job("1");
  expect((await server.admin("POST", `/v1/resource-requests/${id}/cancel`)).status).toBe(200);
  await phase("1", "stopping");
  // Then the pod itself, with the time that is left: it may have been given more when it was made.
  await eventually("its pod is told how long it has", () => sent("DELETE /api/v1").length > 0);
  expect(sent("DELETE")[0]?.call).toBe(`DELETE ${JOBS}/berth-1-1?propagationPolicy=Foreground`);
  expect(await job("1")).toMatchObject({ status: "allocated" });
  cluster.reach("Failed");
  await status("1", "cancelled");
});

test("what it cannot work with is said with what to do", async () => {
  const alone = adapt("--selector", "gpu=a100");
  expect((await alone.exited).code).toBe(2);
  expect(alone.stderr()).toContain("Add --nodes");
  const working = adapt();
  await eventually("it works", () => working.stdout() !== "");
  const second = adapt();
  expect((await second.exited).code).not.toBe(0);
  expect(second.stderr()).toMatch(/works with .* already \(pid \d+\)/);
  working.kill("SIGTERM");
  await working.exited;
  const nobody = kubeconfigFor(1);
  const unreachable = adapt("--kubeconfig", nobody.path);
  expect((await unreachable.exited).code).not.toBe(0);
  nobody.remove();
  expect(unreachable.stderr()).toMatch(/ECONNREFUSED[\s\S]*name another --kubeconfig/);
});
