import { expect, test } from "vitest";
import { StoreError } from "../errors.ts";
import { translateSqliteError } from "./errors.ts";

const failure = (message: string, errcode?: number) =>
  Object.assign(new Error(message), errcode === undefined ? {} : { errcode });

const cases: Record<string, { error: Error; want: string }> = {
  "another process has it": { error: failure("database is locked", 5), want: "locked" },
  "no room": { error: failure("database or disk is full", 13), want: "disk_full" },
  "a page that makes no sense": { error: failure("database disk image is malformed", 11), want: "corrupt" },
  "an index that makes no sense (extended code)": { error: failure("…", 779), want: "corrupt" },
  "not a database": { error: failure("file is not a database", 26), want: "corrupt" },
  "fsync failed (extended code)": { error: failure("disk I/O error", 1034), want: "unavailable" },
  "no such directory": { error: failure("unable to open database file", 14), want: "unavailable" },
  "a failure without its code": { error: failure("database disk image is malformed"), want: "corrupt" },
};

for (const [name, { error, want }] of Object.entries(cases)) {
  test(name, () => {
    const translated = translateSqliteError(error, "/data/berth.db");
    expect(translated).toBeInstanceOf(StoreError);
    expect(translated).toMatchObject({
      code: want,
      cause: error,
      message: expect.stringContaining("/data/berth.db"),
    });
  });
}

test("a mistake of ours stays what it is", () => {
  const mistake = failure("UNIQUE constraint failed: requests.id", 2067);
  expect(translateSqliteError(mistake, "x")).toBe(mistake);
});
