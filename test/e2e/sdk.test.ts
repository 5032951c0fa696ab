// The client against real servers: waiting, working under a grant, preemption, outages, old tokens.

import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { BerthError, type Client, createClient, type Grant, isBerthError } from "../../src/sdk/index.ts";
import { eventually, openWorld, QUICK, type World } from "./run-support.ts";

let world: World;
let client: Client;

beforeEach(async () => {
  world = await openWorld({ data: "memory", settings: { ...QUICK, checkpoint_timeout_seconds: 30 } });
  client = world.client;
  return () => world.close();
});

const wanted = { component: "research", resources: { gpu: 2 } };

/** Resolves when the signal is aborted, by throwing what it says. */
function untilStopped({ signal }: Pick<Grant, "signal">): Promise<never> {
  return new Promise((_, reject) => {
    const stop = () => reject(signal.reason as Error);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop);
  });
}

async function takeEverything(): Promise<() => Promise<unknown>> {
  const { id, token } = await client.waitForGrant(
    await client.requests.submit({ component: "urgent", resources: { gpu: 2 } }),
  );
  return () => client.requests.release(id, { token, outcome: "succeeded" });
}

describe("withGrant", () => {
  test("runs the work under a grant and releases it", async () => {
    const result = await client.withGrant({ ...wanted, name: "work" }, async (grant) => {
      expect(grant).toMatchObject({
        pool: "lab",
        attempt: 1,
        resume: false,
        resources: { gpu: 2, step_run: 1 },
      });
      expect((await client.requests.get(grant.id)).status).toBe("allocated");
      return grant.id;
    });
    expect(await client.requests.get(result)).toMatchObject({
      status: "released",
      attended: true,
      name: "work",
    });
  });

  test("work that throws has failed, and the error is its own", async () => {
    let id = "";
    const work = client.withGrant(wanted, (grant) => {
      id = grant.id;
      throw new RangeError("my own");
    });
    await expect(work).rejects.toThrow(new RangeError("my own"));
    expect((await client.requests.get(id)).status).toBe("failed");
  });

  test("retries are the server's to grant, and keep the request", async () => {
    const grants: Grant[] = [];
    const flaky = client.step({ ...wanted, retries: 2 }, (grant, word: string) => {
      grants.push(grant);
      if (grant.attempt < 3) throw new Error("not yet");
      return word.toUpperCase();
    });
    expect(await flaky("done")).toBe("DONE");
    expect(grants.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(new Set(grants.map(({ id }) => id)).size).toBe(1);
    expect(new Set(grants.map(({ token }) => token)).size).toBe(3);
  });

  test("preempted work saves, stops, waits, and resumes", async () => {
    const story: string[] = [];
    let release: Promise<() => Promise<unknown>> | undefined;
    const result = await client.withGrant({ ...wanted, checkpoint: "auto" }, async (grant) => {
      story.push(`attempt ${grant.attempt} resume ${grant.resume}`);
      if (grant.attempt === 2) return "finished";
      grant.onCheckpoint(async ({ reason, deadline }) => {
        story.push(`saving, ${reason}, ${deadline > new Date()}`);
        await grant.checkpoint.progress();
        story.push(`deferred ${await grant.checkpoint.defer(5)}`);
      });
      release = takeEverything().then(async (giveBack) => {
        story.push("urgent runs");
        return giveBack;
      });
      void release.then((giveBack) => giveBack());
      return untilStopped(grant).catch((error: BerthError) => {
        story.push(error.code);
        throw error;
      });
    });
    expect(result).toBe("finished");
    expect(story).toEqual([
      "attempt 1 resume false",
      "saving, priority, true",
      "deferred 5",
      "preempted",
      "urgent runs",
      "attempt 2 resume true",
    ]);
  });

  test("work that may not come back throws why", async () => {
    const work = client.withGrant({ ...wanted, requeue: "never" }, async (grant) => {
      void takeEverything();
      await untilStopped(grant);
    });
    await expect(work).rejects.toMatchObject({ code: "preempted" });
  });

  test("work that returns when it is stopped has stopped, and runs again; unless it says that it is finished", async () => {
    const attempts: number[] = [];
    const result = await client.withGrant(wanted, async (grant) => {
      attempts.push(grant.attempt);
      void takeEverything().then((giveBack) => giveBack());
      await untilStopped(grant).catch(() => undefined);
      if (grant.attempt === 2) grant.checkpoint.finished();
      return grant.id;
    });
    expect(attempts).toEqual([1, 2]);
    expect(await client.requests.get(result)).toMatchObject({ status: "released", preempted_count: 1 });
  });

  test("an abort while waiting withdraws the request; while running it stops the work", async () => {
    const giveBack = await takeEverything();
    const first = new AbortController();
    const waiting = client.withGrant({ ...wanted, name: "aborted", signal: first.signal }, () => "never");
    const queued = await eventually(
      "it waits",
      async () => (await client.requests.list({ status: "queued" })).items[0],
    );
    first.abort(new Error("changed my mind"));
    await expect(waiting).rejects.toThrow("changed my mind");
    expect((await client.requests.get(queued.id)).status).toBe("cancelled");
    await giveBack();

    const second = new AbortController();
    let id = "";
    const running = client.withGrant({ ...wanted, signal: second.signal }, async (grant) => {
      id = grant.id;
      second.abort(new Error("enough"));
      await untilStopped(grant);
    });
    await expect(running).rejects.toMatchObject({ code: "cancelled" });
    expect((await client.requests.get(id)).status).toBe("cancelled");
  });

  test("a cancelled request says so by the signal", async () => {
    const work = client.withGrant(wanted, async (grant) => {
      await client.requests.cancel(grant.id);
      await untilStopped(grant);
    });
    await expect(work).rejects.toMatchObject({ code: "cancelled" });
  });
});

describe("waitForGrant", () => {
  test("tells why it waits, and gives up after its own timeout", async () => {
    await takeEverything();
    const lines: string[] = [];
    const request = await client.requests.submit({ ...wanted, attended: true });
    const told = new AbortController();
    const waiting = client.waitForGrant(request, {
      signal: told.signal,
      onProgress: ({ line }) => {
        lines.push(line);
        told.abort(new Error("seen"));
      },
    });
    await expect(waiting).rejects.toThrow("seen");
    const impatient = client.waitForGrant(request, { timeoutMs: 100 });
    await expect(impatient).rejects.toMatchObject({ code: "wait_timeout" });
    expect(lines[0]).toMatch(/^needs gpu 2, free 0 · held by #1 \(urgent\) · first in line$/);
    expect((await client.requests.get(request.id)).status).toBe("queued");
  });

  test("a rejection names pool, key and amounts", async () => {
    const request = await client.requests.submit({ ...wanted, resources: { gpu: 9 } });
    await expect(client.waitForGrant(request.id)).rejects.toMatchObject({
      code: "over_capacity",
      message: expect.stringContaining('in pool "lab": 9 gpu asked, 2 allowed'),
    });
  });

  test("more waiters than a token may have streams are all served", async () => {
    const giveBack = await takeEverything();
    const order: number[] = [];
    const all = Array.from({ length: 15 }, (_, index) =>
      client.withGrant({ ...wanted, name: `waiter ${index}` }, () => void order.push(index)),
    );
    await eventually(
      "all wait",
      async () => (await client.requests.list({ status: "queued" })).items.length === 15,
    );
    await giveBack();
    await Promise.all(all);
    expect(order).toHaveLength(15);
  });
});

test("an old token is refused, whatever it is used for", async () => {
  const granted = await client.waitForGrant(
    await client.requests.submit({ ...wanted, requeue: "on_failure" }),
  );
  await client.requests.release(granted.id, { token: granted.token, outcome: "failed" });
  const again = await client.waitForGrant(granted.id);
  const old = { token: granted.token };
  const stale = { code: "stale_token", status: 409 };
  await expect(client.requests.renew(granted.id, old)).rejects.toMatchObject(stale);
  await expect(client.requests.checkpoint(granted.id, { ...old, report: "done" })).rejects.toMatchObject(
    stale,
  );
  await expect(client.requests.release(granted.id, { ...old, outcome: "succeeded" })).rejects.toMatchObject(
    stale,
  );
  await expect(client.requests.renew(granted.id, { token: "1.made-up" })).rejects.toMatchObject(stale);
  expect((await client.requests.renew(granted.id, { token: again.token })).instruction).toEqual({
    do: "carry_on",
  });
});

test("a holder whose token has become old is told to stop, and its work is not reported", async () => {
  const work = client.withGrant(wanted, async (grant) => {
    // Another client reports the end in our place.
    await client.requests.release(grant.id, { token: grant.token, outcome: "failed" });
    await untilStopped(grant);
  });
  await expect(work).rejects.toMatchObject({ code: "stale_token" });
});

test("a holder whose processes cannot be killed raises an alert, and keeps its units", async () => {
  const { id, token } = await client.waitForGrant(await client.requests.submit(wanted));
  await client.requests.renew(id, { token, phase: "stuck", progress: "cannot be killed: 42" });
  const { items } = await client.server.audit();
  expect(items.find(({ outcome }) => outcome === "alert")).toMatchObject({
    action: "stuck",
    target: `request ${id}`,
  });
  expect((await client.requests.get(id)).status).toBe("allocated");
});

describe("every kind of thing", () => {
  test("pools, policies, groups, nodes, tokens, settings: there and back", async () => {
    expect(await client.pools.create({ name: "big", capacity: { gpu: 8 } }, { dryRun: true })).toMatchObject({
      dry_run: true,
    });
    await client.pools.create({ name: "big", capacity: { gpu: 8 } });
    expect(await client.pools.update("big", { capacity: { mcpu: 4000 } })).toMatchObject({
      capacity: { gpu: 8, mcpu: 4000 },
    });
    await client.groups.create("big", { name: "team", weight: 2 });
    expect(await client.groups.update("big", "team", { weight: 3 })).toMatchObject({ weight: 3 });
    await client.policies.put("big", "research", { priority: 7, group: "team" });
    expect(await client.policies.get("big", "research")).toMatchObject({ priority: 7, group: "team" });
    await client.pools.create({ name: "machines" });
    await client.nodes.create({ name: "n1", pool: "machines", capacity: { gpu: 4 } });
    expect(await client.nodes.drain("n1")).toMatchObject({ state: expect.stringMatching(/^drain/) });
    const token = await client.tokens.create({ name: "ci", role: "viewer" });
    const viewer = createClient({ url: world.url, token: token.secret ?? "" });
    expect(await viewer.whoami()).toMatchObject({ name: "ci", role: "viewer" });
    await expect(viewer.requests.submit(wanted)).rejects.toMatchObject({ code: "forbidden", status: 403 });
    await client.tokens.revoke("ci");
    await expect(viewer.whoami()).rejects.toMatchObject({ code: "unauthenticated", status: 401 });
    const names = [];
    for await (const pool of client.pools.all()) names.push(pool.name);
    expect(names.toSorted()).toEqual(["big", "lab", "machines"]);
    await client.policies.detach("big", "research");
    await client.groups.delete("big", "team");
    await client.pools.delete("big");
    await expect(client.pools.get("big")).rejects.toMatchObject({ code: "not_found", status: 404 });
    expect(await client.server.changeSettings({ unmanaged: "allow" })).toEqual({ unmanaged: "allow" });
  });

  test("events go on where they were", async () => {
    const seen: string[] = [];
    const enough = new AbortController();
    const reading = (async () => {
      for await (const { event } of client.events.stream(
        { component: "research" },
        { signal: enough.signal },
      )) {
        seen.push(event);
        if (event === "request.released") enough.abort();
      }
    })();
    await eventually("the stream is open", () => seen.includes("stream.opened"));
    await client.withGrant(wanted, () => undefined);
    await reading;
    expect(seen).toEqual(["stream.opened", "request.queued", "request.allocated", "request.released"]);
  });
});

describe("a client of several servers", () => {
  const listening: Server[] = [];
  afterAll(() => Promise.all(listening.map((server) => new Promise((resolve) => server.close(resolve)))));

  async function serve(answer: RequestListener): Promise<string> {
    const server = createServer((incoming, outgoing) => {
      incoming.resume().on("end", () => answer(incoming, outgoing));
    });
    listening.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  test("tries them all, again and again, under one idempotency key", async () => {
    const keys: unknown[] = [];
    let turn = 0;
    const busy = await serve(({ headers }, outgoing) => {
      keys.push(headers["idempotency-key"]);
      outgoing.writeHead(turn++ < 2 ? 503 : 201, { "content-type": "application/json" }).end('{"id":"x"}');
    });
    const several = createClient({ urls: ["http://127.0.0.1:9", busy], random: () => 0 });
    expect(await several.requests.submit(wanted)).toEqual({ id: "x" });
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/\w/);
  });

  test("takes a final answer for an answer", async () => {
    let calls = 0;
    const url = await serve((_, outgoing) => {
      calls += 1;
      const problem = {
        type: "urn:x",
        title: "",
        status: 409,
        code: "stale_token",
        detail: "old",
        hint: "stop",
      };
      outgoing.writeHead(409, { "content-type": "application/problem+json" }).end(JSON.stringify(problem));
    });
    const error = await createClient({ urls: [url, url] })
      .requests.renew("x", { token: "1.x" })
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BerthError);
    expect(error).toMatchObject({ code: "stale_token", status: 409, hint: "stop", message: "old" });
    expect(calls).toBe(1);
  });

  test("gives up when it was told to, and says what was wrong", async () => {
    const nobody = createClient({ url: "http://127.0.0.1:9", retryForMs: 0 });
    const error = await nobody.whoami().catch((thrown: unknown) => thrown);
    expect(isBerthError(error, "unavailable")).toBe(true);
    expect(error).toMatchObject({
      status: 0,
      message: expect.stringContaining("http://127.0.0.1:9 cannot be reached"),
    });
  });

  test("an answer that nobody understands is still an error with a code", async () => {
    const url = await serve((_, outgoing) => outgoing.writeHead(500).end("<html>"));
    await expect(createClient({ url }).whoami()).rejects.toMatchObject({
      code: "internal_error",
      status: 500,
    });
  });
});

describe("an outage", () => {
  let durable: World;
  beforeAll(async () => {
    durable = await openWorld({ settings: { ...QUICK, lease_seconds: 4, renewal_seconds: 0.5 } });
  });
  afterAll(() => durable.close());

  test("longer than a lease stops the work, which gives its units back and is tried again", async () => {
    const attempts: number[] = [];
    const result = await durable.client.withGrant({ ...wanted, retries: 1 }, async (grant) => {
      attempts.push(grant.attempt);
      if (grant.attempt === 2) return "second";
      expect(grant.signal.aborted).toBe(false);
      await durable.stopServer();
      await untilStopped(grant).catch(async (error: BerthError) => {
        expect(error.code).toBe("holder_lost");
        await durable.startServer();
        throw error;
      });
    });
    expect(result).toBe("second");
    expect(attempts).toEqual([1, 2]);
  });
});
