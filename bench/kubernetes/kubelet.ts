// Plays the nodes of a cluster: each registers itself, says that it is alive, and runs the pods that are bound to it, as
// processes of this machine in process namespaces of their own. As a real one it takes a moment to prepare a pod (a real one needs
// about a second for its sandbox and network), does not start what was deleted meanwhile, runs hooks before SIGTERM, keeps to the
// time that a pod has left, reports how containers ended and what they said last, and gives out their logs.
//
// There are no containers: of an image nothing is used but the directory in which its programs begin, and paths inside one (mounts, /tmp, the report file) become paths of
// the pod's own directory wherever a variable names them.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Any, Api } from "./api.ts";
import { NAMESPACE } from "./cluster.ts";

export interface Kubelets {
  /** In which programs of this image begin, if they name no other. */
  directoryOf(image: string): string;
  /** Nothing of it runs any more, and nothing is heard of it. */
  lose(node: string): Promise<void>;
  /** It is back, after it was lost. */
  revive(node: string): Promise<void>;
  /** Ends a pod because the node is short of something. */
  evictFromNode(podName: string): Promise<void>;
  close(): Promise<void>;
}

export interface KubeletOptions {
  readonly api: Api;
  readonly directory: string;
  readonly nodes: readonly string[];
  readonly gpusPerNode: number;
  readonly tls: { readonly cert: string; readonly key: string };
  /** Said beside the program's own variables. */
  readonly variables: Readonly<Record<string, string>>;
}

interface Line {
  readonly at: string;
  readonly text: string;
}

/** A pod on its node. */
interface Running {
  readonly uid: string;
  readonly name: string;
  readonly node: string;
  readonly pod: Any;
  readonly child: ChildProcess;
  readonly lines: Line[];
  readonly directory: string;
  ended: boolean;
  stopping?: { killAt: NodeJS.Timeout; hook?: ChildProcess; deadlineMs: number } | undefined;
  /** Why the node ended it. */
  evicted?: string;
}

const HEARTBEAT_MS = 2_000;
const PREPARE_MS = 500;
const CAPACITY = { cpu: "4", memory: "2000Mi", pods: "110" };

export async function startKubelets(options: KubeletOptions): Promise<Kubelets> {
  const { api, directory, nodes } = options;
  const pods = new Map<string, Running>();
  /** Everything that was ever started here: no uid is started twice. */
  const started = new Set<string>();
  /** Pods that are about to start. */
  const preparing = new Map<string, NodeJS.Timeout>();
  const ending = new AbortController();
  const lost = new Set<string>();
  const logs = await serveLogs(options, pods);
  const logPort = (logs.address() as { port: number }).port;

  const status = (uid: string, name: string, body: object) =>
    api.insist("PATCH", `/api/v1/namespaces/${NAMESPACE}/pods/${name}/status`, {
      metadata: { uid },
      status: body,
    });

  function directoryOf(image: string): string {
    const path = join(directory, "images", image.replaceAll("/", "_"));
    mkdirSync(path, { recursive: true });
    return path;
  }

  async function register(node: string): Promise<void> {
    const labels = { "kubernetes.io/hostname": node, gpu: "a100", "berth.dev/proof": "1" };
    await api.insist("POST", "/api/v1/nodes", { metadata: { name: node, labels }, spec: {} });
    const holderIdentity = node;
    const lease = { metadata: { name: node }, spec: { holderIdentity, leaseDurationSeconds: 40 } };
    await api.insist("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease);
    await beat(node);
  }

  async function beat(node: string): Promise<void> {
    const now = new Date().toISOString();
    const resources = { ...CAPACITY, "nvidia.com/gpu": String(options.gpusPerNode) };
    const fine = { lastHeartbeatTime: now, lastTransitionTime: now };
    await api.ask("PATCH", `/api/v1/nodes/${node}/status`, {
      status: {
        ...{ capacity: resources, allocatable: resources },
        addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
        daemonEndpoints: { kubeletEndpoint: { Port: logPort } },
        conditions: [
          { type: "Ready", status: "True", reason: "KubeletReady", ...fine },
          { type: "MemoryPressure", status: "False", reason: "Fine", ...fine },
          { type: "DiskPressure", status: "False", reason: "Fine", ...fine },
          { type: "PIDPressure", status: "False", reason: "Fine", ...fine },
        ],
      },
    });
    await api.ask("PATCH", `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${node}`, {
      spec: { renewTime: now.replace("Z", "000Z") },
    });
  }

  /** What the API server says of a pod, as often as it says it. */
  function take(type: string, pod: Any): void {
    const { uid, deletionTimestamp } = pod.metadata;
    const node = pod.spec.nodeName as string | undefined;
    if (node === undefined || !nodes.includes(node) || lost.has(node)) return;
    const known = pods.get(uid);
    if (type === "DELETED") return void (known !== undefined && !known.ended && end(known, "SIGKILL"));
    if (known !== undefined) {
      if (deletionTimestamp !== undefined && !known.ended) stop(known, pod);
      return;
    }
    if (preparing.has(uid)) {
      if (deletionTimestamp === undefined) return;
      clearTimeout(preparing.get(uid));
      preparing.delete(uid);
      return void remove(uid, pod.metadata.name);
    }
    const isOver = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
    if (started.has(uid) || isOver) return;
    started.add(uid);
    if (deletionTimestamp === undefined) return prepare(pod, node);
    void remove(uid, pod.metadata.name); // Deleted before it was started.
  }

  function prepare(pod: Any, node: string): void {
    const { uid } = pod.metadata;
    const begin = () => {
      preparing.delete(uid);
      if (!lost.has(node)) void start(pod, node);
    };
    preparing.set(uid, setTimeout(begin, PREPARE_MS));
  }

  async function start(pod: Any, node: string): Promise<void> {
    const { uid, name } = pod.metadata;
    const container = pod.spec.containers[0];
    const own = join(directory, "pods", uid);
    mkdirSync(join(own, "tmp"), { recursive: true });
    const env = environmentOf(pod, own, directory, { ...options.variables, PROOF_NODE: node });
    const words = (container.command as string[]).map((word) => word.replaceAll("$$", "$"));
    const child = spawn("unshare", ["--pid", "--fork", "--kill-child", "--", ...words], {
      ...{
        env,
        cwd: container.workingDir ?? directoryOf(container.image),
        stdio: ["ignore", "pipe", "pipe"],
        detached: true,
      },
    });
    const running: Running = { ...{ uid, name, node, pod, child, directory: own }, lines: [], ended: false };
    pods.set(uid, running);
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream as NonNullable<typeof stream>).on("line", (text) => {
        running.lines.push({ at: stampAfter(running.lines.at(-1)?.at), text });
      });
    child.once("close", (code, signal) => void settle(running, code, signal));
    await status(uid, name, {
      phase: "Running",
      startTime: new Date().toISOString(),
      conditions: [{ type: "PodScheduled", status: "True" }],
      containerStatuses: [statusOf({ running: { startedAt: new Date().toISOString() } }, container.image)],
    });
  }

  /** How it ended is said before it is let go. */
  async function settle(running: Running, code: number | null, signal: NodeJS.Signals | null): Promise<void> {
    const { uid, name, node, pod } = running;
    running.ended = true;
    clearTimeout(running.stopping?.killAt);
    running.stopping?.hook?.kill("SIGKILL");
    if (lost.has(node)) return;
    const exitCode = code ?? 128 + (signal === "SIGKILL" ? 9 : 15);
    const message = read(join(running.directory, "report"))?.slice(0, 4_096);
    const reason = exitCode === 0 ? "Completed" : "Error";
    const terminated = {
      exitCode,
      reason,
      finishedAt: new Date().toISOString(),
      ...(message ? { message } : {}),
    };
    const why = running.evicted === undefined ? {} : { reason: "Evicted", message: running.evicted };
    await status(uid, name, {
      phase: exitCode === 0 ? "Succeeded" : "Failed",
      ...why,
      containerStatuses: [statusOf({ terminated }, pod.spec.containers[0].image)],
    });
    if (running.stopping !== undefined) await remove(uid, name);
  }

  /** The node has done with it. */
  async function remove(uid: string, name: string): Promise<void> {
    const body = { gracePeriodSeconds: 0, preconditions: { uid } };
    await api.insist("DELETE", `/api/v1/namespaces/${NAMESPACE}/pods/${name}`, body);
  }

  /** A hook, then SIGTERM, then SIGKILL at the end of its time, which may become shorter meanwhile. */
  function stop(running: Running, pod: Any): void {
    const deadlineMs = Date.parse(pod.metadata.deletionTimestamp);
    const leftMs = Math.max(0, deadlineMs - Date.now());
    if (running.stopping !== undefined) {
      if (deadlineMs >= running.stopping.deadlineMs) return;
      clearTimeout(running.stopping.killAt);
      running.stopping.deadlineMs = deadlineMs;
      running.stopping.killAt = setTimeout(() => end(running, "SIGKILL"), leftMs);
      return;
    }
    running.stopping = { deadlineMs, killAt: setTimeout(() => end(running, "SIGKILL"), leftMs) };
    const hook = pod.spec.containers[0].lifecycle?.preStop?.exec?.command as string[] | undefined;
    if (hook === undefined) return end(running, "SIGTERM");
    const inside = initOf(running);
    const env = environmentOf(running.pod, running.directory, directory, options.variables);
    running.stopping.hook = spawn("nsenter", [`--target=${inside}`, "--pid", "--", ...hook], {
      env,
      stdio: "ignore",
    });
    running.stopping.hook.once("close", () => !running.ended && end(running, "SIGTERM"));
  }

  const beating = setInterval(() => {
    for (const node of nodes) if (!lost.has(node)) beat(node).catch(() => undefined);
  }, HEARTBEAT_MS);
  for (const node of nodes) await register(node);
  void follow(api, take, ending.signal);

  return {
    directoryOf,
    async lose(node) {
      lost.add(node);
      for (const running of pods.values())
        if (running.node === node && !running.ended) end(running, "SIGKILL");
    },
    async revive(node) {
      for (const [uid, running] of pods) if (running.node === node) pods.delete(uid);
      lost.delete(node);
      await register(node);
    },
    async evictFromNode(podName) {
      const running = [...pods.values()].find(({ name, ended }) => name === podName && !ended);
      if (running === undefined) return;
      running.evicted = "The node was low on resource: memory.";
      end(running, "SIGKILL");
    },
    async close() {
      clearInterval(beating);
      for (const timer of preparing.values()) clearTimeout(timer);
      ending.abort();
      for (const running of pods.values()) if (!running.ended) end(running, "SIGKILL");
      logs.closeAllConnections();
      logs.close();
    },
  };
}

/** Lists and watches, again and again: whatever was missed is in the next list. */
async function follow(api: Api, take: (type: string, pod: Any) => void, signal: AbortSignal): Promise<void> {
  const path = `/api/v1/namespaces/${NAMESPACE}/pods`;
  while (!signal.aborted) {
    const { body } = await api.insist("GET", path);
    for (const pod of body.items ?? []) take("ADDED", pod);
    const version = body.metadata?.resourceVersion;
    await api.watch(`${path}?watch=true&timeoutSeconds=60&resourceVersion=${version}`, take, signal);
  }
}

/** To the first process of its namespace: with it the whole namespace ends, and nothing is left that holds its output. */
function end(running: Running, signal: NodeJS.Signals): void {
  try {
    process.kill(initOf(running), signal);
  } catch {
    // It is gone already.
  }
}

/** The first process of its namespace, as this machine numbers it. */
function initOf({ child }: Pick<Running, "child">): number {
  const children = read(`/proc/${child.pid}/task/${child.pid}/children`) ?? "";
  return Number.parseInt(children, 10) || (child.pid as number);
}

function statusOf(state: object, image: string): object {
  return { name: "job", image, imageID: "", ready: false, restartCount: 0, started: true, state };
}

function environmentOf(
  pod: Any,
  own: string,
  directory: string,
  more: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv {
  const container = pod.spec.containers[0];
  const places: [string, string][] = [
    ["/dev/termination-log", join(own, "report")],
    ["/tmp/", `${join(own, "tmp")}/`],
    ...((container.volumeMounts ?? []) as Any[]).flatMap(
      ({ name, mountPath, subPath = "" }): [string, string][] => {
        const claim = pod.spec.volumes?.find((volume: Any) => volume.name === name)?.persistentVolumeClaim;
        if (claim === undefined) return [];
        const path = join(directory, "volumes", claim.claimName, subPath);
        mkdirSync(path, { recursive: true });
        return [[mountPath, path]];
      },
    ),
  ];
  const values = ((container.env ?? []) as Any[]).map(({ name, value = "" }): [string, string] => {
    const place = places.find(([inside]) => value.startsWith(inside));
    return [name, place === undefined ? value.replaceAll("$$", "$") : value.replace(place[0], place[1])];
  });
  return { PATH: process.env.PATH, HOME: own, ...Object.fromEntries(values), ...more };
}

/** Later than the line before it. */
function stampAfter(last: string | undefined): string {
  const now = `${new Date().toISOString().slice(0, -1)}000000Z`;
  if (last === undefined || now > last) return now;
  const fraction = String(Number(last.slice(20, 29)) + 1).padStart(9, "0");
  return `${last.slice(0, 20)}${fraction}Z`;
}

/** What the API server asks a node for, when it is asked for a log. */
function serveLogs({ tls }: KubeletOptions, pods: ReadonlyMap<string, Running>): Promise<Server> {
  const server = createServer(tls, (request, response) => {
    const url = new URL(request.url ?? "", "https://node");
    const [, kind, , name] = url.pathname.split("/");
    const running = [...pods.values()].findLast((one) => one.name === name);
    if (kind !== "containerLogs" || running === undefined) return void response.writeHead(404).end();
    const since = url.searchParams.get("sinceTime") ?? "";
    const isFollowed = url.searchParams.get("follow") === "true";
    const hasTimes = url.searchParams.get("timestamps") === "true";
    let position = 0;
    response.writeHead(200, { "content-type": "text/plain" });
    response.flushHeaders();
    const give = () => {
      const isEnded = running.ended; // Asked first: what comes before the end is given.
      for (; position < running.lines.length; position++) {
        const { at, text } = running.lines[position] as Line;
        if (at.slice(0, 19) < since.slice(0, 19)) continue;
        response.write(hasTimes ? `${at} ${text}\n` : `${text}\n`);
      }
      if (isEnded || !isFollowed) {
        clearInterval(giving);
        response.end();
      }
    };
    const giving = setInterval(give, 50);
    response.once("close", () => clearInterval(giving));
    give();
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
