// The shim program: runs one attempt, and outlives the agent that started it (E5). Its own death ends the job, by the
// runner's guardian. It calls no server: what it knows of the grant comes from the agent that is connected.
//
// Invariants
//   1. Only the process with the claim starts the command (J5).
//   2. The end is written down, durably, when nothing of the job runs any more.

import { chmodSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { openLogWriter, type StoredEnd, startFailed, writeEnd } from "../executors/index.ts";
import { identify, isJobRefusal, type Job, onLines, startJob } from "../runner/index.ts";
import { claim, type NodeOrder, readOrder, writePlan } from "./claims.ts";
import type { FromShim, ToShim } from "./messages.ts";
import { superviseJob } from "./supervision.ts";

// Signals to the agent's process group or terminal are not for the jobs.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => undefined);

/** More output is announced so often at most. */
const GROWN_EVERY_MS = 20;
const END_RETRY_MS = 1_000;

const [, , directory = ""] = process.argv;
const order = readOrder(directory);
const identity = identify(process.pid);
if (order?.job !== undefined && identity !== undefined && claim(directory, identity)) await run(order);
process.exit(0);

async function run(order: NodeOrder): Promise<void> {
  const agents = listenForAgents(join(directory, "socket"));
  const log = openLogWriter(directory);
  let job: Job;
  try {
    job = await start(order);
  } catch (error) {
    await keepEnd(startFailed(isJobRefusal(error) ? `${error.message} ${error.hint}` : String(error)));
    return;
  }
  for (const stream of ["stdout", "stderr"] as const)
    job.streams[stream]?.on("data", (data: Buffer) => {
      log.write(stream, data);
      agents.sayGrown();
    });
  const supervision = superviseJob(job, order, { say: agents.say, lostBytes: log.lostBytes });
  agents.onAgent(supervision.greet, supervision.hear);
  const end = await supervision.ended;
  log.close();
  await keepEnd(end);
  agents.close();
  job.close();
}

/** A full disk delays the end, and does not lose it: with this process the exit code would be gone. */
async function keepEnd(end: StoredEnd): Promise<void> {
  for (;;) {
    try {
      return writeEnd(directory, end);
    } catch (error) {
      process.stderr.write(`The end cannot be written: ${String(error)}\n`);
      await new Promise((resolve) => setTimeout(resolve, END_RETRY_MS));
    }
  }
}

function start({ job }: NodeOrder): Promise<Job> {
  const { checkpointSignal, user, ...wanted } = job as NonNullable<NodeOrder["job"]>;
  return startJob({
    ...wanted,
    ...(user !== undefined && { user }),
    ...(checkpointSignal !== undefined && { checkpointSignal: checkpointSignal as NodeJS.Signals }),
    stdio: ["ignore", "pipe", "pipe"],
    onPlan: (plan) => writePlan(directory, plan),
  });
}

/** One agent at a time: a new connection replaces the one before. */
function listenForAgents(path: string) {
  let agent: Socket | undefined;
  let greet: (() => void) | undefined;
  let hear: ((message: ToShim) => void) | undefined;
  let grown: NodeJS.Timeout | undefined;
  const say = (message: FromShim) => void agent?.write(`${JSON.stringify(message)}\n`);
  const server = createServer((socket) => {
    agent?.destroy();
    agent = socket;
    socket.on("error", () => undefined);
    socket.on("close", () => {
      if (agent === socket) agent = undefined;
    });
    onLines(socket, (line) => hear?.(JSON.parse(line) as ToShim));
    greet?.();
  });
  const umask = process.umask(0o177);
  server.listen(path);
  process.umask(umask);
  server.once("listening", () => chmodSync(path, 0o600));
  return {
    say,
    onAgent(onGreet: () => void, onMessage: (message: ToShim) => void) {
      greet = onGreet;
      hear = onMessage;
      if (agent !== undefined) greet();
    },
    /** Not for every line of output. */
    sayGrown() {
      if (grown !== undefined) return;
      grown = setTimeout(() => {
        grown = undefined;
        say({ kind: "log" });
      }, GROWN_EVERY_MS);
    },
    close() {
      agent?.end();
      server.close();
    },
  };
}
