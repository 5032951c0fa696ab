// `berth up --detach`: the same command in the background, and what it said when it was ready.

import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type CliContext, CliError } from "../context.ts";
import { shownPath } from "../paths.ts";

const LOG_TAIL_CHARS = 2_000;

export async function startDetached(context: CliContext): Promise<void> {
  const directory = join(process.env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "berth");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const logFile = join(directory, "server.log");
  const log = openSync(logFile, "w", 0o600);
  const args = process.argv.slice(1).filter((arg) => arg !== "--detach" && arg !== "-d");
  const child = spawn(process.execPath, args, { detached: true, stdio: ["ignore", log, log, "ipc"] });
  closeSync(log);
  const ready = await new Promise<string | undefined>((resolve) => {
    child.once("message", (message) => resolve((message as { ready: string }).ready));
    child.once("exit", () => resolve(undefined));
    child.once("error", () => resolve(undefined));
  });
  if (ready === undefined) {
    const said = readFileSync(logFile, "utf8").slice(-LOG_TAIL_CHARS).trim();
    throw new CliError(
      "unavailable",
      `The server has not started. ${said}`,
      `Its log: ${shownPath(logFile)}`,
    );
  }
  child.disconnect();
  child.unref();
  context.write(ready);
  context.tell(`In the background, pid ${child.pid}; \`berth down\` stops it. Log: ${shownPath(logFile)}\n`);
}
