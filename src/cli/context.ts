// What a command gets from outside, so that it can be tried in a test without a process of its own.

import type { Command } from "commander";
import type { ErrorCode } from "../protocol/index.ts";
import type { Hosting } from "./serving/hosting.ts";

export interface CliContext {
  readonly version: string;
  /** What to type to start this program again, such as `./berth`. Absent: `berth`. */
  readonly program?: string;
  /** stdout: data. */
  readonly write: (text: string) => void;
  /** stderr: talk. */
  readonly tell: (text: string) => void;
  /** Whether stdout is a terminal that shows colours. */
  readonly hasColor: boolean;
  /** Whether stdout is a terminal, and how wide it is. Absent: a pipe or a file. */
  readonly screen?: { readonly columns: () => number };
  /** Whether people here can read more than ASCII; they can unless their locale says otherwise. */
  readonly isAscii?: boolean;
  /** Asks the person at the keyboard. Absent where there is none. */
  readonly ask?: (question: string, options?: { readonly isSecret?: boolean }) => Promise<string>;
  /** All of stdin, where it is not a keyboard. */
  readonly readStdin?: () => Promise<string>;
  /** The server's side, for commands that start one or open its data. */
  readonly hosting?: () => Promise<Hosting>;
  /** Ends what would otherwise go on for ever. */
  readonly signal?: AbortSignal;
  /** What the process will exit with. A command that ends well leaves it alone. */
  exitCode: number;
}

/** A module with one command: gives it options, sub-commands and an action. */
export interface CommandModule {
  readonly define: (command: Command, context: CliContext) => void;
}

/** Ends a command with a stable code, a sentence and a next step; the exit code follows from the code, unless given. */
export class CliError extends Error {
  readonly code: ErrorCode;
  readonly hint: string;
  readonly exitCode: number | undefined;
  constructor(code: ErrorCode, message: string, hint = "", exitCode?: number) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.exitCode = exitCode;
  }
}
