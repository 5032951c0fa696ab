import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type Asked,
  eventStream,
  fakeServers,
  granted,
  json,
  problem,
  type Reply,
  wireRequest,
} from "../../test/sdk-support.ts";
import { createTransport } from "./transport.ts";
import { type WaitOptions, waitForGrant } from "./waiting.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const renewed = {
  status: "queued",
  instruction: { do: "carry_on" },
  lease_expires_at: "2030-01-01T00:05:00Z",
  lease_seconds: 300,
  renew_after_seconds: 20,
};

/** Waits for a request that a test can grant; `stream` answers who wants to hear the events. */
function wait(stream: () => Reply, options: WaitOptions = {}, given = wireRequest()) {
  let now = given;
  const answer = ({ call }: Asked): Reply => {
    if (call.includes("/events")) return stream();
    if (call.endsWith("/renew")) return json({ ...renewed, status: now.status });
    if (call.endsWith("/explanation")) return json({ delayed_until: null, pools: [] });
    return json(now);
  };
  const { fetch, asked } = fakeServers(answer);
  const transport = createTransport({ url: "http://a", random: () => 0.5, fetch });
  const outcome = waitForGrant(transport, given, options).catch((error: unknown) => error);
  return {
    asked,
    outcome,
    calls: (part: string) => asked.filter(({ call }) => call.includes(part)),
    become: (next: typeof now) => {
      now = next;
    },
  };
}

describe("a request", () => {
  test("that was granted at once needs no call", async () => {
    const { outcome, asked } = wait(() => "refused", {}, granted());
    expect(await outcome).toMatchObject({ token: "7.secret" });
    expect(asked).toEqual([]);
  });

  test("is looked at as soon as the stream is open, since it may have been granted before", async () => {
    const { outcome, become } = wait(() => eventStream().response);
    become(granted());
    await vi.advanceTimersByTimeAsync(1);
    expect(await outcome).toMatchObject({ status: "allocated", token: "7.secret" });
  });

  test("is granted when the stream says that something has happened", async () => {
    const stream = eventStream();
    const { outcome, become, calls } = wait(() => stream.response);
    await vi.advanceTimersByTimeAsync(5_000);
    become(granted());
    stream.tell({ event: "request.allocated", seq: 2 });
    await vi.advanceTimersByTimeAsync(1);
    expect(await outcome).toMatchObject({ token: "7.secret" });
    expect(calls("wait=")).toEqual([]);
  });

  test("is asked for by long polls where there is no stream", async () => {
    const { outcome, become, calls } = wait(() => problem(429, "too_many_streams"));
    await vi.advanceTimersByTimeAsync(2_000);
    expect(calls("?wait=25&until=settled").length).toBeGreaterThan(0);
    become(granted());
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await outcome).toMatchObject({ token: "7.secret" });
    expect(calls("/events")).toHaveLength(1);
  });

  test("that can never be granted says why", async () => {
    const reasons = [{ pool: "lab", code: "over_capacity" as const, key: "gpu", asked: 9, allowed: 2 }];
    const { outcome, become } = wait(() => eventStream().response);
    become(wireRequest({ status: "rejected", reasons }));
    await vi.advanceTimersByTimeAsync(1);
    expect(await outcome).toMatchObject({
      code: "over_capacity",
      message: 'Request #1 can never be granted: over_capacity in pool "lab": 9 gpu asked, 2 allowed.',
    });
  });

  test("that somebody else holds is not ours", async () => {
    const { outcome } = wait(() => "refused", {}, wireRequest({ status: "allocated" }));
    expect(await outcome).toMatchObject({ code: "forbidden" });
  });
});

describe("who waits", () => {
  test("says so as often as the server wants to hear it, and without a token", async () => {
    const { calls } = wait(() => eventStream().response, { signal: abortAfter(65_000) });
    await vi.advanceTimersByTimeAsync(65_000);
    const renewals = calls("/renew");
    expect(renewals.map(({ atMs }) => Math.round(atMs / 1000))).toEqual([0, 18, 36, 54]);
    expect(renewals.map(({ body }) => body)).toEqual(Array(4).fill({}));
  });

  test("may give up, with a reason", async () => {
    const enough = new AbortController();
    const { outcome, asked } = wait(() => eventStream().response, { signal: enough.signal });
    await vi.advanceTimersByTimeAsync(10);
    enough.abort(new Error("changed my mind"));
    expect(await outcome).toMatchObject({ message: "changed my mind" });
    const before = asked.length;
    await vi.advanceTimersByTimeAsync(100_000);
    expect(asked).toHaveLength(before);
  });

  test("may have a timeout of its own", async () => {
    const { outcome } = wait(() => eventStream().response, { timeoutMs: 90_000 });
    await vi.advanceTimersByTimeAsync(90_000);
    expect(await outcome).toMatchObject({
      code: "wait_timeout",
      message: "Request #1 was not granted within 90 s.",
    });
  });

  test("goes on waiting however long no server answers", async () => {
    let isDown = true;
    const { fetch } = fakeServers(({ call }) => {
      if (isDown) return "refused";
      return call.includes("/events") ? eventStream().response : json(granted());
    });
    const transport = createTransport({ url: "http://a", random: () => 0.5, fetch });
    const outcome = waitForGrant(transport, wireRequest());
    await vi.advanceTimersByTimeAsync(30 * 60_000);
    isDown = false;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await outcome).toMatchObject({ token: "7.secret" });
  });

  test("is told why only when that has changed", async () => {
    const lines: string[] = [];
    const { calls } = wait(() => eventStream().response, {
      signal: abortAfter(20_000),
      onProgress: ({ line }) => void lines.push(line),
    });
    await vi.advanceTimersByTimeAsync(20_000);
    expect(calls("/explanation").length).toBeGreaterThan(2);
    expect(lines).toHaveLength(1);
  });
});

function abortAfter(ms: number): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => controller.abort(new Error("over")), ms);
  return controller.signal;
}
