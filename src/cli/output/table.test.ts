import { expect, test } from "vitest";
import { type Column, renderTable } from "./table.ts";
import { styleOf, wrapped } from "./text.ts";

const columns: Column<readonly string[]>[] = ["when", "event", "what", "detail"].map((name, i) => ({
  name,
  value: (row) => row[i] ?? "",
}));
const row = ["2026-11-16 03:04:05", "request.allocated", "#1 train of research", "pool local"];
const render = (screenColumns?: number) =>
  renderTable([row], columns, { style: styleOf({ hasColor: false }), hasHeaders: false, screenColumns });

const cases: Record<string, { screenColumns?: number; want: string }> = {
  "a pipe gets everything": {
    want: "2026-11-16 03:04:05  request.allocated  #1 train of research  pool local",
  },
  "the widest give first": {
    screenColumns: 60,
    want: "2026-11-16 03:…  request.alloca…  #1 train of r…  pool local",
  },
  "what does not fit is left out from the right": {
    screenColumns: 36,
    want: "2026-11-16…  request.al…  #1 train …",
  },
};
for (const [name, { screenColumns, want }] of Object.entries(cases)) {
  test(name, () => expect(render(screenColumns)).toEqual([want]));
}

test("no line is wider than the screen, however narrow", () => {
  for (let screenColumns = 1; screenColumns <= 80; screenColumns++) {
    expect([...(render(screenColumns)[0] as string)].length).toBeLessThanOrEqual(screenColumns);
  }
});

test("sentences are broken between words; a word that is too long stays whole", () => {
  expect(wrapped("who waits and for whom", 9)).toEqual(["who waits", "and for", "whom"]);
  expect(wrapped("id 0123456789 x", 5)).toEqual(["id", "0123456789", "x"]);
});
