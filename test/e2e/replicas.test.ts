// Three real servers on one real PostgreSQL: one leads, any one may die (C1–C10).

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WireEvent } from "../../src/protocol/index.ts";
import { createClient } from "../../src/sdk/index.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startTcpProxy, type TcpProxy } from "../support/proxy.ts";
import { type Answer, type Caller, callerOf } from "./server-support.ts";

interface Replica {
  readonly process: ChildProcess;
  readonly url: string;
  readonly call: Caller;
  /** The way of this server to the database. */
  readonly toDatabase: TcpProxy;
}

const program = fileURLToPath(new URL("../../src/bin/berth.ts", import.meta.url));

let database: TestPostgres;
let directory: string;
let secret: string;
const servers: Replica[] = [];

beforeAll(async () => {
  database = await startPostgres();
  directory = await mkdtemp(join(tmpdir(), "berth-replicas-"));
  for (const name of ["a", "b", "c"]) servers.push(await start(name));
  secret = readFileSync(join(directory, "admin-token"), "utf8").trim();
  const { call } = at(servers[0]);
  await call("POST", "/v1/pools", { name: "p", capacity: { gpu: 4 } });
  await call("POST", "/v1/pools/p/policies", { component: "team" });
}, 120_000);

afterAll(async () => {
  for (const { process: child } of servers) child.kill("SIGKILL");
  for (const { toDatabase } of servers) await toDatabase.close();
  await database?.remove();
  await rm(directory, { recursive: true, force: true });
});

/** Starts a server and waits until it is ready to lead or to follow. */
async function start(name: string): Promise<Replica> {
  const toDatabase = await startTcpProxy();
  toDatabase.aim(database.port);
  const token = name === "a" ? ["--token-file", join(directory, "admin-token")] : [];
  const child = spawn(
    process.execPath,
    [
      "--import",
      "tsx",
      program,
      "serve",
      "--port",
      "0",
      "--database-url",
      database.url.replace(String(database.port), String(toDatabase.port)),
      "--data-dir",
      join(directory, name),
      ...token,
    ],
    { stdio: ["ignore", "pipe", "pipe", "ipc"] },
  );
  const [message] = (await once(child, "message")) as [{ ready: string }];
  return { process: child, url: message.ready, call: callerOf(message.ready, undefined), toDatabase };
}

function at(server: Replica | undefined): { call: Caller; server: Replica } {
  if (server === undefined) throw new Error("no such server");
  return { server, call: callerOf(server.url, secret) };
}

async function until<T>(what: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const found = await what().catch(() => undefined);
    if (found !== undefined && found !== false) return found;
    await delay(50);
  }
}

/** The server that leads, by its own word. */
async function leader(): Promise<Replica> {
  return until(async () => {
    for (const server of servers) {
      const answer = await at(server)
        .call("GET", "/v1/cluster")
        .catch(() => undefined);
      if (answer?.status === 200 && answer.body.role === "leader") return server;
    }
    return undefined;
  });
}

async function followers(): Promise<Replica[]> {
  const leading = await leader();
  return servers.filter((server) => server !== leading);
}

async function submit(server: Replica | undefined, gpu = 1): Promise<Answer> {
  return at(server).call("POST", "/v1/resource-requests", { component: "team", resources: { gpu } }, key());
}

/** Gives back what was granted, so that the next one finds room. */
async function end(server: Replica | undefined, { body }: Answer): Promise<void> {
  const path = `/v1/resource-requests/${body.id}/release`;
  const report = { token: body.token, outcome: "succeeded" };
  await until(async () => (await at(server).call("POST", path, report, key())).status < 500);
}

/** Submits and ends. */
async function submitted(server: Replica | undefined): Promise<{ readonly id: string }> {
  const answer = await until(async () => {
    const tried = await submit(server);
    return tried.status === 201 && tried;
  });
  await end(server, answer);
  return answer.body;
}

function isEndOf(requestId: string, { event, request_id: id }: WireEvent): boolean {
  return event === "request.released" && id === requestId;
}

/** Everything up to the end of this request, as one server tells it from the beginning. */
async function wholeStream(server: Replica, lastId: string): Promise<WireEvent[]> {
  const seen: WireEvent[] = [];
  const client = createClient({ url: server.url, token: secret });
  for await (const event of client.events.stream({}, { after: 0 })) {
    seen.push(event);
    if (isEndOf(lastId, event)) break;
  }
  return seen;
}

/** Without what is about the stream itself. */
function storyOf(events: readonly WireEvent[]): string[] {
  return events
    .filter(({ event }) => !event.startsWith("stream."))
    .map(({ seq, event }) => `${seq} ${event}`);
}

let keys = 0;
function key(): Record<string, string> {
  return { "idempotency-key": `key-${++keys}` };
}

describe("three servers", () => {
  test("one leads, the others follow and are ready", async () => {
    const roles = await Promise.all(
      servers.map(async (server) => (await at(server).call("GET", "/v1/cluster")).body.role),
    );
    expect(roles.toSorted()).toEqual(["follower", "follower", "leader"]);
    for (const server of servers) expect((await at(server).call("GET", "/readyz")).status).toBe(200);
    const { body } = await at(servers[1]).call("GET", "/v1/cluster");
    expect(body.members.map((member: { leads: boolean }) => member.leads).toSorted()).toEqual([
      false,
      false,
      true,
    ]);
  });

  test("a change at a follower is forwarded, and can be read everywhere with the sequence of its answer", async () => {
    const [one, other] = await followers();
    const submitted = await submit(one);
    expect(submitted.status).toBe(201);
    const seq = submitted.headers.get("berth-seq") as string;
    for (const server of [other, ...servers]) {
      const read = await at(server).call("GET", `/v1/resource-requests/${submitted.body.id}`, undefined, {
        "berth-min-seq": seq,
      });
      expect(read.body.status).toBe("allocated");
    }
    const { body: audit } = await at(one).call("GET", "/v1/audit?limit=5");
    expect(JSON.stringify(audit)).toContain("submitRequest");
  });

  test("a server that is behind says so instead of answering with old news", async () => {
    const [one] = await followers();
    const answer = await at(one).call("GET", "/v1/pools", undefined, { "berth-min-seq": "99999999" });
    expect([answer.status, answer.body.code]).toEqual([503, "behind"]);
  });

  test("a token that is revoked at one server is dead at the others", async () => {
    const [one, other] = await followers();
    const { body } = await at(one).call("POST", "/v1/tokens", { name: "bob", role: "viewer" });
    const bob = callerOf((other as Replica).url, body.secret);
    await until(async () => (await bob("GET", "/v1/whoami")).status === 200);
    expect((await at(one).call("DELETE", "/v1/tokens/bob")).status).toBe(204);
    await until(async () => (await bob("GET", "/v1/whoami")).status === 401);
  });

  test("a call that was forwarded once is not forwarded again", async () => {
    const [one] = await followers();
    const answer = await at(one).call(
      "POST",
      "/v1/resource-requests",
      { component: "team", resources: { gpu: 1 } },
      {
        "berth-forwarded": "127.0.0.1 forged",
      },
    );
    expect([answer.status, answer.body.code]).toEqual([503, "not_leader"]);
  });

  test("a follower says how old its answers may be (C14)", async () => {
    const [one] = await followers();
    const answer = await at(one).call("GET", "/v1/pools");
    expect(Number(answer.headers.get("berth-behind-seconds"))).toBeGreaterThanOrEqual(0);
    const atLeader = await at(await leader()).call("GET", "/v1/pools");
    expect(atLeader.headers.get("berth-behind-seconds")).toBeNull();
  });

  test("a read at a follower is a sign of life of the client that waits (L2)", async () => {
    const [one] = await followers();
    const wanted = { component: "team", resources: { gpu: 4 }, attended: true };
    const filler = await submit(one);
    const { body: waiting } = await at(one).call("POST", "/v1/resource-requests", wanted, key());
    expect(waiting.status).toBe("queued");
    // Somebody else looks at the leader: only the submitter's own calls count.
    const { body: made } = await at(one).call("POST", "/v1/tokens", { name: "eve", role: "viewer" });
    const eve = callerOf((await leader()).url, made.secret);
    const path = `/v1/resource-requests/${waiting.id}`;
    const expiry = async () => Date.parse((await eve("GET", path)).body.lease_expires_at);
    const before = await until(async () => (await expiry()) || undefined);
    await until(async () => {
      expect((await at(one).call("GET", path)).headers.get("berth-role")).toBe("follower");
      return (await expiry()) > before;
    });
    await at(one).call("POST", `${path}/cancel`, {});
    await end(one, filler);
  });

  test("a client moves between servers with its stream: no gap, no repetition (C8, C11)", async () => {
    const ways = await Promise.all(
      servers.map(async ({ url }) => {
        const way = await startTcpProxy();
        way.aim(Number(new URL(url).port));
        return way;
      }),
    );
    const urls = ways.map(({ port }) => `http://127.0.0.1:${port}`);
    const leaving = new AbortController();
    const seen: WireEvent[] = [];
    const client = createClient({ urls, token: secret });
    const reading = (async () => {
      for await (const event of client.events.stream({}, { after: 0, signal: leaving.signal }))
        seen.push(event);
    })();
    reading.catch(() => undefined);
    // All ways but one break, in turn, and something happens: whoever hears of it has gone there.
    let last = "";
    for (const chosen of [...ways, ...ways]) {
      for (const way of ways) if (way !== chosen) way.reset();
      last = (await submitted(servers[0])).id;
      await until(async () => seen.some((event) => isEndOf(last, event)));
      for (const way of ways) way.heal();
    }
    leaving.abort();
    await reading.catch(() => undefined);
    expect(storyOf(seen)).toEqual(storyOf(await wholeStream(await leader(), last)));
    expect(seen.filter(({ event }) => event === "stream.opened").length).toBeGreaterThan(3);
    for (const way of ways) await way.close();
  });

  test("a planned handover: another server leads, and nothing is lost", async () => {
    const before = await leader();
    const { body } = await submit(before);
    expect((await at(before).call("POST", "/v1/cluster/handover")).status).toBe(202);
    const after = await until(async () => {
      const now = await leader();
      return now !== before && now;
    });
    expect((await submit(after)).status).toBe(201);
    const read = await at(before).call("GET", `/v1/resource-requests/${body.id}`);
    expect(read.status).toBe(200);
  });

  test("a frozen leader says nothing stale when it thaws, and follows", async () => {
    const frozen = await leader();
    const { body: held } = await submit(frozen);
    frozen.process.kill("SIGSTOP");
    const others = servers.filter((server) => server !== frozen);
    const next = await until(async () => {
      for (const server of others)
        if ((await at(server).call("GET", "/v1/cluster")).body.role === "leader") return server;
      return undefined;
    });
    expect((await submit(next)).status).toBe(201);
    frozen.process.kill("SIGCONT");
    const renewal = await at(frozen).call("POST", `/v1/resource-requests/${held.id}/renew`, {
      token: held.token,
    });
    // Either it refuses, or it follows already and the new leader has answered.
    expect(renewal.status === 503 || renewal.headers.get("berth-role") === "leader").toBe(true);
    await until(async () => (await at(frozen).call("GET", "/v1/cluster")).body.role === "follower");
  });

  test("a leader that is cut off from the database: another leads, and it says nothing stale (C3, C6)", async () => {
    const cut = await leader();
    const { body: held } = await submit(cut);
    const epoch = Number((await at(cut).call("GET", "/v1/pools")).headers.get("berth-epoch"));
    cut.toDatabase.silence("both");
    const others = servers.filter((server) => server !== cut);
    const after = await until(async () => {
      for (const server of others) {
        const answer = await submit(server).catch(() => undefined);
        if (answer?.status === 201 && Number(answer.headers.get("berth-epoch")) > epoch) return answer;
      }
      return undefined;
    });
    const renewal = await at(cut)
      .call("POST", `/v1/resource-requests/${held.id}/renew`, { token: held.token })
      .catch(() => undefined);
    // Not at all, or a refusal, or the answer of the next leader.
    const status = renewal?.status ?? 503;
    expect(status >= 500 || Number(renewal?.headers.get("berth-epoch")) > epoch).toBe(true);
    cut.toDatabase.heal();
    await until(async () => (await at(cut).call("GET", "/v1/cluster")).body.role === "follower");
    const read = await until(async () => {
      const answer = await at(cut).call("GET", `/v1/resource-requests/${after.body.id}`, undefined, {
        "berth-min-seq": after.headers.get("berth-seq") as string,
      });
      return answer.status === 200 && answer;
    });
    expect(read.body.id).toBe(after.body.id);
    for (const answer of [after, { body: held } as Answer]) await end(others[0], answer);
  });

  test("the leader is killed: what was acknowledged stays, a stream goes on at another server", async () => {
    const dead = await leader();
    const acknowledged = (await submit(dead)).body.id as string;
    const survivors = servers.filter((server) => server !== dead);
    const seen: number[] = [];
    const streaming = new AbortController();
    const stream = await fetch(`${survivors[0]?.url}/v1/events`, {
      headers: { authorization: `Bearer ${secret}` },
      signal: streaming.signal,
    });
    const reading = (async () => {
      for await (const chunk of stream.body as unknown as AsyncIterable<Uint8Array>) {
        for (const [, seq] of new TextDecoder().decode(chunk).matchAll(/"seq":(\d+)/g))
          seen.push(Number(seq));
      }
    })().catch(() => undefined);

    dead.process.kill("SIGKILL");
    await once(dead.process, "exit");
    servers.splice(servers.indexOf(dead), 1);
    const next = await leader();
    const after = await submit(next);
    expect(after.status).toBe(201);
    expect((await at(next).call("GET", `/v1/resource-requests/${acknowledged}`)).status).toBe(200);
    const seq = Number(after.headers.get("berth-seq"));
    await until(async () => seen.some((each) => each >= seq) || undefined);
    expect(seen).toEqual([...new Set(seen)].toSorted((a, b) => a - b));
    streaming.abort();
    await reading;
  });

  test("the database restarts: reads go on or say why not, and writes come back", async () => {
    await database.crash();
    const answer = await submit(servers[0]);
    expect(answer.status).toBeGreaterThanOrEqual(500);
    await database.restart();
    await until(async () => (await submit(servers[0])).status === 201);
    await until(async () => (await submit(servers[1])).status === 201);
  });
});
