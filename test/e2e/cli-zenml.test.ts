// The command lines that ZenML's users know, typed into a real shell with only the program's name replaced, against a
// real server; and what they must do there.

import { spawn } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WireRequest } from "../../src/protocol/index.ts";
import { buildBerth, openWorld, type World } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";

let world: World;
const bin = temporaryDirectory();

beforeAll(async () => {
  const [berth, opened] = await Promise.all([buildBerth(), openWorld({ gpu: 8 })]);
  world = opened;
  writeFileSync(join(bin, "berth"), `#!/bin/sh\nexec '${process.execPath}' '${berth}' "$@"\n`);
  chmodSync(join(bin, "berth"), 0o755);
});
afterAll(() => world.close());

/** Without a terminal: nobody could answer a question. */
async function shell(line: string) {
  const child = spawn("bash", ["-c", line], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: `${bin}:${process.env.PATH}`,
      HOME: bin,
      LANG: "C.UTF-8",
      BERTH_URL: world.url,
      BERTH_API_TOKEN: world.token,
    },
  });
  const [stdout, stderr, exitCode] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve) => child.once("close", resolve)),
  ]);
  return { stdout, stderr, exitCode };
}

async function fine(line: string): Promise<string> {
  const { exitCode, stdout, stderr } = await shell(line);
  expect({ line, exitCode, stderr: exitCode === 0 ? "" : stderr }).toEqual({ line, exitCode: 0, stderr: "" });
  return stdout;
}

/** Cells of a table, line by line. */
const cells = (table: string) =>
  table
    .trimEnd()
    .split("\n")
    .map((line) => line.split(/ {2,}/));

const CREATE = `zenml resource-pool create training-gpus \\
  --capacity '{"gpu": 8, "step_run": 32}' \\
  --description "Shared training GPUs for the workspace"`;
const ATTACH = `zenml resource-pool attach-policy training-gpus my-k8s-orch \\
  --priority 10 \\
  --reserved '{"gpu": 2}' \\
  --limit '{"gpu": 4}'`;
const ATTACH_OPERATOR = `zenml resource-pool attach-policy training-gpus my-remote-operator \\
  --component-type step_operator \\
  --priority 5 \\
  --reserved '{"gpu": 2}' \\
  --limit '{"gpu": 4}'`;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const as = (line: string) => line.replace(/^zenml /, "berth ");

describe("one page from top to bottom", () => {
  let id = "";
  let running: WireRequest;

  const steps: Record<string, { line: () => string; does: (stdout: string) => Promise<void> | void }> = {
    "a pool is created": {
      line: () => CREATE,
      does: async () =>
        expect(await world.client.pools.get("training-gpus")).toMatchObject({
          capacity: { gpu: 8, step_run: 32 },
          description: "Shared training GPUs for the workspace",
        }),
    },
    "pools are listed with what is occupied": {
      line: () => "zenml resource-pool list",
      does: (stdout) => {
        const [head, ...rows] = cells(stdout);
        expect(head).toEqual(["ID", "NAME", "CAPACITY", "OCCUPIED_RESOURCES"]);
        expect(rows.find(([, name]) => name === "training-gpus")?.slice(2)).toEqual([
          '{"gpu":8,"step_run":32}',
          '{"gpu":0,"step_run":0}',
        ]);
      },
    },
    "one of them is described": {
      line: () => "zenml resource-pool describe training-gpus",
      does: (stdout) => expect(stdout).toMatch(/training-gpus[\s\S]*Shared training GPUs for the workspace/),
    },
    "its capacity is changed by key": {
      line: () => `zenml resource-pool update training-gpus --capacity '{"gpu": 4}'`,
      does: async () =>
        expect((await world.client.pools.get("training-gpus")).capacity).toEqual({ gpu: 4, step_run: 32 }),
    },
    "a key is removed by 0": {
      line: () => `zenml resource-pool update training-gpus --capacity '{"step_run": 0}'`,
      does: async () => expect((await world.client.pools.get("training-gpus")).capacity).toEqual({ gpu: 4 }),
    },
    "an orchestrator gets a policy": {
      line: () => ATTACH,
      does: async (stdout) => {
        expect(stdout).toMatch(/my-k8s-orch.*training-gpus.*10/);
        expect(await world.client.policies.get("training-gpus", "my-k8s-orch")).toMatchObject({
          component_type: "orchestrator",
          priority: 10,
          reserved: { gpu: 2 },
          limit: { gpu: 4 },
        });
      },
    },
    "a step operator gets one, too": {
      line: () => ATTACH_OPERATOR,
      does: async () =>
        expect(await world.client.policies.get("training-gpus", "my-remote-operator")).toMatchObject({
          component_type: "step_operator",
          priority: 5,
        }),
    },
    "the policies of a pool": {
      line: () => "zenml resource-pool list-policies training-gpus",
      does: (stdout) => {
        const [head, ...rows] = cells(stdout);
        expect(head).toEqual(["ID", "COMPONENT", "POOL", "PRIORITY", "RESERVED", "LIMIT", "CREATED"]);
        expect(rows.map(([, component]) => component)).toEqual(["my-k8s-orch", "my-remote-operator"]);
        for (const row of rows) {
          expect(row[0]).toMatch(UUID);
          expect(row.at(-1)).toMatch(/^\d{4}-\d\d-\d\dT/);
        }
      },
    },
    "the pools of a component": {
      line: () => "zenml resource-pool list-policies --component my-k8s-orch",
      does: async (stdout) => {
        const [, ...rows] = cells(stdout);
        expect(rows.map((row) => row.slice(1, 6))).toEqual([
          ["my-k8s-orch", "training-gpus", "10", '{"gpu":2}', '{"gpu":4}'],
        ]);
        running = await submit("train");
        ({ id } = await submit("stuck"));
      },
    },
    "the newest requests first": {
      line: () => "zenml resource-request list",
      does: (stdout) => {
        expect(cells(stdout)[0]).toEqual(["ID", "STATUS", "COMPONENT", "STEP_RUN", "CREATED"]);
        expect(cells(stdout).map(([, status, , step]) => `${status} ${step}`)).toEqual([
          "STATUS STEP_RUN",
          "queued stuck",
          "allocated train",
        ]);
      },
    },
    "one request at length": {
      line: () => `zenml resource-request describe ${id}`,
      does: (stdout) => expect(stdout).toMatch(/^#\d+ stuck\nstatus +queued\ncomponent +my-k8s-orch\n/),
    },
    "what is queued in a pool": {
      line: () => "zenml resource-pool requests training-gpus --view queued",
      does: (stdout) => expect(stepsOf(stdout)).toEqual([["queued", "queued", "stuck"]]),
    },
    "what is active": {
      line: () => "zenml resource-pool requests training-gpus --view active",
      does: (stdout) => expect(stepsOf(stdout)).toEqual([["active", "allocated", "train"]]),
    },
    "both, the active ones first": {
      line: () => "zenml resource-pool requests training-gpus --view all",
      does: (stdout) =>
        expect(stepsOf(stdout)).toEqual([
          ["active", "allocated", "train"],
          ["queued", "queued", "stuck"],
        ]),
    },
    "a stuck request is dropped without a word": {
      line: () => `zenml resource-request delete ${id}`,
      does: async (stdout) => {
        expect(stdout).toBe("");
        await expect(world.client.requests.get(id)).rejects.toMatchObject({ code: "not_found" });
        await world.client.requests.release(running.id, { token: running.token ?? "", outcome: "succeeded" });
      },
    },
    "a policy is taken away without a question": {
      line: () => "zenml resource-pool detach-policy training-gpus my-k8s-orch",
      does: async () =>
        expect(
          (await world.client.policies.list("training-gpus")).items.map(({ component }) => component),
        ).toEqual(["my-remote-operator"]),
    },
    "a pool is deleted": {
      line: () => "zenml resource-pool delete training-gpus --yes",
      does: async () =>
        await expect(world.client.pools.get("training-gpus")).rejects.toMatchObject({ code: "not_found" }),
    },
  };

  const stepsOf = (stdout: string) =>
    cells(stdout)
      .slice(1)
      .map(([, state, status, , step]) => [state, status, step]);

  const submit = (name: string) =>
    world.client.requests.submit({ component: "my-k8s-orch", resources: { gpu: 4 }, name });

  for (const [name, { line, does }] of Object.entries(steps)) {
    test(name, async () => does(await fine(as(line()))));
  }
});

describe("every option is known there", () => {
  beforeAll(async () => {
    await fine(as(CREATE));
    await fine(as(ATTACH));
    await world.client.requests.submit({ component: "my-k8s-orch", resources: { gpu: 1 }, name: "step" });
  });

  const FILTERS =
    "--sort_by desc:created --logical_operator and --page 1 --size 20 --created gte:2020-01-01 --updated gte:2020-01-01";
  const lines: Record<string, { line: string; says: RegExp }> = {
    "short options, YAML, numbers as text and fractions": {
      line: `zenml resource-pool create p2 -c '{gpu: "4", cpu: 4.9}' -d "as there" && berth pool show p2 -o json`,
      says: /"capacity": \{\s*"cpu": 4,\s*"gpu": 4\s*\}|"capacity": \{\s*"gpu": 4,\s*"cpu": 4\s*\}/,
    },
    "nothing to change is no error": { line: "zenml resource-pool update p2", says: /^$/ },
    "a new description": { line: "zenml resource-pool update p2 -d other", says: /changed/ },
    "filters of pools": {
      line: `zenml resource-pool list ${FILTERS} --name oneof:[p2,p3] --user me -c id,name`,
      says: /^ID +NAME\n[0-9a-f-]{36} +p2\n$/,
    },
    "pools that were created in the past only": {
      line: "zenml resource-pool list --created lt:2020-01-01 -o csv -c name",
      says: /^name\n$/,
    },
    "a pool by its id, and by the beginning of it": {
      line: `id=$(berth resource-pool list --name p2 -c id -o csv | tail -1) && berth resource-pool list --id $id -c name -o csv && berth resource-pool describe $id && berth pool show $(echo $id | cut -c1-8)`,
      says: /^name\np2\npool p2\b[\s\S]*\npool p2\b/,
    },
    "forms of output": { line: "zenml resource-pool list -o tsv --columns all", says: /\t.*\n[\s\S]*p2\t/ },
    "a policy with short options": {
      line: `zenml resource-pool attach-policy p2 op -t step_operator -p 1 -r '{"gpu": 1.5}' -l '{"gpu": 2}'`,
      says: /op.*p2.*1/,
    },
    "policies by component and type": {
      line: "zenml resource-pool list-policies p2 -c op -t step_operator --columns component -o csv",
      says: /^component\nop\n$/,
    },
    "detached with its type": {
      line: "zenml resource-pool detach-policy p2 op -t step_operator",
      says: /no longer/,
    },
    "requests of a pool in another form": {
      line: "zenml resource-pool requests training-gpus -c step_run,status -o csv",
      says: /^step_run,status\nstep,allocated\n$/,
    },
    "filters of requests": {
      line: `zenml resource-request list ${FILTERS} --status allocated --preemptible True --component_id my-k8s-orch --step_run_id startswith:st -c step_run -o csv`,
      says: /^step_run\nstep\n$/,
    },
    "a filter that finds nothing": {
      line: "zenml resource-request list --pipeline_run_id none --preemption_initiated_by_id none --id none -o csv -c id",
      says: /^id\n$/,
    },
    "deleted after all": { line: "zenml resource-pool delete p2 -y", says: /^$/ },
  };
  for (const [name, { line, says }] of Object.entries(lines)) {
    test(name, async () => expect(await fine(as(line))).toMatch(says));
  }

  test("every change can be tried, and changes nothing then", async () => {
    const before = await fine("berth export");
    for (const line of [
      "create p3 -c gpu=1",
      "update training-gpus -c gpu=4",
      "attach-policy training-gpus op",
      "detach-policy lab urgent",
      "delete lab",
    ]) {
      expect(await fine(`berth resource-pool ${line} --dry-run`)).toContain("nothing is changed yet");
    }
    expect(await fine("berth export")).toBe(before);
  });

  test("without --yes and without a terminal nothing is deleted", async () => {
    const { exitCode, stderr } = await shell("berth resource-pool delete lab");
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining("-y") as string });
  });

  test("an orchestrator and a step operator of one name are two components", async () => {
    await fine("berth resource-pool create twins -c gpu=2");
    await fine("berth resource-pool attach-policy twins kubernetes");
    const second = await shell("berth resource-pool attach-policy twins kubernetes -t step_operator");
    expect(second.exitCode).toBe(0);
    expect(second.stderr).toContain("step_operator.kubernetes");
    const names = () =>
      fine("berth resource-pool list-policies twins --columns component,component_type -o csv");
    expect(await names()).toBe(
      "component,component_type\nkubernetes,orchestrator\nstep_operator.kubernetes,step_operator\n",
    );
    await fine("berth resource-pool detach-policy twins kubernetes -t step_operator");
    expect(await names()).toBe("component,component_type\nkubernetes,orchestrator\n");
    // Of another type there is none: the policy of the orchestrator stays.
    const wrong = await shell("berth resource-pool detach-policy twins kubernetes -t step_operator");
    expect(wrong).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining("add --component-type orchestrator") as string,
    });
    expect(await names()).toContain("kubernetes");
  });

  test("a status that does not exist is refused", async () => {
    const { exitCode, stderr } = await shell("berth resource-request list --status bogus");
    expect({ exitCode, stderr }).toEqual({
      exitCode: 2,
      stderr: expect.stringContaining("queued") as string,
    });
  });

  test("deleting says what happened, and a run whose request is deleted ends as cancelled", async () => {
    const first = await world.client.requests.submit({
      component: "urgent",
      resources: { gpu: 8 },
      name: "big",
    });
    const waiting = shell("berth run --component urgent --gpu 8 --name waits -- true");
    await expect.poll(async () => fine("berth ps --status queued -o csv --columns name")).toContain("waits");
    expect((await shell("berth resource-request delete waits")).stderr).toMatch(/^Deleted #\d+ waits\.\n$/);
    expect(await waiting).toMatchObject({
      exitCode: 71,
      stderr: expect.stringContaining("was deleted") as string,
    });
    expect((await shell("berth resource-request delete big")).stderr).toMatch(
      /^(Deleted|Stopping) #\d+ big\./,
    );
    await world.client.requests
      .release(first.id, { token: first.token ?? "", outcome: "stopped" })
      .catch(() => undefined);
  });

  test("what is not there is told, with a code", async () => {
    expect(await shell("berth resource-pool detach-policy training-gpus nobody")).toMatchObject({
      exitCode: 3,
      stderr: expect.stringMatching(/no policy .*nobody/) as string,
    });
  });
});
