// A real control plane of Kubernetes on this machine: etcd, kube-apiserver, kube-scheduler and kube-controller-manager, with
// everything they keep in a temporary directory. Installs nothing, and listens on 127.0.0.1 only. Its nodes are played (`kubelet.ts`).

import { execFileSync } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { parseAllDocuments } from "yaml";
import { createDaemons } from "../clusters/daemons.ts";
import { freePorts, until } from "../clusters/world.ts";
import { type Api, createApi } from "./api.ts";

export interface KubernetesCluster {
  readonly directory: string;
  /** As an administrator. */
  readonly api: Api;
  readonly version: string;
  /** Of an account that has the rights of `deploy/kubernetes/adapter.yaml`, and no others; by this port of the API server. */
  kubeconfigFor(port?: number): string;
  /** Of an administrator. */
  readonly kubeconfig: string;
  readonly port: number;
  /** SIGKILL, as a power cut would. */
  killApiServer(): Promise<void>;
  startApiServer(): Promise<void>;
  /** Forgets the history up to now: a watch that was behind finds it gone. */
  compact(): Promise<void>;
  /** Certificate and key, as the API server has them. */
  tls(): { readonly cert: string; readonly key: string };
  close(): Promise<void>;
}

export const NAMESPACE = "berth-jobs";
const PROGRAMS = ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"] as const;
const MANIFEST = new URL("../../deploy/kubernetes/adapter.yaml", import.meta.url);
/** An account of the manifest. */
const ACCOUNT = "system:serviceaccount:berth:berth-adapter";
/**
 * A node that is silent for so long is not ready, and its pods are taken away so long after that. The first is Kubernetes' own
 * default: with less, nodes whose API server takes its time to come back count as silent, and every kill of it is an eviction.
 */
const NODE_SILENT_SECONDS = 40;
const TOLERATION_SECONDS = 3;
/** On a machine that has other things to do. */
const START_MS_MAX = 300_000;

/** What is missing on this machine, as sentences. */
export function missingPrograms(): string[] {
  if (process.getuid?.() !== 0)
    return ["Only root can play nodes, whose jobs have process namespaces: run this as root."];
  const missing = [...PROGRAMS, "unshare", "nsenter"].filter((name) => findProgram(name) === undefined);
  const how =
    "KUBEBUILDER_ASSETS names the directory of these programs; bench/kubernetes/build.sh builds them";
  return missing.length === 0 ? [] : [...missing.map((name) => `${name} is missing.`), `${how}.`];
}

/** `KUBEBUILDER_ASSETS`, then the path. */
export function findProgram(name: string): string | undefined {
  return [process.env.KUBEBUILDER_ASSETS, ...(process.env.PATH ?? "").split(delimiter)]
    .filter((place) => place !== undefined && place !== "")
    .map((place) => join(place as string, name))
    .find((path) => existsSync(path));
}

export async function openKubernetesCluster(): Promise<KubernetesCluster> {
  const daemons = createDaemons("kubernetes");
  const { directory, kill } = daemons;
  const at = (name: string) => join(directory, name);
  const ports = await freePorts(5);
  const [etcdPort = 0, peerPort = 0, port = 0, schedulerPort = 0, managerPort = 0] = ports;
  const secrets = { admin: randomBytes(16).toString("hex"), adapter: randomBytes(16).toString("hex") };
  const version = versionOf();
  const isOld = version.minor < 24;
  const key = generateKeyPairSync("rsa", { modulusLength: 2048 });
  writeFileSync(at("accounts.key"), key.privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
  writeFileSync(at("accounts.pub"), key.publicKey.export({ type: "spki", format: "pem" }));
  writeFileSync(
    at("tokens.csv"),
    `${secrets.admin},admin,1,"system:masters"\n${secrets.adapter},${ACCOUNT},2,"system:serviceaccounts"\n`,
    { mode: 0o600 },
  );
  const api = createApi(port, secrets.admin);
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;

  const start = (name: string, args: readonly string[]) =>
    daemons.start(name, findProgram(name) as string, args);

  const writeKubeconfig = (name: string, token: string, serverPort: number) => {
    writeFileSync(at(name), kubeconfigOf(serverPort, token), { mode: 0o600 });
    return at(name);
  };

  const cluster: KubernetesCluster = {
    directory,
    api,
    port,
    version: `${version.major}.${version.minor}`,
    kubeconfig: writeKubeconfig("admin.conf", secrets.admin, port),
    kubeconfigFor: (by = port) => writeKubeconfig(`adapter-${by}.conf`, secrets.adapter, by),
    killApiServer: () => kill("kube-apiserver"),
    async startApiServer() {
      start("kube-apiserver", [
        ...[`--etcd-servers=${etcdUrl}`, "--bind-address=127.0.0.1", `--secure-port=${port}`],
        ...[`--cert-dir=${at("certificates")}`, `--token-auth-file=${at("tokens.csv")}`],
        ...[
          "--authorization-mode=Node,RBAC",
          "--service-cluster-ip-range=10.0.0.0/24",
          "--allow-privileged=true",
        ],
        ...[
          "--service-account-issuer=https://berth.example",
          `--service-account-key-file=${at("accounts.pub")}`,
        ],
        `--service-account-signing-key-file=${at("accounts.key")}`,
        `--default-not-ready-toleration-seconds=${TOLERATION_SECONDS}`,
        `--default-unreachable-toleration-seconds=${TOLERATION_SECONDS}`,
        ...(isOld ? ["--insecure-port=0"] : []),
      ]);
      await until(
        "kube-apiserver is ready",
        async () => (await api.ask("GET", "/readyz")).status === 200,
        START_MS_MAX,
      );
    },
    async compact() {
      const post = async (path: string, body: object) =>
        (await fetch(`${etcdUrl}${path}`, { method: "POST", body: JSON.stringify(body) })).json();
      const { header } = (await post("/v3/kv/range", { key: "AA==" })) as { header: { revision: string } };
      await post("/v3/kv/compaction", { revision: header.revision, physical: true });
    },
    tls: () => ({
      cert: readFileSync(at("certificates/apiserver.crt"), "utf8"),
      key: readFileSync(at("certificates/apiserver.key"), "utf8"),
    }),
    close: daemons.close,
  };

  try {
    start("etcd", [
      ...[
        `--data-dir=${at("etcd")}`,
        `--listen-client-urls=${etcdUrl}`,
        `--advertise-client-urls=${etcdUrl}`,
      ],
      ...[`--listen-peer-urls=http://127.0.0.1:${peerPort}`, "--unsafe-no-fsync"],
      `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
      `--initial-cluster=default=http://127.0.0.1:${peerPort}`,
    ]);
    await until("etcd is healthy", async () => (await fetch(`${etcdUrl}/health`)).ok);
    await cluster.startApiServer();
    const common = [`--kubeconfig=${at("admin.conf")}`, "--leader-elect=false", "--bind-address=127.0.0.1"];
    start("kube-controller-manager", [
      ...[...common, `--secure-port=${managerPort}`, ...(isOld ? ["--port=0"] : [])],
      ...[`--service-account-private-key-file=${at("accounts.key")}`, "--node-monitor-period=1s"],
      `--node-monitor-grace-period=${NODE_SILENT_SECONDS}s`,
    ]);
    start("kube-scheduler", [...common, `--secure-port=${schedulerPort}`, ...(isOld ? ["--port=0"] : [])]);
    await applyManifest(api);
  } catch (error) {
    for (const name of PROGRAMS) daemons.tellLog(name);
    await cluster.close();
    throw error;
  }
  return cluster;
}

/** The rights that the product ships, so that the proof shows that they suffice. */
async function applyManifest(api: Api): Promise<void> {
  for (const document of parseAllDocuments(readFileSync(MANIFEST, "utf8"))) {
    const object = document.toJS() as { kind: string; metadata: { namespace?: string; name: string } };
    const path = pathOf(object);
    if (path === undefined) continue;
    await until(`${object.kind} ${object.metadata.name} is made`, async () => {
      const { status } = await api.ask("POST", path, object);
      return status === 201 || status === 409;
    });
  }
  await until("the namespace has its account", async () => {
    const { status } = await api.ask("GET", `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/default`);
    return status === 200;
  });
}

/** Where an object of the manifest is made; undefined: not here, such as the adapter itself. */
function pathOf({ kind, metadata: { namespace } }: { kind: string; metadata: { namespace?: string } }) {
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  const paths: Record<string, string> = {
    Namespace: "/api/v1/namespaces",
    ServiceAccount: `/api/v1/namespaces/${namespace}/serviceaccounts`,
    Service: `/api/v1/namespaces/${namespace}/services`,
    Role: `${rbac}/namespaces/${namespace}/roles`,
    RoleBinding: `${rbac}/namespaces/${namespace}/rolebindings`,
    ClusterRole: `${rbac}/clusterroles`,
    ClusterRoleBinding: `${rbac}/clusterrolebindings`,
  };
  return paths[kind];
}

function kubeconfigOf(port: number, token: string): string {
  return JSON.stringify({
    ...{ apiVersion: "v1", kind: "Config", "current-context": "proof" },
    clusters: [
      { name: "proof", cluster: { server: `https://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } },
    ],
    users: [{ name: "proof", user: { token } }],
    contexts: [{ name: "proof", context: { cluster: "proof", user: "proof", namespace: NAMESPACE } }],
  });
}

function versionOf(): { major: number; minor: number } {
  const text = execFileSync(findProgram("kube-apiserver") as string, ["--version"], { encoding: "utf8" });
  const [, major = "1", minor = "0"] = /v(\d+)\.(\d+)/.exec(text) ?? [];
  return { major: Number(major), minor: Number(minor) };
}
