// What the start of a command costs, in CPU time beside a bare `node -e 0`: the limit is 150 ms where that takes 40.
// Also how soon `berth up` serves.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { createClient } from "../src/sdk/index.ts";
import { openServer } from "../src/server/index.ts";

const RUNS = 15;
const CPU_MS_MAX = 150;
const BARE_MS = 40;
const SERVES_MS_MAX = 2_000;
const berth = fileURLToPath(new URL("../dist/cli/berth.js", import.meta.url));

/** Median of user and system time, in milliseconds. Not synchronously: the server is in this process, and must answer. */
async function cpuMs(args: readonly string[], env: Record<string, string>): Promise<number> {
  const measured: number[] = [];
  for (let run = 0; run < RUNS; run++) {
    const shell = `TIMEFORMAT='%U %S'; time "$@" >/dev/null`;
    const child = spawn("bash", ["-c", shell, "bash", process.execPath, ...args], {
      env: { PATH: process.env.PATH ?? "", ...env },
      stdio: ["ignore", "ignore", "pipe"],
    });
    const [said, [exitCode]] = await Promise.all([text(child.stderr), once(child, "exit")]);
    if (exitCode !== 0) throw new Error(`${args.join(" ")}: ${said}`);
    const [user = 0, system = 0] = said.trim().split(" ").map(Number);
    measured.push((user + system) * 1000);
  }
  return measured.sort((a, b) => a - b)[RUNS >> 1] as number;
}

/** From the command to the line that says what to type next, in milliseconds; and that it does serve. */
async function upMs(): Promise<number> {
  const startedAtMs = performance.now();
  const env = { PATH: process.env.PATH, HOME: home, USER: "bench" };
  const args = [berth, "up", "--capacity", "gpu=2", "--port", "0"];
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "ignore"] });
  let said = "";
  for await (const chunk of child.stdout) {
    said += chunk;
    if (said.includes("Next:")) break;
  }
  const tookMs = performance.now() - startedAtMs;
  const { ok } = await fetch(`${/http:\S+\d/.exec(said)?.[0]}/healthz`);
  child.kill();
  await once(child, "exit");
  return ok ? tookMs : Number.POSITIVE_INFINITY;
}

const home = mkdtempSync(join(tmpdir(), "berth-bench-"));
const server = await openServer({
  data: "memory",
  listen: "127.0.0.1:0",
  onFatal: (error) => {
    throw error;
  },
});
const token = server.firstToken?.secret ?? "";
const client = createClient({ url: server.url, token });
await client.pools.create({ name: "lab", capacity: { gpu: 1 } });
await client.policies.attach("lab", { component: "bench" });
for (const name of ["first", "second"]) {
  await client.requests.submit({ component: "bench", resources: { gpu: 1 }, name });
}

const env = { HOME: home, BERTH_URL: server.url, BERTH_API_TOKEN: token, BERTH_COMPONENT: "bench" };
const bareMs = await cpuMs(["-e", "0"], env);
const limitMs = Math.max(CPU_MS_MAX, (bareMs * CPU_MS_MAX) / BARE_MS);
console.log(`CPU of one command, median of ${RUNS}; at most ${limitMs.toFixed(0)} ms on this machine`);
console.log(`node -e 0         ${bareMs.toFixed(0).padStart(4)} ms`);
let isSlow = false;
for (const line of ["version", "--help", "ps", "ps -o json", "pool list", "why second", "submit --gpu 1"]) {
  const ms = await cpuMs([berth, ...line.split(" ")], env);
  isSlow ||= ms > limitMs;
  console.log(`berth ${line.padEnd(14)} ${ms.toFixed(0).padStart(4)} ms  ${(ms / bareMs).toFixed(2)} × bare`);
}
const servesMs = await upMs();
isSlow ||= servesMs > SERVES_MS_MAX;
console.log(`berth up           serves after ${servesMs.toFixed(0)} ms; at most ${SERVES_MS_MAX}`);

await server.close();
rmSync(home, { recursive: true });
if (isSlow) {
  console.log("Too slow.");
  process.exitCode = 1;
}
