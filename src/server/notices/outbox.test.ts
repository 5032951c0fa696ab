import { expect, test } from "vitest";
import { GAP_MS, LISTED_MAX, Outbox, PENDING_MAX, progressFrom, TIMETABLE_MS } from "./outbox.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A target that is tried whenever it is due, by a clock that jumps to the next such moment. */
function play({ random = () => 0 }: { random?: () => number } = {}) {
  const outbox = new Outbox<string>(progressFrom(10), random);
  const tries: { atMs: number; id: string; body: string }[] = [];
  let nowMs = 0;
  let seq = 10;
  const happen = (...notices: string[]) => {
    for (const notice of notices) outbox.gather(notice, ++seq);
    outbox.read(seq);
  };
  const message = () => {
    const due = outbox.due(nowMs);
    if (due !== undefined) return due;
    const gathered = outbox.take(nowMs);
    if (gathered === undefined) return undefined;
    const { firstSeq, lastSeq, listed, count } = gathered;
    const body = count > listed.length ? `${listed.length} of ${count}` : listed.join(" ");
    return outbox.begin(gathered, { id: `${firstSeq}-${lastSeq}`, body }, nowMs);
  };
  const runUntil = (untilMs: number, isUp: (atMs: number) => boolean) => {
    for (;;) {
      const nextAtMs = Math.max(nowMs, outbox.nextAtMs() ?? Number.POSITIVE_INFINITY);
      if (nextAtMs > untilMs) break;
      nowMs = nextAtMs;
      const sent = message();
      if (sent === undefined) throw new Error("due, and nothing to do");
      tries.push({ atMs: nowMs, id: sent.id, body: sent.body });
      if (isUp(nowMs)) outbox.succeeded(sent.id, nowMs);
      else outbox.failed(sent.id, nowMs, "away");
    }
    nowMs = untilMs;
  };
  return { outbox, tries, happen, runUntil };
}

const up = () => true;
const down = () => false;

test("the first is sent at once; what happens within the second after it is one message", () => {
  const { outbox, tries, happen, runUntil } = play();
  happen("a");
  runUntil(100, up);
  happen("b", "c");
  runUntil(500, up);
  happen("d");
  runUntil(10_000, up);
  expect(tries).toEqual([
    { atMs: 0, id: "11-11", body: "a" },
    { atMs: GAP_MS, id: "12-14", body: "b c d" },
  ]);
  expect(outbox.progress).toMatchObject({ seq: 14, pending: [], sent: 2, failed: 0, lost: 0 });
  expect(outbox.nextAtMs()).toBeUndefined();
});

test("never more than one try a second, however much happens", () => {
  const { tries, happen, runUntil } = play();
  for (let atMs = 0; atMs < 60_000; atMs += 10) {
    happen("x");
    runUntil(atMs, up);
  }
  const gaps = tries.slice(1).map(({ atMs }, index) => atMs - (tries[index]?.atMs ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(GAP_MS);
  expect(tries.length).toBe(60);
  expect(tries[1]?.body).toBe(`${LISTED_MAX} of 100`);
});

test("eight tries within 24 hours, by the timetable, then it is given up", () => {
  const { outbox, tries, happen, runUntil } = play();
  happen("a");
  runUntil(3 * DAY_MS, down);
  expect(tries.map(({ atMs }) => atMs)).toEqual(TIMETABLE_MS);
  expect(TIMETABLE_MS).toHaveLength(8);
  expect(TIMETABLE_MS.at(-1)).toBe(DAY_MS);
  expect(new Set(tries.map(({ id }) => id))).toEqual(new Set(["11-11"]));
  expect(outbox.progress).toMatchObject({ seq: 11, pending: [], sent: 0, failed: 8, lost: 1 });
});

test("tries come up to a tenth earlier, so that they spread", () => {
  const { tries, happen, runUntil } = play({ random: () => 1 });
  happen("a");
  runUntil(3 * DAY_MS, down);
  expect(tries.map(({ atMs }) => atMs)).toEqual(TIMETABLE_MS.map((atMs) => atMs * 0.9));
});

test("a receiver that was away gets everything when it is back, in order, one a second", () => {
  const { outbox, tries, happen, runUntil } = play();
  happen("a");
  runUntil(2_000, down);
  happen("b");
  runUntil(4_000, down);
  happen("c");
  const upFromMs = 30 * 60_000;
  runUntil(upFromMs, down);
  happen("d"); // What is new is tried soon, not with the next retry of what is old.
  runUntil(upFromMs + 10 * 60_000, (atMs) => atMs >= upFromMs);
  const arrived = tries.filter(({ atMs }) => atMs >= upFromMs);
  expect(arrived.map(({ body }) => body)).toEqual(["d", "a", "b", "c"]);
  expect(outbox.progress).toMatchObject({ awaySinceMs: null, problem: null, pending: [], lost: 0 });
});

test("what waits for a dead receiver stays small, and is counted", () => {
  const { outbox, happen, runUntil } = play();
  for (let atMs = 0; atMs < 3 * DAY_MS; atMs += 5_000) {
    happen("x");
    runUntil(atMs, down);
    expect(outbox.progress.pending.length).toBeLessThan(PENDING_MAX);
  }
  expect(outbox.progress.lost).toBeGreaterThan(0);
});

test("after a restart it goes on: what is pending keeps its timetable, and what was not begun is read again", () => {
  const { outbox, happen, runUntil } = play();
  happen("a");
  runUntil(1_000, down);
  happen("b");
  expect(outbox.progress.seq).toBe(11); // Of "b" the journal knows.
  const again = new Outbox<string>(outbox.progress, () => 0);
  expect(again.readSeq).toBe(11);
  expect(again.nextAtMs()).toBe(5_000);
  expect(again.due(5_000)).toMatchObject({ id: "11-11", body: "a", tries: 1 });
});

test("what was taken and not begun yet holds the position back", () => {
  const outbox = new Outbox<string>(progressFrom(0), () => 0);
  outbox.gather("a", 3);
  outbox.read(4);
  const gathered = outbox.take(0)!;
  outbox.read(9);
  expect(outbox.progress.seq).toBe(0);
  outbox.begin(gathered, { id: "a", body: "" }, 0);
  expect(outbox.progress.seq).toBe(4);
  outbox.read(10);
  expect(outbox.progress.seq).toBe(10);
});

test("history that is gone is passed over, and counted", () => {
  const outbox = new Outbox<string>(progressFrom(3), () => 0);
  outbox.skip(50);
  expect(outbox.progress).toMatchObject({ seq: 50, lost: 1 });
});
