import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Kubernetes } from "./client.ts";
import { compareStamps, createLines, createLogCopies } from "./logs.ts";

/** Feeds pieces to the lines of one stream, after what an earlier one has seen. */
function read(pieces: readonly string[], last?: string): { text: string; last: string | undefined } {
  let text = "";
  let current = last;
  const stamps = {
    take(stamp: string) {
      if (current !== undefined && compareStamps(stamp, current) <= 0) return false;
      current = stamp;
      return true;
    },
    save: () => undefined,
  };
  const lines = createLines(stamps, (more) => {
    text += more;
  });
  for (const piece of pieces) lines.push(Buffer.from(piece));
  lines.end();
  return { text, last: current };
}

const at = (nanos: number) => `2026-01-01T00:00:00.${String(nanos).padStart(9, "0")}Z`;

test("J6: lines come without their times, however the pieces are cut", () => {
  const whole = `${at(1)} one\n${at(2)} \n${at(3)} three`;
  for (let cut = 0; cut <= whole.length; cut++)
    expect(read([whole.slice(0, cut), whole.slice(cut)]).text).toBe("one\n\nthree");
});

test("J6: after a break nothing is read twice, and nothing is left out", () => {
  const first = read([`${at(1)} one\n${at(2)} two\n`]);
  expect(read([`${at(1)} one\n${at(2)} two\n${at(10)} three\n`], first.last).text).toBe("three\n");
});

test("J6: times whose fraction was cut at its last zero are compared as numbers", () => {
  expect(compareStamps("2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.09Z")).toBe(1);
  expect(compareStamps("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000001Z")).toBe(-1);
  expect(compareStamps("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.500Z")).toBe(0);
});

describe("an attempt ends when its log is complete (J5, J6)", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const directory = mkdtempSync(join(tmpdir(), "berth-logs-"));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  /** The copy of the log of a pod, by a cluster that follows it like this. */
  function copyWith(followLog: Kubernetes["followLog"], isOver: () => boolean) {
    const copies = createLogCopies({ followLog } as Kubernetes, { onGrown: () => undefined, isOver });
    copies.follow({ uid: "u1", name: "p1" }, directory);
    return copies;
  }
  const untilAborted = (signal: AbortSignal) =>
    new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

  test("though the connection is dead, once its pod is over", async () => {
    let isOver = false;
    const copies = copyWith(
      (_pod, _since, _onData, signal) => untilAborted(signal),
      () => isOver,
    );
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(copies.isComplete("u1")).toBe(false);
    isOver = true;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(copies.isComplete("u1")).toBe(true);
  });

  test("though it is long: while something comes, it is read", async () => {
    let lines = 0;
    const copies = copyWith(
      async (_pod, _since, onData, signal) => {
        const timer = setInterval(() => onData(Buffer.from(`line ${++lines}\n`)), 5_000);
        await untilAborted(signal);
        clearInterval(timer);
      },
      () => true,
    );
    await vi.advanceTimersByTimeAsync(600_000);
    expect(copies.isComplete("u1")).toBe(false);
    expect(lines).toBe(120);
    copies.close();
    await vi.advanceTimersByTimeAsync(10_000);
  });
});
