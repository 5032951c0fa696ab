// A node that is cut off (E3): what it runs does what `on_lost` says before the server gives it to another node, and never
// goes on beside its successor.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startTcpProxy, type TcpProxy } from "../support/proxy.ts";
import { type AgentCluster, type JobAnswer, openAgentCluster } from "./agents-support.ts";
import { sleepersOf, uniqueSeconds, until } from "./runner-support.ts";

/** Long enough for a machine that has much else to do: leases last two thirds of it. */
const LOST_SECONDS = 21;

/** Every wait has a limit of its own, which says what was waited for: this one is only the last. */
vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let cluster: AgentCluster;
let proxy: TcpProxy;
beforeAll(async () => {
  cluster = await openAgentCluster({
    nodes: ["cut"],
    gpus: 3,
    settings: { node_lost_seconds: LOST_SECONDS, allow_run_on: true },
  });
  proxy = await startTcpProxy();
  proxy.aim(Number(new URL(cluster.server.url).port));
  await cluster.restart("cut", { url: `http://127.0.0.1:${proxy.port}` });
});
afterAll(async () => {
  proxy.heal(); // After a failure, jobs end all the same.
  await cluster.close();
  await proxy.close();
});

/** Writes down which attempt it is, again and again, and has a child that can be counted. */
async function submitTicker(onLost: "suspend" | "kill" | "run-on") {
  const ticks = join(cluster.scratch, uniqueSeconds());
  const seconds = uniqueSeconds();
  const script = `sleep ${seconds} & while :; do echo "$BERTH_ATTEMPT" >> ${ticks}; sleep 0.1; done`;
  const id = await cluster.submit(["sh", "-c", script], { requeue: "on_failure", run: { on_lost: onLost } });
  const running = await cluster.until(id, `${onLost} runs`, ({ phase }) => phase === "running");
  const first = running.attempt;
  expect(running.where?.[0]?.node).toBe("cut");
  const lines = () => readFileSync(ticks, "utf8").trim().split("\n");
  return {
    ...{ id, first, lines },
    sleepers: () => sleepersOf(seconds).length,
    async moved(): Promise<void> {
      const isNext = (job: JobAnswer) => job.phase === "running" && job.attempt > first;
      const { where, attempts } = await cluster.until(id, `${onLost} runs elsewhere`, isNext);
      expect(where?.[0]?.node).toBe("spare");
      expect(attempts.at(-1)).toMatchObject({ attempt: first, outcome: "lost", nodes: ["cut"] });
      await until("the next attempt ticks", () => lines().at(-1) === String(first + 1));
      expect(lines().lastIndexOf(String(first))).toBeLessThan(lines().indexOf(String(first + 1)));
    },
  };
}

test("E3: on a node that is cut off a job is suspended, killed or runs on; what is lost runs elsewhere, and never beside itself", async () => {
  const suspended = await submitTicker("suspend");
  const killed = await submitTicker("kill");
  const runsOn = await submitTicker("run-on");
  await cluster.join("spare");
  proxy.silence("both");
  await until("the node has killed what is to be killed", () => killed.sleepers() === 0);
  const { attempt } = await cluster.client.jobs.get(killed.id);
  expect(attempt).toBe(killed.first); // Before the server gives it to another node.
  await suspended.moved();
  await killed.moved();
  expect([suspended.sleepers(), killed.sleepers()]).toEqual([2, 1]); // What was suspended still stands there.
  const { length } = runsOn.lines();
  await until("what runs on ticks", () => runsOn.lines().length > length);
  const away = await cluster.client.jobs.get(runsOn.id);
  expect(away).toMatchObject({ attempt: runsOn.first, phase: "silent", where: [{ node: "cut" }] });
  proxy.heal();
  await until("what was suspended is gone", () => suspended.sleepers() === 1);
  const back = await cluster.until(
    runsOn.id,
    "what ran on is heard of",
    (job) => job.phase === "running" || job.attempt > runsOn.first,
  );
  expect(back.attempt).toBe(runsOn.first);
});

test("E3: what runs on keeps its units until its node is confirmed lost, and is killed when the node is back", async () => {
  await cluster.endAll();
  await cluster.client.nodes.drain("spare", {}); // So that it is placed on the other one.
  const runsOn = await submitTicker("run-on");
  await cluster.client.nodes.undrain("spare");
  proxy.silence("both");
  await cluster.until(runsOn.id, "its node is silent", ({ phase }) => phase === "silent");
  await cluster.client.nodes.confirmLost("cut");
  await until("the next attempt ticks", () => runsOn.lines().includes(String(runsOn.first + 1)));
  proxy.heal();
  await until("the first one is gone", () => runsOn.sleepers() === 1);
});
