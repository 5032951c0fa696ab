import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AuditEntry } from "../store/index.ts";
import { createDenials } from "./denials.ts";
import type { Identity } from "./identity.ts";
import { DENIALS_WRITTEN_MAX } from "./limits.ts";
import { forbidden } from "./problems.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function world() {
  const entries: AuditEntry[] = [];
  const denials = createDenials({
    audit: (entry) => {
      entries.push(entry);
      return Promise.resolve();
    },
  });
  const deny = (name: string) =>
    denials.write(forbidden("No.", "Ask."), {
      route: "deletePool",
      identity: { name, tokenId: `id of ${name}`, countsAs: name } as Identity,
      ...{ address: "192.0.2.1", target: "/v1/pools/p" },
    });
  return { deny, denials, entries };
}

test("a denial is written down before it is answered", async () => {
  const { deny, entries } = world();
  await deny("vic");
  expect(entries).toMatchObject([
    { actor: "vic", action: "deletePool", outcome: "denied", target: "/v1/pools/p", body: { detail: "No." } },
  ]);
});

test("beyond a number per token and minute denials are counted, and every one counts", async () => {
  const { deny, entries } = world();
  for (let count = 0; count < DENIALS_WRITTEN_MAX + 500; count++) await deny("vic");
  await deny("ann");
  expect(entries).toHaveLength(DENIALS_WRITTEN_MAX + 1);
  expect(entries.at(-1)).toMatchObject({ actor: "ann" });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(entries.slice(DENIALS_WRITTEN_MAX + 1)).toMatchObject([
    { actor: "vic", action: "further denied calls", outcome: "denied", body: { calls: 500 } },
  ]);
  await deny("vic");
  expect(entries.at(-1)).toMatchObject({ actor: "vic", action: "deletePool" });
});

test("what was counted is written down when the server closes", async () => {
  const { deny, denials, entries } = world();
  for (let count = 0; count < DENIALS_WRITTEN_MAX + 2; count++) await deny("vic");
  await denials.close();
  expect(entries.at(-1)).toMatchObject({ action: "further denied calls", body: { calls: 2 } });
});
