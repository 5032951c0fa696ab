// From the submission to the first moment of the job's own process, beside the cluster's own command on the same cluster and
// in the same run: Slurm (`sbatch`) and Kubernetes (a Job, as `kubectl create job` posts it; kubectl's own start is not counted).
// One job at a time, on an idle cluster that this program starts itself; ways take turns.
// Usage: npm run bench:executors -- [TURNS] [--part=slurm|kubernetes]. Exit code 2: nothing could be measured on this machine.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildCommandLine } from "../test/e2e/run-build.ts";
import { openWorld, type Site, until, type World } from "./clusters/world.ts";
import {
  type KubernetesCluster,
  missingPrograms as missingForKubernetes,
  NAMESPACE,
} from "./kubernetes/cluster.ts";
import { siteOf as kubernetesSite, openScene } from "./kubernetes/scene.ts";
import { quantile } from "./proving/quantile.ts";
import { bundle } from "./proving/start.ts";
import { missingPrograms as missingForSlurm, openSlurmCluster, type SlurmCluster } from "./slurm/cluster.ts";
import { siteOf as slurmSite, USER } from "./slurm/site.ts";

/** Starts a job whose process writes its time into the file. */
type Way = (file: string) => Promise<unknown>;

interface Peer {
  readonly site: Site;
  readonly name: string;
  start: Way;
  /** Nothing of the last job is left. */
  isIdle(): Promise<boolean>;
  close(): Promise<void>;
}

interface System {
  readonly title: string;
  readonly adapter: string;
  missing(): string[];
  open(): Promise<Peer>;
}

const SYSTEMS: Record<string, System> = {
  slurm: { title: "Slurm", adapter: "slurm/adapter", missing: missingForSlurm, open: openSlurmPeer },
  kubernetes: {
    ...{ title: "Kubernetes", adapter: "kubernetes/adapter" },
    ...{ missing: missingForKubernetes, open: openKubernetesPeer },
  },
};
const TURNS = 20;

const { values, positionals } = parseArgs({ options: { part: { type: "string" } }, allowPositionals: true });
const turns = Number(positionals[0] ?? TURNS);
const chosen = Object.entries(SYSTEMS).filter(([name]) => name.includes(values.part ?? ""));
let measured = 0;
for (const [, system] of chosen) {
  const missing = system.missing();
  for (const line of missing) console.error(`${system.title}: ${line}`);
  if (missing.length > 0) {
    console.log(`${system.title} was left out.`);
    continue;
  }
  await measure(system);
  measured += 1;
}
if (measured === 0) {
  console.error("Nothing was measured.");
  process.exit(2);
}
process.exit();

async function measure({ title, adapter, open }: System): Promise<void> {
  // First: what builds them outlives a cluster, and whatever is started beside one ends with it.
  const programs = { server: await bundle("agents/server"), adapter: await bundle(adapter) };
  const peer = await open();
  try {
    const world = await openWorld(peer.site, programs, "bench", "sqlite");
    const { berth, remove } = await buildCommandLine();
    try {
      const ways: Record<string, Way> = {
        [peer.name]: peer.start,
        "POST /v1/jobs": (file) => submit(world, file),
        "berth submit": (file) => submitByCommand(berth, world, file),
      };
      print(title, peer.name, await timesOf(ways, world, peer));
    } finally {
      remove();
      await world.close();
    }
  } finally {
    await peer.close();
  }
}

/** Milliseconds by way. The first turn warms caches. */
async function timesOf(
  ways: Readonly<Record<string, Way>>,
  world: World,
  peer: Peer,
): Promise<Map<string, number[]>> {
  const times = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]));
  for (let turn = 0; turn <= turns; turn++) {
    for (const [index, [name, start]] of Object.entries(ways).entries()) {
      await until("the cluster is idle", peer.isIdle);
      const file = join(world.lives, "..", `mark-${turn}-${index}`);
      const beganMs = Date.now();
      await start(file);
      await until(
        `the job of ${name} has started`,
        async () => existsSync(file) && text(file).endsWith("\n"),
      );
      if (turn > 0) times.get(name)?.push(Number(text(file)) / 1e6 - beganMs);
    }
  }
  return times;
}

function text(file: string): string {
  return readFileSync(file, "utf8");
}

function print(title: string, peer: string, times: ReadonlyMap<string, number[]>): void {
  const own = times.get(peer) ?? [];
  console.log(`${title}, submission to the job's first moment, ${turns} turns:`);
  for (const [name, ms] of times) {
    const [p50, p90] = [0.5, 0.9].map((q) => quantile(ms, q)) as [number, number];
    const more = p50 - quantile(own, 0.5);
    const beside =
      name === peer ? "" : `; ${more.toFixed(0)} ms more, ${(p50 / quantile(own, 0.5)).toFixed(2)} × ${peer}`;
    console.log(`  ${name}: p50 ${p50.toFixed(0)} ms, p90 ${p90.toFixed(0)} ms${beside}`);
  }
}

/** The same for all ways. */
function commandFor(file: string): string[] {
  return ["/bin/sh", "-c", 'date +%s%N > "$0"', file];
}

async function submit(world: World, file: string): Promise<void> {
  const run = { command: commandFor(file), directory: "/" };
  await world.call("POST", "/v1/jobs", { component: "vision", resources: { gpu: 1 }, run }, file);
}

async function submitByCommand(berth: string, world: World, file: string): Promise<void> {
  const env = { PATH: process.env.PATH, HOME: world.directory };
  const own = { BERTH_URL: world.url, BERTH_API_TOKEN: world.token, BERTH_COMPONENT: "vision" };
  const args = [berth, "submit", "--gpu", "1", "--cwd", "/", "--", ...commandFor(file)];
  await runProgram(process.execPath, args, { env: { ...env, ...own } });
}

async function runProgram(
  program: string,
  args: readonly string[],
  { env, input = "" }: { readonly env: NodeJS.ProcessEnv; readonly input?: string },
): Promise<void> {
  const child = spawn(program, args, { env, stdio: ["pipe", "ignore", "inherit"] });
  child.stdin.end(input);
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`${program} ended with ${code}.`);
}

async function openSlurmPeer(): Promise<Peer> {
  const cluster: SlurmCluster = await openSlurmCluster();
  const sbatch = cluster.bin === undefined ? "sbatch" : join(cluster.bin, "sbatch");
  const options = ["--partition=berth", "--gres=gpu:1", "--nodes=1", "--chdir=/", `--uid=${USER}`];
  return {
    site: slurmSite(cluster),
    name: "sbatch",
    start: (file) =>
      runProgram(sbatch, ["--export=NONE", "--output=/dev/null", ...options], {
        ...{ env: cluster.env, input: `#!/bin/sh\ndate +%s%N > ${file}\n` },
      }),
    isIdle: async () => (await cluster.run("squeue", "-h")).trim() === "",
    close: cluster.close,
  };
}

async function openKubernetesPeer(): Promise<Peer> {
  const scene = await openScene();
  const { api }: KubernetesCluster = scene.cluster;
  const jobs = `/apis/batch/v1/namespaces/${NAMESPACE}/jobs`;
  let count = 0;
  return {
    site: kubernetesSite(scene),
    name: "a Job of Kubernetes",
    async start(file) {
      const limits = { "nvidia.com/gpu": "1" };
      const container = { name: "job", image: "registry.example/proof:1", command: commandFor(file) };
      const template = {
        spec: { restartPolicy: "Never", containers: [{ ...container, resources: { limits } }] },
      };
      const body = { metadata: { name: `peer-${++count}` }, spec: { backoffLimit: 0, template } };
      const { status } = await api.ask("POST", jobs, body);
      if (status !== 201) throw new Error(`The API server answered ${status} to a Job.`);
    },
    async isIdle() {
      const { body } = await api.insist("GET", `/api/v1/namespaces/${NAMESPACE}/pods`);
      const phases = body.items.map((pod: { status: { phase: string } }) => pod.status.phase);
      return phases.every((phase: string) => phase === "Succeeded");
    },
    close: scene.close,
  };
}
