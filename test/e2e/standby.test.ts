// Three servers on one PostgreSQL database: one serves, the others stand by and take over.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { buildBerth, eventually } from "./run-support.ts";

const standby = fileURLToPath(new URL("../../deploy/standby.mjs", import.meta.url));
let berth: string;
let postgres: TestPostgres;
const started: Replica[] = [];

interface Replica {
  readonly process: ChildProcess;
  readonly url: string;
  readonly directory: string;
}

beforeAll(async () => {
  [berth, postgres] = await Promise.all([buildBerth(), startPostgres()]);
});

afterAll(async () => {
  for (const replica of started) kill(replica, "SIGKILL");
  await postgres.remove();
});

test("the next one takes over, with all that was kept", async () => {
  const first = await start();
  await eventually("the first one serves", () => isReady(first));
  const token = readFileSync(join(first.directory, "admin-token"), "utf8").trim();
  const others = [await start(), await start()];
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ name: "kept", capacity: { gpu: 1 } });
  expect((await fetch(`${first.url}/v1/pools`, { method: "POST", headers, body })).status).toBe(201);
  await eventually("both stand by", async () => (await said("stands by")) === 2);
  expect(await Promise.all(others.map(isReady))).toEqual([false, false]);

  kill(first, "SIGKILL");
  const next = await eventually("another one serves", async () => {
    const ready = await Promise.all(others.map(isReady));
    return others.find((_, index) => ready[index]);
  });
  expect((await fetch(`${next.url}/v1/pools/kept`, { headers })).status).toBe(200);

  const last = others.find((replica) => replica !== next) as Replica;
  kill(next, "SIGTERM"); // As an upgrade would end it.
  await eventually("the last one serves", () => isReady(last));
  expect((await fetch(`${last.url}/v1/pools/kept`, { headers })).status).toBe(200);
});

const log: string[] = [];

async function start(): Promise<Replica> {
  const directory = mkdtempSync(join(tmpdir(), "berth-standby-"));
  const port = await freePort();
  const child = spawn(process.execPath, [standby, "--listen", `127.0.0.1:${port}`, "--data-dir", directory], {
    detached: true,
    env: { PATH: process.env.PATH, HOME: directory, BERTH_PROGRAM: berth, BERTH_DATABASE_URL: postgres.url },
    stdio: ["ignore", "ignore", "pipe"],
  });
  child.stderr?.on("data", (chunk: Buffer) => log.push(chunk.toString()));
  const replica = { process: child, url: `http://127.0.0.1:${port}`, directory };
  started.push(replica);
  return replica;
}

/** A crash ends the whole group; an orderly end is asked of the program alone. */
function kill({ process: child }: Replica, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null) return;
  try {
    process.kill(signal === "SIGKILL" ? -child.pid : child.pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}

async function isReady({ url }: Replica): Promise<boolean> {
  return (await fetch(`${url}/readyz`).catch(() => undefined))?.ok === true;
}

async function said(what: string): Promise<number> {
  return log.join("").split(what).length - 1;
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
