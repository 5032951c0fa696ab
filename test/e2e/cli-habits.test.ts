// Daily habits on the command line: wait, usage, top, dashboard, export (H1, H5, H6, H7).

import { afterAll, beforeAll, expect, test } from "vitest";
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
const ask = (name: string, gpu: number) =>
  world.client.requests.submit({ component: "research", resources: { gpu }, name });

async function release(id: string, outcome: "succeeded" | "failed", exitCode?: number): Promise<void> {
  const { token } = await world.client.requests.get(id);
  const details = exitCode === undefined ? {} : { exit_code: exitCode };
  await world.client.requests.release(id, { token: token as string, outcome, ...details });
}

test("wait ends when all have come that far, with one line per change (H1)", async () => {
  const first = await ask("first", 4);
  const second = await ask("second", 2);
  expect(await berth("wait", "first", "--until", "allocated")).toMatchObject({
    exitCode: 0,
    stderr: `#${first.number} first allocated in pool lab\n`,
  });
  const waiting = berth("wait", "first", String(second.number), "--until", "ended");
  await release(first.id, "succeeded");
  await world.client.waitForGrant(second.id);
  await release(second.id, "failed", 7);
  const said = await waiting;
  expect(said.exitCode).toBe(7);
  expect(said.stderr).toContain(`#${first.number} first released`);
  expect(said.stderr).toMatch(new RegExp(`#${second.number} second failed.*\n$`));
});

test("wait --any ends with the first; a rejected or cancelled one decides the exit code", async () => {
  const held = await ask("held", 4);
  const queued = await ask("queued", 1);
  expect((await berth("wait", "held", "queued", "--any", "--until", "allocated")).exitCode).toBe(0);
  const timed = await berth("wait", "queued", "--until", "running", "--timeout", "1s");
  expect(timed).toMatchObject({
    exitCode: 124,
    stderr: expect.stringContaining(`#${queued.number} queued is not running`),
  });
  const cancelled = berth("wait", "queued");
  await world.client.requests.cancel(queued.id);
  expect((await cancelled).exitCode).toBe(71);
  const never = await ask("never", 99);
  expect((await berth("wait", never.id)).exitCode).toBe(69);
  await release(held.id, "succeeded");
  expect((await berth("wait", "nobody")).exitCode).toBe(3);
  expect((await berth("wait", "held", "--until", "done")).exitCode).toBe(2);
});

test("usage is a table, CSV with a price, and JSON as the API has it (H6)", async () => {
  const table = await berth("usage");
  expect(table).toMatchObject({ exitCode: 0, stderr: "" });
  expect(table.stdout).toMatch(
    /^POOL +TEAM +KEY +USED +IN_SHARE +BORROWED +LENT +LOST +WAITED +STARTS +PREEMPTED\n/,
  );
  expect(table.stdout).toMatch(/^lab +research +gpu +\d+\.\d{4} /m);
  const csv = await berth("usage", "--by", "team,month", "--price", "gpu=2.50", "-o", "csv");
  expect(csv.stdout).toMatch(
    /^team,month,key,used,in_share,borrowed,lent,lost,waited,starts,preempted,cost\n/,
  );
  expect(csv.stdout).toMatch(/^research,\d{4}-\d\d,gpu,.*,\d+\.\d\d$/m);
  const decayed = await berth("usage", "--by", "user", "--half-life", "7d", "-o", "json");
  expect(decayed.stdout).toContain('"decayed"');
  expect((await berth("usage", "--from", "yesterday")).exitCode).toBe(2);
  expect((await berth("usage", "--price", "gpu")).exitCode).toBe(2);
  expect((await berth("usage", "--by", "colour")).exitCode).toBe(2);
});

test("top prints one picture where there is no terminal (H5)", async () => {
  await ask("big", 4);
  await ask("small", 1);
  const said = await berth("top", "--pool", "lab");
  expect(said).toMatchObject({ exitCode: 0, stderr: "" });
  expect(said.stdout).toMatch(/^lab +priority +waiting 1, oldest/m);
  expect(said.stdout).toMatch(/of 4$/m);
  expect(said.stdout).toMatch(/ #\d+ big +research +gpu 4/);
  expect(said.stdout).toMatch(/ #\d+ small +research +gpu 1 +\S+ +units/);
});

test("dashboard prints a link that opens a session once (B8)", async () => {
  const { stdout } = await berth("dashboard");
  const [, url, once] = /^(http:\S+)\/#once=([\w-]{22})\n$/.exec(stdout) ?? [];
  expect(url).toBe(world.url);
  const open = () =>
    fetch(`${url}/v1/sessions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ once }),
    });
  expect((await open()).status).toBe(201);
  expect((await open()).status).toBe(401);
});

test("export writes rules for Prometheus and a dashboard for Grafana, without a server (H7)", async () => {
  const nowhere = createUser({});
  const rules = await nowhere.berth(["export", "alerts"]);
  expect(rules).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("alert: BerthHeadBlocked") });
  const dashboard = await nowhere.berth(["export", "grafana"]);
  expect(JSON.parse(dashboard.stdout)).toMatchObject({ title: "Berth" });
  expect((await nowhere.berth(["export", "excel"])).exitCode).toBe(2);
});
