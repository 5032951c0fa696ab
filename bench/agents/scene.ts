// Servers, three machines with agents, and a way between each pair of them that can be broken.

import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startTcpProxy, type TcpProxy } from "../../test/support/proxy.ts";
import type { Programs } from "./build.ts";
import { type Api, createApi } from "./calls.ts";
import { type Machine, type Network, openNetwork, within } from "./machines.ts";
import { type Servers, type StoreKind, startServers } from "./servers.ts";

export interface Node {
  readonly machine: Machine;
  /** To each server. */
  readonly paths: readonly TcpProxy[];
}

export interface Scene {
  readonly api: Api;
  readonly servers: Servers;
  readonly nodes: readonly Node[];
  /** Where jobs leave their marks. */
  readonly evidence: string;
  readonly directory: string;
  readonly hasCables: boolean;
  close(): Promise<void>;
}

export const NODE_GPUS = 4;
/** Silent for so long, a node counts as lost; the agent acts at two thirds of that. */
export const LOST_SECONDS = 18;
const GRACE_SECONDS = 2;

export async function openScene(options: {
  readonly programs: Programs;
  readonly store: StoreKind;
  readonly directory: string;
  readonly namespaces: boolean;
}): Promise<Scene> {
  const { programs, store, directory } = options;
  const evidence = join(directory, "evidence");
  const scratch = join(directory, "scratch");
  chmodSync(directory, 0o755);
  for (const path of [evidence, scratch]) {
    mkdirSync(path);
    chmodSync(path, 0o777); // Jobs run as another user if the proof runs as root.
  }
  const policy = join(directory, "agent.yaml");
  writeFileSync(policy, `components: { "*": { users: [nobody], directories: [${scratch}] } }\n`, {
    mode: 0o600,
  });
  const servers = await startServers(store, programs.server, directory);
  const network = openNetwork(options.namespaces);
  const nodes: Node[] = [];
  const close = async () => {
    for (const { machine, paths } of nodes) {
      await machine.close();
      for (const path of paths) await path.close();
    }
    network.close();
    await servers.close();
  };
  try {
    const api = createApi(
      servers.ports.map((port) => `http://127.0.0.1:${port}`),
      servers.token,
    );
    await makePool(api);
    for (let index = 1; index <= 3; index++)
      nodes.push(await addNode(index, { api, servers, network, directory, policy, agent: programs.agent }));
    await within(60_000, "three nodes that are ready", async () => {
      const { items } = await api.call("GET", "/v1/nodes");
      return (items as { state: string }[]).filter(({ state }) => state === "ready").length === 3;
    });
    const hasCables = nodes.every(({ machine }) => machine.hasCable);
    return { api, servers, nodes, evidence, directory, hasCables, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function makePool(api: Api): Promise<void> {
  await api.call("PUT", "/v1/pools/lab", {
    settings: {
      executor: "agents",
      node_lost_seconds: LOST_SECONDS,
      grace_seconds: GRACE_SECONDS,
      checkpoint_timeout_seconds: 10,
      max_preemptions: null,
      min_runtime_seconds: 0,
    },
  });
  await api.call("PUT", "/v1/pools/lab/policies/vision", { priority: 0 });
  await api.call("PUT", "/v1/pools/lab/policies/urgent", { priority: 100 });
}

async function addNode(
  index: number,
  world: {
    readonly api: Api;
    readonly servers: Servers;
    readonly network: Network;
    readonly directory: string;
    readonly policy: string;
    readonly agent: string;
  },
): Promise<Node> {
  const { api, servers, network, directory, policy, agent } = world;
  const name = `node-${index}`;
  const paths: TcpProxy[] = [];
  for (const port of servers.ports) {
    const path = await startTcpProxy(network.address);
    path.aim(port);
    paths.push(path);
  }
  const urls = paths.map(({ port }) => `http://${network.address}:${port}`).join(",");
  const args = ["--state-dir", join(directory, name), "--policy", policy, "--capacity", `gpu=${NODE_GPUS}`];
  const machine = await network.machine({ name, index, directory, agent, args });
  const { join_token: token } = await api.call("POST", `/v1/nodes/${name}/enrol`, { pool: "lab" });
  machine.startAgent(["--join", token, "--name", name, "--url", urls]);
  return { machine, paths };
}
