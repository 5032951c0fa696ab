// Notices on this machine (H2): on its screen, or by a command of its user. The server never learns of such commands, so
// that nobody can make it, or this machine, run anything.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { NoticeKind, WireRequest } from "../../protocol/index.ts";
import { type Client, isBerthError, noticeText, noticeWords } from "../../sdk/index.ts";
import { contextFilePath } from "../connection.ts";
import { CliError } from "../context.ts";
import { writePrivateFile } from "../private-file.ts";

/** A command that is run for notices, without a shell. */
export interface NoticeCommand {
  readonly command: readonly string[];
  readonly on: readonly NoticeKind[];
  readonly component?: string;
  readonly pool?: string;
}

export const DESKTOP = "desktop";

type Commands = Readonly<Record<string, NoticeCommand>>;

export function noticeFilePath(env = process.env): string {
  return join(dirname(contextFilePath(env)), "notices.json");
}

export function readCommands(env = process.env): Commands {
  try {
    return (JSON.parse(readFileSync(noticeFilePath(env), "utf8")) as { commands: Commands }).commands;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    const path = noticeFilePath(env);
    throw new CliError(
      "invalid_syntax",
      `The commands in ${path} cannot be read.`,
      "Repair or remove that file.",
    );
  }
}

/** Undefined removes it. */
export function saveCommand(name: string, command: NoticeCommand | undefined, env = process.env): void {
  const commands = { ...readCommands(env) };
  if (command === undefined) delete commands[name];
  else commands[name] = command;
  const path = noticeFilePath(env);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writePrivateFile(path, `${JSON.stringify({ commands }, null, 2)}\n`);
}

/** Something that happened to a request, in the words of the server's notices. */
export interface NoticeHere {
  readonly kind: NoticeKind;
  readonly request: WireRequest;
  readonly what: string;
  readonly text: string;
}

export async function noticeOf(
  client: Client,
  kind: NoticeKind,
  request: WireRequest,
  ownComponent: string | null,
): Promise<NoticeHere> {
  const explanation = await client.requests.explain(request.id).catch(passBerthErrors);
  const takerId = kind === "preempted" ? takerOf(request) : null;
  const taker = takerId === null ? undefined : await client.requests.get(takerId).catch(passBerthErrors);
  const words = noticeWords(kind, request, { ownComponent, explanation, taker });
  return { kind, request, what: words.what, text: noticeText(words) };
}

/** A notice with fewer words is better than none. */
function passBerthErrors(error: unknown): undefined {
  if (!isBerthError(error)) throw error;
}

function takerOf({ attempts }: WireRequest): string | null {
  return attempts.findLast(({ outcome }) => outcome === "preempted")?.preempted_for ?? null;
}

export type Show = (notice: NoticeHere) => Promise<void>;

/** How to show notices under a name of this machine; undefined: there is no such name here. */
export function showerOf(
  name: string,
  tell: (text: string) => void,
  commandMs = COMMAND_MS,
): Show | undefined {
  if (name === DESKTOP) return (notice) => showOnDesktop(notice, tell);
  const command = readCommands()[name];
  if (command === undefined) return undefined;
  return async (notice) => {
    if (command.on.includes(notice.kind)) await runFor({ name, ...command, commandMs }, notice, tell);
  };
}

/** What shows a notice is ended after this time, so that nobody waits for it longer. */
const COMMAND_MS = 10_000;

/** The notice is in its environment, and as JSON on its stdin. */
async function runFor(
  { name, command, commandMs }: NoticeCommand & { readonly name: string; readonly commandMs: number },
  notice: NoticeHere,
  tell: (text: string) => void,
): Promise<void> {
  const { kind, request, text } = notice;
  const [program = "", ...words] = command;
  const child = spawn(program, words, {
    env: {
      ...process.env,
      ...{ BERTH_NOTICE: text, BERTH_NOTICE_KIND: kind, BERTH_REQUEST: String(request.number) },
    },
    stdio: ["pipe", "ignore", "ignore"],
    ...endedAfter(commandMs),
  });
  child.stdin.on("error", () => undefined); // It need not read.
  child.stdin.end(`${JSON.stringify({ kind, text, request })}\n`);
  const problem = await endOf(child);
  if (problem !== undefined) tell(`berth: the command of ${name} ${problem}\n`);
}

/** The desktop's own message where there is a program for it; a bell and a line in the terminal otherwise. */
async function showOnDesktop({ what, text }: NoticeHere, tell: (text: string) => void): Promise<void> {
  const [program, ...words] = desktopCommand(what, text);
  const child = spawn(program as string, words, { stdio: "ignore", ...endedAfter(COMMAND_MS) });
  if ((await endOf(child)) !== undefined) tell("\u0007");
}

function desktopCommand(what: string, text: string): string[] {
  if (process.platform !== "darwin") return ["notify-send", "--app-name=berth", "--", "Berth", text];
  // Words are arguments, never a part of the script.
  const script = "display notification (item 1 of argv) with title (item 2 of argv)";
  return ["osascript", "-e", "on run argv", "-e", script, "-e", "end run", "--", text, what];
}

/** By the signal that no program can ignore. */
function endedAfter(timeout: number) {
  return { timeout, killSignal: "SIGKILL" } as const;
}

function endOf(child: ChildProcess): Promise<string | undefined> {
  return new Promise((resolve) => {
    child.on("error", (error) => resolve(`could not be started: ${error.message}.`));
    child.on("exit", (code, signal) => {
      if (code === 0) resolve(undefined);
      else resolve(signal === null ? `ended with ${code}.` : `was ended by ${signal}.`);
    });
  });
}
