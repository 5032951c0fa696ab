// Kubernetes runs the jobs of a pool (22), on a real control plane that this program starts itself (etcd, kube-apiserver,
// kube-scheduler, kube-controller-manager) and whose nodes it plays: jobs start, save, stop, come in arrays and on two nodes; nodes
// are drained and lost, pods are evicted, watches are cut and find their history compacted; then API server, adapter and Berth's
// leader are killed at any moment. No grant is started twice, nothing runs that Berth does not know, no exit is lost, and no node
// has more in use than it has.
// Usage: npm run prove:kubernetes -- [ROUNDS] [SEED] [--part=TEXT] [--store=sqlite|postgres] [--canaries]. --part: only stories or
// canaries with this text in their name. Exit code 2: something is missing on this machine.

import {
  CANARY_END_MS_MAX,
  type Canary,
  COMMON_STORIES,
  guideStory,
  insistOnPrograms,
  killAdapter,
  type Proof,
  prove,
  replaceLeader,
  type Story,
} from "./clusters/proof.ts";
import { until, type World } from "./clusters/world.ts";
import type { Any } from "./kubernetes/api.ts";
import { missingPrograms, NAMESPACE } from "./kubernetes/cluster.ts";
import { NODES, openScene, type Scene, siteOf } from "./kubernetes/scene.ts";
import type { Fault } from "./proving/canaries.ts";

const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;

insistOnPrograms(missingPrograms());

/** Pods that have not ended, with the requests that they belong to. */
async function livePods({ cluster }: Scene): Promise<Any[]> {
  const { body } = await cluster.api.insist("GET", PODS);
  return body.items.filter((pod: Any) => !["Succeeded", "Failed"].includes(pod.status.phase));
}

async function podOf(scene: Scene, id: string): Promise<Any> {
  let found: Any;
  await until(`${id} has a pod`, async () => {
    found = (await livePods(scene)).find((pod) => pod.metadata.annotations["berth.dev/request"] === id);
    return found !== undefined;
  });
  return found;
}

async function logOf({ url, token }: World, id: string): Promise<string> {
  const headers = { authorization: `Bearer ${token}` };
  return (await fetch(`${url.split(",")[0]}/v1/jobs/${id}/logs`, { headers })).text();
}

const setNode = ({ cluster }: Scene, node: string, spec: object) =>
  cluster.api.insist("PATCH", `/api/v1/nodes/${node}`, { spec });

function storiesOf(scene: Scene): Record<string, Story> {
  const { cluster, kubelets, way } = scene;
  const { api } = cluster;
  return {
    ...COMMON_STORIES,
    "the commands of the guide": guideStory({
      file: "kubernetes.md",
      env: { ...process.env, KUBECONFIG: cluster.kubeconfigFor() },
      adapterOptions: (own) => ["--state-dir", `${own}/adapter`],
      replaced: () => ({}),
      home: () => kubelets.directoryOf("python:3.12"),
    }),
    async "a node is drained"(world) {
      await setNode(scene, "n1", { unschedulable: true });
      const isDrained = async () => ["draining", "drained"].includes(await world.nodeState("n1"));
      await until("Berth has taken note", isDrained, CANARY_END_MS_MAX).catch(() => undefined);
      const sinceMs = Date.now();
      for (let count = 0; count < 6; count++) await world.submit({ seconds: 1 });
      await until("those have ended", world.note, CANARY_END_MS_MAX).catch(() => undefined);
      world.drains.push({ node: "n1", sinceMs, untilMs: Date.now() });
      await setNode(scene, "n1", { unschedulable: null });
      const isReady = async () => (await world.nodeState("n1")) === "ready";
      await until("it is ready again", isReady, CANARY_END_MS_MAX).catch(() => undefined);
    },
    /** By its node, by the eviction of a drain, and by `kubectl delete`. */
    async "pods are evicted"(world) {
      const ids = await Promise.all([3, 3, 3].map((seconds) => world.submit({ seconds })));
      for (const id of ids) await world.phase(id, "running");
      const [first, second, third] = await Promise.all(ids.map((id) => podOf(scene, id)));
      await kubelets.evictFromNode(first.metadata.name);
      const { name } = second.metadata;
      const eviction = {
        apiVersion: "policy/v1beta1",
        kind: "Eviction",
        metadata: { name, namespace: NAMESPACE },
      };
      const evicted = await api.insist("POST", `${PODS}/${name}/eviction`, eviction);
      if (evicted.status > 299)
        await api.insist("POST", `${PODS}/${name}/eviction`, { ...eviction, apiVersion: "policy/v1" });
      await api.insist("DELETE", `${PODS}/${third.metadata.name}`);
      await until("they have ended, in another attempt each", world.note);
      for (const id of ids) {
        const { attempts } = await world.job(id);
        if (attempts[0].outcome !== "lost")
          throw new Error(`The attempt of an evicted pod is ${attempts[0].outcome}, not lost.`);
      }
    },
    async "the scheduler says why"(world) {
      const taint = { key: "proof", value: "1", effect: "NoSchedule" };
      for (const node of NODES) await setNode(scene, node, { taints: [taint] });
      const id = await world.submit({ seconds: 1 });
      await until("why names the scheduler's reason", async () => {
        const { body } = await world.call("GET", `/v1/resource-requests/${id}/explanation`);
        return JSON.stringify(body.text).includes("taint");
      });
      for (const node of NODES) await setNode(scene, node, { taints: null });
      await until("it has ended", world.note);
    },
    async "a node is lost"(world) {
      const ids: string[] = [];
      for (let count = 0; count < 3; count++) ids.push(await world.submit({ seconds: 8, gpus: 2 }));
      for (const id of ids) await world.phase(id, "running");
      await kubelets.lose("n3");
      await until("Berth suspects it", async () => (await world.nodeState("n3")) !== "ready");
      // As an administrator does with a machine that does not come back.
      await api.insist("DELETE", "/api/v1/nodes/n3");
      await until("all have ended, one of them elsewhere", world.note);
      await kubelets.revive("n3");
      await until("it is ready again", async () => (await world.nodeState("n3")) === "ready");
    },
    async "the watch is cut and its history compacted"(world) {
      const ids = await Promise.all([1, 1, 6].map((seconds) => world.submit({ seconds })));
      for (const id of ids) await world.phase(id, "running");
      const listsBefore = world.said.length;
      way.reset();
      await until("two have ended unseen", async () => (await livePods(scene)).length <= 1);
      await api.insist("POST", PODS, stranger("compacted"));
      await api.insist("DELETE", `${PODS}/compacted`);
      await cluster.compact();
      await cluster.killApiServer();
      await cluster.startApiServer();
      way.heal();
      await until("their ends were heard", world.note, CANARY_END_MS_MAX).catch(() => undefined);
      if (world.said.length === listsBefore)
        throw new Error("Nothing was listed again: the history was not gone, so this showed nothing.");
    },
  };
}

/** Bound to no node: it only moves the history on. */
function stranger(name: string): object {
  const container = { name: "x", image: "registry.example/x:1" };
  return { metadata: { name }, spec: { containers: [container], schedulerName: "nobody" } };
}

// --- Canaries: the same judge on an adapter with a mistake

const fault = (file: string, text: string, instead: string): Fault => ({
  ...{ what: `${file} ${text.slice(0, 30)}`, file: `src/executors/kubernetes/${file}.ts`, text, instead },
});

function canariesOf(scene: Scene): Canary[] {
  const stories = storiesOf(scene);
  const withoutSecondLook = [
    fault("steps", "if (second !== undefined) return", "if (second === null) return"),
    fault("steps", "if (deleted !== undefined) return", "if (deleted === null) return"),
  ];
  return [
    {
      what: "an adapter that forgets what it has made, and makes it again under another name",
      faults: [
        fault(
          "attempt",
          `super(entry, "kubernetes.json", {})`,
          `super(entry, \`of-\${process.pid}.json\`, {})`,
        ),
        fault("manifest", "podAntiAffinity: {", "podAntiAffinity: {}, none: {"),
        fault(
          "client",
          "await batch.createNamespacedJob({ namespace, body });",
          "await batch.createNamespacedJob({ namespace, body: { ...body, metadata: { ...body.metadata, name: body.metadata.name + process.pid } } });",
        ),
        ...withoutSecondLook,
      ],
      async story(world) {
        const id = await world.submit({ seconds: 8 });
        await world.phase(id, "running");
        await world.killAdapter();
        await world.startAdapter();
      },
    },
    {
      what: "an adapter that reports an end while a pod is left",
      faults: [
        fault("steps", "if (live.length > 0)\n    return [", "if (live.length > 99)\n    return ["),
        // An end also waits for the whole log, which goes on for as long as the pod.
        fault("kubernetes", "if (!seen.every(({ uid }) => logs.isComplete(uid))) return;", ""),
      ],
      async story(world) {
        const id = await world.submit({ seconds: 20, isStubborn: true }, true);
        await world.phase(id, "running");
        await world.cancel(id);
      },
    },
    {
      what: "an adapter that takes every end for a success",
      faults: [fault("states", "exitCode: signal > 0 ? 128 + signal : exitCode,", "exitCode: 0,")],
      story: async (world) => void (await world.submit({ seconds: 0.5, exitCode: 3 })),
    },
    {
      what: "an adapter that tells Kubernetes nothing of GPUs, and Berth of twice as many",
      faults: [
        fault("manifest", "...(gpu > 0 && {", "...(gpu < 0 && {"),
        fault("nodes", "gpu: toCount(left(gpuResource)),", "gpu: 2 * toCount(left(gpuResource)),"),
      ],
      async story(world) {
        for (let count = 0; count < 10; count++) await world.submit({ seconds: 6 });
      },
    },
    {
      what: "an adapter that takes a cordoned node for a ready one, and starts there all the same",
      faults: [
        fault(
          "nodes",
          `spec?.unschedulable === true ? "draining" : "ready"`,
          `spec === null ? "draining" : "ready"`,
        ),
        fault(
          "manifest",
          `restartPolicy: "Never",`,
          `restartPolicy: "Never", tolerations: [{ operator: "Exists" }],`,
        ),
      ],
      story: stories["a node is drained"] as Story,
    },
    {
      what: "an adapter that does not delete",
      faults: [
        fault("kubernetes", "return kubernetes.deleteJob(move.job);", "return Promise.resolve();"),
        fault("kubernetes", "return hurry(attempt, move.pods);", "return Promise.resolve();"),
      ],
      async story(world) {
        const id = await world.submit({ seconds: 120, isStubborn: true }, true);
        await world.phase(id, "running");
        await world.cancel(id);
      },
    },
    {
      what: "an adapter that lets Kubernetes replace a pod that was taken away",
      faults: [...withoutSecondLook, fault("manifest", "podAntiAffinity: {", "podAntiAffinity: {}, none: {")],
      async story(world) {
        const id = await world.submit({ seconds: 5 }, true);
        await world.phase(id, "running");
        const { metadata } = await podOf(scene, id);
        await scene.cluster.api.insist("DELETE", `${PODS}/${metadata.name}`);
        await until("it has ended", world.note);
      },
    },
    {
      what: "an adapter that waits for ever for a log whose connection was cut",
      faults: [
        fault("client", `sink.once("pipe", (source: Readable) =>`, `sink.once("pip", (source: Readable) =>`),
        fault("logs", "dead.abort();", "performance.now();"),
      ],
      async story(world) {
        const id = await world.submit({ seconds: 8 });
        await world.phase(id, "running");
        await until("its log is read", async () => (await logOf(world, id)).includes("started"));
        scene.way.reset();
        scene.way.heal();
      },
    },
    {
      what: "an adapter that does not list again when the history is gone",
      faults: [
        fault("mirror", "version = undefined; // ERROR", "version = String(version ?? 1); // ERROR"),
        fault(
          "mirror",
          "error.status === GONE) version = undefined;",
          "error.status === GONE) version = String(version);",
        ),
      ],
      story: stories["the watch is cut and its history compacted"] as Story,
    },
  ];
}

/** What a canary has left behind. */
async function cleanUp(scene: Scene): Promise<void> {
  const { api } = scene.cluster;
  scene.way.heal();
  await setNode(scene, "n1", { unschedulable: null });
  await api.insist("DELETE", `/apis/batch/v1/namespaces/${NAMESPACE}/jobs?propagationPolicy=Background`);
  await until("the cluster is empty", async () => {
    const { body } = await api.insist("GET", PODS);
    for (const { metadata } of body.items) {
      await api.insist("PATCH", `${PODS}/${metadata.name}`, { metadata: { finalizers: null } });
      await api.insist("DELETE", `${PODS}/${metadata.name}`, { gracePeriodSeconds: 1 });
    }
    return body.items.length === 0;
  });
}

// --- At last, because everything above must be there

const scene = await openScene();
try {
  const proof: Proof = {
    site: siteOf(scene),
    adapter: "kubernetes/adapter",
    /** What happened to its jobs, its pods and the nodes. */
    async about(_, notes) {
      const names = [...notes.matchAll(/"(berth-\d+-[\d-]+)"/g)].map(([, name]) => name as string);
      const { body } = await scene.cluster.api.insist("GET", "/api/v1/events");
      return body.items
        .filter(
          ({ involvedObject: { kind, name } }: Any) =>
            kind === "Node" || names.some((own) => name === own || name.startsWith(`${own}-`)),
        )
        .map(
          ({ lastTimestamp, involvedObject: { name }, reason, message }: Any) =>
            `${lastTimestamp} ${name} ${reason}: ${message}`,
        );
    },
    alive: async () =>
      (await livePods(scene)).map(
        ({ metadata, status }) =>
          `${metadata.name} ${metadata.annotations?.["berth.dev/request"]} ${status.phase} ${metadata.deletionTimestamp ?? ""}`,
      ),
  };
  console.log(`Kubernetes ${scene.cluster.version}`);
  const killServer = async (_: World, pause: () => Promise<void>) => {
    await scene.cluster.killApiServer();
    await pause();
    await scene.cluster.startApiServer();
  };
  await prove(proof, {
    ...{ stories: storiesOf(scene), victims: [killServer, killAdapter, replaceLeader] },
    ...{ canaries: canariesOf(scene), cleanUp: () => cleanUp(scene) },
  });
} finally {
  await scene.close();
}
process.exit();
