// The daemons of a proof's cluster are gone with the proof, however it ends.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { expect, test, vi } from "vitest";

vi.setConfig({ testTimeout: 60_000 });

const PROOF = `
import { createDaemons } from "./bench/clusters/daemons.ts";
import { spawn } from "node:child_process";
const daemons = createDaemons("test");
daemons.start("daemon", "sleep", ["600"]);
// A job: in a group of its own, known by its arguments, and with a process that is known by nothing.
const words = ["-c", "sleep 600 & echo $!; wait", daemons.directory];
const job = spawn("sh", words, { env: { PATH: process.env.PATH }, detached: true });
job.stdout.once("data", (sleeper) =>
  console.log(JSON.stringify({ directory: daemons.directory, pids: [job.pid, Number(sleeper)] })),
);
process.stdin.on("data", async () => {
  await daemons.close();
  process.exit(1);
});`;

const isAlive = (pid: number) => existsSync(`/proc/${pid}`);

const ends: Record<string, { signal?: NodeJS.Signals; code: number | null }> = {
  "closed by itself": { code: 1 },
  "asked to end": { signal: "SIGTERM", code: 130 },
  killed: { signal: "SIGKILL", code: null },
};
for (const [name, { signal, code }] of Object.entries(ends)) {
  test.runIf(process.platform === "linux")(`nothing is left of a proof that was ${name}`, async () => {
    const proof = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", PROOF]);
    const ended = once(proof, "exit");
    const [said] = await once(proof.stdout, "data");
    const { directory, pids } = JSON.parse(String(said)) as { directory: string; pids: number[] };
    expect(pids.every(isAlive)).toBe(true);
    if (signal === undefined) proof.stdin.write("end\n");
    else proof.kill(signal);
    expect((await ended)[0]).toBe(code);
    await vi.waitUntil(() => !existsSync(directory) && !pids.some(isAlive), { timeout: 30_000 });
  });
}
