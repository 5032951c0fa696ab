// Daily habits on the command line: wait, notify, usage, top, dashboard, export (H1, H2, H5, H6, H7).

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
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

test("why --watch says it again when the answer is another one, not because time has passed, and ends with the request", async () => {
  const [holds, late] = [await ask("holds", 4), await ask("late", 1)];
  const explained = async () => {
    const headers = { authorization: `Bearer ${world.token}` };
    const text = await (await fetch(`${world.url}/metrics`, { headers })).text();
    return Number(/berth_http_requests_total\{route="explainRequest",status="200"\} (\d+)/.exec(text)?.[1]);
  };
  const watching = berth("why", "late", "--watch");
  await expect.poll(explained, { timeout: 30_000 }).toBeGreaterThanOrEqual(4);
  await release(holds.id, "succeeded");
  await world.client.waitForGrant(late.id);
  await release(late.id, "succeeded");
  const { exitCode, stdout } = await watching;
  expect(exitCode).toBe(0);
  // Once more because its holder falls silent, and no more often than that.
  expect(stdout.match(/^#\d+ late waits for 1 gpu in pool lab/gm)?.length, stdout).toBeLessThanOrEqual(2);
  expect(stdout).toMatch(/in use +4 of 4 gpu by #\d+ holds \(.*\d+ ?s\)/);
  expect(stdout).toMatch(/#\d+ late does not wait: it is released\.\n/);
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
  const asked = [await ask("big", 4), await ask("small", 1)];
  const said = await berth("top", "--pool", "lab");
  expect(said).toMatchObject({ exitCode: 0, stderr: "" });
  expect(said.stdout).toMatch(/^lab +priority +waiting 1, oldest/m);
  expect(said.stdout).toMatch(/of 4$/m);
  expect(said.stdout).toMatch(/ #\d+ big +research +gpu 4/);
  expect(said.stdout).toMatch(/ #\d+ small +research +gpu 1 +\S+ +units/);
  for (const { id } of asked.toReversed()) await world.client.requests.cancel(id);
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

/** Keeps the texts of the messages that it gets. */
async function openReceiver() {
  const texts: string[] = [];
  const server = createServer((incoming, outgoing) => {
    let text = "";
    incoming.on("data", (piece: Buffer) => (text += piece.toString()));
    incoming.on("end", () => {
      texts.push(text);
      outgoing.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { texts, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/x` };
}

test("notify: a target is added, tested, listed and removed (H2)", async () => {
  const { texts, url } = await openReceiver();
  const added = await berth("notify", "add", "webhook", "--name", "ci", "--url", url, "--on", "ended");
  expect(added).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^whsec_\S{32}\n$/) });
  expect(added.stderr).toBe(
    "Created target ci. The secret is not shown again.\nNext:  berth notify test ci\n",
  );
  expect(await berth("notify", "test", "ci")).toMatchObject({
    ...{ exitCode: 0, stdout: "The test has arrived at ci.\n" },
  });
  expect(texts.join()).toContain("This is a test of the target ci.");
  const listed = await berth("notify", "list", "--columns", "name,kind,on,state,problem");
  expect(listed.stdout).toMatch(/^ci +webhook +ended +good +-$/m);
  expect((await berth("notify", "show", "ci", "-o", "json")).stdout).not.toContain("whsec");
  expect((await berth("notify", "remove", "ci")).stderr).toBe("Target ci removed.\n");
  expect((await berth("notify", "show", "ci")).exitCode).toBe(3);
});

test("notify: what is wrong is said before anything is sent", async () => {
  expect((await berth("notify", "add", "pigeon", "--url", "https://x")).stderr).toContain(
    "is one of slack, webhook, command",
  );
  expect((await berth("notify", "add", "slack")).stderr).toContain("Where should notices go?");
  expect((await berth("notify", "add", "command")).stderr).toContain("There is no command to run");
  expect((await berth("notify", "add", "slack", "--url", "https://x", "--on", "lunch")).exitCode).toBe(2);
  expect((await berth("notify", "watch")).exitCode).toBe(3);
  expect((await berth("run", "--notify", "nobody", "--", "true")).exitCode).toBe(3);
});

test("run --notify: a target of the server hears of this request alone, a command runs here (H2)", async () => {
  const { texts, url } = await openReceiver();
  await berth("notify", "add", "slack", "--url", url, "--asked-only", "--on", "ended");
  const note = join(user.home, "note");
  const script = `printf '%s %s\\n' "$BERTH_NOTICE_KIND" "$BERTH_NOTICE" >> ${note}`;
  const saved = await berth("notify", "add", "command", "--name", "note", "--", "sh", "-c", script);
  expect(saved).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("notify watch") });
  await berth("run", "--gpu", "1", "--", "true");
  const said = await berth(
    ...["run", "--notify", "slack", "--notify", "note", "--name", "told", "--gpu", "1"],
    ...["--", "sh", "-c", "exit 3"],
  );
  expect(said.exitCode).toBe(3);
  const lines = readFileSync(note, "utf8").split("\n");
  expect(lines).toContainEqual(expect.stringMatching(/^started #\d+ told has started in pool lab\./));
  expect(lines).toContainEqual(
    expect.stringMatching(/^ended #\d+ told has ended: failed with exit code 3\. It ran for \d+s\./),
  );
  await expect.poll(() => texts, { timeout: 10_000 }).toHaveLength(1);
  expect(texts[0]).toContain("told of research has ended: failed with exit code 3");
  const detached = await berth("run", "--detach", "--notify", "note", "--", "true");
  expect(detached.stderr).toContain("Notices on this machine need a command that stays.");
  await berth("notify", "remove", "note");
  await berth("notify", "remove", "slack");
});

test("doctor names the targets that notices do not reach", async () => {
  await world.client.targets.create({ name: "away", kind: "webhook", url: "http://127.0.0.1:1/" });
  const { id } = await ask("seen", 1);
  await release(id, "succeeded");
  const found = async () => (await berth("doctor")).stdout;
  await expect
    .poll(found, { timeout: 10_000 })
    .toMatch(/notices +away is failing: 127\.0\.0\.1:1 cannot be reached: \S+ \(berth notify show away\)/);
  await berth("notify", "remove", "away");
});
