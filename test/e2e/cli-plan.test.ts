// berth plan against a real server (X1–X3).

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createUser } from "./cli-support.ts";
import { openWorld, type World } from "./run-support.ts";

let world: World;
let user: ReturnType<typeof createUser>;

beforeAll(async () => {
  world = await openWorld({ gpu: 4 });
  user = createUser({ BERTH_URL: world.url, BERTH_API_TOKEN: world.token, BERTH_COMPONENT: "research" });
  for (const [name, gpu] of [["train", 4] as const, ["eval", 2] as const]) {
    const more = { name, walltime_seconds: 3_600 };
    await world.client.requests.submit({ component: "research", resources: { gpu }, ...more });
  }
});
afterAll(() => world.close());

const berth = (...args: string[]) => user.berth(args);
const capacity = async () => (await world.client.pools.get("lab")).capacity;

test("another command is planned with its own words, and nothing is changed", async () => {
  const said = await berth("plan", "pool", "update", "lab", "--capacity", "gpu=6", "--horizon", "6h");
  expect(said).toMatchObject({ exitCode: 0, stderr: "" });
  expect(said.stdout).toContain("1 request starts: #2 eval of research\n");
  expect(said.stdout).toContain("research in pool lab: has gpu 4 → gpu 6");
  expect(said.stdout).toMatch(/#2 eval of research starts (1h|59m\d+s) earlier\n/);
  expect(await capacity()).toEqual({ gpu: 4 });

  expect((await berth("plan", "cancel", "1")).stdout).toContain(
    "1 request is stopped: #1 train of research\n",
  );
  expect((await berth("plan", "submit", "--gpu", "1", "-o", "json")).stdout).toContain('"at_seq"');
});

test("what cannot be kept after a change is shown with it", async () => {
  await world.client.policies.update("lab", "research", { reserved: { gpu: 4 } });
  const shrunk = ["pool", "update", "lab", "--capacity", "gpu=3", "--force"];
  const warning = "  Pool lab has 3 gpu, but its policies reserve 4.\n";
  expect((await berth("plan", ...shrunk)).stdout).toContain(warning);
  expect((await berth(...shrunk, "--dry-run")).stdout).toContain(warning);
  await world.client.policies.update("lab", "research", { reserved: {} });
});

test("what a command refuses by itself, it refuses in a plan", async () => {
  expect(await berth("plan", "pool", "update", "nowhere", "--capacity", "gpu=6")).toMatchObject({
    exitCode: 3,
  });
  expect(await berth("plan", "lab.yaml")).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('"lab.yaml" is neither a file nor a command'),
  });
  expect(await berth("plan")).toMatchObject({ exitCode: 2 });
});

test("files are planned together, and applied as shown", async () => {
  const file = join(user.home, "pools.yaml");
  writeFileSync(
    file,
    "pools: [{name: spare, capacity: {gpu: 2}}]\npolicies: [{pool: spare, component: research}]\n",
  );
  const planned = await berth("plan", file);
  expect(planned.stdout).toContain("1 request starts: #2 eval of research\n");
  const applied = await berth("plan", file, "--apply");
  expect(applied).toMatchObject({ exitCode: 0, stderr: "2 changes made.\n" });
  expect((await world.client.requests.get("2")).pool).toBe("spare");
});

test("a plan that is outdated when it is to be applied is made anew, and asked about again (X3)", async () => {
  let asked = 0;
  const ask = async () => {
    if (++asked === 1) await world.client.policies.update("spare", "research", { priority: 1 });
    return "yes";
  };
  const said = await user.berth(["plan", "cancel", "2", "--apply"], { ask });
  expect(said).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("Planned anew:\n") });
  expect(said.stdout.match(/1 request is stopped: #2 eval/g)).toHaveLength(2);
  expect(asked).toBe(2);
});

test("what harms is not applied without a yes", async () => {
  const said = await berth("plan", "cancel", "1", "--apply");
  expect(said.exitCode).toBe(2);
  expect((await world.client.requests.get("1")).status).toBe("allocated");
  expect(await berth("plan", "cancel", "1", "--apply", "-y")).toMatchObject({ exitCode: 0 });
});
