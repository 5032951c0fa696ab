// The keyboard of a real terminal, and signals without one. `script` brings the terminal.

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { ContainmentLevel } from "../../src/runner/index.ts";
import {
  buildWrapper,
  environment,
  levels,
  processesNaming,
  readOrEmpty,
  runWrapper,
  temporaryDirectory,
  uniqueSeconds,
  until,
} from "./runner-support.ts";

let wrapper = "";
beforeAll(async () => {
  wrapper = await buildWrapper();
});

/** Writes down each signal it gets; SIGQUIT ends it, and so does a file. Its name is on its command line. */
const listener = `
  trap 'echo INT >> "$1"' INT; trap 'echo USR1 >> "$1"' USR1; trap 'echo QUIT >> "$1"; exit 6' QUIT
  echo ready >> "$1"
  until [ -e "$1.end" ]; do sleep 0.02; done
  exit 5`;

describe.each(levels)("at level %s", (containment) => {
  test("Ctrl-C reaches the job once, and the wrapper waits for what the job makes of it", async () => {
    const { files, keyboard, exited, output } = onTerminal(listenerOptions(containment));
    await until("both are ready", () => output().includes("running") && readOrEmpty(files.log) === "ready\n");
    keyboard.write("\x03");
    await until("the job has it", () => readOrEmpty(files.log) === "ready\nINT\n");
    keyboard.write("\x03");
    await until("the job has the second", () => readOrEmpty(files.log) === "ready\nINT\nINT\n");
    writeFileSync(`${files.log}.end`, "");
    expect(await exited).toBe(5);
    expect(readOrEmpty(files.log)).toBe("ready\nINT\nINT\n");
  });

  test("the job may use the terminal: it is in the foreground and can read", async () => {
    const script = 'read line < /dev/tty; echo "got $line" > "$1"';
    const options = listenerOptions(containment, script);
    const { files, keyboard, exited, output } = onTerminal(options);
    await until("the job runs", () => output().includes("running") && processesNaming(files.name).length > 0);
    keyboard.write("words\n");
    expect(await exited).toBe(0);
    expect(readOrEmpty(files.log)).toBe("got words\n");
  });

  test("without a terminal, a signal to the wrapper reaches the job once", async () => {
    const { files, options } = listenerOptions(containment);
    const { child, exited, output } = runWrapper(wrapper, options);
    await until("both are ready", () => output().includes("running") && readOrEmpty(files.log) === "ready\n");
    for (const [signal, line] of [
      ["SIGINT", "INT"],
      ["SIGUSR1", "USR1"],
    ] as const) {
      const before = readOrEmpty(files.log);
      child.kill(signal);
      await until("the job has it", () => readOrEmpty(files.log) === `${before}${line}\n`);
    }
    child.kill("SIGQUIT");
    expect(await exited).toEqual({ code: 6, signal: null });
    expect(readOrEmpty(files.log)).toBe("ready\nINT\nUSR1\nQUIT\n");
  });

  test("without a terminal, a signal to the wrapper's whole group reaches the job once", async () => {
    const { files, options } = listenerOptions(containment);
    const { child, exited, output } = runWrapper(wrapper, options);
    await until("both are ready", () => output().includes("running") && readOrEmpty(files.log) === "ready\n");
    process.kill(-(child.pid ?? Number.NaN), "SIGINT");
    await until("the job has it", () => readOrEmpty(files.log).includes("INT"));
    child.kill("SIGQUIT");
    await exited;
    expect(readOrEmpty(files.log)).toBe("ready\nINT\nQUIT\n");
  });
});

function listenerOptions(containment: ContainmentLevel, script = listener) {
  const directory = temporaryDirectory();
  const name = uniqueSeconds();
  const files = { name, log: join(directory, "log") };
  const options = join(directory, "options.json");
  const command = ["sh", "-c", script, name, files.log];
  const stdio = ["inherit", "ignore", "ignore"];
  writeFileSync(options, JSON.stringify({ command, env: environment, graceMs: 20_000, containment, stdio }));
  return { files, options };
}

function onTerminal({ files, options }: ReturnType<typeof listenerOptions>) {
  const command = `exec '${process.execPath}' '${wrapper}' '${options}'`;
  const child = spawn("script", ["--quiet", "--return", "--flush", "--command", command, "/dev/null"], {
    stdio: ["pipe", "pipe", "ignore"],
    env: { ...environment, SHELL: "/bin/sh" },
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk;
  });
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  return { files, keyboard: child.stdin, exited, output: () => output };
}
