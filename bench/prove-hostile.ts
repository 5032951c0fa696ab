// Hostile commands, environments, names of directories and output: each arrives unchanged or is refused, on its way through a
// real server, a real agent and a real shim, and back as a log (J2, J6, E6).
// Usage: npm run prove:hostile -- [--cases N] [--seed N] [--canaries]

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type HostileResult, type Place, tryHostile } from "../test/support/hostile.ts";
import { buildPrograms } from "./agents/build.ts";
import { Refused } from "./agents/calls.ts";
import { within } from "./agents/machines.ts";
import { openScene, type Scene } from "./agents/scene.ts";
import { type Fault, tell } from "./proving/canaries.ts";
import { seededRandom } from "./proving/random.ts";

const { values } = parseArgs({
  options: {
    cases: { type: "string", default: "10000" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    canaries: { type: "boolean", default: false },
  },
});

const CANARIES: readonly (readonly Fault[])[] = [
  [
    {
      what: "words that are trimmed",
      file: "src/agent/orders.ts",
      text: "command: run.command,",
      instead: "command: run.command.map((word) => (word.length > 9_000 ? word : word.trim())),",
    },
  ],
  [
    {
      what: "half a character is let through",
      file: "src/protocol/limits.ts",
      text: "return isForbidden ?",
      instead: "return isForbidden && typeof value !== 'string' ?",
    },
    {
      what: "also where it is started",
      file: "src/runner/command.ts",
      text: "return /\\p{Surrogate}/u.test(text) ?",
      instead: "return text.length < 0 ?",
    },
  ],
  [
    {
      what: "output that is taken for text",
      file: "src/agent/shim.ts",
      text: "      log.write(stream, data);",
      instead: "      log.write(stream, Buffer.from(data.toString('utf8')));",
    },
  ],
];
const CANARY_CASES = 400;
const JOB_MS_MAX = 120_000;

console.log(`seed ${values.seed}`);
let hasFailed = false;
if (values.canaries) {
  for (const faults of CANARIES) {
    const { altered } = await proveOn(CANARY_CASES, faults);
    if (!tell(faults[0]?.what ?? "", altered.length)) hasFailed = true;
  }
}
const { cases, arrived, refused, jobs, altered } = await proveOn(Number(values.cases));
console.log(`${cases} cases in ${jobs} submissions: ${arrived} arrived unchanged, ${refused} refused`);
console.log(`altered: ${altered.length}`);
for (const one of altered.slice(0, 20)) console.log(`  ${one}`);
if (altered.length > 0 || arrived + refused + altered.length < cases) hasFailed = true;
process.exit(hasFailed ? 1 : 0);

async function proveOn(count: number, faults: readonly Fault[] = []): Promise<HostileResult> {
  const programs = await buildPrograms(`hostile ${faults[0]?.what ?? "sound"}`, faults);
  const directory = mkdtempSync(join(tmpdir(), "berth-hostile-"));
  const scene = await openScene({ programs, store: "sqlite", directory, namespaces: false });
  try {
    return await tryHostile(placeOf(scene), count, seededRandom(Number(values.seed)));
  } finally {
    await scene.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function placeOf({ api, directory }: Scene): Place {
  return {
    scratch: join(directory, "scratch"),
    async submit(run) {
      try {
        const wanted = { component: "vision", resources: { gpu: 1 }, requeue: "never", run };
        return (await api.call("POST", "/v1/jobs", wanted)).id as string;
      } catch (error) {
        if (error instanceof Refused) return undefined;
        throw error;
      }
    },
    async hasRun(id) {
      let exit: { reason: string; exit_code: number | null } | null = null;
      await within(JOB_MS_MAX, `job ${id} to end`, async () => {
        exit = (await api.call("GET", `/v1/jobs/${id}`)).exit;
        return exit !== null;
      });
      const { reason, exit_code: code } = exit as unknown as { reason: string; exit_code: number | null };
      if (reason === "start_failed") return false;
      if (code !== 0) throw new Error(`Job ${id} ended with ${code} (${reason}).`);
      return true;
    },
    async output(id) {
      const answer = await api.open(`/v1/jobs/${id}/logs`, AbortSignal.timeout(JOB_MS_MAX));
      if (answer.headers.get("berth-log") === "tail") throw new Error(`Of job ${id} only the tail was sent.`);
      return Buffer.from(await answer.arrayBuffer());
    },
  };
}
