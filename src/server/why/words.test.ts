// However much there is to say: one sentence and at most six lines (Y1).

import { expect, test } from "vitest";
import type { WireRequest } from "../../protocol/index.ts";
import { tell } from "./words.ts";
import type { Facts, World } from "./world.ts";

const NOTHING: Facts = {
  ...{ before: null, blocked: null, delayed_until: null, pools: [], reasons: null, running: null },
  ...{ starts: null, stop: null, suggestions: [], truncated: false, victim: null },
};
const WORLD: World = {
  nowMs: 0,
  said: [],
  partyOf: (id) => ({ id, number: 1, name: id, component: "team" }),
  amountsOf: () => () => ({ capacity: 0, usage: 0 }),
};
const ATTEMPTS = Array.from({ length: 9 }, (_, index) => ({
  ...{ attempt: index + 1, outcome: "lost", reason: null },
  ...{ started_at: "1970-01-01T00:00:00Z", ended_at: "1970-01-01T00:00:05Z" },
}));

function told(facts: Partial<Facts>, request: object) {
  const shown = { number: 8, name: "train", component: "team", attempts: [], ...request };
  const [text] = tell({ ...NOTHING, ...facts }, shown as unknown as WireRequest, WORLD);
  return (text?.lines ?? []).map(({ label, text: said }) => `${label}: ${said}`);
}

test("of many attempts the latest are told, and how many came before them", () => {
  const lines = told({}, { status: "failed", attempts: ATTEMPTS });
  expect(lines).toHaveLength(6);
  expect(lines[0]).toBe("attempts: 4 earlier");
  expect(lines.at(-1)).toMatch(/^attempt 9: /);
});

test("what is said of a run leaves little room for the attempts before it", () => {
  const running = { pool: "lab", units: [], takers: [], taker_count: 0, protection: [], ends_at: null };
  const request = { status: "allocated", started_at: "1970-01-01T00:00:00Z", attempts: ATTEMPTS };
  const lines = told({ running } as unknown as Partial<Facts>, request);
  expect(lines).toHaveLength(6);
  expect(lines.slice(0, 2)).toEqual(["taken by: nobody who waits now", "attempts: 5 earlier"]);
});

test("of many pools that do not admit it, and of many that it waits for, the first are told", () => {
  const reasons = Array.from({ length: 9 }, (_, index) => ({ pool: `p${index}`, code: "no_policy" }));
  const rejected = told({ reasons } as unknown as Partial<Facts>, { status: "rejected" });
  expect(rejected).toHaveLength(6);
  expect(rejected.at(-1)).toBe("and: 4 more");
  const blocked = { after: reasons.map(({ pool }) => pool), at_once: null };
  const waiting = told({ blocked }, { status: "queued" });
  expect(waiting).toHaveLength(6);
  expect(waiting.at(-1)).toBe("and: 4 more");
});
