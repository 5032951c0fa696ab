// Records what a real API server answers to the adapter's client, for `kubernetes.test.ts`. Needs what `npm run prove:kubernetes`
// needs:
//
//   npx tsx test/recorded/record-kubernetes.ts          writes test/recorded/kubernetes-VERSION.json
//
// Another version: KUBEBUILDER_ASSETS names the directory of its programs.

import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { request as requestOver } from "node:https";
import { fileURLToPath } from "node:url";
import { until } from "../../bench/clusters/world.ts";
import {
  type KubernetesCluster,
  missingPrograms,
  NAMESPACE,
  openKubernetesCluster,
} from "../../bench/kubernetes/cluster.ts";
import { startKubelets } from "../../bench/kubernetes/kubelet.ts";
import { KubernetesFailure } from "../../src/executors/index.ts";
import { JOB, openPlayed, type Recorded } from "./kubernetes-support.ts";

const missing = missingPrograms();
if (missing.length > 0) {
  for (const line of missing) console.error(line);
  process.exit(2);
}
const cluster = await openKubernetesCluster();
const kubelets = await startKubelets({
  ...{ api: cluster.api, directory: cluster.directory, nodes: ["n1", "n2"], gpusPerNode: 2 },
  ...{ tls: cluster.tls(), variables: {} },
});
try {
  await record(cluster);
} finally {
  await kubelets.close();
  await cluster.close();
}
process.exit();

async function record({ api, port, kubeconfigFor, version }: KubernetesCluster): Promise<void> {
  const calls: Record<string, Recorded[]> = {};
  let label = "";
  const { authorization } = tokenIn(kubeconfigFor());
  const proxy = createServer((incoming, outgoing) => {
    void pass(port, authorization, incoming, outgoing).then((recorded) => {
      calls[label] = [...(calls[label] ?? []), recorded];
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const client = await openPlayed((proxy.address() as { port: number }).port);
  const take = async <T>(name: string, ask: () => Promise<T>): Promise<T | undefined> => {
    label = name;
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof KubernetesFailure)) throw error;
      return undefined;
    } finally {
      await until(`${name} is recorded`, async () => calls[name] !== undefined);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };
  const pods = client.pods("berth.dev/pool=lab");
  const phase = async (wanted: string) =>
    until(`it is ${wanted}`, async () => {
      const { body } = await api.ask("GET", `/api/v1/namespaces/${NAMESPACE}/pods`);
      return body.items[0]?.status.phase === wanted;
    });
  const watch = (name: string, from: string, ms: number) =>
    take(name, () => client.pods("berth.dev/pool=lab").watch(from, () => undefined, AbortSignal.timeout(ms)));

  await take("version", () => client.version());
  await take("may create jobs", () =>
    client.may({ verb: "create", group: "batch", resource: "jobs", namespace: NAMESPACE }),
  );
  await take("may get secrets", () =>
    client.may({ verb: "get", group: "", resource: "secrets", namespace: NAMESPACE }),
  );
  await until("the nodes are ready", async () => {
    const { body } = await api.ask("GET", "/api/v1/nodes");
    return body.items.every((node: { spec: { taints?: unknown } }) => node.spec.taints === undefined);
  });
  await take("nodes", () => client.nodes("berth.dev/proof=1").list());
  const { version: before = "" } = (await take("no pods", () => pods.list())) ?? {};
  await take("make", () => client.makeJob(JOB, "0190-a"));
  await take("make again", () => client.makeJob(JOB, "0190-a"));
  await take("make another's", () => client.makeJob(JOB, "0190-b"));
  await phase("Running");
  await take("jobs", () => client.jobs("berth.dev/pool=lab").list());
  await take("pods running", () => pods.list());
  await phase("Failed");
  await take("pods failed", () => pods.list());
  await watch("watch", before, 1_500);
  const { body } = await api.ask("GET", `/api/v1/namespaces/${NAMESPACE}/pods`);
  const [pod] = body.items;
  await take("log", () =>
    client.followLog(pod.metadata.name, undefined, () => undefined, AbortSignal.timeout(5_000)),
  );
  await take("events", () => client.events(pod.metadata.name));
  await take("delete", () => client.deleteJob(JOB.metadata.name));
  await until("it is on its way out", async () => {
    const job = await api.ask("GET", `/apis/batch/v1/namespaces/${NAMESPACE}/jobs/${JOB.metadata.name}`);
    return job.body.metadata?.deletionTimestamp !== undefined;
  });
  const { items = [] } = (await take("pods deleted", () => pods.list())) ?? {};
  for (const one of items) await take("release", () => client.releasePod(one));
  await take("delete what is gone", () => client.deleteJob("berth-9-9"));
  await take("forbidden", () =>
    client
      .jobs("a=b")
      .list()
      .then(() => forbidden(proxyPort(proxy))),
  );
  await cluster.compact();
  await cluster.killApiServer();
  await cluster.startApiServer();
  await watch("watch too old", "1", 1_500);

  proxy.close();
  const path = fileURLToPath(new URL(`kubernetes-${version}.json`, import.meta.url));
  writeFileSync(path, `${JSON.stringify(calls, null, 1)}\n`);
  console.log(`Wrote ${path}: ${Object.keys(calls).length} calls.`);
}

function proxyPort(proxy: ReturnType<typeof createServer>): number {
  return (proxy.address() as { port: number }).port;
}

/** In a namespace that the account has no rights in. */
async function forbidden(port: number): Promise<unknown> {
  return (await openPlayed(port, "default")).jobs("a=b").list();
}

function tokenIn(kubeconfig: string): { authorization: string } {
  const { users } = JSON.parse(readFileSync(kubeconfig, "utf8")) as { users: [{ user: { token: string } }] };
  return { authorization: `Bearer ${users[0].user.token}` };
}

/** To the API server and back, written down on the way. */
function pass(
  port: number,
  authorization: string,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<Recorded> {
  return new Promise((resolve) => {
    const sent: Buffer[] = [];
    const answered: Buffer[] = [];
    const { method = "", url = "" } = incoming;
    const type = incoming.headers["content-type"];
    incoming.on("data", (data: Buffer) => sent.push(data));
    incoming.once("end", () => {
      const headers = {
        authorization,
        accept: "application/json",
        ...(type !== undefined && { "content-type": type }),
      };
      const call = requestOver({
        host: "127.0.0.1",
        port,
        method,
        path: url,
        headers,
        rejectUnauthorized: false,
      });
      call.once("response", (answer) => {
        const status = answer.statusCode ?? 0;
        outgoing.writeHead(status, { "content-type": answer.headers["content-type"] ?? "application/json" });
        const finish = () =>
          resolve({
            ...{ method, path: url, status, answer: Buffer.concat(answered).toString() },
            ...(type !== undefined && { type }),
          });
        answer.on("data", (data: Buffer) => {
          answered.push(data);
          outgoing.write(data);
        });
        answer.once("end", () => outgoing.end());
        answer.once("close", finish);
        answer.once("error", finish);
        outgoing.once("close", () => call.destroy());
      });
      call.once("error", () => outgoing.destroy());
      call.end(Buffer.concat(sent));
    });
  });
}
