import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { programName } from "./program.ts";

const root = realpathSync(mkdtempSync(join(tmpdir(), "berth-program-")));
afterAll(() => rmSync(root, { recursive: true }));

const script = join(root, "checkout/berth");
for (const folder of ["checkout", "linked", "other", "empty"]) mkdirSync(join(root, folder));
for (const file of [script, join(root, "other/berth")]) {
  writeFileSync(file, "");
  chmodSync(file, 0o755);
}
symlinkSync(script, join(root, "linked/berth"));

const cases: Record<string, { from: string; path: string; says: string; script?: string }> = {
  "not on the path": { from: "checkout", path: "empty", says: "./berth" },
  "from a folder inside": { from: "", path: "empty", says: "./checkout/berth" },
  "from elsewhere": { from: "empty", path: "empty", says: script },
  "linked into the path": { from: "checkout", path: "linked", says: "berth" },
  "another one is on the path": { from: "checkout", path: "other", says: "./berth" },
  "the linked one was typed": {
    from: "checkout",
    path: "linked",
    says: "berth",
    script: join(root, "linked/berth"),
  },
  "not the launcher": {
    from: "checkout",
    path: "empty",
    says: "berth",
    script: join(root, "dist/cli/berth.js"),
  },
};

for (const [name, { from, path, says, script: typed = script }] of Object.entries(cases)) {
  test(name, () => {
    expect(programName(typed, `${join(root, "empty")}:${join(root, path)}`, join(root, from))).toBe(says);
  });
}
