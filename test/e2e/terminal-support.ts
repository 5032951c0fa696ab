// Real terminals: `script`, which every Debian has, brings them.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { afterAll } from "vitest";
import { until } from "./runner-support.ts";

export interface Terminal {
  readonly exited: Promise<number | null>;
  /** All that has appeared, without the escapes that move the cursor and colour the text. */
  readonly screen: () => string;
  readonly raw: () => string;
  type(keys: string): void;
  /** Resolves when this has appeared. */
  shows(pattern: RegExp): Promise<RegExpExecArray>;
}

const ESCAPE = String.fromCharCode(27);
const ESCAPES = new RegExp(
  `${ESCAPE}(\\[[0-9;?>=]*[A-Za-z]|[()][A-Z0-9]|[=>]|\\][^${"\u0007"}]*${"\u0007"})`,
  "g",
);

const opened: { child: ChildProcessByStdio<Writable, Readable, null>; exited: Promise<unknown> }[] = [];
afterAll(async () => {
  for (const { child, exited } of opened.toReversed()) {
    if (child.exitCode === null) child.kill("SIGTERM");
    await exited;
  }
});

/** Runs a line of shell in a terminal of its own. */
export function openTerminal(
  line: string,
  { cwd, env, columns = 120 }: { cwd: string; env: Readonly<Record<string, string>>; columns?: number },
): Terminal {
  const command = `stty cols ${columns} rows 40; ${line}`;
  const child = spawn("script", ["--quiet", "--return", "--flush", "--command", command, "/dev/null"], {
    stdio: ["pipe", "pipe", "ignore"],
    cwd,
    env: { PATH: process.env.PATH, SHELL: "/bin/sh", TERM: "xterm", LANG: "C.UTF-8", ...env },
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk;
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  opened.push({ child, exited });
  const screen = () => output.replaceAll(ESCAPES, "").replaceAll("\r\n", "\n");
  return {
    exited,
    screen,
    raw: () => output,
    type: (keys) => void child.stdin.write(keys),
    shows: (pattern) =>
      until(`the terminal shows ${pattern}: ${screen()}`, () => pattern.exec(screen()) ?? undefined),
  };
}
