// A node that is cut off (E3): what it runs stands still before the server gives it to another node, and never goes on
// beside its successor.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startTcpProxy, type TcpProxy } from "../support/proxy.ts";
import { type AgentCluster, openAgentCluster } from "./agents-support.ts";
import { sleepersOf, uniqueSeconds, until } from "./runner-support.ts";

const LOST_SECONDS = 15;

/** Every wait has a limit of its own, which says what was waited for: this one is only the last. */
vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let cluster: AgentCluster;
let proxy: TcpProxy;
beforeAll(async () => {
  cluster = await openAgentCluster({ nodes: ["cut"], settings: { node_lost_seconds: LOST_SECONDS } });
  proxy = await startTcpProxy();
  proxy.aim(Number(new URL(cluster.server.url).port));
  await cluster.restart("cut", { url: `http://127.0.0.1:${proxy.port}` });
});
afterAll(async () => {
  await cluster.close();
  await proxy.close();
});

test("E3: a job on a node that is cut off is suspended, then lost, runs elsewhere, and is killed when the node is back", async () => {
  const ticks = join(cluster.scratch, "ticks");
  const seconds = uniqueSeconds();
  const script = `sleep ${seconds} & while :; do echo "$BERTH_ATTEMPT" >> ${ticks}; sleep 0.1; done`;
  const lines = () => readFileSync(ticks, "utf8").trim().split("\n");
  const id = await cluster.submit(["sh", "-c", script], { requeue: "on_failure" });
  await cluster.until(id, "it runs", ({ phase }) => phase === "running");
  await cluster.join("spare");
  proxy.silence("both");
  const moved = await cluster.until(
    id,
    "it runs on the other node",
    (job) => job.phase === "running" && job.attempt === 2,
  );
  expect(moved.where?.[0]?.node).toBe("spare");
  await until("the second attempt ticks", () => lines().includes("2"));
  expect(sleepersOf(seconds)).toHaveLength(2); // The first one still stands there.
  proxy.heal();
  await until("the first one is gone", () => sleepersOf(seconds).length === 1);
  expect(lines().lastIndexOf("1")).toBeLessThan(lines().indexOf("2"));
});
