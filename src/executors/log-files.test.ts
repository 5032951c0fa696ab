import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openLogReader, openLogWriter, readTail } from "./log-files.ts";
import type { LogRead } from "./log-reader.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-log-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const SMALL = { bytesMax: 1_000, fileBytesMax: 200 };
const textOf = ({ parts }: LogRead) => parts.map(({ data }) => data.toString()).join("");

test("J6: both streams come back in the order of their arrival, whatever bytes they are", () => {
  const writer = openLogWriter(directory);
  const wild = Buffer.from([0, 255, 10, 13, 0x6f, 0x65, 0, 0, 0, 5]);
  writer.write("stdout", Buffer.from("a\n"));
  writer.write("stderr", wild);
  writer.write("stdout", Buffer.from("b\n"));
  const { from, parts, dropped } = openLogReader(directory, 0).next(1_000);
  expect({ from, dropped }).toEqual({ from: 0, dropped: 0 });
  expect(parts).toEqual([
    { stream: "stdout", data: Buffer.from("a\n") },
    { stream: "stderr", data: wild },
    { stream: "stdout", data: Buffer.from("b\n") },
  ]);
});

test("a reader goes on where it was, while the log grows over many files", () => {
  const writer = openLogWriter(directory, { bytesMax: 1_000_000, fileBytesMax: 200 });
  const reader = openLogReader(directory, 0);
  let read = "";
  let written = "";
  for (let line = 0; line < 200; line++) {
    const text = `line ${line}\n`;
    writer.write(line % 3 === 0 ? "stderr" : "stdout", Buffer.from(text));
    written += text;
    if (line % 7 === 0) read += textOf(reader.next(50));
  }
  for (let more = textOf(reader.next(64)); more !== ""; more = textOf(reader.next(64))) read += more;
  expect(read).toBe(written);
  expect(readdirSync(directory).length).toBeGreaterThan(5);
});

test.each([0, 1, 57, 199, 200, 201, 1_234])("a reader may begin at any position, such as %i", (from) => {
  const writer = openLogWriter(directory, { bytesMax: 1_000_000, fileBytesMax: 200 });
  const all = Buffer.from(Array.from({ length: 2_000 }, (_, at) => at % 251));
  for (let at = 0; at < all.length; at += 37) writer.write("stdout", all.subarray(at, at + 37));
  const reader = openLogReader(directory, from);
  const bytes: Buffer[] = [];
  for (let read = reader.next(100); read.parts.length > 0; read = reader.next(100))
    bytes.push(...read.parts.map(({ data }) => data));
  expect(Buffer.concat(bytes)).toEqual(all.subarray(from));
});

test("the oldest is dropped, never more than allowed is kept, and a reader is told how much it missed", () => {
  const writer = openLogWriter(directory, SMALL);
  const early = openLogReader(directory, 0);
  expect(textOf(early.next(10))).toBe("");
  for (let count = 0; count < 100; count++) writer.write("stdout", Buffer.from("0123456789".repeat(5)));
  const read = early.next(100_000);
  const rest = [read, early.next(100_000), early.next(100_000)];
  expect(read.dropped).toBe(read.from);
  expect(read.dropped).toBeGreaterThanOrEqual(5_000 - SMALL.bytesMax);
  const bytes = read.parts.reduce((sum, { data }) => sum + data.length, 0);
  expect(rest.slice(1).every(({ dropped }) => dropped === 0)).toBe(true);
  expect(bytes).toBeGreaterThan(0);
  expect(readTail(directory, 1_000_000).length).toBeLessThanOrEqual(SMALL.bytesMax);
});

test("the end of the log is read from behind, across files", () => {
  const writer = openLogWriter(directory, SMALL);
  for (let count = 0; count < 40; count++)
    writer.write("stdout", Buffer.from(`${String(count).padStart(9, "0")}\n`));
  expect(readTail(directory, 25).toString()).toBe("0037\n000000038\n000000039\n".slice(-25));
});

test("large writes are split so that each part fits on the wire", () => {
  const writer = openLogWriter(directory);
  writer.write("stdout", Buffer.alloc(200_000, "x"));
  const { parts } = openLogReader(directory, 0).next(1_000_000);
  expect(parts.every(({ data }) => data.length <= 48 * 1024)).toBe(true);
  expect(parts.reduce((sum, { data }) => sum + data.length, 0)).toBe(200_000);
});
