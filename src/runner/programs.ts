// Finds the runner's own small programs, and starts them without the user's environment: a guardian must not
// load what NODE_OPTIONS names, nor show a token in /proc.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { refusal } from "./errors.ts";

/** Whether jobs can be guarded here: asked before anything is waited for. Throws a `JobRefusal` if not. */
export function checkGuardian(): void {
  programArguments("guardian");
}

/** Our programs, and the folders that they are in. */
const PROGRAMS = { guardian: "runner", init: "runner", shim: "agent" } as const;

/** The arguments that make Node run one of our programs. */
export function programArguments(name: keyof typeof PROGRAMS): string[] {
  // In its folder beside ours; that is also where tsc has emitted it if this code has been bundled elsewhere.
  const folder = PROGRAMS[name];
  const places = [`./${name}.js`, `../${folder}/${name}.ts`, `../${folder}/${name}.js`];
  const paths = places.map((place) => fileURLToPath(new URL(place, import.meta.url)));
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) {
    throw refusal(
      "start_failed",
      `The runner's program "${name}" is missing beside ${import.meta.url}.`,
      "If Berth is being built at this moment, try again; otherwise install it anew.",
    );
  }
  return path.endsWith(".ts") ? [...typeScriptLoader(), path] : [path];
}

/** Only what a connection to a server with a private certificate needs. */
export function programEnvironment(): Record<string, string> {
  const kept = ["PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR"];
  return Object.fromEntries(kept.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}

function typeScriptLoader(): string[] {
  return ["--import", new URL(`file://${createRequire(import.meta.url).resolve("tsx")}`).href];
}
