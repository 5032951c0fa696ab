// Placement on the nodes of a real cluster, as it is and ten times as large: decisions per second, how their cost
// grows with the number of nodes, and how full the cluster gets, beside a best fit that looks at every node.
// Usage: npm run bench:placement -- FOLDER, with the nodes.csv and pods.csv of a cluster trace.
//
// GPUs are counted in thousandths (`gpu_milli`), since many tasks ask for a part of one; a task may then have
// parts of several GPUs of its node, which the trace does not say. Tasks come in the order of the trace, again and
// again until they have asked for 130 % of all GPUs; one that finds no place at once goes away.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type EngineState,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
  type Resources,
  requestOf,
  usageOf,
} from "../src/engine/index.ts";

const POOL = "cluster" as PoolName;
const TEAM = "team" as ComponentName;
const ASKED_PERCENT = 130;
const DECISIONS = 10_000;
const WAITING = 2_000;
const SIZES = [1, 10];
const MB_PER_MIB = 1.048576;

const folder = process.argv[2] ?? "../shared/workloads/gpu-cluster-2023";
if (!["nodes.csv", "pods.csv"].every((name) => existsSync(join(folder, name)))) {
  console.error(`There is no trace in ${folder}. Say where it is: npm run bench:placement -- FOLDER`);
  process.exit(2);
}
const nodes = rows("nodes.csv").map((row) => asked(row, Number(row.gpu) * 1000));
const tasks = rows("pods.csv").map((row) => asked(row, Number(row.num_gpu) * Number(row.gpu_milli)));

interface Figures {
  readonly nodeCount: number;
  readonly filling: number;
  readonly turnover: number;
  readonly waiting: number;
}

measure(1, () => undefined); // Not looked at: by then the code under test is compiled.
const figures = SIZES.map((size) => measure(size));
const [small, large] = figures as [Figures, Figures];
console.log(
  "\nmicroseconds of processor time per decision, and by how much they grow with ten times the nodes",
);
for (const [name, what] of [
  ["filling", "the cluster fills up"],
  ["turnover", "full: one ends, another asks"],
  ["waiting", `full, ${WAITING} waiting: one ends, others are served`],
] as const) {
  const growth = large[name] / small[name];
  const cells = figures.map((figure) => figure[name].toFixed(1).padStart(8)).join(" ");
  console.log(
    `  ${what.padEnd(50)} ${cells}   × ${growth.toFixed(2)} (nodes^${Math.log10(growth).toFixed(2)})`,
  );
}

function measure(size: number, say: (line: string) => void = console.log): Figures {
  const machines = Array.from({ length: size }, () => nodes).flat();
  const gpuTotal = sum(machines);
  const stream = taskStream(gpuTotal * (ASKED_PERCENT / 100));
  const cluster = createCluster(machines);

  let clock = process.cpuUsage();
  let decisions = 0;
  for (const task of stream) decisions += cluster.offer(task);
  const filling = microseconds(clock, decisions);
  const share = (usageOf(cluster.state, POOL).gpu_milli ?? 0) / gpuTotal;
  const plain = plainBestFit(machines, stream) / gpuTotal;

  let next = 0;
  const someTask = () => stream[next++ % stream.length] as Resources;
  clock = process.cpuUsage();
  decisions = 0;
  while (decisions < DECISIONS) decisions += cluster.endOne() + cluster.offer(someTask());
  const turnover = microseconds(clock, decisions);

  for (let i = 0; i < WAITING; i++) cluster.submit(someTask());
  clock = process.cpuUsage();
  for (decisions = 0; decisions < DECISIONS / 5; decisions += 2) {
    cluster.endOne();
    cluster.submit(someTask());
  }
  const waiting = microseconds(clock, decisions);

  say(`${machines.length} nodes, ${Math.round(gpuTotal / 1000)} GPUs, ${stream.length} tasks`);
  say(
    `  filled ${percent(share)} of the GPUs; plain best fit ${percent(plain)}, ratio ${(share / plain).toFixed(4)}`,
  );
  const perSecond = (microsecondsEach: number) =>
    Math.round(1_000_000 / microsecondsEach).toLocaleString("en");
  say(
    `  decisions per second: ${perSecond(filling)} filling, ${perSecond(turnover)} full, ${perSecond(waiting)} with ${WAITING} waiting`,
  );
  return { nodeCount: machines.length, filling, turnover, waiting };
}

interface Cluster {
  readonly state: EngineState;
  submit(task: Resources): RequestId;
  /** Asks once, and goes away if there is no place now. Returns the number of decisions. */
  offer(task: Resources): number;
  endOne(): number;
}

function createCluster(machines: readonly Resources[]): Cluster {
  const state = createState();
  const running: RequestId[] = [];
  let count = 0;
  let random = 1;
  const send = (command: Command) => {
    const decision = decide(state, command, ++count);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
    for (const event of decision.events) if (event.kind === "requestAllocated") running.push(event.requestId);
  };
  send({ kind: "createPool", name: POOL, settings: { mainKey: "gpu_milli" } });
  send({ kind: "attachPolicy", policy: { pool: POOL, component: TEAM } });
  for (const [index, capacity] of machines.entries()) {
    const name = `node-${String(index).padStart(5, "0")}` as NodeName;
    send({ kind: "putNode", node: { name, pool: POOL, capacity } });
  }
  const submit = (resources: Resources) => {
    const spec = specOf(`task-${count}` as RequestId, resources);
    send({ kind: "submitRequest", spec });
    return spec.id;
  };
  return {
    state,
    submit,
    offer(task) {
      const requestId = submit(task);
      if (requestOf(state, requestId)?.progress.status !== "queued") return 1;
      send({ kind: "cancelRequest", requestId });
      return 2;
    },
    endOne() {
      random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
      const at = random % running.length;
      const requestId = running[at] as RequestId;
      running[at] = running.at(-1) as RequestId;
      running.pop();
      send({ kind: "reportEnd", requestId, outcome: "succeeded" });
      return 1;
    },
  };
}

/** The tasks in their order, again and again until they have asked for so much. */
function taskStream(gpuMilli: number): Resources[] {
  const stream: Resources[] = [];
  for (let total = 0, i = 0; total < gpuMilli; i++) {
    const task = tasks[i % tasks.length] as Resources;
    stream.push(task);
    total += task.gpu_milli ?? 0;
  }
  return stream;
}

/** Every node is looked at, and the one with the least left of its GPUs, then of its other keys, is taken. */
function plainBestFit(machines: readonly Resources[], stream: readonly Resources[]): number {
  const keys = ["gpu_milli", "mcpu", "memory_mb"];
  const left = machines.map((machine) => keys.map((key) => machine[key] ?? 0) as [number, number, number]);
  let filled = 0;
  for (const task of stream) {
    const [gpuMilli, mcpu, memoryMb] = keys.map((key) => task[key] ?? 0) as [number, number, number];
    let best: [number, number, number] | undefined;
    for (const node of left) {
      if (gpuMilli > node[0] || mcpu > node[1] || memoryMb > node[2]) continue;
      if (best === undefined || (node[0] - best[0] || node[1] - best[1] || node[2] - best[2]) < 0)
        best = node;
    }
    if (best === undefined) continue;
    best[0] -= gpuMilli;
    best[1] -= mcpu;
    best[2] -= memoryMb;
    filled += gpuMilli;
  }
  return filled;
}

/** What is asked for 0 of is not asked for. */
function asked(row: Record<string, string>, gpuMilli: number): Resources {
  const amounts = {
    mcpu: Number(row.cpu_milli),
    memory_mb: Math.ceil(Number(row.memory_mib) * MB_PER_MIB),
    gpu_milli: gpuMilli,
  };
  return Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount > 0));
}

function specOf(id: RequestId, resources: Resources): RequestSpec {
  return {
    ...PLAIN_REQUEST,
    id,
    component: TEAM,
    resources: { ...resources, step_run: 1 },
    requeue: "never",
  };
}

function rows(file: string): Record<string, string>[] {
  const [head = "", ...lines] = readFileSync(join(folder as string, file), "utf8")
    .trim()
    .split(/\r?\n/);
  const names = head.split(",");
  return lines.map((line) =>
    Object.fromEntries(line.split(",").map((value, i) => [names[i] as string, value])),
  );
}

function sum(machines: readonly Resources[]): number {
  return machines.reduce((total, machine) => total + (machine.gpu_milli ?? 0), 0);
}

/** Processor time: the machine may have other things to do. */
function microseconds(since: NodeJS.CpuUsage, decisions: number): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / decisions;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)} %`;
}
