// Slurm's own commands, with fields that are asked for one by one (S1): their JSON differs between versions, and so do
// their tables for people. What they answer is parsed here, and nowhere else.

import { spawn } from "node:child_process";
import { join } from "node:path";

/** A job that the controller knows: waiting, running, or ended not long ago. */
export interface QueuedJob {
  readonly id: string;
  readonly name: string;
  /** Such as PENDING. */
  readonly state: string;
  /** Why it waits, in Slurm's word. */
  readonly reason: string;
  readonly comment: string;
}

/** A job that the accounting knows. A requeued job has one record per attempt. */
export interface AccountedJob {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly exitCode: number;
  readonly signal: number;
  readonly endedAt: string | undefined;
}

export interface SlurmNode {
  readonly name: string;
  readonly cpus: number;
  readonly memoryMb: number;
  /** Generic resources, such as gpu. */
  readonly gres: Readonly<Record<string, number>>;
  /** The state and its flags, such as IDLE and DRAIN. */
  readonly states: readonly string[];
  readonly partitions: readonly string[];
}

export interface Slurm {
  version(): Promise<string>;
  queue(partition?: string): Promise<QueuedJob[]>;
  /** By number, and by name: the number of a job may never have been heard. */
  accounts(wanted: {
    readonly ids: readonly string[];
    readonly names: readonly string[];
  }): Promise<AccountedJob[]>;
  nodes(): Promise<SlurmNode[]>;
  /** Held (S2). Resolves with its number. */
  submit(options: readonly string[], script: string): Promise<string>;
  release(id: string): Promise<void>;
  hold(id: string): Promise<void>;
  /** To the script alone, or to all processes of the job. */
  signal(id: string, signal: string, to: "batch" | "full"): Promise<void>;
  cancel(id: string): Promise<void>;
  /** A setting of the controller, such as PreemptType. */
  setting(name: string): Promise<string | undefined>;
  /** The controller's clock, in milliseconds; undefined: it may not be read. */
  time(): Promise<number | undefined>;
  /** Settings of a partition. */
  partition(name: string): Promise<Readonly<Record<string, string>> | undefined>;
}

/** Runs one program to its end. */
export type RunProgram = (program: string, args: readonly string[], input?: string) => Promise<string>;

/** The controller did not do it, or did not answer: what became of it is seen in the next look. */
export class SlurmFailure extends Error {}

const QUEUE_FIELDS = "%i|%T|%r|%k|%j";
const ACCOUNT_FIELDS = "JobIDRaw,State,ExitCode,End,JobName";
/** What a sacct without a start would show is from midnight on. */
const ACCOUNTS_SINCE = "now-30days";
const NAMES_PER_CALL = 200;

export function createSlurm(run: RunProgram): Slurm {
  const lines = async (program: string, ...args: string[]) =>
    (await run(program, args)).split("\n").filter((line) => line !== "");
  const change = async (program: string, ...args: string[]) => void (await run(program, args));
  return {
    async version() {
      return (await run("sbatch", ["--version"])).trim().split(" ").at(-1) ?? "";
    },
    async queue(partition) {
      const only = partition === undefined ? [] : [`--partition=${partition}`];
      const found = await lines("squeue", "-h", "-r", "-a", "-t", "all", ...only, "-o", QUEUE_FIELDS);
      return found.map(parseQueued);
    },
    async accounts({ ids, names }) {
      const found: AccountedJob[] = [];
      for (const [option, wanted] of [
        ["--jobs", ids],
        ["--name", names],
      ] as const) {
        for (let at = 0; at < wanted.length; at += NAMES_PER_CALL) {
          const some = `${option}=${wanted.slice(at, at + NAMES_PER_CALL).join(",")}`;
          const args = ["-a", "-D", "-X", "-P", "-n", "-S", ACCOUNTS_SINCE, "-o", ACCOUNT_FIELDS, some];
          found.push(...(await lines("sacct", ...args)).map(parseAccounted));
        }
      }
      return found;
    },
    nodes: async () => (await lines("scontrol", "-o", "show", "node")).map(parseNode),
    async submit(options, script) {
      const answer = await run("sbatch", ["--parsable", "--hold", ...options], script);
      const id = /^(\d+)(;|$)/m.exec(answer.trim())?.[1];
      if (id === undefined) throw new SlurmFailure(`sbatch answered "${answer.trim()}" instead of a number.`);
      return id;
    },
    async release(id) {
      // Requeueing sets the time of the start two minutes ahead (S5).
      await change("scontrol", "update", `JobId=${id}`, "StartTime=now");
      await change("scontrol", "release", id);
    },
    hold: (id) => change("scontrol", "hold", id),
    signal: (id, signal, to) => change("scancel", `--signal=${signal}`, `--${to}`, id),
    cancel: (id) => change("scancel", id),
    async setting(name) {
      const found = await lines("scontrol", "show", "config");
      return found
        .map((line) => /^(\w+)\s*=\s*(.*)$/.exec(line))
        .find((match) => match?.[1] === name)?.[2]
        ?.trim();
    },
    async time() {
      const found = await lines("sdiag").catch(() => []);
      const seconds = found.map((line) => /^sdiag output at .*\((\d+)\)$/.exec(line)?.[1]).find(Boolean);
      return seconds === undefined ? undefined : Number(seconds) * 1000;
    },
    async partition(name) {
      const [line] = await lines("scontrol", "-o", "show", "partition", name).catch(() => []);
      return line === undefined ? undefined : Object.fromEntries(pairsOf(line));
    },
  };
}

/** Programs of a directory, or of the path. Times are in UTC, and no setting of the caller changes the output. */
export function programsIn(bin: string | undefined, env: NodeJS.ProcessEnv): RunProgram {
  const cleaned = Object.fromEntries(
    Object.entries(env).filter(([name]) => !/^(SQUEUE|SACCT|SBATCH|SCANCEL|SINFO)_/.test(name)),
  );
  return (program, args, input) =>
    new Promise((resolve, reject) => {
      const path = bin === undefined ? program : join(bin, program);
      const child = spawn(path, args, {
        env: { ...cleaned, TZ: "UTC", LC_ALL: "C", SLURM_TIME_FORMAT: "standard" },
        stdio: ["pipe", "pipe", "pipe"],
        timeout: COMMAND_MS_MAX,
      });
      const output: Buffer[] = [];
      const errors: Buffer[] = [];
      child.stdout.on("data", (data: Buffer) => output.push(data));
      child.stderr.on("data", (data: Buffer) => errors.push(data));
      child.stdin.on("error", () => undefined); // It ended before it had read all: its exit code says why.
      child.stdin.end(input ?? "");
      child.once("error", (error) => reject(new SlurmFailure(`${program} cannot be run: ${error.message}`)));
      child.once("close", (code) => {
        if (code === 0) return resolve(Buffer.concat(output).toString());
        const said = Buffer.concat(errors).toString().trim().split("\n").at(-1);
        reject(new SlurmFailure(`${program} failed: ${said || `exit code ${code}`}`));
      });
    });
}

/** A controller that restarts may keep a command waiting for long. */
const COMMAND_MS_MAX = 60_000;

/** The name comes last: it is the only field that may contain anything. */
function parseQueued(line: string): QueuedJob {
  const [id = "", state = "", reason = "", comment = "", ...name] = line.split("|");
  return { id, state, reason, comment: comment === "(null)" ? "" : comment, name: name.join("|") };
}

function parseAccounted(line: string): AccountedJob {
  const [id = "", state = "", exit = "", end = "", ...name] = line.split("|");
  const [exitCode = 0, signal = 0] = exit.split(":").map(Number);
  return {
    ...{ id, exitCode, signal, name: name.join("|") },
    // "CANCELLED by 1000".
    state: state.split(" ")[0] ?? "",
    endedAt: /^\d{4}-\d\d-\d\dT[\d:]{8}$/.test(end) ? `${end}Z` : undefined,
  };
}

/** `Key=value` with values that may contain spaces: only those that are asked for are read. */
function pairsOf(line: string): [string, string][] {
  return [...line.matchAll(/(?:^|\s)(\w+)=(\S*)/g)].map(([, key, value]) => [key as string, value as string]);
}

function parseNode(line: string): SlurmNode {
  const fields = new Map(pairsOf(line));
  const number = (key: string) => Number.parseInt(fields.get(key) ?? "0", 10) || 0;
  return {
    name: fields.get("NodeName") ?? "",
    cpus: number("CPUEfctv") || number("CPUTot"),
    memoryMb: Math.max(0, number("RealMemory") - number("MemSpecLimit")),
    gres: parseGres(fields.get("Gres") ?? ""),
    states: (fields.get("State") ?? "").split("+").map((state) => state.replace(/[*~#!%$@^-]+$/, "")),
    partitions: (fields.get("Partitions") ?? "").split(",").filter((name) => name !== ""),
  };
}

const UNITS = ["", "K", "M", "G"];

/** Such as gpu:a100:4(S:0-1),gpu:2 or (null); a count may be 1K. */
function parseGres(text: string): Record<string, number> {
  const amounts: Record<string, number> = {};
  for (const item of text.replaceAll(/\([^)]*\)/g, "").split(",")) {
    const [name = "", ...rest] = item.split(":");
    if (name === "") continue;
    const [, digits = "1", unit = ""] = /^(\d+)([KMG]?)$/.exec(rest.at(-1) ?? "1") ?? [];
    amounts[name] = (amounts[name] ?? 0) + Number(digits) * 1024 ** UNITS.indexOf(unit);
  }
  return amounts;
}
