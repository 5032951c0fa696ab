// How a run ended: one exit code, and with --report everything that a program may want to know.

import { renameSync, writeFileSync } from "node:fs";
import type { WireRequest } from "../../protocol/index.ts";
import type { CommandEnd } from "../../runner/index.ts";
import type { BerthError } from "../../sdk/index.ts";
import { CliError } from "../context.ts";
import { hintAsCommand, hintOfRejection } from "../hints.ts";

export interface Verdict {
  readonly exitCode: number;
  /** `ok`, `command_failed`, or a code of the table of errors. */
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly request: WireRequest | undefined;
  readonly command: CommandEnd | undefined;
}

/** The command ended by itself: its own code is ours. */
export function verdictOfCommand(request: WireRequest, command: CommandEnd): Verdict {
  const isFine = command.exitCode === 0;
  const message = isFine ? "" : `The command ended with ${command.exitCode}.`;
  const code = isFine ? "ok" : "command_failed";
  return { exitCode: command.exitCode, code, message, hint: "", request, command };
}

export async function verdictOfError(
  error: BerthError | CliError,
  request?: WireRequest,
  command?: CommandEnd,
): Promise<Verdict> {
  // It was found when it was submitted, so it has been deleted since.
  const isDeleted = error.code === "not_found" && request !== undefined;
  const { code, message, hint } = isDeleted
    ? { code: "cancelled", message: `Request #${request.number} was deleted.`, hint: "" }
    : error;
  const { ERRORS, EXIT, isErrorCode } = await import("../../protocol/index.ts"); // Most runs end well without it.
  // A key that no pool has is a slip in a call, but a rejection when a request is judged by it.
  const isRejected = request?.status === "rejected";
  const exitCode = isRejected ? EXIT.rejected : isErrorCode(code) ? ERRORS[code].exitCode : EXIT.berthFailed;
  const better = isRejected ? hintOfRejection(request) : hintAsCommand(hint);
  return { exitCode, code, message, hint: better ?? hint, request, command };
}

/** A reader sees the whole report or none. */
export function writeReport(file: string, verdict: Verdict, waitedMs: number): void {
  const { request, command, exitCode, code, message, hint } = verdict;
  const { token: _, ...shown } = request ?? ({} as Partial<WireRequest>);
  const report = {
    verdict: code,
    exit_code: exitCode,
    message,
    hint,
    command: command === undefined ? null : { exit_code: command.exitCode, signal: command.signal },
    waited_seconds: Math.round(waitedMs) / 1000,
    request: request === undefined ? null : shown,
  };
  const draft = `${file}.${process.pid}.new`;
  try {
    writeFileSync(draft, `${JSON.stringify(report, null, 2)}\n`);
    renameSync(draft, file);
  } catch (error) {
    throw new CliError(
      "file_unreadable",
      `The report ${file} cannot be written: ${(error as Error).message}.`,
    );
  }
}
