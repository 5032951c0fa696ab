// Starts servers under proof: bundled once, so that a start costs what it costs a user.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Operation, ServerStarter, Told } from "./operations.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Bundles a program of this folder into `dist`, where it finds the packages that cannot be bundled. */
export async function bundle(name: string): Promise<string> {
  const outfile = `${root}node_modules/.cache/berth/${name}.mjs`;
  await build({
    ...{
      entryPoints: [`${root}bench/proving/${name}.ts`],
      outfile,
      absWorkingDir: root,
      logLevel: "warning",
    },
    ...{ bundle: true, format: "esm", platform: "node", target: "node20.19" },
    external: ["@photostructure/sqlite", "node:sqlite", "pg", "pg-native"],
    banner: {
      js: 'import { createRequire as berthRequire } from "node:module"; const require = berthRequire(import.meta.url);',
    },
  });
  return outfile;
}

/** `under` is a program, with its arguments, that runs the server, such as strace. */
export function childStarter(
  program: string,
  args: readonly string[],
  under: readonly string[] = [],
): ServerStarter {
  const [command = process.execPath, ...commandArgs] = [...under, process.execPath, program, ...args];
  return () => {
    const beganMs = performance.now();
    const child = spawn(command, commandArgs, {
      stdio: ["ignore", "inherit", "pipe", "ipc"],
      detached: true,
    });
    const said = listenToErrors(child);
    const ended = once(child, "close");
    const ready = new Promise<number>((resolve, reject) => {
      child.on("message", ({ ready }: { ready?: true }) => ready && resolve(performance.now() - beganMs));
      child.once("close", (code) => reject(new Error(`The server ended with code ${code}: ${said()}`)));
    });
    ready.catch(() => undefined);
    return {
      ready,
      ask: listen(child).ask,
      ended: ended.then(([code]) => ({ code: code as number | null, said: said() })),
      async kill() {
        if (child.exitCode !== null) throw new Error(`The server ended by itself: ${said()}`);
        process.kill(-(child.pid as number), "SIGKILL"); // The whole group: whatever runs the server, too.
        await ended;
      },
    };
  };
}

/** The last that the process said on its standard error. */
function listenToErrors(child: ChildProcess): () => string {
  let said = "";
  child.stderr?.on("data", (text: Buffer) => {
    said = (said + text.toString()).slice(-2_000);
  });
  return () => said.trim();
}

function listen(child: ChildProcess): { ask(operation: Operation): Promise<Told> } {
  const open = new Map<number, { resolve(told: Told): void; reject(error: Error): void }>();
  let count = 0;
  let isGone = false;
  child.on("message", ({ call, told, failure }: { call?: number; told?: Told; failure?: string }) => {
    const waiting = call === undefined ? undefined : open.get(call);
    if (call === undefined || waiting === undefined) return;
    open.delete(call);
    if (told === undefined) waiting.reject(new Error(failure));
    else waiting.resolve(told);
  });
  child.once("exit", () => {
    isGone = true;
    for (const { reject } of open.values()) reject(new Error("The server is gone."));
  });
  child.on("error", () => undefined); // Sending to a server that has just been killed.
  return {
    ask: (operation) =>
      new Promise((resolve, reject) => {
        if (isGone || !child.connected) return reject(new Error("The server is gone."));
        const call = ++count;
        open.set(call, { resolve, reject });
        child.send({ call, operation }, () => undefined);
      }),
  };
}
