// Hostile commands, environments, directories and output on their way to a job and back (J2, J6): a small part of prove:hostile.

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { seededRandom } from "../../bench/proving/random.ts";
import { isBerthError } from "../../src/sdk/index.ts";
import { type Place, tryHostile } from "../support/hostile.ts";
import { type AgentCluster, hasEnded, openAgentCluster } from "./agents-support.ts";

const CASES = 250;
const SEED = Number(process.env.SEED ?? 7);

/** Every wait has a limit of its own, which says what was waited for: this one is only the last. */
vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let cluster: AgentCluster;
beforeAll(async () => {
  cluster = await openAgentCluster({ nodes: ["one", "two"] });
});
afterAll(() => cluster.close());

test(`J2, J6: ${CASES} hostile cases arrive unchanged or are refused (seed ${SEED})`, async () => {
  const result = await tryHostile(placeOf(cluster), CASES, seededRandom(SEED));
  expect(result.altered).toEqual([]);
  expect(result.arrived + result.refused).toBe(CASES);
  expect(result.arrived).toBeGreaterThan(CASES / 2);
  expect(result.refused).toBeGreaterThan(CASES / 50);
});

test("J6: a line of megabytes is read as it was written, and nothing is left behind for each piece of it", async () => {
  const warnings: string[] = [];
  const listen = (warning: Error) => warnings.push(`${warning.name}: ${warning.message}`);
  process.on("warning", listen);
  const bytes = 6_000_000;
  const id = await cluster.submit(["perl", "-e", `print "x" x ${bytes}`]);
  await cluster.until(id, "it has ended", hasEnded);
  expect(await cluster.output(id)).toBe("x".repeat(bytes));
  process.off("warning", listen);
  expect(warnings).toEqual([]);
});

function placeOf({ scratch, submit, until, client }: AgentCluster): Place {
  return {
    scratch,
    async submit({ command, ...run }) {
      try {
        return await submit(command, { run, requeue: "never" });
      } catch (error) {
        if (isBerthError(error) && error.status >= 400 && error.status < 500) return undefined;
        throw error;
      }
    },
    async hasRun(id) {
      const { exit } = await until(id, "it has ended", hasEnded);
      if (exit?.reason === "start_failed") return false;
      expect(exit).toMatchObject({ exit_code: 0 });
      return true;
    },
    async output(id) {
      const pieces: Uint8Array[] = [];
      for await (const { data } of client.jobs.logs(id, {})) pieces.push(data);
      return Buffer.concat(pieces);
    },
  };
}
