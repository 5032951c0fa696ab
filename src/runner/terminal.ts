// Signals between a terminal, the wrapper and the job.
//
// With a terminal, the job shares the wrapper's process group. Job control then works as without a wrapper:
// Ctrl-C, Ctrl-\ and Ctrl-Z reach the job from the keyboard, /dev/tty opens, `fg` and `bg` apply to both; what the
// keyboard has delivered is not forwarded again. Without a terminal, the job has a session of its own and gets
// exactly what is forwarded, once.
//
// A wrapper without a handler dies of Ctrl-C, and the job with it: install one before the job starts. At level
// "namespace", Ctrl-\ and a hang-up also reach `unshare`, which has no ear for them, and end the job without grace.

import { constants } from "node:os";
import type { Job } from "./job.ts";
import { readProcess } from "./processes.ts";

const keyboardSignals: readonly NodeJS.Signals[] = ["SIGINT", "SIGQUIT", "SIGHUP"];
const forwardedSignals: readonly NodeJS.Signals[] = [...keyboardSignals, "SIGTERM", "SIGUSR1", "SIGUSR2"];

/** Forwards to the job what this process receives, until the returned function is called. */
export function forwardSignals(job: Job, onForward?: (signal: NodeJS.Signals) => void): () => void {
  const forward = (signal: NodeJS.Signals) => {
    if (!cameFromKeyboard(signal)) job.forward(signal);
    onForward?.(signal);
  };
  for (const signal of forwardedSignals) process.on(signal, forward);
  return () => {
    for (const signal of forwardedSignals) process.off(signal, forward);
  };
}

export function hasTerminal(): boolean {
  return (readProcess(process.pid)?.foregroundGroupId ?? -1) !== -1;
}

/** Whether the terminal has sent the signal to our whole foreground group, the job included. */
function cameFromKeyboard(signal: NodeJS.Signals): boolean {
  if (!keyboardSignals.includes(signal)) return false;
  const own = readProcess(process.pid);
  return own !== undefined && own.foregroundGroupId === own.groupId;
}

/** The exit code a shell would show: the command's own, or 128 plus the signal that ended it. */
export function exitCodeOf({ code, signal }: { code: number | null; signal: NodeJS.Signals | null }): number {
  if (code !== null) return code;
  return 128 + (signal === null ? 0 : constants.signals[signal]);
}
