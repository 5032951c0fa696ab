// Runs the shell lines of a document as a reader would, and compares what they print with what the document says.

import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";

/** One command of a `console` block, with the output that the document shows for it. */
export interface ShellLine {
  readonly command: string;
  readonly output: string;
  /** In a terminal of its own: it may go on while others run. */
  readonly isElsewhere: boolean;
  /** Position of the output in the document, for rewriting it. */
  readonly from: number;
  readonly to: number;
}

const BLOCK = /^```console\n([\s\S]*?)^```$/gm;

export function shellLinesOf(text: string): ShellLine[] {
  const found: ShellLine[] = [];
  for (const block of text.matchAll(BLOCK)) {
    const start = block.index + "```console\n".length;
    let at = start;
    let open: { command: string; from: number; output: string } | undefined;
    const close = (to: number) => {
      if (open === undefined) return;
      const command = open.command.replace(/\s+# terminal \d+$/, "");
      found.push({ ...open, command, output: open.output, isElsewhere: command !== open.command, to });
      open = undefined;
    };
    for (const line of (block[1] as string).split(/(?<=\n)/)) {
      const next = at + line.length;
      if (line.startsWith("$ ")) {
        close(at);
        open = { command: line.slice(2, -1), from: next, output: "" };
      } else if (
        open !== undefined &&
        open.output === "" &&
        (line.startsWith("> ") || open.command.endsWith("\\"))
      ) {
        open.command += `\n${line.replace(/^> /, "").slice(0, -1)}`;
        open.from = next;
      } else if (open !== undefined) open.output += line;
      at = next;
    }
    close(at);
  }
  return found;
}

/** This machine is a node of its own server; documents call it by the same name everywhere. */
export function withoutHostname(text: string): string {
  return text.replaceAll(
    new RegExp(`(?<![\\w.-])${hostname().replaceAll(".", "\\.")}(?![\\w.-])`, "g"),
    "gpubox",
  );
}

/** What differs from run to run, and what a table needs to line up, is nothing to compare. */
export function normalise(text: string): string {
  return withoutHostname(withoutWaits(text))
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "ID")
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
    .replaceAll(/\bpid \d+/g, "pid PID")
    .replaceAll(/\bv\d+\.\d+\.\d+/g, "NODE_VERSION")
    .replaceAll(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?/g, "TIME")
    .replaceAll(/\b\d+[dhms](\d+[hms])?\b/g, "AGE")
    .replaceAll(/\b\d+ s\b/g, "AGE")
    .replaceAll(/\bcost [\d.]+ min\b/g, "cost COST") // Of lost work, which grows.
    .replaceAll(/\b\d+ (kB|MB)\b/g, "SIZE")
    .replaceAll(/\bat event \d+/g, "at event SEQ") // A node that is late with its report adds two.
    .replaceAll(/berth_[A-Za-z0-9_-]{43}/g, "SECRET")
    .replaceAll(/#once=[\w-]{22}/g, "#once=LINK")
    .replaceAll(/[ \t]+/g, " ")
    .replaceAll(/ $/gm, "")
    .trim();
}

/** Whether a request was seen waiting before its grant is a question of milliseconds. */
function withoutWaits(text: string): string {
  return /^granted/m.test(text) ? text.replaceAll(/^waiting .*\n/gm, "") : text;
}

export interface Reader {
  /** What the line has printed, stdout and stderr together. */
  type(line: ShellLine): Promise<string>;
  close(): Promise<void>;
}

const WAIT_MS_MAX = 300_000;

function kill({ pid }: ChildProcess): void {
  if (pid !== undefined) process.kill(-pid, "SIGTERM");
}

/** A shell in a home of its own, in which `berth` is the one that was built. */
export function createReader(berth: string, home: string): Reader {
  const bin = join(home, "bin");
  const elsewhere: ChildProcess[] = [];
  const program = join(home, "berth-program");
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${berth}' "$@"\n`);
  chmodSync(program, 0o755);
  const env = {
    PATH: `${bin}:${process.env.PATH}`,
    HOME: home,
    USER: "alice",
    LANG: "C.UTF-8",
    BERTH_LISTEN: "127.0.0.1:0",
  };
  const begin = (command: string) => {
    const prelude = `berth() { '${program}' "$@"; }; export -f berth`;
    const child = spawn("bash", ["-c", `${prelude}\n${command}`], {
      cwd: home,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        output += chunk;
      });
    }
    return { child, output: () => output };
  };
  return {
    async type({ command, output: expected, isElsewhere }) {
      const { child, output } = begin(command);
      const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
      const mayGoOn = isElsewhere || /^berth up(?!.*--detach)/.test(command);
      elsewhere.push(child);
      if (!mayGoOn) {
        const patience = setTimeout(() => kill(child), WAIT_MS_MAX);
        await closed;
        clearTimeout(patience);
        return output();
      }
      let isClosed = false;
      void closed.then(() => {
        isClosed = true;
      });
      // Until it has said what the document says, or has ended.
      for (const endMs = performance.now() + WAIT_MS_MAX; performance.now() < endMs && !isClosed; ) {
        if (expected !== "" && normalise(output()).startsWith(normalise(expected))) break;
        if (expected === "" && /^Next:/m.test(output())) break;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return output();
    },
    async close() {
      for (const child of elsewhere.toReversed()) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        const closed = new Promise((resolve) => child.once("close", resolve));
        kill(child);
        await closed;
      }
      const { child } = begin("berth down");
      await new Promise((resolve) => child.once("close", resolve));
    },
  };
}
