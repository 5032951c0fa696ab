// Notices (H2–H4) against a real receiver: what arrives, how it is signed, and what becomes of it when either side is away.

import { createHmac } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { openTestServer, type TestServer, temporaryDirectory } from "./server-support.ts";

interface Received {
  readonly id: string;
  readonly body: { type: string; data: Record<string, never> & { text: string; seq: number } };
  readonly text: string;
  readonly headers: Record<string, string | string[] | undefined>;
}

/** A receiver that keeps what it gets, and says what the test wants it to say. */
async function openReceiver(port = 0) {
  const received: Received[] = [];
  let answer: (received: Received) => number | Promise<number> = () => 200;
  const server: Server = createServer((incoming, outgoing) => {
    let text = "";
    incoming.on("data", (piece: Buffer) => (text += piece.toString()));
    incoming.on("end", () => {
      const one = {
        ...{ id: String(incoming.headers["webhook-id"]), text, headers: incoming.headers },
        body: JSON.parse(text) as Received["body"],
      };
      received.push(one);
      void Promise.resolve(answer(one)).then((status) => {
        outgoing.writeHead(status, { location: "http://127.0.0.1:1/elsewhere" }).end("thanks");
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const { port: taken } = server.address() as AddressInfo;
  const receiver = {
    ...{ received, port: taken, url: `http://127.0.0.1:${taken}/hook` },
    answerWith: (how: typeof answer) => (answer = how),
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  opened.push(receiver);
  return receiver;
}

const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0).toReversed()) await each.close();
});

async function openWorld(data?: Parameters<typeof openTestServer>[0]): Promise<TestServer> {
  const server = await openTestServer(data);
  opened.push(server);
  return server;
}

async function makePool(server: TestServer): Promise<void> {
  await server.admin("PUT", "/v1/pools/lab", { capacity: { gpu: 2 } });
  await server.admin("PUT", "/v1/pools/lab/policies/alice", { priority: 0 });
  await server.admin("PUT", "/v1/pools/lab/policies/bob", { priority: 10, reserved: { gpu: 1 } });
}

async function submit(server: TestServer, component: string, more: object = {}) {
  const wanted = { component, resources: { gpu: 2 }, ...more };
  const { body } = await server.admin("POST", "/v1/resource-requests", wanted);
  return body as { id: string; number: number; status: string; token: string };
}

const release = (server: TestServer, { id, token }: { id: string; token: string }, more: object = {}) =>
  server.admin("POST", `/v1/resource-requests/${id}/release`, { token, outcome: "succeeded", ...more });

const webhook = (url: string, more: object = {}) => ({ name: "hook", kind: "webhook", url, ...more });

/** Conditions, never durations. */
const until = (condition: () => void | Promise<void>) =>
  expect
    .poll(
      async () => {
        await condition();
        return true;
      },
      { timeout: 15_000, interval: 20 },
    )
    .toBe(true);

test("a notice arrives, signed, with what, why, next and the command", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  await makePool(server);
  const { status, body: target } = await server.admin("POST", "/v1/notice-targets", webhook(receiver.url));
  expect(status).toBe(201);
  expect(target).toMatchObject({ name: "hook", url: `http://127.0.0.1:${receiver.port}`, state: "good" });
  expect(target.secret).toMatch(/^whsec_/);
  expect((await server.admin("GET", "/v1/notice-targets/hook")).body.secret).toBeUndefined();

  const running = await submit(server, "alice", { name: "a3" });
  await until(() => expect(receiver.received).toHaveLength(1));
  const [started] = receiver.received as [Received];
  expect(started.body.type).toBe("request.started");
  expect(started.body.data).toMatchObject({
    kind: "started",
    what: `#${running.number} a3 of alice has started in pool lab.`,
    why: "It waited 0s.",
    command: `berth why ${running.number}`,
    request: { id: running.id, number: running.number, component: "alice", pool: "lab" },
  });
  expect(started.id).toMatch(new RegExp(`^evt_[0-9a-f]{8}_${started.body.data.seq}$`));
  const time = String(started.headers["webhook-timestamp"]);
  const key = Buffer.from((target.secret as string).slice(6), "base64");
  const signature = createHmac("sha256", key)
    .update(`${started.id}.${time}.${started.text}`)
    .digest("base64");
  expect(started.headers["webhook-signature"]).toBe(`v1,${signature}`);
  expect(Math.abs(Number(time) * 1000 - Date.now())).toBeLessThan(60_000);
});

test("a preemption is told in one sentence: for whom, why, and at which place it waits again", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  await makePool(server);
  const target = webhook(receiver.url, { on: ["preempted"], component: "alice" });
  await server.admin("POST", "/v1/notice-targets", target);
  const victim = await submit(server, "alice", { name: "a3" });
  const taker = await submit(server, "bob", { name: "b1" });
  await release(server, victim, { outcome: "stopped" });
  await until(() => expect(receiver.received).toHaveLength(1));
  expect(receiver.received[0]?.body.data.text).toBe(
    `#${victim.number} a3 was stopped for #${taker.number} b1 of bob (priority). ` +
      `It is back in line at place 1. berth why ${victim.number}`,
  );
});

test("rejected and ended are told, and Slack gets a text in which nobody can be called", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  await makePool(server);
  const slack = { name: "slack", kind: "slack", url: receiver.url, on: ["rejected", "ended"] };
  expect((await server.admin("POST", "/v1/notice-targets", slack)).body.secret).toBeUndefined();
  const { number } = await submit(server, "alice", { name: "<!channel>", resources: { gpu: 9 } });
  await until(() => expect(receiver.received).toHaveLength(1));
  expect(JSON.parse(receiver.received[0]?.text ?? "")).toEqual({
    text:
      `#${number} &lt;!channel&gt; of alice was rejected: it could never start. ` +
      `pool lab: 9 gpu asked, 2 is all there is, or all that one node has. berth why ${number}`,
  });
  const ended = await submit(server, "alice");
  await release(server, ended, { outcome: "failed", exit_code: 3 });
  await until(() => expect(receiver.received).toHaveLength(2));
  expect(receiver.received[1]?.text).toContain(
    `#${ended.number} of alice has ended: failed with exit code 3. It ran for 0s. berth show ${ended.number}`,
  );
});

test("more than one in a second becomes one summary", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  await server.admin("PUT", "/v1/pools/lab", { capacity: { gpu: 100 } });
  await server.admin("PUT", "/v1/pools/lab/policies/alice", {});
  await server.admin("POST", "/v1/notice-targets", webhook(receiver.url));
  const items = Array.from({ length: 30 }, () => ({ component: "alice", resources: { gpu: 1 } }));
  await server.admin("POST", "/v1/resource-requests/bulk", { items });
  const told = () =>
    receiver.received.reduce((sum, { body }) => sum + ((body.data as { count?: number }).count ?? 1), 0);
  await until(() => expect(told()).toBe(30));
  const summary = receiver.received.find(({ body }) => body.type === "notices.summary");
  expect(summary?.body.data.text).toMatch(
    /^\d+ notices \(20 started\):\n• #1 of alice has started in pool lab\./,
  );
  expect(receiver.received.length).toBeLessThanOrEqual(3);
});

test("a receiver that was away gets the same message again, also after the server was restarted", async () => {
  const directory = await temporaryDirectory();
  opened.push({ close: () => directory.remove() });
  const before = await openTestServer({ directory: directory.path });
  const away = await openReceiver();
  await makePool(before);
  away.answerWith(() => 503);
  await before.admin("POST", "/v1/notice-targets", webhook(away.url));
  await submit(before, "alice", { name: "a1" });
  await until(async () => {
    const { body } = await before.admin("GET", "/v1/notice-targets/hook");
    expect(body).toMatchObject({ state: "failing", pending: 1, failed: 1, sent: 0 });
    expect(body.problem).toBe(`127.0.0.1:${away.port} answered 503`);
  });
  const [first] = away.received as [Received];
  await before.close();
  await away.close();

  const receiver = await openReceiver(away.port);
  const after = await openWorld({ directory: directory.path });
  await until(() => expect(receiver.received).toHaveLength(1));
  expect(receiver.received[0]).toMatchObject({ id: first.id, text: first.text });
  await until(async () =>
    expect((await after.admin("GET", "/v1/notice-targets/hook")).body).toMatchObject({
      ...{ state: "good", pending: 0, sent: 1, problem: null },
    }),
  );
});

test("what happens while the server is away is not lost, and nothing is sent twice after an orderly restart", async () => {
  const directory = await temporaryDirectory();
  opened.push({ close: () => directory.remove() });
  const before = await openTestServer({ directory: directory.path });
  const receiver = await openReceiver();
  await makePool(before);
  await before.admin("POST", "/v1/notice-targets", webhook(receiver.url, { on: ["started", "ended"] }));
  const request = await submit(before, "alice");
  await until(() => expect(receiver.received).toHaveLength(1));
  // What was received and not acknowledged when a server ends is sent again.
  const sent = async () => (await before.admin("GET", "/v1/notice-targets/hook")).body.sent;
  await until(async () => expect(await sent()).toBe(1));
  await before.close();
  const after = await openWorld({ directory: directory.path });
  await release(after, request);
  await until(() => expect(receiver.received).toHaveLength(2));
  expect(receiver.received.map(({ body }) => body.type)).toEqual(["request.started", "request.ended"]);
});

test("a receiver that never answers delays no decision and no other target", async () => {
  const server = await openWorld();
  const slow = await openReceiver();
  const quick = await openReceiver();
  await makePool(server);
  let free: (status: number) => void = () => undefined;
  slow.answerWith(() => new Promise<number>((resolve) => (free = resolve)));
  await server.admin("POST", "/v1/notice-targets", webhook(slow.url, { name: "slow" }));
  await server.admin("POST", "/v1/notice-targets", webhook(quick.url, { name: "quick", on: ["ended"] }));
  for (let round = 0; round < 20; round++) {
    const request = await submit(server, "alice");
    expect(request.status).toBe("allocated");
    expect((await release(server, request)).status).toBe(200);
  }
  await until(() => expect(quick.received.length).toBeGreaterThan(0));
  expect(slow.received).toHaveLength(1); // And nobody waited for it.
  free(200);
});

test("redirects are not followed", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  receiver.answerWith(() => 302);
  await server.admin("POST", "/v1/notice-targets", webhook(receiver.url));
  const { body } = await server.admin("POST", "/v1/notice-targets/hook/test");
  expect(body).toEqual({ delivered: false, problem: `127.0.0.1:${receiver.port} answered 302` });
  expect(receiver.received.map(({ body: { type } }) => type)).toEqual(["notices.test"]);
});

test("private addresses are refused unless the person who runs the server has allowed the network", async () => {
  const receiver = await openReceiver();
  const refusals = async (server: TestServer, url: string) => {
    const { status, body } = await server.admin("POST", "/v1/notice-targets", webhook(url));
    return status === 201 ? "created" : `${status} ${body.code}`;
  };
  const closed = await openTestServer("memory", { noticeNetworks: [] });
  opened.push(closed);
  expect(await refusals(closed, "https://10.0.0.1/")).toBe("422 target_not_allowed");
  expect(await refusals(closed, "http://example.com/")).toBe("422 target_not_allowed");
  expect(await refusals(closed, receiver.url)).toBe("422 target_not_allowed");
  // A name is judged by what it stands for when something is sent.
  const byName = `http://localhost:${receiver.port}/`;
  expect(await refusals(closed, byName)).toBe("created");
  expect((await closed.admin("POST", "/v1/notice-targets/hook/test")).body).toMatchObject({
    delivered: false,
    problem: expect.stringMatching(/^localhost is .*, a private address, which this server may not call$/),
  });
  expect(receiver.received).toEqual([]);
  const open = await openTestServer("memory", { noticeNetworks: ["127.0.0.0/8"] });
  opened.push(open);
  expect(await refusals(open, receiver.url)).toBe("created");
  expect((await open.admin("POST", "/v1/notice-targets/hook/test")).body).toEqual({
    ...{ delivered: true, problem: null },
  });
});

test("a target hears of what its token reaches, and nothing once the token is revoked", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  await makePool(server);
  const alice = await server.token("user", { components: ["alice"] });
  const bob = await server.token("user", { components: ["bob"] });
  const denied = await alice.call("POST", "/v1/notice-targets", webhook(receiver.url, { component: "bob" }));
  expect(denied).toMatchObject({ status: 403, body: { code: "forbidden" } });
  expect((await alice.call("POST", "/v1/notice-targets", webhook(receiver.url))).status).toBe(201);
  expect((await bob.call("POST", "/v1/notice-targets", webhook(receiver.url))).body.code).toBe("name_taken");
  for (const path of ["", "/test"]) {
    const method = path === "" ? "GET" : "POST";
    expect((await bob.call(method, `/v1/notice-targets/hook${path}`)).status).toBe(404);
  }
  expect((await bob.call("GET", "/v1/notice-targets")).body.items).toEqual([]);
  expect((await bob.call("DELETE", "/v1/notice-targets/hook")).status).toBe(404);

  const ofBob = await submit(server, "bob", { resources: { gpu: 1 } });
  const ofAlice = await submit(server, "alice", { resources: { gpu: 1 } });
  await until(() => expect(receiver.received).toHaveLength(1));
  expect(receiver.received[0]?.body.data.request).toMatchObject({ number: ofAlice.number });
  await server.admin("DELETE", `/v1/tokens/${alice.id}`);
  expect((await server.admin("GET", "/v1/notice-targets/hook")).body).toMatchObject({
    ...{ state: "stopped", problem: "its token was revoked or has expired" },
  });
  const ears = webhook(receiver.url, { name: "ears", on: ["ended"] });
  await server.admin("POST", "/v1/notice-targets", ears);
  await release(server, ofAlice);
  await release(server, ofBob);
  const ofEars = () => receiver.received.filter(({ body }) => body.type !== "request.started");
  await until(() => expect(ofEars().length).toBeGreaterThan(0));
  expect(ofEars()[0]?.body.data.text).toContain("of alice"); // Of the administrator's; alice's own is silent.
  expect((await server.admin("DELETE", "/v1/notice-targets/hook")).status).toBe(204);
  expect((await server.admin("GET", "/v1/notice-targets/hook")).status).toBe(404);
});

test("a request can name its targets, and a target can be for those alone", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  await makePool(server);
  await server.admin(
    "POST",
    "/v1/notice-targets",
    webhook(receiver.url, { asked_only: true, on: ["started"] }),
  );
  const silent = await submit(server, "alice", { resources: { gpu: 1 } });
  const named = await submit(server, "alice", {
    resources: { gpu: 1 },
    labels: { "berth.notify": "other,hook" },
  });
  await until(() => expect(receiver.received).toHaveLength(1));
  expect(receiver.received[0]?.body.data.request).toMatchObject({ number: named.number });
  expect(silent.status).toBe("allocated");
});

test("metrics count what was sent and what fails", async () => {
  const server = await openWorld();
  const receiver = await openReceiver();
  await makePool(server);
  await server.admin("POST", "/v1/notice-targets", webhook(receiver.url));
  await server.admin("POST", "/v1/notice-targets", webhook("http://127.0.0.1:1/", { name: "dead" }));
  await submit(server, "alice");
  const lines = async () => {
    const text = await (
      await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.adminSecret}` } })
    ).text();
    return text.split("\n").filter((line) => line.startsWith("berth_notice"));
  };
  await until(async () =>
    expect(await lines()).toEqual(
      expect.arrayContaining([
        'berth_notice_targets{state="good"} 1',
        'berth_notice_targets{state="failing"} 1',
        "berth_notices_pending 1",
        'berth_notices{outcome="sent"} 1',
      ]),
    ),
  );
});
