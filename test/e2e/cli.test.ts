// The commands against a real server: every form of output, names, plans, contexts, files, tokens, copies.

import { rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/index.ts";
import { createUser } from "./cli-support.ts";
import { openWorld, type World } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";

let world: World;
let user: ReturnType<typeof createUser>;
const ids: Record<string, string> = {};

beforeAll(async () => {
  world = await openWorld({ gpu: 4 });
  user = createUser({ BERTH_URL: world.url, BERTH_API_TOKEN: world.token, BERTH_COMPONENT: "research" });
  for (const [name, gpu] of [
    ["train", 3],
    ["eval", 2],
    ["evaluate", 2],
  ] as const) {
    ids[name] = (await world.client.requests.submit({ component: "research", resources: { gpu }, name })).id;
  }
});
afterAll(() => world.close());

const berth = (...args: string[]) => user.berth(args);

test("a gang that has no effect is said beside the answer, not in it", async () => {
  const said = await berth("submit", "--gang", "--gpu", "9", "-o", "name");
  expect(said.stderr).toContain('berth: gang has no effect in pool "lab" (priority)');
});

describe("output", () => {
  const cases: Record<string, { args: string[]; stdout: RegExp | string }> = {
    "a table without frames": {
      args: ["ps", "--columns", "number,name,status,resources"],
      stdout:
        "NUMBER  NAME      STATUS     RESOURCES\n    #1  train     allocated  gpu 3\n    #2  eval      queued     gpu 2\n    #3  evaluate  queued     gpu 2\n",
    },
    "without headings": {
      args: ["ps", "--columns", "name", "--no-headers"],
      stdout: "train\neval\nevaluate\n",
    },
    "wide has more": { args: ["ps", "-o", "wide"], stdout: /SUBMITTED_BY +ID\n/ },
    "csv quotes": {
      args: ["ps", "-o", "csv", "--columns", "name,resources,labels"],
      stdout: "name,resources.gpu,resources.step_run,labels\ntrain,3,1,{}\neval,2,1,{}\nevaluate,2,1,{}\n",
    },
    tsv: {
      args: ["ps", "-o", "tsv", "--columns", "number,name", "--no-headers"],
      stdout: "1\ttrain\n2\teval\n3\tevaluate\n",
    },
    "names are for xargs": { args: ["ps", "-o", "name"], stdout: "1\n2\n3\n" },
    yaml: {
      args: ["pool", "show", "lab", "-o", "yaml"],
      stdout: /^name: lab\n[\s\S]*\n {2}backfill: easy\n/,
    },
    "all columns": { args: ["pool", "list", "--columns", "all"], stdout: /OCCUPIED_RESOURCES/ },
  };
  for (const [name, { args, stdout }] of Object.entries(cases)) {
    test(name, async () => {
      const said = await berth(...args);
      expect(said).toMatchObject({ exitCode: 0, stderr: "" });
      if (typeof stdout === "string") expect(said.stdout).toBe(stdout);
      else expect(said.stdout).toMatch(stdout);
    });
  }

  test("json is exactly the API object", async () => {
    const { stdout } = await berth("pool", "show", "lab", "-o", "json");
    expect(JSON.parse(stdout)).toEqual(await world.client.pools.get("lab"));
    const list = JSON.parse((await berth("ps", "-o", "json")).stdout) as {
      items: unknown[];
      next_cursor: null;
    };
    expect(list.next_cursor).toBeNull();
    expect(list.items).toHaveLength(3);
  });

  test("jsonl is one object per line, and BERTH_OUTPUT says so once for all", async () => {
    const { stdout } = await user.berth(["ps"], { env: { BERTH_OUTPUT: "jsonl" } });
    expect(
      stdout
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { name: string }).name),
    ).toEqual(["train", "eval", "evaluate"]);
  });

  test("a narrow terminal gets lines that fit", async () => {
    const { stdout } = await user.berth(["ps", "-o", "wide"], { screen: { columns: () => 40 } });
    for (const line of stdout.split("\n")) expect([...line].length).toBeLessThanOrEqual(40);
    expect(stdout).toContain("train");
  });

  test("colours are for terminals that want them, and the words stay", async () => {
    const { stdout } = await user.berth(["ps"], { hasColor: true });
    expect(stdout).toContain("\u001b[32mallocated\u001b[39m");
  });

  test("without UTF-8 our signs are plain", async () => {
    const { stdout } = await user.berth(["why", "eval"], { isAscii: true });
    expect(stdout).toMatch(/^[\x20-\x7e\n]*$/);
  });

  test("text from others cannot move the cursor, in any form", async () => {
    const submission = { component: "research", resources: { gpu: 4 } };
    // The server takes no such names; what it takes in notes is made harmless here.
    await expect(
      world.client.requests.submit({ ...submission, name: "x\u001b[2J\u009b31m" }),
    ).rejects.toMatchObject({ status: 400 });
    const evil = "x\u202e\nrm -rf";
    const { id } = await world.client.requests.submit({ ...submission, note: evil });
    for (const form of ["table", "wide", "csv", "tsv", "json", "jsonl", "yaml"]) {
      const { stdout } = await berth("ps", "-o", form, "--columns", "number,note");
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must not be there.
      expect(stdout).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/);
      expect(stdout).toContain("rm -rf");
    }
    expect((await berth("show", id)).stdout).not.toContain("\u202e");
    expect(JSON.parse((await berth("show", id, "-o", "json")).stdout)).toMatchObject({ note: evil });
    await world.client.requests.delete(id, { force: true });
  });
});

describe("names", () => {
  const cases: Record<string, { text: () => string; finds?: string; exitCode?: number; says?: RegExp }> = {
    number: { text: () => "1", finds: "train" },
    "#number": { text: () => "#1", finds: "train" },
    id: { text: () => ids.train as string, finds: "train" },
    name: { text: () => "eval", finds: "eval" },
    "beginning of a name": { text: () => "tr", finds: "train" },
    "beginning of an id": { text: () => (ids.train as string).slice(0, 23), finds: "train" },
    "beginning of several": { text: () => "ev", exitCode: 3, says: /One of #\d eval.*, #\d eval.*\.\n/ },
    slip: { text: () => "trian", exitCode: 3, says: /Did you mean train\?/ },
    nothing: { text: () => "99", exitCode: 3, says: /\[not_found\]/ },
  };
  for (const [name, { text, finds, exitCode = 0, says = /^/ }] of Object.entries(cases)) {
    test(name, async () => {
      const said = await berth("request", "show", text(), "-o", "json");
      expect(said.exitCode).toBe(exitCode);
      if (finds !== undefined) expect(JSON.parse(said.stdout)).toMatchObject({ name: finds });
      else expect((await berth("request", "show", text())).stderr).toMatch(says);
    });
  }

  test("a slip in the name of a pool, a command, an option, a column, a form", async () => {
    expect((await berth("pool", "show", "lba")).stderr).toContain("Did you mean lab?");
    expect((await berth("pol", "list")).stderr).toContain("Did you mean pool?");
    expect((await berth("pool", "lst")).stderr).toContain("Did you mean one of list, ls?");
    expect((await berth("pool", "list", "--outptu", "json")).stderr).toContain("Did you mean --output?");
    expect((await berth("ps", "--columns", "satus")).stderr).toContain("Did you mean status?");
    expect((await berth("show", "lba")).stderr).toContain("Did you mean lab?");
  });
});

describe("plans", () => {
  test("without a terminal and without -y destructive verbs refuse, and say what would happen", async () => {
    const said = await berth("cancel", "train");
    expect(said.exitCode).toBe(2);
    expect(said.stderr).toMatch(/Cancel #1 train\?.*gpu 3 of pool lab come free.*\n.*-y/);
    expect((await world.client.requests.get("1")).stop).toBeNull();
  });

  test("at a terminal they ask, and anything but yes changes nothing", async () => {
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question);
      return "n";
    };
    for (const args of [
      ["cancel", "train"],
      ["pool", "delete", "lab", "--force"],
      ["policy", "detach", "lab", "urgent"],
      ["request", "delete", "eval", "--force"],
    ]) {
      expect(await user.berth(args, { ask })).toMatchObject({ exitCode: 71, stdout: "" });
    }
    expect(questions).toHaveLength(4);
    expect((await world.client.pools.get("lab")).running).toBe(1);
  });

  test("a dry run is the server's plan, also as JSON", async () => {
    const args = ["policy", "detach", "lab", "research", "--force", "--dry-run"];
    const people = await berth(...args);
    expect(people.stdout).toMatch(/would be detached[\s\S]*1 request is preempted: #1 train/);
    const { stdout } = await berth(...args, "-o", "json");
    const plan = await world.client.policies.detach("lab", "research", { dryRun: true, force: true });
    expect(JSON.parse(stdout)).toMatchObject({
      ...plan,
      cancelled: expect.arrayContaining(plan.cancelled) as unknown,
    });
    expect((await world.client.policies.get("lab", "research")).component).toBe("research");
  });

  test("a change that takes something asks, one that does not just happens", async () => {
    expect((await berth("pool", "update", "lab", "--capacity", "gpu=1")).stderr).toMatch(/rejected: #2 eval/);
    expect(await berth("pool", "update", "lab", "--description", "Room 4")).toMatchObject({
      exitCode: 0,
      stdout: "Pool lab updated.\n",
    });
  });

  test("the same idempotency key creates once; another body is refused", async () => {
    const args = ["submit", "--gpu", "1", "--name", "once", "--idempotency-key", "k1"];
    const first = await berth(...args, "-o", "name");
    expect(await berth(...args, "-o", "name")).toEqual(first);
    const other = await berth("submit", "--gpu", "2", "--name", "once", "--idempotency-key", "k1");
    expect(other).toMatchObject({ exitCode: 5 });
    expect(await berth("cancel", "once", "-y")).toMatchObject({ exitCode: 0 });
    expect(await berth("cancel", "once", "-y")).toMatchObject({
      exitCode: 0,
      stdout: "",
      stderr: expect.stringMatching(/^#\d+ once has ended already: cancelled\.\n$/) as string,
    });
  });
});

describe("--watch", () => {
  test.each(["json", "jsonl", "csv", "name", "yaml", "table"])(
    "with -o %s goes on, and shows what changes",
    async (form) => {
      const name = `watched-${form}`;
      const over = new AbortController();
      let all = "";
      let seen: () => void = () => undefined;
      const isSeen = new Promise<void>((resolve) => {
        seen = resolve;
      });
      const ended = user.berth(["ps", "--watch", "-o", form, "--component", "urgent"], {
        signal: over.signal,
        write: (text) => {
          all += text;
          if (form === "name" ? /\d+\n/.test(all) : all.includes(name)) seen();
        },
      });
      const { id } = await world.client.requests.submit({ component: "urgent", resources: { gpu: 1 }, name });
      await isSeen;
      over.abort();
      expect((await ended).exitCode).toBe(0);
      if (form === "json") {
        for (const line of all.trim().split("\n")) expect(JSON.parse(line)).toMatchObject({ id });
      }
      await world.client.requests.delete(id, { force: true });
    },
  );
});

describe("contexts", () => {
  test("login saves a context that only its owner can read; what counts first is flag, environment, context", async () => {
    const guest = createUser();
    expect((await guest.berth(["ps"])).exitCode).toBe(2);
    const { secret = "" } = await world.client.tokens.create({
      name: "vision",
      role: "user",
      components: ["vision"],
    });
    const login = ["login", world.url, "--name", "here"];
    expect(await guest.berth(login, { readStdin: async () => `${secret}\n` })).toMatchObject({
      exitCode: 0,
      stdout: "Context here saved and in use: vision (user, component vision).\n",
    });
    const file = join(guest.home, ".config/berth/contexts.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await guest.berth(["token", "whoami"])).stdout).toMatch(/^name +vision\n/);
    const asAdmin = { env: { BERTH_API_TOKEN: world.token } };
    expect((await guest.berth(["token", "whoami"], asAdmin)).stdout).toMatch(/^name +admin\n/);
    expect((await guest.berth(["ps"], { env: { BERTH_URL: "http://127.0.0.1:1" } })).exitCode).toBe(125);
    expect(
      (
        await guest.berth(["ps", "--url", world.url], {
          env: { BERTH_URL: "http://127.0.0.1:1", BERTH_API_TOKEN: world.token },
        })
      ).exitCode,
    ).toBe(0);

    await guest.berth(["login", world.url, "--name", "other"], asAdmin);
    expect((await guest.berth(["context", "list", "-o", "json"])).stdout).not.toContain("berth_");
    expect(await guest.berth(["context", "use", "here"])).toMatchObject({ exitCode: 0 });
    expect((await guest.berth(["token", "whoami", "--context", "other"])).stdout).toMatch(/^name +admin/);
    expect((await guest.berth(["ps", "--context", "hree"])).stderr).toContain("Did you mean here?");
    expect(await guest.berth(["context", "delete", "other"])).toMatchObject({ exitCode: 0 });
    expect((await guest.berth(["context", "list", "-o", "name"])).stdout).toBe("here\n");
  });

  test("a token that nobody knows is not saved", async () => {
    const guest = createUser();
    expect(
      await guest.berth(["login", world.url], { env: { BERTH_API_TOKEN: "berth_wrong" } }),
    ).toMatchObject({ exitCode: 4 });
    expect((await guest.berth(["context", "list"])).stdout).toBe("");
  });
});

describe("apply and export", () => {
  test("what is exported is what is applied, and a swap of reservations works out", async () => {
    const directory = temporaryDirectory();
    const file = join(directory, "pools.yaml");
    const write = (a: number, b: number) =>
      writeFileSync(
        file,
        `pools: [{name: swap, capacity: {gpu: 4}, groups: [{name: g, weight: 2}]}]\npolicies:\n  - {pool: swap, component: a, reserved: {gpu: ${a}}, group: g}\n  - {pool: swap, component: b, reserved: {gpu: ${b}}}\n`,
      );
    write(1, 3);
    expect((await berth("apply", "-f", directory, "--dry-run")).stdout).toBe(
      "create pool swap\ncreate group swap/g\ncreate policy swap/a\ncreate policy swap/b\n",
    );
    expect(await berth("apply", "-f", directory)).toMatchObject({ exitCode: 0 });
    expect((await berth("apply", "-f", file)).stderr).toBe(
      "Nothing to change: everything is as in the files.\n",
    );
    const exported = (await berth("export", "--pool", "swap")).stdout;
    expect((await user.berth(["apply", "-f", "-"], { readStdin: async () => exported })).stderr).toBe(
      "Nothing to change: everything is as in the files.\n",
    );
    write(3, 1);
    expect((await berth("apply", "-f", file)).stdout).toBe("changed policy swap/b\nchanged policy swap/a\n");
    writeFileSync(file, "pools: [{name: swap, capacity: {tpu: 2}}]\n");
    const pruned = await berth("apply", "-f", file, "--prune", "--dry-run");
    expect(pruned.stdout).toContain("delete policy swap/a\n");
    expect(pruned.stdout).toMatch(/delete pool lab\n {2}refused as things are: .*\[in_use\]/);
  });

  test("N1: nodes are applied, exported and pruned like the rest", async () => {
    const file = join(temporaryDirectory(), "nodes.yaml");
    const one = "{name: rack-1, pool: racks, capacity: {gpu: 8}, labels: {disk: fast}, topology: r1}";
    const pools = "pools: [{name: racks}]\n";
    writeFileSync(file, `${pools}nodes:\n  - ${one}\n  - {name: rack-2, pool: racks, capacity: {gpu: 4}}\n`);
    expect((await berth("apply", "-f", file)).stdout).toBe(
      "created pool racks\ncreated node rack-1\ncreated node rack-2\n",
    );
    const unchanged = "Nothing to change: everything is as in the files.\n";
    expect((await berth("apply", "-f", file)).stderr).toBe(unchanged);
    const exported = (await berth("export", "--pool", "racks")).stdout;
    expect(exported).toContain("topology: r1");
    expect((await user.berth(["apply", "-f", "-"], { readStdin: async () => exported })).stderr).toBe(
      unchanged,
    );

    // What a file leaves out of a node is gone; nodes are pruned only where a file speaks of nodes.
    writeFileSync(file, `${pools}nodes: [{name: rack-1, pool: racks, capacity: {gpu: 6}}]\n`);
    expect((await berth("apply", "-f", file, "--dry-run")).stdout).toContain(
      'change node rack-1: labels {"disk":"fast"} → {}, topology r1 → "", capacity {"gpu":8} → {"gpu":6}\n',
    );
    const pruned = await berth("apply", "-f", file, "--prune", "--dry-run");
    expect(pruned.stdout).toContain("delete node rack-2\n");
    writeFileSync(file, pools);
    const other = await berth("apply", "-f", file, "--prune", "--dry-run");
    expect(other.stdout).not.toContain("delete node");
    writeFileSync(file, `${pools}nodes: [{name: rack-1, pool: racks, capcity: {gpu: 6}}]\n`);
    expect((await berth("apply", "-f", file)).stderr).toMatch(/nodes\[0\]\.capcity .*did you mean capacity/);

    expect((await berth("node", "update", "rack-2", "--capacity", "gpu=2", "-y")).stdout).toContain(
      "updated",
    );
    expect((await berth("node", "update", "rack-2")).exitCode).toBe(2);
    for (const name of ["rack-1", "rack-2"]) await berth("node", "remove", name, "-y");
    expect((await berth("pool", "delete", "racks", "-y")).exitCode).toBe(0);
  });

  test("what is wrong with a file is told by file and field", async () => {
    const file = join(temporaryDirectory(), "pools.yaml");
    writeFileSync(file, "pools: [{name: x, capcity: {gpu: 1}}]\n");
    expect((await berth("apply", "-f", file)).stderr).toMatch(/pools\[0\]\.capcity is not a field/);
  });
});

test("tokens: the secret alone on stdout, once; a revoked one is turned away", async () => {
  const made = await berth("token", "create", "ci", "--role", "user", "--for", "research", "--expires", "1d");
  expect(made.stdout).toMatch(/^berth_[\w-]{43}\n$/);
  const asCi = { env: { BERTH_API_TOKEN: made.stdout.trim() } };
  expect((await user.berth(["token", "whoami"], asCi)).stdout).toMatch(/role +user\ncomponents +research/);
  expect((await user.berth(["pool", "create", "x", "--capacity", "gpu=1"], asCi)).exitCode).toBe(4);
  expect((await berth("token", "list", "-o", "json")).stdout).not.toContain(made.stdout.trim());
  expect(await berth("token", "revoke", "ci", "-y")).toMatchObject({ exitCode: 0 });
  expect((await user.berth(["ps"], asCi)).exitCode).toBe(4);
});

test("nodes, groups and shares can be managed and seen", async () => {
  expect(await berth("pool", "create", "cluster", "--discipline", "fair_share")).toMatchObject({
    exitCode: 0,
  });
  await berth("node", "add", "n1", "--pool", "cluster", "--capacity", "gpu=4", "--label", "zone=a");
  expect((await berth("node", "drain", "n1", "--deadline", "10m", "-y")).stdout).toBe(
    "Node n1 takes no new work.\n",
  );
  expect((await berth("node", "undrain", "n1")).exitCode).toBe(0);
  await berth(
    "group",
    "create",
    "cluster",
    "labs",
    "--weight",
    "2",
    "--set",
    "fair_share_starvation_timeout=1m",
  );
  await berth("policy", "attach", "cluster", "team", "--group", "labs");
  expect((await berth("group", "show", "cluster", "labs", "-o", "json")).stdout).toContain(
    '"fair_share_starvation_timeout": 60',
  );
  expect((await berth("share", "cluster", "-o", "csv", "--columns", "who,owed,got")).stdout).toBe(
    "who,owed,got\nteam,0,0\n",
  );
  expect((await berth("policy", "update", "cluster", "team", "--group", "labs")).exitCode).toBe(0);
  await berth("policy", "detach", "cluster", "team", "-y");
  expect((await berth("group", "delete", "cluster", "labs", "-y")).exitCode).toBe(0);
  expect((await berth("node", "remove", "n1", "-y")).exitCode).toBe(0);
  expect((await berth("pool", "delete", "cluster", "-y")).exitCode).toBe(0);
});

test("a copy is taken while the server runs, and put back where none is", async () => {
  const person = createUser();
  const hosting = (await import("../../src/bin/hosting.ts")).hosting;
  const data = join(person.home, ".local/share/berth");
  const server = await hosting.openServer({
    data: { directory: data },
    listen: "127.0.0.1:0",
    firstTokenName: "alice",
    version: "1.2.3",
    log: "silent",
    tell: () => undefined,
    onFatal: (error) => {
      throw error;
    },
  });
  const env = { BERTH_URL: server.url, BERTH_API_TOKEN: server.firstToken?.secret ?? "" };
  await person.berth(["pool", "create", "kept", "--capacity", "gpu=1"], { env });
  const copy = join(person.home, "copy.db");
  expect(await person.berth(["backup", copy])).toMatchObject({ exitCode: 0 });
  expect((await person.berth(["doctor", "--verify"], { env })).stdout).toContain(
    "everything is as it was written",
  );
  await server.close();
  expect((await person.berth(["backup", copy])).stderr).toContain("is not overwritten");
  expect(await person.berth(["restore", copy, "-y"])).toMatchObject({ exitCode: 5 });
  const elsewhere = join(person.home, "elsewhere");
  const asked = await person.berth(["restore", copy, "--data-dir", elsewhere]);
  expect(asked.stderr).toContain("Tokens that were revoked after the backup can be used again");
  expect(await person.berth(["restore", copy, "--data-dir", elsewhere, "-y"])).toMatchObject({ exitCode: 0 });
  expect((await hosting.inspect({ file: join(elsewhere, "berth.db") })).damage).toEqual([]);
});

test("a history that was rewritten and sealed again does not contain a head that was noted before", async () => {
  const person = createUser();
  const file = join(person.home, ".local/share/berth/berth.db");
  const write = async (actors: readonly string[]) => {
    const store = await openSqliteStore({ path: file });
    const head = await store.takeOver({ holder: "server" });
    const audit = actors.map((actor) => ({
      actor,
      action: "deletePool",
      target: "lab",
      outcome: "accepted",
      body: {},
    }));
    await store.commit({ epoch: head.epoch, expectedSeq: 0, atMs: 1, events: [{ kind: "tick" }], audit });
    await store.close();
  };
  await write(["mallory", "ann"]);
  const { stdout: noted } = await person.berth(["doctor", "--head"]);
  expect(noted).toMatch(/^1\.[0-9a-f]{64}\/2\.[0-9a-f]{64}\n$/);
  const unchanged = await person.berth(["doctor", "--expect", noted]);
  expect(unchanged).toMatchObject({ exitCode: 0, stderr: "" });
  expect(unchanged.stdout).toContain("✓ audit      contains entry 2 as it was noted\n");

  rmSync(file);
  await write(["ann", "ann"]);
  expect(await person.berth(["doctor", "--verify"])).toMatchObject({ exitCode: 0 }); // The chain alone does not tell.
  const rewritten = await person.berth(["doctor", "--expect", noted]);
  expect(rewritten.exitCode).toBe(125);
  expect(rewritten.stdout).toContain("✓ journal    contains event 1 as it was noted\n");
  expect(rewritten.stdout).toContain("✗ audit      does not contain entry 2 as it was noted");
  expect(await person.berth(["doctor", "--expect", "1.abc"])).toMatchObject({ exitCode: 2 });
});

test("a token from elsewhere asks for its own component, not for that of the saved context", async () => {
  const other = await openWorld({ gpu: 4 });
  const person = createUser();
  const login = { env: { BERTH_API_TOKEN: other.token } };
  await person.berth(["login", other.url, "--name", "lab", "--component", "urgent"], login);
  const { secret = "" } = await other.client.tokens.create({
    name: "researcher",
    role: "user",
    components: ["research"],
  });
  const asked = await person.berth(["submit", "--gpu", "1", "-o", "json"], {
    env: { BERTH_API_TOKEN: secret },
  });
  expect(asked).toMatchObject({ exitCode: 0 });
  const request = JSON.parse(asked.stdout) as { id: string; component: string };
  expect(request.component).toBe("research");
  // An administrator may ask for any component, so the one of the context is meant.
  const admin = await person.berth(["submit", "--gpu", "1", "-o", "json"], login);
  expect(JSON.parse(admin.stdout)).toMatchObject({ component: "urgent" });
  await other.close();
});
