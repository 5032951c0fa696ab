// What the start of a command costs, in CPU time beside a bare `node -e 0`: the limit is 150 ms where that takes 40.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openServer } from "../src/server/index.ts";

const RUNS = 15;
const RATIO_MAX = 150 / 40;
const berth = fileURLToPath(new URL("../dist/cli/berth.js", import.meta.url));

/** Median of user and system time, in milliseconds. */
function cpuMs(args: readonly string[], env: Record<string, string>): number {
  const measured = Array.from({ length: RUNS }, () => {
    const shell = `TIMEFORMAT='%U %S'; time "$@" >/dev/null 2>&1`;
    const { stderr } = spawnSync("bash", ["-c", shell, "bash", process.execPath, ...args], {
      env: { PATH: process.env.PATH ?? "", ...env },
      encoding: "utf8",
    });
    const [user = 0, system = 0] = stderr.trim().split(" ").map(Number);
    return (user + system) * 1000;
  });
  return measured.sort((a, b) => a - b)[RUNS >> 1] as number;
}

const home = mkdtempSync(join(tmpdir(), "berth-bench-"));
const server = await openServer({
  data: "memory",
  listen: "127.0.0.1:0",
  onFatal: (error) => {
    throw error;
  },
});
const env = { HOME: home, BERTH_URL: server.url, BERTH_API_TOKEN: server.firstToken?.secret ?? "" };
const bare = cpuMs(["-e", "0"], env);
console.log(`node -e 0         ${bare.toFixed(0).padStart(4)} ms`);
let isSlow = false;
for (const args of [["version"], ["--help"], ["ps"], ["pool", "list"], ["ps", "-o", "json"]]) {
  const ms = cpuMs([berth, ...args], env);
  const ratio = ms / bare;
  isSlow ||= ratio > RATIO_MAX;
  console.log(
    `berth ${args.join(" ").padEnd(11)} ${ms.toFixed(0).padStart(4)} ms  ${ratio.toFixed(2)} × bare, ${(ratio * 40).toFixed(0)} ms where bare takes 40`,
  );
}
await server.close();
rmSync(home, { recursive: true });
if (isSlow) {
  console.log(`Too slow: at most ${RATIO_MAX} × bare.`);
  process.exitCode = 1;
}
