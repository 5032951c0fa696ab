// The manifests of deploy/kubernetes: they agree with each other, and their command line makes three replicas.
// `npm run prove:manifests` holds them against Kubernetes' own schemas.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { type ManifestSettings, manifestsOf } from "../src/executors/kubernetes/manifest.ts";
import type { WireWantedPart } from "../src/protocol/index.ts";
import { buildBerth } from "./e2e/run-support.ts";
import { callerOf } from "./e2e/server-support.ts";
import { freePort, startPostgres, type TestPostgres } from "./support/postgres.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = `${root}deploy/kubernetes/`;

// biome-ignore lint/suspicious/noExplicitAny: what is in a manifest is looked at field by field.
type Thing = any;

function readManifests(): Thing[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
  return names.flatMap((name) =>
    parseAllDocuments(readFileSync(folder + name, "utf8")).map((document) => {
      expect(document.errors).toEqual([]);
      return document.toJS();
    }),
  );
}

const find = (things: readonly Thing[], kind: string, name: string) =>
  things.find((thing) => thing.kind === kind && thing.metadata.name === name);

describe("what refers to something finds it", () => {
  test("in the manifests as they are", () => {
    expect(readManifests().flatMap((thing, _, all) => faultsOf(thing, all))).toEqual([]);
  });

  const plantedFaults: Record<string, { plant: (all: Thing[]) => void; finds: string }> = {
    "a selector that selects nothing": {
      plant: (all) => {
        find(all, "Service", "berth").spec.selector = { app: "bert" };
      },
      finds: "Service berth: selects no workload",
    },
    "a workload that does not select its own pods": {
      plant: (all) => {
        find(all, "Deployment", "berth").spec.template.metadata.labels = { app: "other" };
      },
      finds: "Deployment berth: does not select its pods",
    },
    "a port that no container has": {
      plant: (all) => {
        find(all, "Service", "berth").spec.ports[0].targetPort = "web";
      },
      finds: "Service berth: no container has port web",
    },
    "a probe of a port that is not there": {
      plant: (all) => {
        find(all, "Deployment", "berth").spec.template.spec.containers[0].readinessProbe.httpGet.port = 80;
      },
      finds: "Deployment berth: readinessProbe asks port 80",
    },
    "a mount without a volume": {
      plant: (all) => find(all, "Deployment", "berth").spec.template.spec.volumes.pop(),
      finds: "Deployment berth: no volume tmp",
    },
    "a claim that nobody mounts": {
      plant: (all) => {
        find(all, "StatefulSet", "berth-postgres").spec.template.spec.containers[0].volumeMounts = [];
      },
      finds: "StatefulSet berth-postgres: volume data is not mounted",
    },
    "a secret without the key": {
      plant: (all) => {
        find(all, "Secret", "berth").stringData = {};
      },
      finds: "Deployment berth: no key database-url in secret berth",
    },
    "an account that is not there": {
      plant: (all) => {
        find(all, "ServiceAccount", "berth").metadata.name = "other";
      },
      finds: "Deployment berth: no service account berth",
    },
    "a budget that allows no disruption": {
      plant: (all) => {
        find(all, "PodDisruptionBudget", "berth").spec.minAvailable = 3;
      },
      finds: "PodDisruptionBudget berth: no pod may ever be moved",
    },
    "a container that may become root": {
      plant: (all) => {
        find(all, "Deployment", "berth").spec.template.spec.securityContext.runAsNonRoot = false;
      },
      finds: "Deployment berth: may run as root",
    },
    "a container with capabilities": {
      plant: (all) => {
        find(all, "Deployment", "berth").spec.template.spec.containers[0].securityContext.capabilities = {};
      },
      finds: "Deployment berth: keeps privileges",
    },
  };
  for (const [name, { plant, finds }] of Object.entries(plantedFaults)) {
    test(`not with ${name}`, () => {
      const all = readManifests();
      plant(all);
      expect(all.flatMap((thing) => faultsOf(thing, all))).toContain(finds);
    });
  }
});

/** Everything that a cluster would accept and that still could not work. */
function faultsOf(thing: Thing, all: readonly Thing[]): string[] {
  const title = `${thing.kind} ${thing.metadata.name}`;
  const found: string[] = [];
  const check = (isFine: boolean, fault: string) => isFine || found.push(`${title}: ${fault}`);
  check(find(all, thing.kind, thing.metadata.name) === thing, "is there twice");
  if (thing.kind === "Service" || thing.kind === "PodDisruptionBudget") checkSelector(thing, all, check);
  if (thing.spec?.template !== undefined) checkWorkload(thing, all, check);
  return found;
}

type Check = (isFine: boolean, fault: string) => void;

function checkSelector({ kind, spec }: Thing, all: readonly Thing[], check: Check): void {
  const selector = kind === "Service" ? spec.selector : spec.selector.matchLabels;
  if (kind === "Service" && selects(selector, jobOfAdapter())) return; // Headless: all ports of all jobs.
  const workload = all.find((one) => one.spec?.template && selects(selector, one));
  check(workload !== undefined, "selects no workload");
  if (workload === undefined) return;
  if (kind === "PodDisruptionBudget") {
    check(spec.minAvailable < workload.spec.replicas, "no pod may ever be moved");
    return;
  }
  for (const { port, targetPort = port } of spec.ports) {
    check(
      portsOf(workload.spec.template.spec.containers).includes(targetPort),
      `no container has port ${targetPort}`,
    );
  }
}

/** Made by the adapter at the grant, so that no manifest has it. */
function jobOfAdapter(): Thing {
  const part = { request_id: "1", number: 1, attempt: 1, component: "alice", nodes: [], resources: {} };
  const settings = { pool: "lab", image: "python", gpuResource: "nvidia.com/gpu" };
  return manifestsOf(part as unknown as WireWantedPart, settings as unknown as ManifestSettings)[0];
}

function selects(selector: Readonly<Record<string, string>>, { spec }: Thing): boolean {
  return Object.entries(selector).every(([name, value]) => spec.template.metadata.labels[name] === value);
}

function portsOf(containers: readonly Thing[]): (string | number)[] {
  return containers.flatMap(({ ports = [] }) =>
    ports.flatMap(({ name, containerPort }: Thing) => [name, containerPort]),
  );
}

function checkWorkload({ spec }: Thing, all: readonly Thing[], check: Check): void {
  const pod = spec.template.spec;
  check(selects(spec.selector.matchLabels, { spec }), "does not select its pods");
  check(pod.securityContext.runAsNonRoot === true && pod.securityContext.runAsUser > 0, "may run as root");
  check(pod.securityContext.seccompProfile?.type === "RuntimeDefault", "has no seccomp profile");
  const { serviceAccountName: account } = pod;
  check(account === undefined || !!find(all, "ServiceAccount", account), `no service account ${account}`);
  const { serviceName } = spec;
  check(serviceName === undefined || !!find(all, "Service", serviceName), `no service ${serviceName}`);

  const volumes: string[] = [
    ...(pod.volumes ?? []).map(({ name }: Thing) => name),
    ...(spec.volumeClaimTemplates ?? []).map(({ metadata }: Thing) => metadata.name),
  ];
  const mounted: string[] = pod.containers.flatMap(({ volumeMounts = [] }: Thing) =>
    volumeMounts.map(({ name }: Thing) => name),
  );
  for (const name of mounted) check(volumes.includes(name), `no volume ${name}`);
  for (const name of volumes) check(mounted.includes(name), `volume ${name} is not mounted`);
  for (const container of pod.containers) checkContainer(container, all, check);
}

function checkContainer(container: Thing, all: readonly Thing[], check: Check): void {
  const { allowPrivilegeEscalation, capabilities } = container.securityContext;
  check(allowPrivilegeEscalation === false && capabilities?.drop?.includes("ALL"), "keeps privileges");
  check(container.resources?.limits?.memory !== undefined, "may use all memory of a node");
  for (const probe of ["readinessProbe", "livenessProbe"]) {
    const port = container[probe]?.httpGet?.port;
    check(port === undefined || portsOf([container]).includes(port), `${probe} asks port ${port}`);
  }
  for (const { valueFrom } of container.env ?? []) {
    const ref = valueFrom?.secretKeyRef;
    const isThere = ref === undefined || find(all, "Secret", ref.name)?.stringData?.[ref.key] !== undefined;
    check(isThere, `no key ${ref?.key} in secret ${ref?.name}`);
  }
}

test("Berth's container has the user and the version of the image, and a read-only root", () => {
  const things = readManifests();
  const { template } = find(things, "Deployment", "berth").spec;
  const [container] = template.spec.containers;
  const { version } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as { version: string };
  expect(container.image).toBe(`berth:${version}`);
  expect(container.securityContext.readOnlyRootFilesystem).toBe(true);
  expect(readFileSync(`${root}deploy/image/build.sh`, "utf8")).toContain(
    `uid=${template.spec.securityContext.runAsUser}`,
  );
  const url = new URL(find(things, "Secret", "berth").stringData["database-url"]);
  expect(find(things, "Service", url.hostname)).toBeDefined();
  expect(url.password).toBe(find(things, "Secret", "berth-postgres").stringData.password);
});

describe("the command line of the manifest, three times on one PostgreSQL", () => {
  const { replicas, template } = find(readManifests(), "Deployment", "berth").spec;
  const [container] = template.spec.containers;
  const directory = mkdtempSync(join(tmpdir(), "berth-manifest-"));
  const pods: { process: ChildProcess; port: number; data: string }[] = [];
  let database: TestPostgres;

  beforeAll(async () => {
    const berth = await buildBerth();
    database = await startPostgres();
    for (let pod = 0; pod < replicas; pod++) pods.push(await startPod(berth, join(directory, `${pod}`)));
  }, 120_000);

  afterAll(async () => {
    for (const { process: child } of pods) child.kill("SIGKILL");
    await database?.remove();
    rmSync(directory, { recursive: true, force: true });
  });

  /** As a container of the pod would be started, but for its port and where its files are. */
  async function startPod(berth: string, data: string) {
    mkdirSync(data); // An empty volume.
    const port = await freePort();
    const values: Record<string, string> = { POD_IP: "127.0.0.1", BERTH_DATABASE_URL: database.url };
    const names = container.env.map(({ name }: Thing) => name);
    expect(names.toSorted()).toEqual(Object.keys(values).toSorted());
    const args = container.args.map((word: string) =>
      word
        .replaceAll(/\$\((\w+)\)/g, (_, name: string) => values[name] as string)
        .replaceAll(":7770", `:${port}`)
        .replaceAll("0.0.0.0", "127.0.0.1")
        .replaceAll("/var/lib/berth", data),
    );
    const env = { PATH: process.env.PATH, HOME: data, ...values };
    const child = spawn(process.execPath, [berth, ...args], { env, stdio: "ignore" });
    return { process: child, port, data };
  }

  const probe = (port: number, { path, httpHeaders }: Thing) =>
    statusOf(port, path, httpHeaders.find(({ name }: Thing) => name === "Host").value);

  test("each answers its probes, one has the token, and any of them takes a change", async () => {
    const { readinessProbe, livenessProbe } = container;
    for (const { port } of pods) {
      await until(async () => (await probe(port, readinessProbe.httpGet)) === 200);
      expect(await probe(port, livenessProbe.httpGet)).toBe(200);
    }
    const files = pods.map(({ data }) => join(data, "admin-token"));
    await until(async () => files.some((file) => existsSync(file)));
    const written = files.filter((file) => existsSync(file));
    expect(written).toHaveLength(1);
    const token = readFileSync(written[0] as string, "utf8").trim();
    for (const { port } of pods) {
      const call = callerOf(`http://127.0.0.1:${port}`, token);
      const { status } = await call("POST", "/v1/pools", { name: `by-${port}`, capacity: { gpu: 1 } });
      expect(status).toBe(201);
    }
  });

  test("the name of the service is answered to, others are not", async () => {
    const [{ port } = { port: 0 }] = pods;
    expect(await statusOf(port, "/readyz", "berth:7770")).toBe(200);
    expect(await statusOf(port, "/v1/pools", "elsewhere.example.org")).toBe(421);
  });

  test("a pod that is told to stop ends by itself", async () => {
    for (const { process: child } of pods) {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      expect(await ended).toEqual([0, null]);
    }
  });
});

function statusOf(port: number, path: string, host: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const call = request({ host: "127.0.0.1", port, path, headers: { host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    call.once("error", () => resolve(undefined));
    call.end();
  });
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await delay(50);
}
