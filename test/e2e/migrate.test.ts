// A store moves from a directory into a real PostgreSQL and back, with a holder at work all the time.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type BerthError, type Client, createClient, type Grant } from "../../src/sdk/index.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";

const program = fileURLToPath(new URL("../../src/bin/berth.ts", import.meta.url));

let database: TestPostgres;
let directory: string;
let url: string;
const children = new Set<ChildProcess>();

beforeAll(async () => {
  database = await startPostgres();
  directory = await mkdtemp(join(tmpdir(), "berth-migrate-"));
}, 180_000);

afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await database?.remove();
  await rm(directory, { recursive: true, force: true });
});

function berth(...args: string[]): ChildProcess {
  const child = spawn(process.execPath, ["--import", "tsx", program, ...args], {
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    env: { ...process.env, XDG_CONFIG_HOME: join(directory, "config") },
  });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

async function serve(...args: string[]): Promise<{ child: ChildProcess; url: string }> {
  const child = berth("serve", ...args);
  const [message] = (await once(child, "message")) as [{ ready: string }];
  return { child, url: message.ready };
}

async function run(...args: string[]): Promise<{ code: number; said: string }> {
  const child = berth(...args);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text) => (said += String(text)));
  const [code] = (await once(child, "exit")) as [number];
  return { code, said };
}

const eventually = (check: () => Promise<void> | void) =>
  vi.waitFor(check, { timeout: 60_000, interval: 200 });

test("a running store moves to PostgreSQL and back; its holder, tokens, history and streams go on", async () => {
  const [first, back] = [join(directory, "first"), join(directory, "back")];
  const before = await serve("--data-dir", first, "--port", "0");
  const listen = new URL(before.url).host;
  url = before.url;
  const token = readFileSync(join(first, "admin-token"), "utf8").trim();
  const client = createClient({ url: before.url, token });
  await client.pools.create({
    name: "p",
    capacity: { gpu: 1 },
    settings: { lease_seconds: 60, renewal_seconds: 2 },
  });
  await client.policies.attach("p", { component: "team" });
  const { secret } = await client.tokens.create({ name: "bob", role: "viewer" });
  const { grant, request, lost } = await hold(client);
  const job = await submitJob(client);
  const events: string[] = [];
  const positions: number[] = [];
  let resets = 0;
  const reading = new AbortController();
  const read = (async () => {
    for await (const { event, seq, request_id: id } of client.events.stream(
      {},
      { after: 0, signal: reading.signal },
    )) {
      if (event === "stream.reset") resets++;
      if (event.startsWith("stream.")) continue;
      events.push(`${seq} ${event} ${id ?? ""}`);
      positions.push(seq);
    }
  })();
  const head = (await run("doctor", "--head", "--data-dir", first)).said.trim();

  const moved = await run("migrate", "--data-dir", first, "--to", database.url, "-y");
  expect(moved.said).toMatch(/Moved and verified: .*\nNext: {2}berth serve --database-url … --listen 127/);
  expect(moved.code).toBe(0);
  const refused = await run("serve", "--data-dir", first, "--port", "0");
  expect([refused.code, refused.said]).toEqual([125, expect.stringContaining("was moved to postgres://")]);

  const during = await serve(
    "--data-dir",
    join(directory, "x"),
    "--database-url",
    database.url,
    "--listen",
    listen,
  );
  await goesOn();
  const noted = await run("doctor", "--database-url", database.url, "--expect", head, "--url", before.url);
  expect(noted.said).toContain("contains event");
  const busy = await run("migrate", "--from", database.url, "--to", back, "-y");
  expect([busy.code, busy.said]).toEqual([125, expect.stringContaining("Servers use this store: http://")]);
  during.child.kill("SIGTERM");
  await once(during.child, "exit");

  expect(await run("migrate", "--from", database.url, "--to", back, "-y")).toMatchObject({ code: 0 });
  await serve("--data-dir", back, "--listen", listen);
  await goesOn();
  await grant.release("succeeded");
  expect((await client.requests.get(request)).status).toMatch(/succeeded|released/);
  expect(lost).toEqual([]);
  await eventually(() => expect(events).toContainEqual(expect.stringMatching(`request.released ${request}`)));
  expect(events).toEqual([...new Set(events)]);
  expect(positions).toEqual(positions.toSorted((a, b) => a - b));
  expect([positions[0], resets]).toEqual([1, 0]);
  reading.abort();
  await read.catch(() => undefined);

  /** The server answers again, knows everything, and hears of the holder. */
  async function goesOn(): Promise<void> {
    await eventually(async () => {
      const { status, holder_silent_since: silentSince } = await client.requests.get(request);
      expect([status, silentSince]).toEqual(["allocated", undefined]);
    });
    const seenBy = createClient({ url: before.url, token: secret as string });
    expect(await seenBy.whoami()).toMatchObject({ name: "bob" });
    const { status: jobStatus, run, where } = await client.jobs.get(job);
    expect([jobStatus, run?.command, where]).toMatchObject(["allocated", ["true"], [{ node: "n1" }]]);
    expect(await client.nodes.get("n1")).toMatchObject({ pool: "machines", enrolled: { gpu: 1 } });
    expect(await client.targets.list()).toMatchObject({ items: [{ name: "chat" }] });
    const { status } = await client.requests.submit({ component: "team", resources: { gpu: 1 } });
    expect(status).toBe("queued"); // The unit is held.
  }
}, 600_000);

test("what cannot be moved, and where to, is said in words", async () => {
  const nowhere = await run("migrate", "--data-dir", join(directory, "nothing"), "--to", database.url, "-y");
  expect([nowhere.code, nowhere.said]).toEqual([2, expect.stringContaining("There is no store at")]);
  const strange = await run("migrate", "--data-dir", join(directory, "back"), "--to", "mysql://db/x", "-y");
  expect([strange.code, strange.said]).toEqual([
    2,
    expect.stringContaining("neither a PostgreSQL database nor"),
  ]);
  const taken = await run("migrate", "--data-dir", join(directory, "back"), "--to", database.url, "-y");
  expect([taken.code, taken.said]).toEqual([125, expect.stringContaining("never overwritten")]);
  const token = readFileSync(join(directory, "first", "admin-token"), "utf8").trim();
  await createClient({ url, token }).whoami(); // The server was not stopped for that.
}, 180_000);

async function hold(client: Client): Promise<{ grant: Grant; request: string; lost: BerthError[] }> {
  const submitted = await client.requests.submit({ component: "team", resources: { gpu: 1 } });
  const grant = client.hold(await client.waitForGrant(submitted));
  const lost: BerthError[] = [];
  grant.signal.addEventListener("abort", () => lost.push(grant.signal.reason as BerthError));
  return { grant, request: submitted.id, lost };
}

/** On a machine whose agent has joined, with a target for notices about it. */
async function submitJob(client: Client): Promise<string> {
  await client.pools.create({ name: "machines", settings: { executor: "agents", node_lost_seconds: 3_600 } });
  await client.policies.attach("machines", { component: "jobs" });
  const { join_token: token } = await client.nodes.enrol("n1", { pool: "machines" });
  await createClient({ url, token }).agent.join("n1", { capacity: { gpu: 1 } });
  await client.targets.create({ name: "chat", kind: "webhook", url: "https://example.com/hook" });
  const submitted = { component: "jobs", resources: { gpu: 1 }, run: { command: ["true"] } };
  return (await client.jobs.submit(submitted)).id;
}
