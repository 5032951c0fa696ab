// The first process of a job's PID namespace. When it ends, the kernel ends everything inside.
//
// It starts the commands that come on descriptor 3, one JSON message per line, and reports their end; descriptors 4 to 6
// become their input and output. It stays after the main command, so that what is left inside gets its grace, and
// ends when descriptor 3 closes.
// A first process ignores signals it does not handle, which is why the command itself cannot be the first.

import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import type { InitMessage, InitReport } from "./launch.ts";
import { onLines } from "./lines.ts";

// On a terminal the keyboard's signals reach us, too. They are for the command.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => undefined);

const wrapper = new Socket({ fd: 3 });
const children = new Map<number, ChildProcess>();

wrapper.on("error", () => undefined); // "close" follows.
wrapper.on("close", () => process.exit(0));
onLines(wrapper, (line) => {
  const message = JSON.parse(line) as InitMessage;
  if (message.kind === "signal") children.get(message.id)?.kill(message.signal);
  else start(message);
});

function start({ id, command, env, cwd, stdin }: Extract<InitMessage, { kind: "start" }>): void {
  const [file = "", ...args] = command;
  try {
    const child = spawn(file, args, { cwd, env, stdio: [stdin === "inherit" ? 4 : stdin, 5, 6] });
    children.set(id, child);
    child.once("spawn", () => report({ kind: "started", id }));
    child.once("error", (error: NodeJS.ErrnoException) =>
      report({ kind: "failed", id, code: error.code ?? "" }),
    );
    child.once("exit", (code, signal) => report({ kind: "exited", id, code, signal }));
  } catch (error) {
    report({ kind: "failed", id, code: (error as NodeJS.ErrnoException).code ?? "" });
  }
}

function report(message: InitReport): void {
  wrapper.write(`${JSON.stringify(message)}\n`);
}
