import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { claim, readClaim } from "./claims.ts";

test("J5: of two shims one gets the claim", () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-claim-"));
  const first = { bootId: "boot", pid: 1, startTime: "1" };
  expect(claim(directory, first)).toBe(true);
  expect(claim(directory, { ...first, pid: 2 })).toBe(false);
  expect(claim(directory, first)).toBe(false);
  expect(readClaim(directory)).toEqual(first);
  rmSync(directory, { recursive: true, force: true });
});
