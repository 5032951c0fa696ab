// A real server, and agents in this process whose shims and jobs are real processes.

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Agent, startAgent, writeMembership } from "../../src/agent/index.ts";
import { bootId } from "../../src/runner/index.ts";
import { type Client, createClient } from "../../src/sdk/index.ts";
import type { OpenServerOptions } from "../../src/server/index.ts";
import { openTestServer, type TestServer } from "./server-support.ts";

export interface AgentCluster {
  readonly server: TestServer;
  readonly client: Client;
  /** Where jobs may write: they run as another user if we are root. */
  readonly scratch: string;
  readonly agents: Map<string, Agent>;
  join(node: string, gpus?: number): Promise<void>;
  /** The same node from the same directory, as after an upgrade. */
  restart(node: string, options?: { readonly bootId?: string; readonly url?: string }): Promise<void>;
  directoryOf(node: string): string;
  submit(command: readonly string[], more?: object): Promise<string>;
  /** Resolves with the job when it is so. */
  until(id: string, what: string, isSo: (job: JobAnswer) => boolean): Promise<JobAnswer>;
  output(id: string, query?: object): Promise<string>;
  /** Resolves when no job is left. */
  endAll(): Promise<void>;
  close(): Promise<void>;
}

export type JobAnswer = Awaited<ReturnType<Client["jobs"]["get"]>>;

const WAIT_MS_MAX = 120_000;
const POLL_MS = 30;

export async function openAgentCluster({
  nodes = [] as string[],
  gpus = 2,
  settings = {},
  data = "memory" as OpenServerOptions["data"],
} = {}): Promise<AgentCluster> {
  const directory = mkdtempSync(join(tmpdir(), "berth-agents-"));
  chmodSync(directory, 0o755);
  const scratch = join(directory, "scratch");
  mkdirSync(scratch);
  chmodSync(scratch, 0o777);
  const policyFile = join(directory, "agent.yaml");
  writeFileSync(policyFile, `components: { "*": { users: [nobody], directories: [${directory}] } }\n`, {
    mode: 0o600,
  });
  const server = await openTestServer(data);
  const client = createClient({ url: server.url, token: server.adminSecret });
  await client.pools.create({ name: "lab", settings: { executor: "agents", grace_seconds: 5, ...settings } });
  await client.policies.attach("lab", { component: "vision", priority: 0 });
  await client.policies.attach("lab", { component: "urgent", priority: 100 });
  const tokens = new Map<string, { token: string; gpus: number }>();
  const agents = new Map<string, Agent>();
  const directoryOf = (node: string) => join(directory, node);

  const start = (node: string, { boot = bootId(), url = server.url } = {}) => {
    const { token, gpus: count } = tokens.get(node) as { token: string; gpus: number };
    const agent = startAgent({
      client: createClient({ url, token, timeoutMs: 10_000 }),
      node,
      stateDirectory: directoryOf(node),
      version: "test",
      bootId: boot,
      capacity: { gpu: count, mcpu: 8_000 },
      devices: () => [],
      policyFile,
      secrets: join(directory, "secrets"),
      checkpoints: join(directory, "checkpoints"), // As on a file system that all nodes share.
      tell: () => undefined,
    });
    agents.set(node, agent);
  };

  const cluster: AgentCluster = {
    server,
    client,
    scratch,
    agents,
    directoryOf,
    async join(node, count = gpus) {
      const enrolled = await client.call("enrolNode", { params: { node }, body: { pool: "lab" } });
      const joiner = createClient({ url: server.url, token: enrolled.join_token });
      const joined = await joiner.agent.join(node, { capacity: { gpu: count, mcpu: 8_000 } });
      tokens.set(node, { token: joined.node_token, gpus: count });
      writeMembership(directoryOf(node), { node, pool: "lab", urls: [server.url], token: joined.node_token });
      start(node);
    },
    async restart(node, { bootId: boot, url } = {}) {
      await agents.get(node)?.close();
      start(node, { ...(boot !== undefined && { boot }), ...(url !== undefined && { url }) });
    },
    async submit(command, { run = {}, ...more }: { run?: object } & object = {}) {
      const job = await client.jobs.submit({
        component: "vision",
        resources: { gpu: 1 },
        run: { command: [...command], directory: scratch, ...run },
        ...more,
      } as never);
      return job.id;
    },
    async until(id, what, isSo) {
      let job = await client.jobs.get(id);
      for (const endMs = performance.now() + WAIT_MS_MAX; performance.now() < endMs; ) {
        if (isSo(job)) return job;
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        job = await client.jobs.get(id);
      }
      throw new Error(`Waited in vain until ${what}: ${JSON.stringify(job)}`);
    },
    async output(id, query = {}) {
      let text = "";
      for await (const { data } of client.jobs.logs(id, query)) text += Buffer.from(data).toString();
      return text;
    },
    async endAll() {
      const items = (await client.jobs.list()).items.filter((job) => !hasEnded(job as JobAnswer));
      for (const { id } of items) await client.requests.cancel(id);
      for (const { id } of items) await cluster.until(id, "it has ended", hasEnded);
    },
    async close() {
      await cluster.endAll();
      await Promise.all([...agents.values()].map((agent) => agent.close()));
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  for (const node of nodes) await cluster.join(node);
  return cluster;
}

export const hasEnded = ({ status }: JobAnswer) =>
  !["queued", "allocated", "running", "preempting"].includes(status);
