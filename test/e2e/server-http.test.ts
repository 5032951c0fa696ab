// The edge: hosts, headers, limits, errors, health, documents, and a safe first start.

import { once } from "node:events";
import { chmod, copyFile, readdir, readFile, stat } from "node:fs/promises";
import { get } from "node:https";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { ERRORS, ROUTES } from "../../src/protocol/index.ts";
import { openServer } from "../../src/server/index.ts";
import { openTestServer, smallWorld, type TestServer, temporaryDirectory } from "./server-support.ts";

const CERTIFICATES = fileURLToPath(new URL("../support/tls/", import.meta.url));

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
  await smallWorld(server);
});
afterAll(() => server.close());

describe("what is wrong with a call is said in its own words", () => {
  const pool = (body: unknown) => ["POST", "/v1/pools", body] as const;
  const cases: Record<string, { call: readonly [string, string, unknown?]; want: object; headers?: object }> =
    {
      "an unknown field": {
        call: pool({ name: "x", capacity: { gpu: 1 }, colour: "red" }),
        want: { status: 400, code: "invalid_request", errors: [{ pointer: "/colour" }] },
      },
      "a field of another type": {
        call: pool({ name: "x", capacity: { gpu: "many" } }),
        want: { status: 400, errors: [{ pointer: "/capacity/gpu" }] },
      },
      "a missing field": {
        call: pool({ capacity: { gpu: 1 } }),
        want: { status: 400, errors: [{ pointer: "/name" }] },
      },
      "an amount that is none": {
        call: pool({ name: "x", capacity: { gpu: 0.5 } }),
        want: { status: 400, code: "invalid_amount" },
      },
      "no JSON": { call: pool("{"), want: { status: 400, code: "malformed_body" } },
      "no body": { call: ["POST", "/v1/pools"], want: { status: 400, code: "malformed_body" } },
      "a body of another type": {
        call: pool("name=x"),
        headers: { "content-type": "application/x-www-form-urlencoded" },
        want: { status: 415, code: "unsupported_media_type" },
      },
      "a body that is too large": {
        call: pool(`{"name":"${"x".repeat(1024 * 1024)}"}`),
        want: { status: 413, code: "body_too_large" },
      },
      "a body that is too deep": {
        call: pool(`{"name":${"[".repeat(5_000)}${"]".repeat(5_000)}}`),
        want: { status: 413, code: "body_too_large" },
      },
      "a name that is dangerous": {
        call: pool('{"name":"x","capacity":{"__proto__":1}}'),
        want: { status: 400, code: "invalid_request", errors: [{ pointer: "/capacity/__proto__" }] },
      },
      "an unknown parameter": { call: ["GET", "/v1/pools?colour=red"], want: { status: 400 } },
      "an unknown parameter where none is known": { call: ["GET", "/v1/whoami?x=1"], want: { status: 400 } },
      "a limit beyond the limit": {
        call: ["GET", "/v1/pools?limit=100000"],
        want: { status: 400, errors: [{ pointer: "/limit" }] },
      },
      "a status that does not exist": {
        call: ["GET", "/v1/resource-requests?status=lost"],
        want: { status: 400 },
      },
      "an unknown path": { call: ["GET", "/v1/nonsense"], want: { status: 404, code: "not_found" } },
      "an unknown method": { call: ["PUT", "/v1/pools"], want: { status: 405, code: "method_not_allowed" } },
      "an unknown pool": { call: ["GET", "/v1/pools/nowhere"], want: { status: 404 } },
      "a name that cannot be decoded": {
        call: ["GET", "/v1/pools/%ff"],
        want: { status: 400, code: "invalid_request" },
      },
      "half a surrogate pair as a new name": {
        call: ["PUT", "/v1/pools/gpus/policies/x%ED%A0%80", {}],
        want: { status: 400, code: "invalid_request" },
      },
      "a percent sign that stands for itself": {
        call: ["PUT", "/v1/pools/gpus/policies/100%", {}],
        want: { status: 400, hint: "Write a percent sign itself as %25." },
      },
      "a query that cannot be decoded": {
        call: ["GET", "/v1/resource-requests?component=%ED%A0%80"],
        want: { status: 400, code: "invalid_request" },
      },
      "an address that is too long": {
        call: ["GET", `/v1/pools?cursor=${"x".repeat(9_000)}`],
        want: { status: 414 },
      },
      "resources and settings at once": {
        call: ["POST", "/v1/resource-requests", { component: "vision", resources: { gpu: 1 }, settings: {} }],
        want: { status: 400, code: "invalid_request" },
      },
      "more items than a batch may have": {
        call: ["POST", "/v1/resource-requests/bulk", { items: Array.from({ length: 1_001 }, () => ({})) }],
        want: { status: 400, errors: [{ pointer: "/items" }] },
      },
      "an idempotency key that is too long": {
        call: pool({ name: "x", capacity: { gpu: 1 } }),
        headers: { "idempotency-key": "x".repeat(300) },
        want: { status: 400 },
      },
    };
  for (const [name, { call, want, headers }] of Object.entries(cases)) {
    test(name, async () => {
      const [method, path, body] = call;
      const answer = await server.admin(method, path, body, headers as Record<string, string> | undefined);
      expect(answer.body).toMatchObject(want);
    });
  }
});

test("a name that is not ours is not answered, whatever it asks for", async () => {
  const ask = (lines: string[]) =>
    new Promise<string>((resolve, reject) => {
      const { port } = new URL(server.url);
      const socket = connect(Number(port), "127.0.0.1", () => {
        socket.end(
          `${["GET /v1/pools HTTP/1.1", `Authorization: Bearer ${server.adminSecret}`, "Connection: close", ...lines].join("\r\n")}\r\n\r\n`,
        );
      });
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk;
      });
      socket.on("error", reject);
      socket.on("close", () => resolve(text.split("\r\n")[0] as string));
    });
  const { host, port } = new URL(server.url);
  const cases: Record<string, string> = {
    [`Host: ${host}`]: "200",
    [`Host: localhost:${port}`]: "200",
    "Host: evil.example": "421",
    "Host: 127.0.0.1.evil.example": "421",
    [`Host: ${host}\r\nOrigin: https://evil.example`]: "421",
    [`Host: ${host}\r\nOrigin: null`]: "421",
    [`Host: ${host}\r\nOrigin: http://${host}`]: "200",
  };
  for (const [line, want] of Object.entries(cases)) {
    expect(`${line} → ${(await ask([line])).split(" ")[1]}`).toBe(`${line} → ${want}`);
  }
});

test("a call is answered however HTTP lets it be written", async () => {
  /** All that comes back until the server closes. */
  const exchange = (text: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(Number(new URL(server.url).port), "127.0.0.1", () => void socket.write(text));
      let received = "";
      socket.on("data", (chunk) => {
        received += chunk;
      });
      socket.on("error", reject);
      socket.on("close", () => resolve(received));
    });
  const { host } = new URL(server.url);
  const head = `Host: ${host}\r\nAuthorization: Bearer ${server.adminSecret}\r\n`;
  const whole = await exchange(
    `GET ${server.url}/v1/pools?limit=1 HTTP/1.1\r\n${head}Connection: close\r\n\r\n`,
  );
  expect(whole).toMatch(/^HTTP\/1.1 200 .*"items":\[/s);
  const headOnly = await exchange(`HEAD /v1/pools HTTP/1.1\r\n${head}Connection: close\r\n\r\n`);
  expect(headOnly).toMatch(/^HTTP\/1.1 200 .*content-length: \d+\r\n.*\r\n\r\n$/s);
  // Answered before its body has arrived, and not waited for long after that.
  const length = "Content-Type: application/json\r\nContent-Length: 1000";
  const unknown = await exchange(
    `POST /v1/resource-requests HTTP/1.1\r\nHost: ${host}\r\n${length}\r\n\r\n{`,
  );
  expect(unknown).toMatch(/^HTTP\/1.1 401 /);
});

test("every answer carries the headers that keep browsers in check", async () => {
  for (const path of ["/healthz", "/v1/pools", "/docs", "/nowhere"]) {
    const { headers } = await server.admin("GET", path);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("access-control-allow-origin")).toBeNull();
  }
});

test("health and version need no token and tell nothing else", async () => {
  const anybody = server.as(undefined);
  for (const path of ["/healthz", "/livez", "/readyz"]) {
    expect((await anybody("GET", path)).body).toEqual({ status: "ok" });
  }
  expect((await anybody("GET", "/version")).body).toEqual({ name: "berth", version: "0.1.0", api: "v1" });
});

test("only these routes are open to strangers", () => {
  const open = Object.entries(ROUTES).filter(([, { permission }]) => permission === "public");
  expect(open.map(([name]) => name)).toEqual([
    "createSession",
    "healthz",
    "livez",
    "readyz",
    "version",
    "openapi",
    "docs",
  ]);
});

test("the OpenAPI document describes every route, and all its references lead somewhere", async () => {
  const { body } = await server.as(undefined)("GET", "/openapi.json");
  expect(body.openapi).toBe("3.1.0");
  const described = Object.entries(
    body.paths as Record<string, Record<string, { operationId: string }>>,
  ).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => [operationId, method, path]),
  );
  const served = Object.entries(ROUTES).map(([name, { method, path }]) => [name, method.toLowerCase(), path]);
  expect(described.toSorted()).toEqual(served.toSorted());
  const references = [...JSON.stringify(body).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(
    ([, path]) => path as string,
  );
  expect(references.length).toBeGreaterThan(50);
  for (const reference of references) {
    const found = reference.split("/").reduce((at, part) => at?.[part], body);
    expect(`${reference} ${typeof found}`).toBe(`${reference} object`);
  }
});

test("the reference page needs nothing from elsewhere and names every error", async () => {
  const { body, headers } = await server.as(undefined)("GET", "/docs");
  expect(headers.get("content-type")).toContain("text/html");
  expect(body).not.toMatch(/<script|<link|<img|@import|https?:\/\//);
  for (const code of Object.keys(ERRORS)) expect(body).toContain(`<code>${code}</code>`);
  for (const name of Object.keys(ROUTES)) expect(body).toContain(`id="${name}"`);
});

test("the metrics of section 16 are there", async () => {
  const { body } = await server.admin("POST", "/v1/resource-requests", {
    component: "vision",
    resources: { gpu: 1 },
  });
  await server.admin("POST", `/v1/resource-requests/${body.id}/release`, {
    token: body.token,
    outcome: "succeeded",
  });
  const text = (await server.admin("GET", "/metrics")).body as string;
  for (const name of [
    "berth_requests",
    "berth_pool_capacity",
    "berth_pool_usage",
    "berth_queue_wait_seconds_bucket",
    "berth_decision_seconds_bucket",
    "berth_grants_total",
    "berth_preemptions_total",
    "berth_preemption_checkpoint_duration_seconds",
    "berth_preemption_victim_requeue_total",
    "berth_preemption_failed_checkpoint_total",
    "berth_lost_work_unit_seconds_total",
    "berth_fair_share",
    "berth_leader",
    "berth_journal_commit_seconds_bucket",
  ]) {
    expect(text).toContain(`# TYPE ${name.replace("_bucket", "")}`);
  }
  expect(text).toContain('berth_pool_capacity{pool="gpus",key="gpu"} 2');
  expect(text).toMatch(/berth_grants_total\{pool="gpus"\} [1-9]/);
});

test("preemptions by reason, how their checkpoints went, and nodes by state are counted", async () => {
  const { admin } = server;
  await admin("POST", "/v1/pools", { name: "ward", capacity: { gpu: 2 }, discipline: "class" });
  await admin("POST", "/v1/pools/ward/policies", { component: "ward" });
  await admin("POST", "/v1/pools", { name: "rack" });
  await admin("POST", "/v1/nodes", { name: "r1", pool: "rack", capacity: { gpu: 1 } });
  await admin("POST", "/v1/nodes", { name: "r2", pool: "rack", capacity: { gpu: 1 } });
  await admin("POST", "/v1/nodes/r2/drain");
  const ask = async (request: object) =>
    (await admin("POST", "/v1/resource-requests", { component: "ward", ...request })).body;
  const low = { resources: { gpu: 1 }, preemption_class: 2, checkpoint: "auto", requeue: "on_preemption" };
  const saves = await ask(low);
  const fails = await ask(low);
  await ask({ resources: { gpu: 2 }, preemption_class: 8 });
  const report = (path: string, { id, token }: { id: string; token: string }, body: object) =>
    admin("POST", `/v1/resource-requests/${id}/${path}`, { token, ...body });
  await report("checkpoint", saves, { report: "done" });
  await report("release", saves, { outcome: "stopped" });
  await report("release", fails, { outcome: "stopped" });
  const text = (await admin("GET", "/metrics")).body as string;
  for (const line of [
    'berth_preemptions_total{pool="ward",reason="class"} 2',
    'berth_preemption_checkpoint_duration_seconds_count{pool="ward"} 1',
    'berth_preemption_failed_checkpoint_total{pool="ward"} 1',
    'berth_preemption_victim_requeue_total{pool="ward"} 2',
    'berth_nodes{pool="rack",state="ready"} 1',
    'berth_nodes{pool="rack",state="drained"} 1',
  ]) {
    expect(text).toContain(line);
  }
  expect(text).toMatch(/berth_lost_work_unit_seconds_total\{pool="ward",key="gpu"\} \d/);
});

test("a caller that is too fast is told when to come back", async () => {
  const slow = await openTestServer("memory", { rates: { perToken: { perSecond: 1, burst: 1 } } });
  const answers = await Promise.all(Array.from({ length: 30 }, () => slow.admin("GET", "/v1/whoami")));
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(0);
  expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThan(0);
  await slow.close();
});

test("a component is not asked for too fast, not even by many tokens", async () => {
  const slow = await openTestServer("memory", { rates: { perToken: { perSecond: 1, burst: 1_000 } } });
  const ask = (component: string) =>
    slow.admin("POST", "/v1/resource-requests", { component, resources: { gpu: 1 } });
  const bulk = () =>
    slow.admin("POST", "/v1/resource-requests/bulk", {
      items: [{ component: "eager", resources: { gpu: 1 } }, null, { component: 7 }],
    });
  const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => (i % 2 ? ask("eager") : bulk())));
  const statuses = new Set(answers.map(({ status }) => status));
  expect(statuses).toEqual(new Set([200, 201, 429]));
  expect((await ask("calm")).status).toBe(201);
  await slow.close();
});

test("whoever does not reach a component does not use up its rate", async () => {
  const slow = await openTestServer("memory", { rates: { perToken: { perSecond: 1, burst: 1_000 } } });
  const { call } = await slow.token("user", { components: ["mine"] });
  const wanted = { component: "theirs", resources: { gpu: 1 } };
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, i) =>
      i % 2
        ? call("POST", "/v1/resource-requests", wanted)
        : call("POST", "/v1/resource-requests/bulk", { items: [wanted] }),
    ),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 403]));
  expect((await slow.admin("POST", "/v1/resource-requests", wanted)).status).toBe(201);
  await slow.close();
});

describe("no name has control characters, or half a surrogate pair", () => {
  const bad = ["n\u0000", "s\ud800", "t\udc00x", "e\u001b[2J", "c\u009b", "l\nine", "r\u202e"];
  const request = { component: "vision", resources: { gpu: 1 } };
  const calls: Record<string, (name: string) => [string, string, unknown?]> = {
    token: (name) => ["POST", "/v1/tokens", { name, role: "viewer" }],
    "component of a token": (name) => ["POST", "/v1/tokens", { name: "x", role: "user", components: [name] }],
    policy: (name) => ["POST", "/v1/pools/gpus/policies", { component: name }],
    "policy in the path": (name) => ["PUT", `/v1/pools/gpus/policies/${encodeURIComponent(name)}`, {}],
    "component type": (name) => ["PUT", "/v1/pools/gpus/policies/x", { component_type: name }],
    group: (name) => ["PUT", `/v1/pools/gpus/groups/${encodeURIComponent(name)}`, {}],
    node: (name) => ["PUT", `/v1/nodes/${encodeURIComponent(name)}`, { pool: "gpus", capacity: { gpu: 1 } }],
    "label of a pool": (name) => ["PATCH", "/v1/pools/gpus", { labels: { [name]: "x" } }],
    component: (name) => ["POST", "/v1/resource-requests", { ...request, component: name }],
    request: (name) => ["POST", "/v1/resource-requests", { ...request, name }],
    operation: (name) => ["POST", "/v1/resource-requests", { ...request, operation: name }],
    label: (name) => ["POST", "/v1/resource-requests", { ...request, labels: { k: name } }],
    "filter of a list": (name) => ["GET", `/v1/resource-requests?component=${encodeURIComponent(name)}`],
  };
  for (const [what, toCall] of Object.entries(calls)) {
    test(what, async () => {
      for (const name of bad) {
        // A lone surrogate cannot be written into a path at all.
        const isWritable = !/[\ud800-\udfff]/.test(name) || toCall("x")[2] !== undefined;
        if (!isWritable || (/path|group|node/.test(what) && /[\ud800-\udfff]/.test(name))) continue;
        const [method, path, body] = toCall(name);
        expect([name, (await server.admin(method, path, body)).body.code]).toEqual([name, "invalid_request"]);
      }
    });
  }

  test("a note may have lines, and nothing else of the kind", async () => {
    const noted = (note: string) => server.admin("POST", "/v1/resource-requests", { ...request, note });
    expect((await noted("two\n\tlines")).status).toBe(201);
    expect((await noted("\u0000")).body.code).toBe("invalid_request");
    expect((await noted("\ud800")).body.code).toBe("invalid_request");
  });

  test("an item of a bulk call keeps its key to plain ASCII, as the header does", async () => {
    const items = [{ ...request, idempotency_key: "k\u0000" }];
    const { body } = await server.admin("POST", "/v1/resource-requests/bulk", { items });
    expect(body.code).toBe("invalid_request");
  });
});

test("guessing tokens is slowed down, whoever else calls from there", async () => {
  const strict = await openTestServer("memory", { rates: { failedLoginsPerMinute: 3 } });
  const guess = async () => (await strict.as(`berth_${"C".repeat(43)}`)("GET", "/v1/pools")).status;
  const statuses = [];
  for (let count = 0; count < 6; count++) statuses.push(await guess());
  expect(statuses).toEqual([401, 401, 401, 401, 429, 429]);
  expect((await strict.admin("GET", "/v1/pools")).status).toBe(200);
  await strict.close();
});

test("connections that nobody has used yet do not hold up the end", async () => {
  const ending = await openTestServer();
  const { hostname, port } = new URL(ending.url);
  const idle = connect(Number(port), hostname);
  await once(idle, "connect");
  await ending.admin("GET", "/v1/whoami"); // Connections are taken in turn, so the other one is known by now.
  vi.useFakeTimers({ toFake: ["setTimeout"] }); // Nothing is closed by force, however long it takes.
  try {
    await ending.close();
  } finally {
    vi.useRealTimers();
    idle.destroy();
  }
});

describe("a safe first start", () => {
  const onFatal = (error: unknown) => {
    throw error;
  };

  test("other addresses are refused without TLS, unless that is spelled out", async () => {
    const directory = await temporaryDirectory();
    const data = { directory: `${directory.path}/data` };
    await expect(openServer({ data, listen: "0.0.0.0:0", onFatal })).rejects.toThrow(/without TLS/);
    expect(await readdir(directory.path)).toEqual([]);
    await directory.remove();
    await expect(openServer({ data: "memory", listen: "nonsense", onFatal })).rejects.toThrow(
      /not an address/,
    );
    const open = await openServer({ data: "memory", listen: "0.0.0.0:0", insecureBind: true, onFatal });
    await open.close();
  });

  test("a busy port is named, and the first token is made by the start that succeeds", async () => {
    const directory = await temporaryDirectory();
    const data = { directory: directory.path };
    const { host } = new URL(server.url);
    await expect(openServer({ data, listen: host, onFatal })).rejects.toThrow(/EADDRINUSE/);
    const next = await openServer({ data, listen: "127.0.0.1:0", onFatal });
    expect(next.firstToken).toMatchObject({ name: "admin" });
    await next.close();
    await directory.remove();
  });

  test("the data of the store can be read by its owner only, and does not contain the token", async () => {
    const directory = await temporaryDirectory();
    const data = `${directory.path}/data`;
    const first = await openTestServer({ directory: data });
    const files = await readdir(data);
    expect(files).toContain("berth.db");
    for (const file of [".", ...files]) expect((await stat(`${data}/${file}`)).mode & 0o077, file).toBe(0);
    for (const file of files)
      expect(await readFile(`${data}/${file}`, "latin1")).not.toContain(first.adminSecret);
    await first.close();
    await directory.remove();
  });

  test("with TLS it speaks nothing else, and refuses a key that others can read", async () => {
    const directory = await temporaryDirectory();
    const tls = { certFile: `${CERTIFICATES}cert.pem`, keyFile: `${directory.path}/key.pem` };
    await copyFile(`${CERTIFICATES}key.pem`, tls.keyFile);
    await chmod(tls.keyFile, 0o640);
    await expect(openServer({ data: "memory", listen: "127.0.0.1:0", tls, onFatal })).rejects.toThrow(
      /can be read by others/,
    );
    await chmod(tls.keyFile, 0o600);
    const secure = await openServer({ data: "memory", listen: "127.0.0.1:0", tls, onFatal });
    // Whom the certificate convinces, and since when, is not the question here.
    const [answer] = await once(get(`${secure.url}/livez`, { rejectUnauthorized: false }), "response");
    expect(answer.statusCode).toBe(200);
    expect(answer.headers["strict-transport-security"]).toMatch(/^max-age=\d+/);
    await expect(fetch(`${secure.url.replace("https", "http")}/livez`)).rejects.toThrow();
    answer.destroy();
    await secure.close();
    await directory.remove();
  });
});

test("the log has a line for every change: pools and the like at info, the life of requests at debug", async () => {
  const lines: [string, string, object][] = [];
  const write = (level: string) => (fields: object, message: string) =>
    void lines.push([level, message, fields]);
  const log = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  const logged = await openTestServer("memory", { log });
  await logged.admin("PUT", "/v1/pools/p", { capacity: { gpu: 1 } });
  await logged.admin("PUT", "/v1/pools/p/policies/c", {});
  const { body } = await logged.admin("POST", "/v1/resource-requests", {
    component: "c",
    resources: { gpu: 1 },
  });
  await logged.close();
  expect(lines).toEqual(
    expect.arrayContaining([
      ["info", "pool set", expect.objectContaining({ name: "p" })],
      ["info", "policy set", expect.objectContaining({ pool: "p", component: "c" })],
      ["debug", "request submitted", expect.objectContaining({ component: "c" })],
      ["debug", "request allocated", expect.objectContaining({ requestId: body.id, pool: "p" })],
    ]),
  );
});
