// A database that has lost the end of its history, under jobs that run (C14, E4): they go on, keep their units, and are started
// nowhere again. A real PostgreSQL, replaced by a copy that lacks its last events.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startPostgres, type TestPostgres, type TestStandby } from "../support/postgres.ts";
import { startTcpProxy, type TcpProxy } from "../support/proxy.ts";
import { type AgentCluster, hasEnded, openAgentCluster } from "./agents-support.ts";

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

let database: TestPostgres;
let copy: TestStandby;
let way: TcpProxy;
let cluster: AgentCluster;
beforeAll(async () => {
  database = await startPostgres();
  way = await startTcpProxy();
  way.aim(database.port);
  const databaseUrl = database.url.replace(String(database.port), String(way.port));
  cluster = await openAgentCluster({ nodes: ["one"], gpus: 3, data: { databaseUrl } });
});
afterAll(async () => {
  await cluster.close();
  await way.close();
  await copy?.remove();
  await database.remove();
});

/** Says that it has started, and ends well when it may. */
const submit = (name: string) =>
  cluster.submit(
    [
      "sh",
      "-c",
      `echo started >> ${name}; until [ -e ${name}.end ]; do sleep 0.05; done; echo over >> ${name}`,
    ],
    { name },
  );
const said = (name: string) =>
  existsSync(join(cluster.scratch, name)) ? readFileSync(join(cluster.scratch, name), "utf8") : "";
/** Servers and database are away meanwhile. */
const eventually = (look: () => unknown) => vi.waitFor(look, { timeout: 60_000, interval: 100 });
const runs = (name: string) => eventually(() => expect(said(name)).toBe("started\n"));
const letEnd = (name: string) => writeFileSync(join(cluster.scratch, `${name}.end`), "");
const gpus = async () => (await cluster.client.nodes.get("one")).capacity.gpu;

async function adopted(): Promise<string[]> {
  const { body } = await cluster.server.admin("GET", "/v1/audit?limit=1000");
  const entries: { action: string; target: string }[] = body.items;
  return entries.filter(({ action }) => action === "adopted").map(({ target }) => target);
}

test("C14: what agents run by lost grants goes on, keeps its units and is started once", async () => {
  const kept = await submit("kept");
  const filler = await submit("filler");
  const third = await submit("third");
  for (const name of ["kept", "filler", "third"]) await runs(name);
  const granted = await submit("granted");
  expect((await cluster.client.jobs.get(granted)).status).toBe("queued");

  // The copy follows nobody: what happens from here on is lost with the first database.
  copy = await database.startStandby(1);
  letEnd("filler");
  letEnd("third");
  await cluster.until(filler, "it has ended", hasEnded);
  await runs("granted");
  const unknown = await submit("unknown");
  await runs("unknown");

  await database.crash();
  await copy.promote();
  way.aim(copy.port);
  way.reset();
  way.heal();
  await eventually(async () => expect((await adopted()).sort()).toEqual([granted, unknown].sort()));

  // Neither has a grant in the books: what they use is taken out of the node.
  await eventually(async () => expect(await gpus()).toBe(1));
  await cluster.until(filler, "its end is reported again", hasEnded);
  await cluster.until(third, "its end is reported again", hasEnded);
  const next = await submit("next");

  // The known request is granted again when there is room, and its work is that of this grant, on the device that it has.
  letEnd("unknown");
  await cluster.until(granted, "it has a grant again", ({ status }) => status === "allocated");
  expect((await cluster.client.jobs.get(next)).status).toBe("queued");
  letEnd("granted");
  const end = await cluster.until(granted, "it has ended", hasEnded);
  expect(end).toMatchObject({ status: "released", exit: { exit_code: 0 } });
  await runs("next");
  for (const name of ["kept", "next"]) letEnd(name);
  for (const id of [kept, next]) await cluster.until(id, "it has ended", hasEnded);
  await eventually(async () => expect(await gpus()).toBe(3));
  for (const name of ["kept", "granted", "unknown", "next"]) expect(said(name)).toBe("started\nover\n");
});
