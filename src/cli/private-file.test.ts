import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { writePrivateFile } from "./private-file.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-private-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

const modeOf = (path: string) => statSync(path).mode & 0o777;

test("a file that others could read is replaced by one that they cannot", () => {
  const path = join(directory, "token");
  writeFileSync(path, "old");
  chmodSync(path, 0o644);
  writePrivateFile(path, "secret");
  expect([readFileSync(path, "utf8"), modeOf(path)]).toEqual(["secret", 0o600]);
});

test("what a link points to is left alone", () => {
  const [path, target] = [join(directory, "token"), join(directory, "elsewhere")];
  writeFileSync(target, "old", { mode: 0o644 });
  symlinkSync(target, path);
  writePrivateFile(path, "secret");
  expect(readFileSync(target, "utf8")).toBe("old");
  expect([readFileSync(path, "utf8"), modeOf(path)]).toEqual(["secret", 0o600]);
});
