import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type Asked,
  fakeServers,
  granted,
  json,
  problem,
  type Reply,
  wireRequest,
} from "../../test/sdk-support.ts";
import { createClient } from "./client.ts";
import type { Grant } from "./grant.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A server that grants everything at once, and answers releases one after the other. */
function connect(releases: Reply[], more: (asked: Asked) => Reply = () => "refused") {
  const { fetch, asked } = fakeServers((one) => {
    if (one.call === "POST /v1/resource-requests") return json(granted(), 201);
    return one.call.endsWith("/release") ? (releases.shift() ?? "refused") : more(one);
  });
  const client = createClient({ url: "http://a", random: () => 0.5, fetch });
  return { client, asked, released: () => asked.filter(({ call }) => call.endsWith("/release")) };
}

const settings = { component: "research", resources: { gpu: 1 } };
const again = (attempt: number, fields = {}) =>
  json(granted({ attempt, token: `${attempt}.next`, ...fields }));

test("a step is submitted, run and released each time that it is called", async () => {
  const { client, asked, released } = connect([json(wireRequest({ status: "released" }))]);
  const step = client.step({ ...settings, retries: 3, name: "double" }, (_grant, value: number) => value * 2);
  expect(await step(21)).toBe(42);
  expect(asked[0]?.body).toEqual({ ...settings, name: "double", attended: true, retries: { max: 3 } });
  expect(released().map(({ body }) => body)).toEqual([
    { token: "7.secret", outcome: "succeeded", ended_at: expect.any(String) as string },
  ]);
});

test("work that fails runs again for as long as the server grants it again", async () => {
  const grants: Grant[] = [];
  const last = json(wireRequest({ status: "released" }));
  const { client, released } = connect([again(2), again(3, { resume: true }), last]);
  const result = await client.withGrant(settings, (grant) => {
    grants.push(grant);
    if (grant.attempt < 3) throw new Error("not yet");
    return "third";
  });
  expect(result).toBe("third");
  expect(grants.map(({ attempt, resume, token }) => `${attempt} ${resume} ${token}`)).toEqual([
    "1 false 7.secret",
    "2 false 2.next",
    "3 true 3.next",
  ]);
  expect(released().map(({ body }) => (body as { outcome: string }).outcome)).toEqual([
    "failed",
    "failed",
    "succeeded",
  ]);
});

test("the last failure is the work's own error, and what it said is kept", async () => {
  const { client, released } = connect([json(wireRequest({ status: "failed" }))]);
  const work = client.withGrant(settings, () => {
    throw new RangeError("my own");
  });
  await expect(work).rejects.toThrow(new RangeError("my own"));
  expect(released()[0]?.body).toMatchObject({ token: "7.secret", outcome: "failed", message: "my own" });
});

test("what fails between the grant and the work gives the grant back", async () => {
  const { client, released } = connect([json(wireRequest({ status: "failed" }))]);
  const onGrant = () => {
    throw new RangeError("not today");
  };
  await expect(client.withGrant({ ...settings, onGrant }, () => "never")).rejects.toThrow("not today");
  expect(released()[0]?.body).toMatchObject({ token: "7.secret", outcome: "failed" });
});

describe("an old token", () => {
  test("is final: nothing runs again, and nobody is told an end", async () => {
    const { client, released } = connect([problem(409, "stale_token")]);
    await expect(client.withGrant(settings, () => "in vain")).rejects.toMatchObject({ code: "stale_token" });
    expect(released()).toHaveLength(1);
  });

  test("aborts the work that goes on under it", async () => {
    const { client, released } = connect([], ({ call }) =>
      call.endsWith("/renew") ? problem(409, "stale_token") : "refused",
    );
    const work = client.withGrant(settings, untilStopped).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await work).toMatchObject({ code: "stale_token" });
    expect(released()).toEqual([]);
  });
});

test("a release that nobody answers is tried again until somebody does", async () => {
  const down = Array.from({ length: 6 }, (): Reply => "refused");
  const { client, released } = connect([...down, json(wireRequest({ status: "released" }))]);
  const work = client.withGrant(settings, () => "done");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await work).toBe("done");
  expect(released()).toHaveLength(7);
});

test("an abort before anything was submitted submits nothing", async () => {
  const { client, asked } = connect([]);
  const signal = AbortSignal.abort(new Error("never mind"));
  await expect(client.withGrant({ ...settings, signal }, () => "x")).rejects.toThrow("never mind");
  expect(asked).toEqual([]);
});

function untilStopped({ signal }: Grant): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error));
  });
}
