// The recipes of the guide, on agents, with stand-ins for PyTorch, Lightning, transformers and torchrun: each is preempted, saves,
// and resumes where it was; no epoch is missing and none is repeated.

import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type AgentCluster, hasEnded, openAgentCluster } from "./agents-support.ts";

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

const root = fileURLToPath(new URL("../../", import.meta.url));
const EPOCHS = 12;

let cluster: AgentCluster;
let environment: Record<string, string>;
beforeAll(async () => {
  cluster = await openAgentCluster({ nodes: ["one", "two"], gpus: 2 });
  const copy = (from: string, to: string) =>
    cpSync(join(root, from), join(cluster.scratch, to), { recursive: true });
  copy("examples/recipes", "recipes");
  copy("test/support/trainers", "trainers");
  copy("clients/python/berth", "client/berth");
  const places = ["trainers", "client"].map((name) => join(cluster.scratch, name));
  environment = {
    PYTHONPATH: places.join(":"),
    PYTHONDONTWRITEBYTECODE: "1",
    PATH: `${join(cluster.scratch, "trainers/bin")}:/usr/local/bin:/usr/bin:/bin`,
    EPOCHS: String(EPOCHS),
    SHARED_DIR: cluster.scratch,
    MASTER_ADDR: "127.0.0.1", // Both nodes are this machine.
  };
});
afterAll(() => cluster.close());

const recipes: Record<string, { readonly command: readonly string[]; readonly nodes?: number }> = {
  "pytorch.py": { command: ["python3", "recipes/pytorch.py"] },
  "lightning_trainer.py": { command: ["python3", "recipes/lightning_trainer.py"] },
  "huggingface_trainer.py": { command: ["python3", "recipes/huggingface_trainer.py"] },
  "torchrun.sh": { command: ["sh", "recipes/torchrun.sh"], nodes: 2 },
};

test("every recipe is tried", () => {
  const files = readdirSync(join(root, "examples/recipes")).filter((name) => name !== "torchrun.py");
  expect(files.sort()).toEqual(Object.keys(recipes).sort());
});

test.each(Object.entries(recipes))(
  "%s saves when it is preempted, and resumes",
  async (_, { command, nodes }) => {
    const id = await cluster.submit(command, {
      ...(nodes !== undefined && { nodes }),
      resources: { gpu: 2 },
      checkpoint: "auto",
      run: { environment },
    });
    let seen = "";
    for await (const { data } of cluster.client.jobs.logs(id, { follow: "true" })) {
      seen += Buffer.from(data).toString();
      if (seen.includes("epoch 2\n")) break; // It trains.
    }
    const all = { component: "urgent", resources: { gpu: 2 } };
    const urgent = await Promise.all([1, 2].map(() => cluster.submit(["true"], all)));
    for (const one of urgent) await cluster.until(one, "it has ended", hasEnded);
    const job = await cluster.until(id, "it has ended", hasEnded);
    expect(job).toMatchObject({ status: "released", exit: { exit_code: 0 } });
    expect(job.attempts.map(({ outcome }) => outcome)).toEqual(["preempted", "succeeded"]);
    const outputs = await Promise.all([1, 2].map((attempt) => cluster.output(id, { attempt })));
    const epochs = [...outputs.join("").matchAll(/^epoch (\d+)$/gm)].map(([, epoch]) => Number(epoch));
    expect(epochs).toEqual(Array.from({ length: EPOCHS }, (_item, epoch) => epoch));
    expect(outputs[1]).toMatch(/trained\n$/);
  },
);
