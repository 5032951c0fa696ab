import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type Asked,
  eventStream,
  fakeServers,
  granted,
  json,
  problem,
  type Reply,
} from "../../test/sdk-support.ts";
import { keepLease } from "./lease.ts";
import { createTransport } from "./transport.ts";
import type { GrantedRequest } from "./waiting.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const EXPIRES = "2030-01-01T00:00:00Z";

/** An answer in whose eyes it is one lease before EXPIRES. */
function answer(instruction: object = { do: "carry_on" }, leaseSeconds = 300) {
  const terms = { lease_expires_at: EXPIRES, lease_seconds: leaseSeconds, renew_after_seconds: 20 };
  return json({ status: "allocated", instruction, ...terms });
}

/** A moment by the clock of the server, in seconds from when it answers. */
function serverTime(seconds: number, leaseSeconds = 300): string {
  return new Date(Date.parse(EXPIRES) + (seconds - leaseSeconds) * 1000).toISOString();
}

/** Holds a grant for 300 s at a time, and records the instructions that the holder gets. */
function hold(renewal: (asked: Asked) => Reply, { leaseSeconds = 300, answerAfterMs = 0 } = {}) {
  const stream = eventStream();
  const { fetch, asked } = fakeServers((one) =>
    one.call.includes("/events") ? stream.response : one.call.endsWith("/renew") ? renewal(one) : "refused",
  );
  const slowly: typeof fetch = async (url, init) => {
    const reply = await fetch(url, init);
    if (answerAfterMs > 0 && url.endsWith("/renew"))
      await new Promise((resolve) => setTimeout(resolve, answerAfterMs));
    return reply;
  };
  const transport = createTransport({ url: "http://a", random: () => 0.5, fetch: slowly });
  const told: string[] = [];
  const request = granted({
    started_at: "2030-01-01T00:00:00Z",
    lease_expires_at: new Date(Date.parse("2030-01-01T00:00:00Z") + leaseSeconds * 1000).toISOString(),
  }) as GrantedRequest;
  const lease = keepLease(transport, request, {
    onInstruction: ({ do: what, reason, leftMs }) => void told.push(`${what} ${reason} ${leftMs}`),
    onSilence: () => void told.push("silence"),
    onContact: () => void told.push("contact"),
    onLoss: ({ code }) => void told.push(`loss ${code}`),
  });
  return { lease, told, stream, renewals: () => asked.filter(({ call }) => call.endsWith("/renew")) };
}

describe("a grant", () => {
  test("is renewed with its token every 20 s, more or less, and nobody is disturbed", async () => {
    const { renewals, told, lease } = hold(() => answer());
    await vi.advanceTimersByTimeAsync(61_000);
    expect(renewals().map(({ atMs }) => Math.round(atMs / 1000))).toEqual([0, 20, 40, 60]);
    expect(renewals()[0]?.body).toEqual({ token: "7.secret", phase: "running" });
    expect(told).toEqual([]);
    lease.close();
    await vi.advanceTimersByTimeAsync(100_000);
    expect(renewals()).toHaveLength(4);
  });

  test("of work that is over in a moment needs no call", async () => {
    const { renewals, lease } = hold(() => answer());
    await vi.advanceTimersByTimeAsync(50);
    lease.close();
    await vi.advanceTimersByTimeAsync(100_000);
    expect(renewals()).toEqual([]);
  });

  test("whose lease is short is renewed three times as often as it must be", async () => {
    const { renewals, lease } = hold(() => answer(undefined, 5), { leaseSeconds: 5 });
    await vi.advanceTimersByTimeAsync(5_100);
    expect(renewals()).toHaveLength(4);
    lease.close();
  });
});

describe("silence", () => {
  test("is noticed a lease after the last renewal that was answered was sent, and contact ends it", async () => {
    let isDown = false;
    const { told, lease } = hold(() => (isDown ? "refused" : answer()));
    await vi.advanceTimersByTimeAsync(1_000);
    isDown = true; // The last answer was to what was sent after 100 ms.
    await vi.advanceTimersByTimeAsync(299_000);
    expect(told).toEqual([]);
    await vi.advanceTimersByTimeAsync(200);
    expect(told).toEqual(["silence"]);
    isDown = false;
    await vi.advanceTimersByTimeAsync(2_000);
    expect(told).toEqual(["silence", "contact"]);
    lease.close();
  });

  test("begins when a renewal was sent, however late its answer came", async () => {
    let calls = 0; // The first is sent after 1.1 s at the latest, and answered 5 s later.
    const { told, lease } = hold(() => (calls++ === 0 ? answer(undefined, 60) : "refused"), {
      leaseSeconds: 60,
      answerAfterMs: 5_000,
    });
    await vi.advanceTimersByTimeAsync(62_000);
    expect(told).toEqual(["silence"]);
    lease.close();
  });

  test("is noticed after the machine has slept, unless the server confirms the lease", async () => {
    let isDown = false;
    const { told, lease, renewals } = hold(() => (isDown ? "refused" : answer()));
    await vi.advanceTimersByTimeAsync(1_000);
    const before = renewals().length;
    vi.setSystemTime(Date.now() + 400_000); // The wall clock goes on in sleep, timers and the monotonic clock do not.
    await vi.advanceTimersByTimeAsync(5_000);
    expect(renewals().length).toBe(before + 1);
    expect(told).toEqual([]);
    isDown = true;
    vi.setSystemTime(Date.now() + 400_000);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(told).toEqual(["silence"]);
    lease.close();
  });

  test("is noticed even if no renewal was ever answered", async () => {
    const { told, lease } = hold(() => "refused", { leaseSeconds: 60 });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(told).toEqual(["silence"]);
    lease.close();
  });
});

test("an old token's answer is final: the loss is told once, and nothing is sent any more", async () => {
  const { told, renewals } = hold(() => problem(409, "stale_token"));
  await vi.advanceTimersByTimeAsync(1_000_000);
  expect(told).toEqual(["loss stale_token"]);
  expect(renewals()).toHaveLength(1);
});

describe("an instruction", () => {
  test("is told when it changes, with the time that the server leaves, whatever our clock says", async () => {
    let instruction: object = { do: "checkpoint", reason: "reclaim", deadline: serverTime(600) };
    vi.setSystemTime(0);
    const { told, lease, renewals } = hold(() => answer(instruction));
    await vi.advanceTimersByTimeAsync(30_000);
    expect(told).toEqual(["checkpoint reclaim 600000"]);
    instruction = { do: "stop", reason: "reclaim", deadline: serverTime(30) };
    lease.renew();
    await vi.advanceTimersByTimeAsync(1);
    expect(told.at(-1)).toBe("stop reclaim 30000");
    expect(renewals().at(-1)?.body).toMatchObject({ phase: "running" });
    lease.close();
  });

  test("that comes with the event is followed before any renewal, and not told twice", async () => {
    let instruction: object = { do: "carry_on" };
    const { told, lease, stream, renewals } = hold(() => answer(instruction));
    await vi.advanceTimersByTimeAsync(1_000);
    const deadline = serverTime(30);
    instruction = { do: "stop", reason: "priority", deadline };
    const event = { event: "request.preempting", seq: 2, at: serverTime(0), reason: "priority" };
    stream.tell({ ...event, phase: "terminate", deadline });
    await vi.advanceTimersByTimeAsync(1);
    expect(told).toEqual(["stop priority 30000"]);
    expect(renewals()).toHaveLength(2);
    lease.close();
  });

  test("is asked for again when its deadline has passed", async () => {
    const { renewals, lease } = hold(() =>
      answer({ do: "checkpoint", reason: "x", deadline: serverTime(5) }),
    );
    await vi.advanceTimersByTimeAsync(5_200);
    expect(renewals().map(({ atMs }) => Math.round(atMs / 1000))).toEqual([0, 5]);
    lease.close();
  });
});

test("what the holder says of itself is shown with the next renewal", async () => {
  const { lease, renewals } = hold(() => answer());
  lease.describe({ phase: "checkpointing", progress: "epoch 3" });
  await vi.advanceTimersByTimeAsync(200);
  expect(renewals()[0]?.body).toEqual({ token: "7.secret", phase: "checkpointing", progress: "epoch 3" });
  lease.close();
});
