// The near side of the guardian: starts it, tells it what this process holds, and takes charges back.
// There is one guardian per process. It notices our end by its input closing, which even SIGKILL cannot prevent.

import { type ChildProcess, spawn } from "node:child_process";
import type { EnclosurePlan } from "./enclosure.ts";
import { refusal } from "./errors.ts";
import { programArguments, programEnvironment } from "./programs.ts";

/** An HTTP call. Any of the servers may answer. */
export interface HookCall {
  urls: string[];
  method: string;
  headers: Record<string, string>;
  body?: string;
}

/** Calls to make in this order after the job has been ended, such as the release of its grant. */
export interface ReleaseHook {
  calls: HookCall[];
  retryForMs?: number;
}

/** What the guardian ends and reports if we die. */
export interface Charge {
  id: string;
  plan?: EnclosurePlan;
  hook?: ReleaseHook;
  temporaryDirectory?: string;
}

export type GuardMessage = { kind: "take"; charge: Charge } | { kind: "drop"; id: string };

/** A guardian that ends this often is being ended on purpose. */
const RESTARTS_MAX = 5;

const charges = new Map<string, Charge>();
let guardian: ChildProcess | undefined;
let restarts = 0;

/** Hands a charge over, or changes it. On return the kernel has it: a death right after this is noticed. */
export function entrust(charge: Charge): void {
  charges.set(charge.id, charge);
  if (guardian === undefined) startGuardian();
  else send({ kind: "take", charge });
  // Out of processes or memory: better no job than one that nobody would end.
  if (guardian?.pid === undefined)
    throw refusal("start_failed", "The guardian could not be started.", "Free some memory.");
}

/** The charge is settled: nothing is to be done for it any more. */
export function dismiss(id: string): void {
  if (charges.delete(id)) send({ kind: "drop", id });
}

function startGuardian(): void {
  const child = spawn(process.execPath, programArguments("guardian"), {
    cwd: "/",
    detached: true, // Its own session: neither Ctrl-C nor the end of our process group reaches it.
    env: programEnvironment(),
    stdio: ["pipe", "ignore", "ignore"],
  });
  guardian = child;
  child.once("error", () => replaceGuardian(child));
  child.once("exit", () => replaceGuardian(child));
  child.stdin.on("error", () => undefined); // It has ended; "exit" follows.
  child.unref();
  if ("unref" in child.stdin && typeof child.stdin.unref === "function") child.stdin.unref();
  for (const charge of charges.values()) send({ kind: "take", charge });
}

function replaceGuardian(ended: ChildProcess): void {
  if (guardian !== ended) return;
  guardian = undefined;
  if (charges.size > 0 && restarts++ < RESTARTS_MAX) startGuardian();
}

function send(message: GuardMessage): void {
  guardian?.stdin?.write(`${JSON.stringify(message)}\n`);
}
