// Starts servers under proof: bundled once, so that a start costs what it costs a user.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { WireRequest } from "../../src/protocol/index.ts";
import { type Fault, planted } from "./canaries.ts";
import { Finding, within } from "./limits.ts";
import type { Operation, Server, ServerStarter } from "./operations.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
/** A server that starts takes calls within this time, and one that is killed is gone within it. */
const START_MS_MAX = 60_000;
/** An answer that takes longer is not waited for: the call is made again. */
const ANSWER_MS_MAX = 30_000;

/**
 * Bundles a program of `bench`, as it is or with faults planted in the source, to where it finds the packages that
 * cannot be bundled.
 */
export function bundle(path: string, ...faults: readonly Fault[]): Promise<string> {
  return bundleFrom(root, path, ...faults);
}

/** The same with the source of another directory. */
export async function bundleFrom(source: string, path: string, ...faults: readonly Fault[]): Promise<string> {
  const names = [...(source === root ? [] : [basename(source)]), ...faults.map(({ what }) => what)];
  const suffix = names.map((name) => `-${name.replaceAll(/\W+/g, "-")}`).join("");
  const outdir = `${root}node_modules/.cache/berth/${path.replaceAll("/", "-")}${suffix}`;
  // The server looks for the program of its foresight thread beside itself. Early servers have none.
  const thread = { in: `${source}src/foresight/thread.ts`, out: "thread" };
  await build({
    entryPoints: [
      { in: `${source}bench/${path}.ts`, out: "program" },
      ...(existsSync(thread.in) ? [thread] : []),
    ],
    ...{ outdir, absWorkingDir: source, logLevel: "warning" },
    ...{ bundle: true, format: "esm", platform: "node", target: "node20.19" },
    plugins: [planted(source, ...faults)],
    external: ["esbuild", "@photostructure/sqlite", "node:sqlite", "pg", "pg-native"],
    banner: {
      js: 'import { createRequire as berthRequire } from "node:module"; const require = berthRequire(import.meta.url);',
    },
  });
  await writeFile(`${outdir}/package.json`, '{"type":"module"}');
  return `${outdir}/program.js`;
}

/** `under` is a program, with its arguments, that runs the server, such as strace. */
export function childStarter(
  program: string,
  args: readonly string[] | (() => readonly string[]),
  { under = [], login = {} }: { readonly under?: readonly string[]; readonly login?: Login } = {},
): ServerStarter {
  return () => {
    const given = typeof args === "function" ? args() : args;
    const [command = process.execPath, ...commandArgs] = [...under, process.execPath, program, ...given];
    const beganMs = performance.now();
    const child = spawn(command, commandArgs, {
      stdio: ["ignore", "inherit", "pipe", "ipc"],
      detached: true,
    });
    const said = listenToErrors(child);
    const ended = once(child, "close");
    let ask: Server["ask"] = () => Promise.reject(new Error("The server does not take calls yet."));
    const started = new Promise<number>((resolve, reject) => {
      child.once("message", ({ url, token }: { url: string; token?: string }) => {
        login.token ??= token;
        ask = askOver(url, login.token ?? "");
        resolve(performance.now() - beganMs);
      });
      child.once("close", (code) => reject(new Finding(`The server ended with code ${code}: ${said()}`)));
    });
    const ready = within(START_MS_MAX, "The start of a server", started);
    ready.catch(() => undefined);
    return {
      ready,
      ask: (operation) => ask(operation),
      ended: ended.then(([code]) => ({ code: code as number | null, said: said() })),
      async kill() {
        if (child.exitCode !== null) throw new Finding(`The server ended by itself: ${said()}`);
        process.kill(-(child.pid as number), "SIGKILL"); // The whole group, with the program that runs the server.
        await within(START_MS_MAX, "The end of a server that was killed", ended);
      },
    };
  };
}

/** Made by the first start of a store, needed by all later ones. */
export interface Login {
  token?: string | undefined;
}

/** The last that the process said on its standard error. */
function listenToErrors(child: ChildProcess): () => string {
  let said = "";
  child.stderr?.on("data", (text: Buffer) => {
    said = (said + text.toString()).slice(-8_000);
  });
  return () => said.trim();
}

function askOver(url: string, token: string): Server["ask"] {
  return async (operation) => {
    const { path, body } = callOf(operation);
    const authorization = `Bearer ${token}`;
    const headers = { authorization, "content-type": "application/json", "idempotency-key": operation.key };
    const response = await fetch(`${url}/v1/resource-requests${path}`, {
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
      ...(body === undefined
        ? { headers: { authorization } }
        : { method: "POST", headers, body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (response.status >= 500 || response.status === 401) throw new Error(text);
    const answer = JSON.parse(text) as Partial<WireRequest> & { readonly code?: string };
    return {
      refusal: response.ok ? null : (answer.code ?? String(response.status)),
      id: answer.id ?? "",
      number: answer.number ?? 0,
      status: response.ok ? (answer.status ?? "") : "",
      token: answer.token ?? null,
      text,
    };
  };
}

function callOf(operation: Operation): { readonly path: string; readonly body?: object } {
  switch (operation.kind) {
    case "submit": {
      const { component, key, retries: max } = operation;
      const retries = max === undefined ? {} : { retries: { max } };
      return { path: "", body: { component, resources: { slot: 1 }, labels: { key }, ...retries } };
    }
    case "look":
      return { path: `/${operation.id}` };
    case "renew":
      return { path: `/${operation.id}/renew`, body: { token: operation.token } };
    case "release":
    case "stale":
    case "fail": {
      const { id, token, kind } = operation;
      const outcome = kind === "fail" ? "failed" : "succeeded";
      return { path: `/${id}/release`, body: { token, outcome } };
    }
    case "cancel":
      return { path: `/${operation.id}/cancel`, body: {} };
  }
}
