// What the tests of the runner share: waiting for a condition, finding processes without the runner's help, and
// a family of processes that does its best to escape.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll } from "vitest";
import { detectContainment, type Job, type JobOptions, startJob } from "../../src/runner/index.ts";

export const levels = detectContainment()
  .levels.filter((entry) => entry.available)
  .map((entry) => entry.level);

const WAIT_MS_MAX = 45_000;

/** Waits for a condition, not for a time. The bound only turns a hang into a failure that says what hung. */
export async function until<T>(what: string, look: () => T | undefined | false): Promise<T> {
  for (const endMs = performance.now() + WAIT_MS_MAX; performance.now() < endMs; ) {
    const found = look();
    if (found !== undefined && found !== false) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`Waited in vain until ${what}.`);
}

/** Live processes with this word on their command line. */
export function processesNaming(word: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => readOrEmpty(`/proc/${pid}/cmdline`).includes(word))
    .map(Number)
    .filter((pid) => !isZombie(pid));
}

export function stateOf(pid: number): string {
  const stat = readOrEmpty(`/proc/${pid}/stat`);
  return stat.charAt(stat.lastIndexOf(")") + 2);
}

export function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

let names = 0;

/** A number no other process sleeps for, and a word to find it by. */
export function uniqueSeconds(): string {
  return `${100_000 + (process.pid % 30_000)}.${Date.now()}${names++}`;
}

/** Seven sleepers: a child, one in another session, orphans of a double fork, and grandchildren of each kind. */
export const FAMILY_SIZE = 7;

export function escapingFamily(seconds: string, trap = ""): string[] {
  const script = `
    ${trap}
    sleep "$1" &
    setsid sleep "$1" &
    (sleep "$1" &)
    (setsid sh -c 'sleep "$1" & (setsid sleep "$1" &) ; exec sleep "$1"' sh "$1" &)
    (nohup setsid sleep "$1" >/dev/null 2>&1 &)
    while :; do wait; done`;
  return ["sh", "-c", script, "sh", seconds];
}

export function sleepersOf(seconds: string): number[] {
  return processesNaming(seconds).filter((pid) => readOrEmpty(`/proc/${pid}/comm`).trim() === "sleep");
}

export async function familyOf(seconds: string): Promise<number[]> {
  return await until("the whole family runs", () => {
    const sleepers = sleepersOf(seconds);
    return sleepers.length === FAMILY_SIZE && sleepers;
  });
}

export const environment = { PATH: process.env.PATH ?? "/usr/bin:/bin", LANG: "C" };

/** A job whose output is collected rather than shown. */
export async function start(
  options: Partial<JobOptions> & { command: readonly string[] },
): Promise<{ job: Job; output: () => string; outputEnded: Promise<Buffer> }> {
  const job = await startJob({
    env: environment,
    stdio: ["ignore", "pipe", "ignore"],
    graceMs: 20_000,
    ...options,
  });
  const chunks: Buffer[] = [];
  const stream = job.streams.stdout;
  const outputEnded = new Promise<Buffer>((resolve) =>
    stream?.on("end", () => resolve(Buffer.concat(chunks))),
  );
  stream?.on("data", (chunk: Buffer) => chunks.push(chunk));
  return { job, output: () => Buffer.concat(chunks).toString(), outputEnded };
}

const temporaryDirectories: string[] = [];
afterAll(() => {
  for (const directory of temporaryDirectories) rmSync(directory, { recursive: true, force: true });
});

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "berth-test-"));
  temporaryDirectories.push(directory);
  return directory;
}

/** The wrapper program as it would be installed: plain JavaScript beside the runner's own programs. */
export async function buildWrapper(): Promise<string> {
  const directory = temporaryDirectory();
  const source = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  await build({
    entryPoints: {
      wrapper: source("./runner-wrapper.ts"),
      guardian: source("../../src/runner/guardian.ts"),
      init: source("../../src/runner/init.ts"),
    },
    outdir: directory,
    bundle: true,
    format: "esm",
    platform: "node",
    logLevel: "error",
  });
  return join(directory, "wrapper.js");
}

/** Runs a wrapper without a terminal, as a service or a pipeline would. */
export function runWrapper(wrapper: string, optionsFile: string) {
  const child = spawn(process.execPath, [wrapper, optionsFile], {
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk;
  });
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  return { child, exited, output: () => output };
}

function isZombie(pid: number): boolean {
  return ["Z", "X", ""].includes(stateOf(pid));
}
