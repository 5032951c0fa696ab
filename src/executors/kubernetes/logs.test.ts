import { expect, test } from "vitest";
import { compareStamps, createLines } from "./logs.ts";

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
