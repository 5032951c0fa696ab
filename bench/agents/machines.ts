// Machines under proof. Where this machine permits it, each is a set of namespaces of its own: processes, network, names and
// boot id. Its cable can be pulled, and when its first process is killed, everything on it ends at once, as by a reset. Elsewhere
// machines are groups of processes, and only their proxies can fall silent.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

export interface Machine {
  readonly name: string;
  /** Starts the agent; `--join` and the like are arguments. */
  startAgent(args?: readonly string[]): void;
  /** SIGKILL to the agent alone. */
  killAgent(): Promise<void>;
  /** Pids of the shims here, with the directories of their jobs. */
  shims(): { readonly pid: number; readonly directory: string }[];
  /** Whether the end of an attempt of this request is written down here, or nothing about it any more. */
  hasEnd(request: string): boolean;
  /** Everything ends at once, and the machine comes back with another boot id and nothing running. */
  reset(): Promise<void>;
  /** Whether there is a cable that can be pulled. */
  readonly hasCable: boolean;
  pullCable(): void;
  plugIn(): void;
  close(): Promise<void>;
}

export interface MachineOptions {
  readonly name: string;
  readonly index: number;
  readonly directory: string;
  readonly agent: string;
  readonly args: readonly string[];
}

export interface Network {
  /** Where proxies listen so that machines reach them. */
  readonly address: string;
  machine(options: MachineOptions): Promise<Machine>;
  close(): void;
}

/** Reaps what is left to it, and ends with the proof. */
const FIRST_PROCESS = `$SIG{CHLD} = "IGNORE"; 1 while sysread(STDIN, my $byte, 1);`;

let cables = 0;

export function openNetwork(wantsNamespaces: boolean): Network {
  const bridge = `bp${process.pid}`;
  const subnet = `198.18.${process.pid % 250}`;
  if (!wantsNamespaces || !canMakeNamespaces(bridge, `${subnet}.1`)) return withoutNamespaces();
  return {
    address: `${subnet}.1`,
    machine: (options) => createMachine(options, { bridge, subnet }),
    close: () => run("ip", "link", "del", bridge),
  };
}

function canMakeNamespaces(bridge: string, address: string): boolean {
  try {
    run("unshare", "-n", "-p", "-u", "-m", "-f", "--kill-child", "--mount-proc", "true");
    // With an address of its own: else it takes that of one of its ports, and others would look for it in vain after a cut.
    run("ip", "link", "add", bridge, "address", "02:00:00:00:00:01", "type", "bridge");
    run("ip", "addr", "add", `${address}/24`, "dev", bridge);
    run("ip", "link", "set", bridge, "up");
    return true;
  } catch {
    return false;
  }
}

async function createMachine(
  { name, index, directory, agent, args }: MachineOptions,
  { bridge, subnet }: { readonly bridge: string; readonly subnet: string },
): Promise<Machine> {
  /** Another one for every boot: the kernel removes that of a machine some time after the machine. */
  let cable = "";
  let host: ChildProcess;
  let firstPid = 0;
  let current: ChildProcess | undefined;
  let boots = 0;

  async function boot(): Promise<void> {
    boots += 1;
    const bootFile = join(directory, `${name}.boot`);
    writeFileSync(bootFile, `${randomUUID()}\n`);
    const script = `hostname ${name}-boot-${boots} && mount --bind ${bootFile} /proc/sys/kernel/random/boot_id && exec perl -e '${FIRST_PROCESS}'`;
    const isolate = ["-n", "-p", "-u", "-m", "-f", "--kill-child", "--mount-proc", "sh", "-c", script];
    host = spawn("unshare", isolate, { stdio: ["pipe", "ignore", "ignore"], detached: true });
    await within(10_000, `${name} to boot`, () => {
      firstPid = childOf(host.pid as number) ?? 0;
      return firstPid !== 0 && commandOf(firstPid)[0] === "perl";
    });
    cable = `${bridge}-${++cables}`;
    run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", String(firstPid));
    run("ip", "link", "set", cable, "master", bridge, "up");
    const inside = ["-t", String(firstPid), "-n", "ip"];
    run("nsenter", ...inside, "addr", "add", `${subnet}.${10 + index}/24`, "dev", "eth0");
    for (const device of ["eth0", "lo"]) run("nsenter", ...inside, "link", "set", device, "up");
  }

  const machine: Machine = {
    name,
    hasCable: true,
    startAgent(more = []) {
      const into = ["-t", String(firstPid), "-n", "-p", "-u", "-m", "--", process.execPath, agent];
      current = startLogged("nsenter", [...into, ...args, ...more], join(directory, `${name}.log`));
    },
    async killAgent() {
      const pid = current?.pid === undefined ? undefined : childOf(current.pid);
      if (pid !== undefined) kill(pid);
      if (current !== undefined) await ended(current);
    },
    shims: () => shimsBelow(join(directory, name)),
    hasEnd: (request) => hasEndBelow(join(directory, name), request),
    async reset() {
      const gone = once(host, "exit");
      kill(firstPid); // Everything else inside ends with it.
      await gone;
      if (current !== undefined) await ended(current);
      await boot();
    },
    pullCable: () => run("ip", "link", "set", cable, "nomaster"),
    plugIn: () => run("ip", "link", "set", cable, "master", bridge),
    async close() {
      const gone = once(host, "exit");
      kill(firstPid);
      await gone;
    },
  };
  await boot();
  return machine;
}

/** Without rights to namespaces: the same by hand, one process after the other. */
function withoutNamespaces(): Network {
  return {
    address: "127.0.0.1",
    close: () => undefined,
    async machine({ name, directory, agent, args }) {
      let current: ChildProcess | undefined;
      let bootId: string = randomUUID();
      const killAgent = async () => {
        current?.kill("SIGKILL");
        if (current !== undefined) await ended(current);
      };
      const shims = () => shimsBelow(join(directory, name));
      const endAll = async () => {
        await killAgent();
        await within(20_000, `everything on ${name} to end`, () => {
          const roots = shims().map(({ pid }) => pid);
          const all = [...roots, ...descendantsOf(roots), ...jobProcessesOf(join(directory, name))];
          for (const pid of all) kill(pid);
          return all.length === 0;
        });
      };
      return {
        ...{ name, killAgent, shims, hasCable: false },
        hasEnd: (request) => hasEndBelow(join(directory, name), request),
        startAgent(more = []) {
          const env = { ...process.env, BERTH_AGENT_BOOT_ID: bootId };
          const log = join(directory, `${name}.log`);
          current = startLogged(process.execPath, [agent, ...args, ...more], log, env);
        },
        async reset() {
          await endAll();
          bootId = randomUUID();
        },
        pullCable: () => undefined,
        plugIn: () => undefined,
        close: endAll,
      };
    },
  };
}

function startLogged(file: string, args: readonly string[], log: string, env = process.env): ChildProcess {
  const descriptor = openSync(log, "a");
  const child = spawn(file, args, { stdio: ["ignore", descriptor, descriptor], env });
  closeSync(descriptor);
  return child;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

/** Every process whose arguments name the program of a shim and a directory of this machine. */
function shimsBelow(directory: string): { pid: number; directory: string }[] {
  return pids().flatMap((pid) => {
    const words = commandOf(pid);
    const job = words.at(-1) ?? "";
    return words.some((word) => word.endsWith("/shim.js")) && job.startsWith(`${directory}/`)
      ? [{ pid, directory: job }]
      : [];
  });
}

/** As agents write it down: a directory per attempt, with its order, and its end once it has one. */
function hasEndBelow(directory: string, request: string): boolean {
  const attempts = readdirSync(join(directory, "jobs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith("/order.json") && read(join(directory, "jobs", path)).includes(request))
    .map((path) => join(directory, "jobs", path, "..", "end.json"));
  return attempts.every((path) => read(path) !== "");
}

/** Of jobs, which have the directory for their checkpoints in their environment. */
function jobProcessesOf(directory: string): number[] {
  return pids().filter((pid) => environmentOf(pid).BERTH_CHECKPOINT_DIR?.startsWith(`${directory}/`));
}

function descendantsOf(roots: readonly number[]): number[] {
  const children = pids().filter((pid) => roots.includes(parentOf(pid) ?? 0));
  return children.length === 0 ? [] : [...children, ...descendantsOf(children)];
}

export function pids(): number[] {
  return readdirSync("/proc").map(Number).filter(Number.isInteger);
}

export function environmentOf(pid: number): Record<string, string> {
  const words = read(`/proc/${pid}/environ`).split("\0");
  return Object.fromEntries(
    words.map((word) => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)]),
  );
}

/** Z: it has ended, and its parent has not asked how. */
export function stateOf(pid: number): string {
  return afterName(read(`/proc/${pid}/stat`))[0] ?? "";
}

function parentOf(pid: number): number | undefined {
  const parent = Number(afterName(read(`/proc/${pid}/stat`))[1]);
  return Number.isInteger(parent) ? parent : undefined;
}

/** The fields after the name, which may contain anything. */
function afterName(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function childOf(parent: number): number | undefined {
  return pids().find((pid) => parentOf(pid) === parent);
}

function commandOf(pid: number): string[] {
  return read(`/proc/${pid}/cmdline`).split("\0").slice(0, -1);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

export function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

function run(file: string, ...args: readonly string[]): void {
  execFileSync(file, args, { stdio: ["ignore", "ignore", "pipe"] });
}

/** Every wait has a limit, and says what was waited for. */
export async function within(
  ms: number,
  what: string,
  isSo: () => boolean | Promise<boolean>,
  everyMs = 50,
): Promise<void> {
  for (const endMs = performance.now() + ms; !(await isSo()); await delay(everyMs))
    if (performance.now() > endMs) throw new Error(`Waited ${ms / 1000} s in vain for ${what}.`);
}
