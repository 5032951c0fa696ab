// What a newcomer types, and what is said to them: next steps are commands, files say where they are wrong, and what
// programs read has no words in it.

import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createUser } from "./cli-support.ts";
import { openWorld, type World } from "./run-support.ts";

let world: World;
let user: ReturnType<typeof createUser>;

beforeAll(async () => {
  world = await openWorld({ gpu: 4 });
  user = createUser({ BERTH_URL: world.url, BERTH_API_TOKEN: world.token, BERTH_COMPONENT: "research" });
});
afterAll(() => world.close());

const berth = (...args: string[]) => user.berth(args);

describe("next steps are commands to type", () => {
  const cases: Record<string, { args: string[]; env?: Record<string, string>; says: string }> = {
    "a habit from other tools": { args: ["kill", "3"], says: "Use `berth cancel`." },
    "a habit from Slurm": { args: ["squeue"], says: "Use `berth ps`." },
    "a slip": { args: ["pol"], says: "Did you mean pool?" },
    "a component without a policy": {
      args: ["submit", "--component", "nobody", "--gpu", "1"],
      says: "nobody has no policy in any pool. Attach one with `berth policy attach POOL nobody`",
    },
    "a key with a slip": { args: ["submit", "-r", "gpus=1"], says: "Did you mean gpu?" },
    "a key in other words": { args: ["submit", "-r", "tpu=1"], says: "No pool of research has tpu" },
    "the same under run": {
      args: ["run", "--component", "nobody", "--gpu", "1", "--", "true"],
      says: "`berth policy attach POOL nobody`",
    },
    "no token": { args: ["ps"], env: { BERTH_API_TOKEN: "" }, says: "`berth login URL`" },
    "a user's token without components": {
      args: ["token", "create", "vision", "--role", "user"],
      says: "Add --for COMPONENT, such as --for vision.",
    },
    "something in use": { args: ["pool", "delete", "busy", "-y"], says: "add --force" },
  };
  beforeAll(async () => {
    await world.client.pools.create({ name: "busy", capacity: { gpu: 1 } });
    await world.client.policies.attach("busy", { component: "busybody" });
    await world.client.requests.submit({ component: "busybody", resources: { gpu: 1 } });
  });
  for (const [name, { args, env = {}, says }] of Object.entries(cases)) {
    test(name, async () => {
      const said = await user.berth(args, { env });
      expect(said.exitCode).not.toBe(0);
      expect(said.stderr).toContain(says);
      expect(said.stderr).not.toMatch(/(GET|POST) \/|Authorization|pass force/);
    });
  }

  test("what a token may not do", async () => {
    const { secret = "" } = await world.client.tokens.create({
      name: "own",
      role: "user",
      components: ["research"],
    });
    const said = await user.berth(["submit", "--component", "urgent", "--gpu", "1"], {
      env: { BERTH_API_TOKEN: secret },
    });
    expect(said).toMatchObject({ exitCode: 4 });
    expect(said.stderr).toContain("`berth token whoami` lists them.");
  });

  test("fields are named as people name them, once", async () => {
    const said = await berth(
      "node",
      "add",
      "n1",
      "--pool",
      "busy",
      "--capacity",
      "gpu=1",
      "--topology",
      "x".repeat(300),
    );
    expect(said.stderr).not.toMatch(/ \/\w+ /);
    expect(said.stderr.match(/topology/g)).toHaveLength(1);
  });
});

test("a token goes into a file that only its owner can read, and never over another file", async () => {
  const file = join(user.home, "vision.token");
  const made = await berth("token", "create", "vision", "--role", "user", "--for", "vision", "--out", file);
  expect(made).toMatchObject({ exitCode: 0, stdout: "" });
  expect(made.stderr).toContain("(mode 0600)");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readFileSync(file, "utf8")).toMatch(/^berth_\S{43}\n$/);
  const again = await berth("token", "create", "other", "--role", "user", "--for", "vision", "--out", file);
  expect(again.exitCode).toBe(5);
  expect((await world.client.tokens.list()).items.some(({ name }) => name === "other")).toBe(false);
  expect(existsSync(file)).toBe(true);
});

describe("what programs read", () => {
  beforeAll(async () => {
    await world.client.requests.submit({ component: "research", resources: { gpu: 2 }, name: "a" });
    await world.client.requests.submit({ component: "research", resources: { gpu: 3, memory_mb: 5 } });
  });

  test("csv has numbers without signs and units, a column per key, and nothing for nothing", async () => {
    const { stdout } = await berth(
      "ps",
      "--component",
      "research",
      "-o",
      "csv",
      "--columns",
      "number,name,resources,ran",
    );
    expect(stdout).toMatch(
      /^number,name,resources\.gpu,resources\.step_run,resources\.memory_mb,ran_seconds\n\d+,a,2,1,,\d+\n\d+,,3,1,5,\n$/,
    );
  });

  test("tsv of pools", async () => {
    const { stdout } = await berth("pool", "show", "lab", "-o", "tsv", "--columns", "name,in_use");
    expect(stdout).toBe("name\tcapacity.gpu\tusage.gpu\nlab\t4\t2\n");
  });

  test("requests that run come first, then those that wait, then those that have ended", async () => {
    const { id } = await world.client.requests.submit({ component: "research", resources: { gpu: 4 } });
    await world.client.requests.cancel(id, {});
    const { stdout } = await berth(
      "ps",
      "--all",
      "--component",
      "research",
      "-o",
      "csv",
      "--columns",
      "status",
    );
    expect(stdout.trim().split("\n")).toEqual([
      "status",
      "allocated",
      "queued",
      ...stdout.trim().split("\n").slice(3),
    ]);
    expect(stdout).toMatch(/cancelled\n$/);
  });
});

test("columns that do not fit are named, if they were asked for", async () => {
  const screen = { columns: () => 60 };
  const wide = await user.berth(["ps", "-o", "wide"], { screen });
  expect(wide.stderr.replaceAll("\n", " ")).toMatch(
    /^\d+ columns left out, the terminal is too narrow: .*ID\. Choose with --columns\. $/,
  );
  for (const line of wide.stderr.split("\n")) expect(line.length).toBeLessThanOrEqual(60);
  expect((await user.berth(["ps"], { screen })).stderr).toBe("");
});

describe("files", () => {
  const cases: Record<string, { text: string; says: string }> = {
    "a syntax error has its place": {
      text: "pools:\n  - name: a\n    capacity: {gpu: 8\npolicies: []\n",
      says: "bad.yaml:4:1: ",
    },
    "an unknown field has its line and what was meant": {
      text: "policies:\n  - pool: lab\n    component: x\n    limt: {gpu: 2}\n",
      says: "line 4: policies[0].limt is not a field that is known here (did you mean limit?)",
    },
    "a wrong value has its line": {
      text: "pools:\n  - name: a\n    capacity:\n      gpu: eight\n",
      says: "line 4: pools[0].capacity.gpu",
    },
  };
  for (const [name, { text, says }] of Object.entries(cases)) {
    test(name, async () => {
      writeFileSync(join(user.home, "bad.yaml"), text);
      const { exitCode, stderr } = await berth("apply", "-f", join(user.home, "bad.yaml"));
      expect(exitCode).toBe(2);
      expect(stderr).toContain(says);
      expect(stderr).not.toContain("·");
    });
  }

  test("an export says what was decided, and with --full everything", async () => {
    await berth("pool", "create", "plain", "--capacity", "gpu=1");
    await berth("pool", "create", "fair", "--capacity", "gpu=1", "--discipline", "fair_share");
    await berth(
      "pool",
      "create",
      "classes",
      "--capacity",
      "gpu=1",
      "--discipline",
      "class",
      "--set",
      "max_victims=8",
    );
    const exported = async (...args: string[]) =>
      (JSON.parse((await berth("export", "-o", "json", ...args)).stdout) as { pools: unknown[] }).pools;
    expect(await exported("--pool", "plain")).toEqual([
      { name: "plain", discipline: "priority", capacity: { gpu: 1 } },
    ]);
    expect(await exported("--pool", "fair")).toEqual([
      { name: "fair", discipline: "fair_share", capacity: { gpu: 1 } },
    ]);
    expect(await exported("--pool", "classes")).toMatchObject([{ settings: { max_victims: 8 } }]);
    const { settings } = await world.client.pools.get("plain");
    expect(await exported("--pool", "plain", "--full")).toMatchObject([{ settings }]);
    expect(
      (await user.berth(["apply", "-f", "-"], { readStdin: async () => (await berth("export")).stdout }))
        .stderr,
    ).toContain("Nothing to change");
  });
});

test("a pool that is deleted by force is said to be deleted when it is", async () => {
  await world.client.pools.create({ name: "doomed", capacity: { gpu: 1 } });
  await world.client.policies.attach("doomed", { component: "last" });
  const run = await world.client.requests.submit({ component: "last", resources: { gpu: 1 } });
  expect((await berth("pool", "delete", "doomed", "--force", "-y")).stderr).toBe(
    "Pool doomed takes nothing new. It is deleted with the end of its last run: 1 run left.\n",
  );
  await world.client.requests.release(run.id, { token: run.token ?? "", outcome: "stopped" });
  await world.client.pools.create({ name: "doomed", capacity: { gpu: 1 } });
  expect((await berth("pool", "delete", "doomed", "--force", "-y")).stderr).toBe("Pool doomed deleted.\n");
});
