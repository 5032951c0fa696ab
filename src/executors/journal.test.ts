import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openJournal, readEnd, writeEnd } from "./journal.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-journal-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const order = (token: string) => ({ requestId: "r1", token, job: { env: { SECRET: "value" } } });

test("J5: what was ordered is found again, readable by its owner only", () => {
  const { directory: path } = openJournal(directory).write(order("a/../b"));
  expect(openJournal(directory).open()).toEqual([{ directory: path, order: order("a/../b") }]);
  expect(statSync(join(path, "order.json")).mode & 0o777).toBe(0o600);
});

test("an order that was never whole was never an order", () => {
  openJournal(directory);
  mkdirSync(join(directory, "jobs", "half"));
  expect(openJournal(directory).open()).toEqual([]);
  expect(readdirSync(join(directory, "jobs"))).toEqual([]);
});

test("after the end is acknowledged the token stays known, and its environment does not stay", () => {
  const journal = openJournal(directory);
  const entry = journal.write(order("a"));
  writeEnd(entry.directory, { end: { outcome: "succeeded" }, reports: [] });
  journal.archive(entry);
  expect(journal.open()).toEqual([]);
  const found = journal.find("a");
  expect(found?.isArchived).toBe(true);
  expect(readEnd(found?.entry.directory as string)?.end.outcome).toBe("succeeded");
  expect(readFileSync(join(found?.entry.directory as string, "order.json"), "utf8")).not.toContain("SECRET");
});

test("old logs are thrown away, young ones are not", () => {
  const journal = openJournal(directory);
  for (const token of ["old", "young"]) journal.archive(journal.write(order(token)));
  utimesSync(journal.find("old")?.entry.directory as string, 0, 0);
  journal.prune(Date.now());
  expect([journal.find("old"), journal.find("young")?.isArchived]).toEqual([undefined, true]);
});
