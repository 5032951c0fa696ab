import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AuditEntry } from "../store/index.ts";
import { createStrangers } from "./strangers.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function world() {
  const entries: AuditEntry[] = [];
  const strangers = createStrangers({
    audit: (entry) => {
      entries.push(entry);
      return Promise.resolve();
    },
  });
  return { strangers, entries };
}

test("calls of one address are one entry a minute", async () => {
  const { strangers, entries } = world();
  for (let count = 0; count < 500; count++) strangers.count("192.0.2.1");
  strangers.count("2001:db8::1");
  strangers.count("2001:db8::2");
  expect(entries).toEqual([]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(entries).toMatchObject([
    { actor: "nobody", outcome: "denied", target: "192.0.2.1", body: { calls: 500 } },
    { target: "2001:db8:0:0::/64", body: { calls: 2 } },
  ]);
  strangers.count("192.0.2.1");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(entries).toHaveLength(3);
});

test("however many addresses there are, the entries of a minute are few and count every call", async () => {
  const { strangers, entries } = world();
  for (let count = 0; count < 5_000; count++) strangers.count(`10.0.${count >> 8}.${count & 255}`);
  await strangers.close();
  expect(entries).toHaveLength(21);
  const calls = entries.map(({ body }) => (body as { calls: number }).calls);
  expect(calls.reduce((sum, one) => sum + one, 0)).toBe(5_000);
});
