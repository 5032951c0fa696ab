// The calls to a cluster that the adapter makes, by the official client. It is loaded here and nowhere else, and only when an
// adapter or `berth doctor --kubernetes` runs: it is no part of Berth's own installation.

import { type Readable, Writable } from "node:stream";
import { CONTAINER, FINALIZER, REQUEST_ANNOTATION } from "./labels.ts";
import type { JobManifest } from "./manifest.ts";
import type { ClusterEvent, ClusterNode, ClusterObject, Job, Pod } from "./objects.ts";

/** Objects of one kind, as far as they matter here. */
export interface Collection<T extends ClusterObject> {
  list(): Promise<{ readonly items: readonly T[]; readonly version: string }>;
  /** Resolves when the cluster ends it, rejects when it breaks. */
  watch(version: string, onEvent: (event: WatchEvent<T>) => void, signal: AbortSignal): Promise<void>;
}

export interface WatchEvent<T> {
  readonly type: string;
  readonly object: T & { readonly code?: number };
}

/** Something that the adapter must be allowed to do. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** Undefined: everywhere. */
  readonly namespace?: string;
}

export interface Kubernetes {
  readonly namespace: string;
  version(): Promise<string>;
  /** By the clock of the API server, in milliseconds. */
  time(): Promise<number | undefined>;
  jobs(selector: string): Collection<Job>;
  pods(selector: string): Collection<Pod>;
  /** Of all namespaces, those that have not ended. */
  livePods(): Collection<Pod>;
  nodes(selector: string | undefined): Collection<ClusterNode>;
  /** `taken`: a job of this name is another request's. */
  makeJob(job: JobManifest, requestId: string): Promise<"made" | "there" | "taken">;
  /** In the foreground. What is gone is deleted. */
  deleteJob(name: string): Promise<void>;
  deletePod(pod: { readonly name: string; readonly uid: string }, graceSeconds: number): Promise<void>;
  /** Lets go of a pod, so that the cluster can forget it. */
  releasePod(pod: Pod): Promise<void>;
  /** About the object of that name, the newest last. */
  events(name: string): Promise<ClusterEvent[]>;
  /** Lines with their times; resolves when there is no more. */
  followLog(
    pod: string,
    since: string | undefined,
    onData: (data: Buffer) => void,
    signal: AbortSignal,
  ): Promise<void>;
  may(right: Right): Promise<boolean>;
  /** What of the cluster may work against Berth, as far as it may be read. */
  settings(): Promise<ClusterSettings>;
}

export interface ClusterSettings {
  readonly classes: readonly { readonly name: string; readonly value: number; readonly preempts: boolean }[];
  /** The names of LimitRanges that add requests to pods. */
  readonly defaults: readonly string[];
  /** The names of ResourceQuotas. */
  readonly quotas: readonly string[];
}

export interface Connection {
  /** Left out: as kubectl finds it, or the account of the pod that this runs in. */
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  /** Left out: that of the context. */
  readonly namespace?: string | undefined;
}

/** The cluster did not do it, or did not answer: what became of it is seen in the next look. */
export class KubernetesFailure extends Error {
  readonly status: number | undefined;
  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

export const CLIENT_PACKAGE = "@kubernetes/client-node";
export const CLIENT_VERSION = "1.4.0";

/** The client is not installed. */
export class ClientMissing extends Error {}

const CALL_MS_MAX = 30_000;
const LIST_ITEMS_MAX = 500;
/** A watch ends by itself after this time, and one that is silent for longer is broken: bookmarks come every minute. */
const WATCH_SECONDS_MAX = 240;
const WATCH_SILENT_MS_MAX = 150_000;
/** Found where the cluster keeps the namespace of the account that a pod runs as. */
const DEFAULT_NAMESPACE = "default";

// biome-ignore lint/suspicious/noExplicitAny: the package may not be installed, so its types cannot be used.
type Any = any;

export async function openKubernetes(connection: Connection): Promise<Kubernetes> {
  const client = await loadClient();
  const config = new client.KubeConfig();
  if (connection.kubeconfig === undefined) config.loadFromDefault();
  else config.loadFromFile(connection.kubeconfig);
  if (connection.context !== undefined) {
    if (config.getContextObject(connection.context) === null)
      throw new KubernetesFailure(`The kubeconfig has no context ${connection.context}.`);
    config.setCurrentContext(connection.context);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new KubernetesFailure("The kubeconfig names no cluster.");
  const own = config.getContextObject(config.getCurrentContext())?.namespace as string | undefined;
  return createKubernetes(client, config, connection.namespace ?? own ?? DEFAULT_NAMESPACE);
}

/** Its name is no word of an import, so that nothing looks for it before it is needed. */
async function loadClient(): Promise<Any> {
  const name: string = CLIENT_PACKAGE;
  try {
    return await import(name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new ClientMissing(`The Kubernetes client is not installed: ${CLIENT_PACKAGE} ${CLIENT_VERSION}.`);
  }
}

function createKubernetes(client: Any, config: Any, namespace: string): Kubernetes {
  const apis = apisOf(client, config);
  const { core, batch, authorization, version } = apis;
  const call = <T = Any>(what: string, answer: Promise<T>): Promise<T> =>
    answer.catch((error) => fail(what, error));
  const collection = <T extends ClusterObject>(
    path: string,
    query: Readonly<Record<string, string>>,
    list: (more: object) => Promise<Any>,
  ): Collection<T> => ({
    list: () =>
      call(
        `GET ${path}`,
        listAll<T>((more) => list({ ...query, ...more })),
      ),
    watch: (from, onEvent, signal) => watch(client, config, { path, query, from, onEvent, signal }),
  });
  const inNamespace = `/api/v1/namespaces/${namespace}`;

  return {
    namespace,
    version: async () => String((await call<Any>("GET /version", version.getCode())).gitVersion),
    time: () => call("GET /version", serverTime(config)),
    jobs: (labelSelector) =>
      collection(`/apis/batch/v1/namespaces/${namespace}/jobs`, { labelSelector }, (more) =>
        batch.listNamespacedJob({ namespace, ...more }),
      ),
    pods: (labelSelector) =>
      collection(`${inNamespace}/pods`, { labelSelector }, (more) =>
        core.listNamespacedPod({ namespace, ...more }),
      ),
    livePods: () =>
      collection("/api/v1/pods", { fieldSelector: "status.phase!=Succeeded,status.phase!=Failed" }, (more) =>
        core.listPodForAllNamespaces(more),
      ),
    nodes: (labelSelector) =>
      collection("/api/v1/nodes", labelSelector === undefined ? {} : { labelSelector }, (more) =>
        core.listNode(more),
      ),
    async makeJob(body, requestId) {
      const what = `make job ${body.metadata.name}`;
      try {
        await batch.createNamespacedJob({ namespace, body });
        return "made";
      } catch (error) {
        if ((error as { code?: number }).code !== 409) fail(what, error);
        const { name } = body.metadata;
        const job: Job = await call(what, batch.readNamespacedJob({ namespace, name }));
        return job.metadata?.annotations?.[REQUEST_ANNOTATION] === requestId ? "there" : "taken";
      }
    },
    deleteJob: (name) =>
      gone(
        `delete job ${name}`,
        batch.deleteNamespacedJob({ namespace, name, propagationPolicy: "Foreground" }),
      ),
    deletePod: ({ name, uid }, gracePeriodSeconds) =>
      gone(
        `delete pod ${name}`,
        core.deleteNamespacedPod({ namespace, name, body: { gracePeriodSeconds, preconditions: { uid } } }),
      ),
    async releasePod({ metadata = {} }) {
      const { name, finalizers = [], resourceVersion } = metadata;
      if (!finalizers.includes(FINALIZER)) return;
      const body = {
        metadata: { resourceVersion, finalizers: finalizers.filter((one) => one !== FINALIZER) },
      };
      const options = client.setHeaderOptions("Content-Type", "application/merge-patch+json");
      await gone(`release pod ${name}`, core.patchNamespacedPod({ namespace, name, body }, options));
    },
    async events(name) {
      const fieldSelector = `involvedObject.name=${name}`;
      const { items } = await call(
        `events of ${name}`,
        core.listNamespacedEvent({ namespace, fieldSelector }) as Promise<{ items: ClusterEvent[] }>,
      );
      return items.toSorted((a, b) => timeOf(a) - timeOf(b));
    },
    followLog: (pod, since, onData, signal) =>
      followLog(new client.Log(config), { namespace, pod, since, onData, signal }),
    async may({ verb, group, resource, subresource, namespace: where }) {
      const resourceAttributes = { verb, group, resource, subresource, namespace: where };
      const body = { spec: { resourceAttributes } };
      const review = await call<Any>("ask for rights", authorization.createSelfSubjectAccessReview({ body }));
      return review.status?.allowed === true;
    },
    settings: () => settingsOf(apis, namespace),
  };
}

type Apis = Record<"core" | "batch" | "authorization" | "version" | "scheduling", Any>;

async function settingsOf({ core, scheduling }: Apis, namespace: string): Promise<ClusterSettings> {
  const [classes, ranges, quotas] = (await Promise.all(
    [
      scheduling.listPriorityClass(),
      core.listNamespacedLimitRange({ namespace }),
      core.listNamespacedResourceQuota({ namespace }),
    ].map((answer: Promise<Any>) => answer.then(({ items }) => items).catch(() => [])),
  )) as [Any[], Any[], Any[]];
  const hasDefaults = ({ spec }: Any) =>
    spec?.limits?.some(
      (one: Any) => one.type === "Container" && (one.defaultRequest ?? one._default) !== undefined,
    );
  return {
    classes: classes.map(({ metadata, value, preemptionPolicy }) => ({
      ...{ name: metadata?.name ?? "", value: Number(value), preempts: preemptionPolicy !== "Never" },
    })),
    defaults: ranges.filter(hasDefaults).map(({ metadata }) => metadata?.name ?? ""),
    quotas: quotas.map(({ metadata }) => metadata?.name ?? ""),
  };
}

/** Every call has an end, however silent the API server is. */
function apisOf(client: Any, config: Any): Apis {
  const configuration = client.createConfiguration({
    baseServer: new client.ServerConfiguration(config.getCurrentCluster().server, {}),
    authMethods: { default: config },
    promiseMiddleware: [
      {
        async pre(context: Any) {
          context.setSignal(AbortSignal.timeout(CALL_MS_MAX));
          return context;
        },
        post: async (context: Any) => context,
      },
    ],
  });
  return {
    core: new client.CoreV1Api(configuration),
    batch: new client.BatchV1Api(configuration),
    authorization: new client.AuthorizationV1Api(configuration),
    version: new client.VersionApi(configuration),
    scheduling: new client.SchedulingV1Api(configuration),
  };
}

async function listAll<T>(list: (more: object) => Promise<Any>): Promise<{ items: T[]; version: string }> {
  const items: T[] = [];
  for (let next: string | undefined; ; ) {
    const page = await list({ limit: LIST_ITEMS_MAX, ...(next !== undefined && { _continue: next }) });
    items.push(...(page.items as T[]));
    next = page.metadata?._continue || undefined;
    if (next === undefined) return { items, version: String(page.metadata?.resourceVersion ?? "") };
  }
}

interface Watching<T> {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly from: string;
  readonly onEvent: (event: WatchEvent<T>) => void;
  readonly signal: AbortSignal;
}

function watch<T>(
  client: Any,
  config: Any,
  { path, query, from, onEvent, signal }: Watching<T>,
): Promise<void> {
  const options = {
    ...query,
    resourceVersion: from,
    allowWatchBookmarks: true,
    timeoutSeconds: WATCH_SECONDS_MAX,
  };
  return new Promise((resolve, reject) => {
    let request: AbortController | undefined;
    const settle = (error: unknown) => {
      clearTimeout(silence);
      signal.removeEventListener("abort", end);
      if (error === null || error === undefined || signal.aborted) return resolve();
      fail(`watch ${path}`, error, reject);
    };
    const end = () => {
      request?.abort();
      settle(null);
    };
    const silence = setTimeout(() => {
      request?.abort();
      settle(new Error("nothing was heard for too long"));
    }, WATCH_SILENT_MS_MAX);
    signal.addEventListener("abort", end, { once: true });
    new client.Watch(config)
      .watch(
        path,
        options,
        (type: string, object: WatchEvent<T>["object"]) => {
          silence.refresh();
          if (!signal.aborted) onEvent({ type, object });
        },
        settle,
      )
      .then((controller: AbortController) => {
        request = controller;
        if (signal.aborted) controller.abort();
      }, settle);
  });
}

interface Following {
  readonly namespace: string;
  readonly pod: string;
  readonly since: string | undefined;
  readonly onData: (data: Buffer) => void;
  readonly signal: AbortSignal;
}

function followLog(log: Any, { namespace, pod, since, onData, signal }: Following): Promise<void> {
  return new Promise((resolve, reject) => {
    let request: AbortController | undefined;
    const sink = new Writable({
      write(data: Buffer, _, done) {
        onData(data);
        done();
      },
    });
    const end = () => {
      request?.abort();
      sink.destroy();
    };
    signal.addEventListener("abort", end, { once: true });
    sink.once("error", (error) => (signal.aborted ? resolve() : fail(`log of ${pod}`, error, reject)));
    sink.once("close", () => {
      signal.removeEventListener("abort", end);
      resolve();
    });
    // The client pipes, and a pipe passes on no break: without this a log whose connection breaks would never end.
    sink.once("pipe", (source: Readable) => source.once("error", (error: Error) => sink.destroy(error)));
    const options = { follow: true, timestamps: true, ...(since !== undefined && { sinceTime: since }) };
    log.log(namespace, pod, CONTAINER, sink, options).then(
      (opened: AbortController) => {
        request = opened;
        if (signal.aborted) end();
      },
      (error: unknown) => {
        signal.removeEventListener("abort", end);
        fail(`log of ${pod}`, error, reject);
      },
    );
  });
}

/** Every answer carries a date. */
async function serverTime(config: Any): Promise<number | undefined> {
  const { request } = await import("node:https");
  const options: Any = { method: "GET" };
  await config.applyToHTTPSOptions(options);
  const url = new URL(`${config.getCurrentCluster().server}/version`);
  return new Promise((resolve, reject) => {
    const call = request(url, { ...options, timeout: CALL_MS_MAX }, (answer) => {
      answer.resume();
      resolve(Date.parse(answer.headers.date ?? "") || undefined);
    });
    call.once("error", reject);
    call.end();
  });
}

/** What is not there any more, or has changed meanwhile, is looked at again. */
async function gone(what: string, answer: Promise<unknown>): Promise<void> {
  try {
    await answer;
  } catch (error) {
    const { code } = error as { code?: number };
    if (code !== 404 && code !== 409) fail(what, error);
  }
}

function timeOf({ lastTimestamp, eventTime, metadata }: ClusterEvent): number {
  return new Date(lastTimestamp ?? eventTime ?? metadata?.creationTimestamp ?? 0).getTime();
}

/** The words of the API server, without the headers that the client adds. */
function fail(what: string, error: unknown, reject?: (failure: KubernetesFailure) => void): never {
  const { code, statusCode, body, message } = error as {
    readonly code?: number | string;
    readonly statusCode?: number;
    readonly body?: unknown;
    readonly message?: string;
  };
  const status = statusCode ?? (typeof code === "number" ? code : undefined);
  // "request to https://… failed, reason: connect ECONNREFUSED".
  const said =
    wordsIn(body) ?? message?.split("\n")[0]?.replace(/^request to .* reason: /, "") ?? "no answer";
  const failure = new KubernetesFailure(`Kubernetes: ${what}: ${said}`, status);
  if (reject === undefined) throw failure;
  reject(failure);
  return undefined as never;
}

function wordsIn(body: unknown): string | undefined {
  if (typeof body === "string") {
    try {
      return wordsIn(JSON.parse(body));
    } catch {
      return body.trim() === "" ? undefined : body.trim().slice(0, 300);
    }
  }
  return (body as { message?: string } | undefined)?.message;
}
