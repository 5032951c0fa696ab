// Checks a command and its environment before anything starts: what cannot reach the child byte for byte is
// refused, and what cannot be executed gets the exit code that a shell would give.

import { isUtf8 } from "node:buffer";
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { hasCode, type JobRefusal, refusal } from "./errors.ts";

/** Throws a `JobRefusal`, or returns because the command can be started as it is. */
export function checkCommand(command: readonly string[], env: Record<string, string>, cwd: string): void {
  checkWords(command, env);
  const problem = missingDirectory(cwd) ?? unexecutable(command[0] ?? "", env, cwd);
  if (problem !== undefined) throw problem;
}

/** Of a command that is run elsewhere: only whether its words and its environment are what was meant. */
export function checkWords(command: readonly string[], env: Record<string, string>): void {
  const problem = malformedCommand(command) ?? malformedEnvironment(env);
  if (problem !== undefined) throw problem;
}

/** What the system said when the start failed after all. */
export function startRefusal(file: string, code: string): JobRefusal {
  if (code === "ENOENT") return notFound(file);
  if (code === "E2BIG") {
    const message = "The command with its arguments and environment is longer than the system takes.";
    return refusal("arguments_too_long", message, "Pass the data in a file or on standard input.");
  }
  if (["EACCES", "EPERM", "ENOEXEC", "EISDIR", "ETXTBSY"].includes(code)) return notExecutable(file, code);
  return refusal(
    "start_failed",
    `"${file}" could not be started: ${code}.`,
    "See the system's limits for processes.",
  );
}

function malformedCommand(command: readonly string[]): JobRefusal | undefined {
  if (command.length === 0)
    return refusal("command_invalid", "There is no command to run.", "Put it after `--`.");
  const index = command.findIndex((word) => flawOf(word) !== undefined);
  if (index !== -1) {
    const message = `Argument ${index} of the command ${flawOf(command[index] ?? "")}.`;
    return refusal("command_invalid", message, passByFile);
  }
  if (command.some(mayBeDecodedBadly) && !isSelfUtf8("cmdline")) {
    return refusal("command_invalid", "An argument of the command is not valid UTF-8.", passByFile);
  }
  return undefined;
}

function malformedEnvironment(env: Record<string, string>): JobRefusal | undefined {
  for (const [name, value] of Object.entries(env)) {
    const flaw =
      name === ""
        ? "has no name"
        : name.includes("=")
          ? 'has "=" in its name'
          : (flawOf(name) ?? flawOf(value));
    if (flaw !== undefined) {
      const message = `The environment variable ${JSON.stringify(name)} ${flaw}.`;
      return refusal("environment_invalid", message, "Unset it, or give it another name or value.");
    }
  }
  const suspect = Object.keys(env).find(
    (name) => mayBeDecodedBadly(name) || mayBeDecodedBadly(env[name] ?? ""),
  );
  if (suspect !== undefined && !isSelfUtf8("environ")) {
    const message = `The environment variable ${JSON.stringify(suspect)} is not valid UTF-8.`;
    return refusal("environment_invalid", message, "Unset it, or pass the bytes in a file.");
  }
  return undefined;
}

const passByFile = "Pass such data in a file or on standard input.";

function flawOf(text: string): string | undefined {
  if (text.includes("\0")) return "contains a NUL byte, which no process can receive";
  return /\p{Surrogate}/u.test(text) ? "contains half of a Unicode character, which has no bytes" : undefined;
}

/** Node reads bytes that are not UTF-8 as U+FFFD: only then is it worth looking at the original bytes. */
function mayBeDecodedBadly(text: string): boolean {
  return text.includes("\uFFFD");
}

function isSelfUtf8(file: "cmdline" | "environ"): boolean {
  try {
    return isUtf8(readFileSync(`/proc/self/${file}`));
  } catch {
    return true; // No /proc: what we were given is all there is.
  }
}

function missingDirectory(cwd: string): JobRefusal | undefined {
  if (statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) return undefined;
  return refusal(
    "directory_missing",
    `The working directory "${cwd}" is not a directory.`,
    "Create it or name another.",
  );
}

/** Looks the command up as execvp does, in the PATH of the job. */
function unexecutable(file: string, env: Record<string, string>, cwd: string): JobRefusal | undefined {
  if (file === "") return notFound(file);
  const directories = (env.PATH ?? "/bin:/usr/bin").split(":");
  const isPath = file.includes("/");
  const places = isPath ? [file] : directories.map((directory) => `${directory || "."}/${file}`);
  const verdicts = places.map((place) => verdictOn(resolve(cwd, place)));
  if (verdicts.includes("fine")) return undefined;
  // A directory of that name in the PATH is passed over, as shells do.
  const found = verdicts.find((verdict) => verdict !== "absent" && (isPath || verdict !== "EISDIR"));
  return found === undefined ? notFound(file) : notExecutable(file, found);
}

function verdictOn(path: string): string {
  try {
    if (statSync(path).isDirectory()) return "EISDIR";
    accessSync(path, constants.X_OK);
    return "fine";
  } catch (error) {
    return hasCode(error, "ENOENT", "ENOTDIR")
      ? "absent"
      : ((error as NodeJS.ErrnoException).code ?? "unknown");
  }
}

function notFound(file: string): JobRefusal {
  return refusal("command_not_found", `The command "${file}" was not found.`, "Check its name and the PATH.");
}

function notExecutable(file: string, code: string): JobRefusal {
  const message = `The command "${file}" cannot be executed (${code}).`;
  return refusal("command_not_executable", message, "Check its permissions and its first line.");
}
