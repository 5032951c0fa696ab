// Jobs on the command line (J7–J9): submit, wait, logs, arrays, dependencies, operations, and nodes that are enrolled.

import { writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { agentWith, joinAgent, type ScriptedAgent } from "../support/scripted-agent.ts";
import { createUser } from "./cli-support.ts";
import { openTestServer, type TestServer } from "./server-support.ts";

let server: TestServer;
let agent: ScriptedAgent;
let user: ReturnType<typeof createUser>;
beforeAll(async () => {
  server = await openTestServer();
  await server.admin("POST", "/v1/pools", { name: "cluster", settings: { executor: "agents" } });
  await server.admin("POST", "/v1/pools/cluster/policies", { component: "vision" });
  await server.admin("POST", "/v1/pools", { name: "plain", capacity: { gpu: 4 } });
  await server.admin("POST", "/v1/pools/plain/policies", { component: "vision" });
  agent = await joinAgent(server, "gpu-1", { capacity: { gpu: 8 } });
  user = createUser({
    BERTH_URL: server.url,
    BERTH_API_TOKEN: server.adminSecret,
    BERTH_COMPONENT: "vision",
  });
});
afterAll(() => server.close());

const eventually = (look: () => Promise<void>) => vi.waitFor(look, { timeout: 20_000, interval: 50 });
const job = async (id: string) => (await server.admin("GET", `/v1/jobs/${id.trim().replace("#", "")}`)).body;
const submitted = async (...args: string[]) => {
  const said = await user.berth(["submit", ...args]);
  expect(said).toMatchObject({ exitCode: 0, stderr: "" });
  return said.stdout.trim().split("\n");
};

/** Ends everything that runs. */
async function endAll(end: object = { outcome: "succeeded", exit_code: 0 }): Promise<void> {
  const { jobs } = await agent.takeUp();
  for (const { token } of jobs) await agent.end(token, end);
}

test("a command is submitted as a job, and the number is printed (J7)", async () => {
  const [number = ""] = await submitted(
    ...["--gpu", "1", "--name", "train", "--env", "LR=0.1", "--cwd", "/data"],
    ...["--checkpoint-signal", "USR1", "--", "python", "train.py", "--gpu", "9"],
  );
  expect(number).toMatch(/^#\d+$/);
  expect(await job(number)).toMatchObject({
    is_job: true,
    pool: "cluster",
    checkpoint: "auto",
    resources: { gpu: 1 },
    run: {
      command: ["python", "train.py", "--gpu", "9"],
      environment: { LR: "0.1" },
      directory: "/data",
      checkpoint_signal: "SIGUSR1",
    },
  });
  const list = await user.berth(["job", "list"]);
  expect(list.stdout).toContain("train");
  const shown = await user.berth(["job", "show", "train"]);
  expect(shown.stdout).toMatch(/runs +python train.py --gpu 9/);
  expect(shown.stdout).toMatch(/on node +gpu-1 on GPU 0/);
  await endAll();
});

test("--wait returns the exit code of the command", async () => {
  const waiting = user.berth(["submit", "--gpu", "1", "--wait", "--", "false"]);
  await eventually(async () => expect((await agent.sync()).jobs).toHaveLength(1));
  await endAll({ outcome: "failed", exit_code: 7 });
  expect((await waiting).exitCode).toBe(7);
});

test("a file says what to submit, and run --detach is the same as submit", async () => {
  const file = `${user.home}/job.yaml`;
  writeFileSync(file, "name: from-file\nresources: { gpu: 1 }\nrun:\n  command: [echo, hello]\n");
  const [number = ""] = await submitted("-f", file);
  expect(await job(number)).toMatchObject({ name: "from-file", component: "vision" });
  const detached = await user.berth(["run", "--detach", "--gpu", "1", "--", "echo", "hello"]);
  expect(await job(detached.stdout)).toMatchObject({ is_job: true, attended: false });
  await endAll();
});

test("an array is one operation that can be shown and cancelled; --after waits (J9)", async () => {
  const numbers = await submitted("--gpu", "1", "--operation", "sweep", "--array", "0-4%2", "--", "x");
  expect(numbers).toHaveLength(5);
  const [after = ""] = await submitted("--gpu", "1", "--after", `${numbers[0]}:any`, "--", "y");
  expect(await job(after)).toMatchObject({ blocked: true });
  const why = await user.berth(["why", after]);
  expect(why.stdout).toContain("is not in the queue yet: it waits until another request has ended.");
  expect(why.stdout).toMatch(new RegExp(`after +${numbers[0]}\n`));
  const shown = await user.berth(["operation", "show", "sweep"]);
  expect(shown.stdout).toContain("2 allocated, 3 blocked");
  expect((await user.berth(["operation", "list"])).stdout).toContain("sweep");
  expect((await user.berth(["operation", "cancel", "sweep", "-y"])).stderr).toContain("Cancelled 5 requests");
  await endAll({ outcome: "stopped" });
  await endAll();
  expect(await job(after)).toMatchObject({ status: "released" });
});

test("an array without an operation is told which one it is; --after takes a name; what can no longer happen says why (J9)", async () => {
  const array = await user.berth(["submit", "--gpu", "1", "--name", "fold", "--array", "0-1", "--", "x"]);
  expect(array.stdout.trim().split("\n")).toHaveLength(2);
  const [, operation = ""] = /berth operation show\|cancel (fold-\w+)\n/.exec(array.stderr) ?? [];
  expect((await user.berth(["operation", "cancel", operation, "-y"])).stderr).toContain(
    "Cancelled 2 requests",
  );
  await endAll({ outcome: "stopped" });
  const [first = ""] = await submitted("--gpu", "1", "--name", "before", "--", "x");
  const [next = ""] = await submitted("--gpu", "1", "--after", "before", "--", "y");
  await endAll({ outcome: "failed", exit_code: 1 });
  const why = await user.berth(["why", next]);
  expect(why.stdout).toContain("was cancelled: it waited for a request that has not ended well.");
  expect(why.stdout).toContain(`after  ${first} before`);
});

const mistakes: Record<string, string[]> = {
  "an array that says nothing": ["submit", "--array", "9-1", "--", "x"],
  "an array without a command": ["submit", "--array", "0-9"],
  "a dependency without a number": ["submit", "--after", ":ok", "--", "x"],
  "a variable that is not set": ["submit", "--env", "NOT_SET_ANYWHERE", "--", "x"],
};
for (const [what, args] of Object.entries(mistakes)) {
  test(`${what} is refused with a hint`, async () => {
    const said = await user.berth(args);
    expect(said.exitCode).toBe(2);
    expect(said.stderr).toContain("[usage]");
  });
}

test("a job that no pool can start is told so", async () => {
  const said = await user.berth(["submit", "--pool", "plain", "--gpu", "1", "--", "x"]);
  expect(said.exitCode).toBe(69);
  expect(said.stderr).toContain("no_executor");
});

test("logs are written as they are, standard error to its own (J6)", async () => {
  const [number = ""] = await submitted("--gpu", "1", "--", "x");
  await agent.takeUp();
  const [out, err] = [vi.spyOn(process.stdout, "write"), vi.spyOn(process.stderr, "write")];
  const written = { out: [] as Buffer[], err: [] as Buffer[] };
  out.mockImplementation((data) => written.out.push(Buffer.from(data as Uint8Array)) > 0);
  err.mockImplementation((data) => written.err.push(Buffer.from(data as Uint8Array)) > 0);
  try {
    const following = user.berth(["logs", "-f", number]);
    let reader = "";
    await eventually(async () => {
      reader = (await agent.sync({ hold: true })).logs[0]?.reader ?? "";
      expect(reader).not.toBe("");
    });
    const bytes = Buffer.from([0, 255, 10, 27]);
    await agent.call("POST", `/v1/nodes/gpu-1/logs/${reader}`, {
      from: 0,
      parts: [
        { stream: "stdout", data: bytes.toString("base64") },
        { stream: "stderr", data: Buffer.from("oops\n").toString("base64") },
      ],
      is_end: true,
    });
    await endAll();
    expect((await following).exitCode).toBe(0);
    expect(Buffer.concat(written.out)).toEqual(bytes);
    expect(Buffer.concat(written.err).toString()).toBe("oops\n");
  } finally {
    out.mockRestore();
    err.mockRestore();
  }
});

test("a node that says nothing about a log is named as the cause (J6)", async () => {
  const [number = ""] = await submitted("--gpu", "1", "--", "x");
  await agent.takeUp();
  const { status, body } = await server.admin("GET", `/v1/jobs/${number.replace("#", "")}/logs`);
  expect({ status, code: body.code }).toEqual({ status: 503, code: "node_silent" });
  await endAll();
});

test("a node is enrolled, joins, is shown with its devices, and is given up when it is lost", async () => {
  const said = await user.berth([
    "node",
    "enroll",
    "gpu-2",
    "--pool",
    "cluster",
    "-c",
    "gpu=2",
    "-o",
    "json",
  ]);
  const { join_token } = JSON.parse(said.stdout);
  const joined = await server.as(join_token)("POST", "/v1/nodes/gpu-2/join", { capacity: { gpu: 4 } });
  const other = agentWith(server.as(joined.body.node_token), "gpu-2", "s");
  await other.sync({ more: { devices: [{ index: 0, model: "H100", strangers: 1 }] } });
  const shown = await user.berth(["node", "show", "gpu-2"]);
  expect(shown.stdout).toMatch(/GPU 0 +H100 · 1 process that Berth did not start/);
  const refused = await user.berth(["node", "confirm-lost", "gpu-2", "-y"]);
  expect(refused.stderr).toContain("[in_use]");
  await server.admin("DELETE", "/v1/nodes/gpu-2?force=true");
});
