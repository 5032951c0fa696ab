import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Asked, fakeServers, json, problem, type Reply } from "../../test/sdk-support.ts";
import { type ClientOptions, createTransport } from "./transport.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Servers, and a client of them without luck: every delay is half of what it may be. */
function connect(answer: (asked: Asked, turn: number) => Reply, options: ClientOptions = {}) {
  let turn = 0;
  const { fetch, asked } = fakeServers((one) => answer(one, turn++));
  const transport = createTransport({ urls: ["http://a"], random: () => 0.5, fetch, ...options });
  return { transport, asked };
}

/** Lets all the time pass that it takes. */
async function settled<T>(promise: Promise<T>): Promise<T | unknown> {
  const outcome = promise.catch((error: unknown) => error);
  await vi.runAllTimersAsync();
  return outcome;
}

const body = { component: "research", resources: { gpu: 1 } };

describe("a call that nobody answers", () => {
  test("is tried again with full jitter, under the same key and body", async () => {
    const { transport, asked } = connect((_, turn) => (turn < 4 ? "refused" : json({ id: "x" }, 201)));
    expect(await settled(transport.send("submitRequest", { body }))).toMatchObject({ body: { id: "x" } });
    expect(asked.map(({ atMs }) => atMs)).toEqual([0, 50, 150, 350, 750]);
    expect(new Set(asked.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
    expect(asked.map((one) => one.body)).toEqual(Array(5).fill(body));
  });

  test("takes the key that it was given", async () => {
    const { transport, asked } = connect(() => json({}, 201));
    await transport.send("submitRequest", { body }, { idempotencyKey: "mine" });
    expect(asked[0]?.headers["idempotency-key"]).toBe("mine");
  });

  test("goes to every server before it pauses, and the one that answered is asked first from then on", async () => {
    const urls = ["http://a", "http://b", "http://c"];
    const { transport, asked } = connect(
      ({ origin }, turn) => (origin === "http://b" && turn > 3 ? json({}) : "refused"),
      {
        urls,
      },
    );
    await settled(transport.send("whoami"));
    expect(asked.map(({ origin }) => origin)).toEqual([...urls, "http://a", "http://b"]);
    expect(asked.map(({ atMs }) => atMs)).toEqual([0, 0, 0, 50, 50]);
    await transport.send("whoami");
    expect(asked.at(-1)?.origin).toBe("http://b");
  });

  test("fails when its time is up, with the last reason, and each try is told", async () => {
    const onRetry = vi.fn();
    const { transport, asked } = connect(() => "refused", { retryForMs: 400, onRetry });
    expect(await settled(transport.send("whoami"))).toMatchObject({
      code: "unavailable",
      status: 0,
      message: "http://a cannot be reached (ECONNREFUSED).",
    });
    expect(asked.map(({ atMs }) => atMs)).toEqual([0, 50, 150, 350]);
    expect(onRetry).toHaveBeenCalledTimes(3);
  });

  test("is tried once per server if it shall not be tried again", async () => {
    const { transport, asked } = connect(() => "refused", { urls: ["http://a", "http://b"] });
    await settled(transport.send("whoami", {}, { retryForMs: 0 }));
    expect(asked.map(({ origin }) => origin)).toEqual(["http://a", "http://b"]);
  });

  test("ends with its signal at once, in the middle of a pause or of a try", async () => {
    for (const reply of ["refused", "silence"] as const) {
      const enough = new AbortController();
      const { transport } = connect(() => reply);
      const calling = transport.send(
        "whoami",
        {},
        { signal: enough.signal, retryForMs: Number.POSITIVE_INFINITY },
      );
      await vi.advanceTimersByTimeAsync(10);
      enough.abort(new Error("enough"));
      await expect(calling).rejects.toThrow("enough");
    }
  });

  test("times out, whatever fraction of a millisecond it was given", async () => {
    vi.useRealTimers(); // The system's own timeouts cannot be moved.
    const { transport } = connect(() => "silence");
    const call = transport.send("whoami", {}, { timeoutMs: 5_000 / 3_000, retryForMs: 0 });
    await expect(call).rejects.toMatchObject({
      code: "timeout",
      message: expect.stringContaining("in time"),
    });
  });
});

describe("an answer", () => {
  for (const status of [408, 425, 429, 502, 503, 504]) {
    test(`${status} passes: the same call is tried again`, async () => {
      const { transport, asked } = connect((_, turn) =>
        turn === 0 ? problem(status, "unavailable") : json({}),
      );
      await settled(transport.send("whoami"));
      expect(asked).toHaveLength(2);
    });
  }
  for (const status of [400, 401, 403, 404, 409, 410, 412, 422, 500, 501]) {
    test(`${status} is final`, async () => {
      const { transport, asked } = connect(() => problem(status, "stale_token"), {
        urls: ["http://a", "http://b"],
      });
      expect(await settled(transport.send("renewRequest", { params: { id: "x" }, body: {} }))).toMatchObject({
        name: "BerthError",
        code: "stale_token",
        status,
        hint: "Do otherwise.",
      });
      expect(asked).toHaveLength(1);
    });
  }

  test("that says when to come back is heeded, within reason", async () => {
    const delays = ["7", "86400"].map(async (after) => {
      const { transport, asked } = connect((_, turn) =>
        turn === 0 ? problem(429, "rate_limited", { "retry-after": after }) : json({}),
      );
      await settled(transport.send("whoami", {}, { retryForMs: Number.POSITIVE_INFINITY }));
      return asked[1]?.atMs;
    });
    expect(await Promise.all(delays)).toEqual([7_000, 60_000]);
  });

  test("that nobody understands has a code all the same", async () => {
    const { transport } = connect(() => new Response("<html>", { status: 418 }));
    expect(await settled(transport.send("whoami"))).toMatchObject({ code: "internal_error", status: 418 });
  });
});

test("a token is made once: who cannot know whether it was does not try again", async () => {
  const lost = connect(() => "broken");
  await settled(lost.transport.send("createToken", { body: {} }));
  expect(lost.asked).toHaveLength(1);
  const unreached = connect(({ origin }) => (origin === "http://b" ? json({}, 201) : "refused"), {
    urls: ["http://a", "http://b"],
  });
  expect(await settled(unreached.transport.send("joinNode", { body: {} }))).toMatchObject({ status: 201 });
  const turnedAway = connect((_, turn) => (turn === 0 ? problem(429, "rate_limited") : json({}, 201)));
  await settled(turnedAway.transport.send("createToken", { body: {} }));
  expect(turnedAway.asked).toHaveLength(2);
});

test("names are encoded, what is undefined is left out, and the token is shown to servers only", async () => {
  const { transport, asked } = connect(() => json({}), { urls: ["http://a/base/"], token: "secret" });
  const query = { wait: 5, until: undefined };
  await transport.send("getRequest", { params: { id: "../a b" }, query }, { ifMatch: '"3"' });
  expect(asked[0]).toMatchObject({
    call: "GET /base/v1/resource-requests/..%2Fa%20b?wait=5",
    headers: { authorization: "Bearer secret", "if-match": '"3"' },
  });
  expect(asked[0]?.headers).not.toHaveProperty("idempotency-key");
});

test("a call can be described for somebody else to make it", () => {
  const { transport } = connect(() => "refused", { urls: ["http://a", "http://b"], token: "secret" });
  expect(transport.describe("releaseRequest", { params: { id: "x" }, body: { outcome: "failed" } })).toEqual({
    urls: ["http://a/v1/resource-requests/x/release", "http://b/v1/resource-requests/x/release"],
    method: "POST",
    headers: {
      accept: "application/json",
      "berth-client": expect.stringMatching(/^[\w-]{36}$/),
      authorization: "Bearer secret",
      "content-type": "application/json",
    },
    body: '{"outcome":"failed"}',
  });
});

test("an address must be one", () => {
  expect(() => createTransport({})).toThrow("needs the url of a server");
  expect(() => createTransport({ url: "ftp://a" })).toThrow("not an http or https address");
});

test("a server that does not lead passes the call on to the next one, with the same key", async () => {
  for (const code of ["not_leader", "no_leader"]) {
    const { transport, asked } = connect(
      ({ origin }) => (origin === "http://a" ? problem(409, code) : json({ id: "x" })),
      { urls: ["http://a", "http://b"] },
    );
    await settled(transport.send("submitRequest", { body: {} }));
    expect(asked.map(({ origin }) => origin)).toEqual(["http://a", "http://b"]);
    expect(asked[0]?.headers["idempotency-key"]).toBe(asked[1]?.headers["idempotency-key"]);
  }
});

test("what an answer reflected is sent with later calls and streams (C8, C14)", async () => {
  const seen = { "berth-seq": "7", "berth-position": "12345.1.7.x" };
  const { fetch, asked } = fakeServers(() => json({}, 200, seen));
  const transport = createTransport({ url: "http://a", fetch });
  await transport.send("whoami");
  await transport.open("streamEvents", {}, {}, new AbortController().signal);
  expect(asked[0]?.headers).not.toHaveProperty("berth-known");
  expect(asked[1]?.headers).toMatchObject({ "berth-min-seq": "7", "berth-known": "12345.1.7.x" });
});
