// The near side of the guardian: posts it beside a job, and tells it what to end and to report if this process dies.
// It notices our end by its input closing, which even SIGKILL cannot prevent.
//
// As long as there is nothing to do the guardian is a shell that waits for that end: a program of ours would cost every
// job tens of megabytes and the time to start. The shell kills a control group by itself, at once, and leaves all the
// rest to the program that it then starts.

import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { EnclosurePlan } from "./enclosure.ts";
import { refusal } from "./errors.ts";
import { programArguments, programEnvironment } from "./programs.ts";

/** An HTTP call. Any of the servers may answer. */
export interface HookCall {
  urls: string[];
  method: string;
  headers: Record<string, string>;
  body?: string;
  /** How far the server's clock is ahead of ours: the report then says when the job ended. */
  clockOffsetMs?: number;
}

/** Calls to make in this order after the job has been ended, such as the release of its grant. */
export interface ReleaseHook {
  calls: HookCall[];
  retryForMs?: number;
  /** What to say of a job that cannot be killed: once, and then again and again, so that it keeps its units. */
  stuck?: { alert: HookCall; renewal: HookCall; everyMs: number };
}

/** What the guardian ends and reports if we die. */
export interface Charge {
  plan?: EnclosurePlan;
  hook?: ReleaseHook;
  temporaryDirectory?: string;
  stuckAfterMs?: number;
}

export interface Guard {
  /** Hands the charge over, or changes it. On return the kernel has it: a death right after this is noticed. */
  entrust(charge: Charge): void;
  /** The charge is settled: nothing is to be done for it any more. */
  dismiss(): void;
}

/** A guardian that ends this often is being ended on purpose. */
const RESTARTS_MAX = 5;

/**
 * Each line replaces the one before it; half a line counts for nothing, since its writer died in the middle. Before the
 * tab is the file that kills the job's control group, or `-`; after it the charge. An empty line is a dismissal.
 */
const VIGIL = `trap '' HUP INT TERM QUIT
while IFS= read -r line; do last=$line; done
[ -n "$last" ] || exit 0
[ "\${last%%\t*}" = - ] || echo 1 > "\${last%%\t*}"
printf '%s\n' "\${last#*\t}" | exec "$@"`;

export function postGuard(): Guard {
  let line = "";
  let guardian: ChildProcess | undefined;
  let restarts = 0;

  const send = () => void guardian?.stdin?.write(`${line}\n`);
  const start = () => {
    const program = [process.execPath, ...programArguments("guardian")];
    const child = spawn("/bin/sh", ["-c", VIGIL, "berth-guardian", ...program], {
      cwd: "/",
      detached: true, // Its own session: neither Ctrl-C nor the end of our process group reaches it.
      env: programEnvironment(),
      stdio: ["pipe", "ignore", "ignore"],
    });
    guardian = child;
    child.once("error", replace);
    child.once("exit", replace);
    child.stdin.on("error", () => undefined); // It has ended; "exit" follows.
    child.unref();
    if ("unref" in child.stdin && typeof child.stdin.unref === "function") child.stdin.unref();
    send();
  };
  const replace = () => {
    guardian = undefined;
    if (line !== "" && restarts++ < RESTARTS_MAX) start();
  };

  return {
    entrust(charge) {
      line = lineOf(charge);
      if (guardian === undefined) start();
      else send();
      // Out of processes or memory: better no job than one that nobody would end.
      if (guardian?.pid === undefined)
        throw refusal("start_failed", "The guardian could not be started.", "Free some memory.");
    },
    dismiss() {
      line = "";
      send();
      guardian?.stdin?.end();
    },
  };
}

function lineOf(charge: Charge): string {
  const { plan } = charge;
  const killFile = plan?.level === "cgroup" ? join(plan.directory, "cgroup.kill") : "-";
  return `${/[\t\n]/.test(killFile) ? "-" : killFile}\t${JSON.stringify(charge)}`;
}
