// What the runner refuses, in a form that a command line can show and turn into an exit code.

export type RefusalCode =
  | "command_not_found"
  | "command_not_executable"
  | "command_invalid"
  | "environment_invalid"
  | "arguments_too_long"
  | "directory_missing"
  | "socket_path_too_long"
  | "containment_unavailable"
  | "start_failed";

/** Thrown before anything of the job runs. `exitCode` is what `berth run` ends with. */
export interface JobRefusal extends Error {
  code: RefusalCode;
  exitCode: number;
  hint: string;
}

/** 126 and 127 as in every shell, 2 for what was typed wrong, 125 when we failed. */
const exitCodes: Record<RefusalCode, number> = {
  command_not_found: 127,
  command_not_executable: 126,
  command_invalid: 2,
  environment_invalid: 2,
  arguments_too_long: 126,
  directory_missing: 125,
  socket_path_too_long: 125,
  containment_unavailable: 125,
  start_failed: 125,
};

export function refusal(code: RefusalCode, message: string, hint: string, cause?: unknown): JobRefusal {
  const error = new Error(message, cause === undefined ? undefined : { cause });
  return Object.assign(error, { name: "JobRefusal", code, exitCode: exitCodes[code], hint });
}

export function isJobRefusal(error: unknown): error is JobRefusal {
  return error instanceof Error && error.name === "JobRefusal";
}

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException).code ?? "");
}
