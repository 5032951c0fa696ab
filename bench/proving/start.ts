// Starts servers under proof: bundled once, so that a start costs what it costs a user.

import { type ChildProcess, fork } from "node:child_process";
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

export function childStarter(program: string, args: readonly string[]): ServerStarter {
  return () => {
    const beganMs = performance.now();
    const child = fork(program, args, { stdio: ["ignore", "inherit", "inherit", "ipc"], execArgv: [] });
    const ended = once(child, "exit");
    const ready = new Promise<number>((resolve, reject) => {
      child.on("message", ({ ready }: { ready?: true }) => ready && resolve(performance.now() - beganMs));
      child.once("exit", (code) => reject(new Error(`The server ended with code ${code} while it started.`)));
    });
    ready.catch(() => undefined);
    return {
      ready,
      ask: listen(child).ask,
      async kill() {
        if (child.exitCode !== null)
          throw new Error(`The server ended by itself with code ${child.exitCode}.`);
        child.kill("SIGKILL");
        await ended;
      },
    };
  };
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
