// Starts the program of the foresight thread, which is beside this file or, where the server was bundled, beside the bundle.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";

const MEGABYTE = 1 << 20;

/** A part of the machine's memory: the replica is as large as the server's own state (X7). */
function heapMegabytesMax(): number {
  return Math.min(4_096, Math.max(512, Math.floor(totalmem() / MEGABYTE / 4)));
}

export function startWorker(): Worker {
  const places = ["./thread.js", "./thread.ts", "../foresight/thread.js"];
  const urls = places.map((place) => new URL(place, import.meta.url));
  const program = urls.find((url) => existsSync(fileURLToPath(url)));
  if (program === undefined)
    throw new Error(`the program of the foresight thread is missing beside ${import.meta.url}`);
  const options = {
    // The environment and the arguments of the server are none of its business.
    ...{ env: {}, execArgv: [], argv: [] },
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytesMax() },
    name: "foresight",
  };
  if (!program.pathname.endsWith(".ts")) return new Worker(program, options);
  return new Worker(throughTsx(program), { ...options, eval: true });
}

/** While developing there is no build, and Node 20 does not pass loaders on to its threads. */
function throughTsx(program: URL): string {
  const tsx = join(createRequire(import.meta.url).resolve("tsx/package.json"), "../dist/esm/api/index.mjs");
  const [api, file] = [pathToFileURL(tsx).href, program.href].map((url) => JSON.stringify(url));
  return `import(${api}).then(({ register }) => { register(); return import(${file}); });`;
}
