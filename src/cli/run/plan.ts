// What `berth run` was asked for: its options, checked before anything happens.

import { constants, hostname, userInfo } from "node:os";
import type { WireRequestSubmission } from "../../protocol/index.ts";
import { CHOICES } from "../choices.ts";
import { CliError } from "../context.ts";
import type { JobOptions } from "../jobs/options.ts";
import { oneOf } from "../options.ts";
import { type SubmissionOptions, submissionOf } from "../submission.ts";
import { printable } from "./talk.ts";

export interface RunOptions extends SubmissionOptions, Omit<JobOptions, "onLost"> {
  readonly detach?: boolean;
  readonly url?: string;
  readonly context?: string;
  readonly component?: string;
  readonly checkpointSignal?: string;
  readonly checkpointCmd?: string;
  readonly checkpointDir?: string;
  readonly onLost: string;
  readonly idempotencyKey?: string;
  readonly report?: string;
  readonly quiet?: boolean;
  /** Names of targets, or of this machine. */
  readonly notify?: readonly string[];
}

export type OnLost = "suspend" | "run-on" | "kill";

export interface RunPlan {
  readonly command: readonly string[];
  readonly submission: WireRequestSubmission;
  readonly idempotencyKey: string | undefined;
  readonly onLost: OnLost;
  readonly checkpointSignal: NodeJS.Signals | undefined;
  readonly checkpointCommand: readonly string[] | undefined;
  readonly checkpointDir: string | undefined;
  readonly reportFile: string | undefined;
}

export async function planRun(
  command: readonly string[],
  options: RunOptions,
  component: string,
): Promise<RunPlan> {
  if (command.length === 0) {
    throw new CliError(
      "usage",
      "There is no command to run.",
      "Put it after `--`: berth run --gpu 1 -- python train.py",
    );
  }
  return {
    command,
    submission: await toSubmission(command, options, component),
    idempotencyKey: options.idempotencyKey,
    onLost: oneOf("--on-lost", options.onLost, CHOICES.onLost),
    checkpointSignal:
      options.checkpointSignal === undefined ? undefined : signalNamed(options.checkpointSignal),
    checkpointCommand:
      options.checkpointCmd === undefined ? undefined : ["/bin/sh", "-c", options.checkpointCmd],
    checkpointDir: options.checkpointDir,
    reportFile: options.report,
  };
}

async function toSubmission(
  command: readonly string[],
  options: RunOptions,
  component: string,
): Promise<WireRequestSubmission> {
  const asksToCheckpoint = options.checkpointSignal !== undefined || options.checkpointCmd !== undefined;
  const checkpoint = options.checkpoint ?? (asksToCheckpoint ? "auto" : "none");
  return {
    ...(await submissionOf({ ...options, checkpoint }, component)),
    attended: true,
    origin: { host: hostname(), user: userName(), command: commandText(command) },
  };
}

const COMMAND_CHARS_MAX = 1_000;

/** To be read, not to be typed again. */
function commandText(command: readonly string[]): string {
  return [...printable(command.join(" "))].slice(0, COMMAND_CHARS_MAX).join("");
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "unknown"); // Without an entry in the list of users.
  }
}

export function signalNamed(text: string): NodeJS.Signals {
  const name = `SIG${text.toUpperCase().replace(/^SIG/, "")}`;
  if (name in constants.signals && name !== "SIGKILL" && name !== "SIGSTOP") return name as NodeJS.Signals;
  throw new CliError(
    "usage",
    `"${text.slice(0, 40)}" is not a signal that can be handled.`,
    "Use for example USR1.",
  );
}
