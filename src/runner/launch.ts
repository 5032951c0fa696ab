// Starts a command inside an enclosure, so that there is no moment in which it could leave.

import { type ChildProcess, type SpawnOptions, type StdioOptions, spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { cgroupMembers, createCgroup, insideCgroup, removeCgroup } from "./cgroups.ts";
import { startRefusal } from "./command.ts";
import { namespacePrefix, namespaceRefusal, parentDeathPrefix } from "./containment.ts";
import { type ContainmentLevel, containmentLevels, type EnclosurePlan } from "./enclosure.ts";
import { isJobRefusal, type JobRefusal, refusal } from "./errors.ts";
import { onLines } from "./lines.ts";
import { identify, listProcesses, MARK_VARIABLE, type ProcessIdentity, sendSignal } from "./processes.ts";
import { programArguments, programEnvironment } from "./programs.ts";

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export type StdioChoice = "inherit" | "ignore" | "pipe" | number;

export interface LaunchOptions {
  id: string;
  /** The strongest that can be had, unless one is named. */
  level: ContainmentLevel | undefined;
  command: readonly string[];
  /** With the id in MARK_VARIABLE, by which a sweep finds the job's processes. */
  env: Record<string, string>;
  cwd: string;
  stdio: readonly [StdioChoice, StdioChoice, StdioChoice];
  ownSession: boolean;
  /** Called before the command starts, and again when more is known. */
  onPlan(plan: EnclosurePlan): void;
}

export interface Launched {
  /** The process that we started and whose death ends the job: the command, or what carries its namespace. */
  identity: ProcessIdentity;
  plan: EnclosurePlan;
  exited: Promise<Exit>;
  streams: { stdin: Writable | null; stdout: Readable | null; stderr: Readable | null };
  /** To the command alone. */
  signal(signal: NodeJS.Signals): void;
  /** Runs another command in the same enclosure, without input. */
  run(command: readonly string[]): Promise<Exit>;
}

/** Whether a level can be had is found out by using it: trying it first would double the cost of every job. */
export async function launch(options: LaunchOptions): Promise<Launched> {
  if (options.level !== undefined) return launchers[options.level](options);
  for (const level of containmentLevels) {
    try {
      return await launchers[level](options);
    } catch (error) {
      if (!isJobRefusal(error) || error.code !== "containment_unavailable") throw error;
    }
  }
  throw unavailable("no level of containment can be had");
}

const launchers: Record<ContainmentLevel, (options: LaunchOptions) => Promise<Launched>> = {
  cgroup: launchInCgroup,
  namespace: launchInNamespace,
  sweep: launchMarked,
};

function orUnavailable<T>(attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    throw isJobRefusal(error) ? error : unavailable((error as Error).message);
  }
}

function unavailable(why: string): JobRefusal {
  return refusal(
    "containment_unavailable",
    `This machine cannot contain the job so: ${why}.`,
    "Choose another level of containment; `berth doctor` shows which there are.",
  );
}

async function launchInCgroup(options: LaunchOptions): Promise<Launched> {
  const directory = orUnavailable(() => createCgroup(`berth-${process.pid}-${options.id}`));
  const plan: EnclosurePlan = { level: "cgroup", directory };
  try {
    options.onPlan(plan);
    return await launchDirectly(options, plan, {
      prefix: [], // The guardian needs no help to end what is in a control group.
      within: (start) => orUnavailable(() => insideCgroup(directory, start)),
    });
  } catch (error) {
    for (const pid of cgroupMembers(directory)) if (pid !== process.pid) sendSignal(pid, "SIGKILL");
    removeCgroup(directory);
    throw error;
  }
}

async function launchMarked(options: LaunchOptions): Promise<Launched> {
  const plan: EnclosurePlan = { level: "sweep", mark: options.id, ownSession: options.ownSession };
  options.onPlan(plan);
  const prefix = parentDeathPrefix();
  const launched = await launchDirectly(options, plan, { prefix, within: (start) => start() });
  const fullPlan = { ...plan, root: launched.identity };
  options.onPlan(fullPlan);
  return { ...launched, plan: fullPlan };
}

/** The command is our own child. `within` decides where it is born. */
async function launchDirectly(
  { command, env, cwd, stdio, ownSession }: LaunchOptions,
  plan: EnclosurePlan,
  { prefix, within }: { prefix: readonly string[]; within: (start: () => ChildProcess) => ChildProcess },
): Promise<Launched> {
  const start = (words: readonly string[], stdio: readonly StdioChoice[]) =>
    startProcess([...prefix, ...words], { env, cwd, stdio: [...stdio], detached: ownSession }, within);
  const { child, identity, exited } = await start(command, stdio);
  return {
    identity,
    plan,
    exited,
    streams: { stdin: child.stdin, stdout: child.stdout, stderr: child.stderr },
    signal: (signal) => void child.kill(signal),
    run: async (words) => (await start(words, ["ignore", stdio[1], stdio[2]].map(withoutPipe))).exited,
  };
}

export type InitMessage =
  | {
      kind: "start";
      id: number;
      command: readonly string[];
      env: Record<string, string>;
      cwd: string;
      stdin: "inherit" | "ignore";
    }
  | { kind: "signal"; id: number; signal: NodeJS.Signals };

export type InitReport =
  | { kind: "started"; id: number }
  | { kind: "failed"; id: number; code: string }
  | ({ kind: "exited"; id: number } & Exit);

async function launchInNamespace(options: LaunchOptions): Promise<Launched> {
  const { command, env, cwd, stdio, ownSession } = options;
  const why = namespaceRefusal();
  if (why !== undefined) throw unavailable(why);
  // Until the namespace can be named, the mark leads to whatever is in it.
  options.onPlan({ level: "sweep", mark: options.id, ownSession });
  const { child, identity, exited } = await startProcess(
    [...namespacePrefix(), process.execPath, ...programArguments("init")],
    {
      env: { ...programEnvironment(), [MARK_VARIABLE]: options.id },
      cwd: "/",
      stdio: initStdio(stdio),
      detached: ownSession,
    },
    (start) => start(),
  );
  try {
    const init = connectInit(child, exited);
    const main = await init.start(command, { env, cwd, stdin: "inherit" });
    const first = listProcesses().find((row) => row.parentPid === identity.pid);
    const firstIdentity = first && identify(first.pid);
    if (firstIdentity === undefined) throw startRefusal(command[0] ?? "", "its namespace ended");
    const plan: EnclosurePlan = { level: "namespace", init: firstIdentity };
    const [stdin, stdout, stderr] = child.stdio.slice(4) as [
      Writable | null,
      Readable | null,
      Readable | null,
    ];
    options.onPlan(plan);
    return {
      identity,
      plan,
      exited: main.exited,
      streams: { stdin, stdout, stderr },
      signal: (signal) => init.send({ kind: "signal", id: main.id, signal }),
      run: async (words) => (await init.start(words, { env, cwd, stdin: "ignore" })).exited,
    };
  } catch (error) {
    child.kill("SIGKILL"); // And with it the namespace.
    throw error;
  }
}

/** 3 is for messages, 4 to 6 are the command's: whatever carries the namespace must not write among its output. */
function initStdio(stdio: LaunchOptions["stdio"]): StdioOptions {
  const own = stdio.map((choice, descriptor) => (choice === "inherit" ? descriptor : choice));
  return ["ignore", "ignore", "ignore", "pipe", ...own];
}

/** Speaks with the first process of the namespace; if that is killed, its commands were killed with it. */
function connectInit(child: ChildProcess, ended: Promise<Exit>) {
  const socket = child.stdio[3] as Socket;
  const listeners = new Map<number, (report: InitReport) => void>();
  socket.on("error", () => undefined); // The end of the child says it all.
  onLines(socket, (line) => {
    const report = JSON.parse(line) as InitReport;
    listeners.get(report.id)?.(report);
  });
  const send = (message: InitMessage) => void socket.write(`${JSON.stringify(message)}\n`);
  let lastId = 0;

  const start = (
    command: readonly string[],
    where: { env: Record<string, string>; cwd: string; stdin: "inherit" | "ignore" },
  ): Promise<{ id: number; exited: Promise<Exit> }> => {
    const id = ++lastId;
    return new Promise((resolveStart, rejectStart) => {
      const exited = new Promise<Exit>((resolveExit) => {
        listeners.set(id, (report) => {
          if (report.kind === "started") resolveStart({ id, exited });
          if (report.kind === "failed") rejectStart(startRefusal(command[0] ?? "", report.code));
          if (report.kind === "exited") resolveExit({ code: report.code, signal: report.signal });
        });
        void ended.then(() => {
          rejectStart(startRefusal(command[0] ?? "", "its namespace ended"));
          resolveExit({ code: null, signal: "SIGKILL" });
        });
      });
      send({ kind: "start", id, command, ...where });
    });
  };
  return { send, start };
}

async function startProcess(
  [file = "", ...args]: readonly string[],
  options: SpawnOptions,
  within: (start: () => ChildProcess) => ChildProcess,
): Promise<{ child: ChildProcess; identity: ProcessIdentity; exited: Promise<Exit> }> {
  const child = within(() => spawnOrRefuse(file, args, options));
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const failed = new Promise<NodeJS.ErrnoException>((resolve) => child.on("error", resolve));
  if (child.pid === undefined) throw startRefusal(file, (await failed).code ?? "unknown");
  // Even if it has ended already, it is in the table until Node gets to run again and collects it.
  const identity = identify(child.pid) ?? { bootId: "", pid: child.pid, startTime: "" };
  return { child, identity, exited };
}

/** Node reports some failures by an event and throws others. */
function spawnOrRefuse(file: string, args: string[], options: SpawnOptions): ChildProcess {
  try {
    return spawn(file, args, options);
  } catch (error) {
    throw startRefusal(file, (error as NodeJS.ErrnoException).code ?? "unknown");
  }
}

/** A second command does not get a pipe of its own that nobody would read. */
function withoutPipe(choice: string | number): StdioChoice {
  return choice === "pipe" ? "ignore" : (choice as StdioChoice);
}
