// What `npm run figures` counts and what must be 0: files that import each other, and comparisons with the name of a
// discipline outside its folder. A made-up tree shows that both are found.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../", import.meta.url));

function figuresOf(directory: string): string {
  return execFileSync("npx", ["tsx", "scripts/figures.ts", directory], { cwd: root, encoding: "utf8" });
}

test("no files import each other, and nothing compares with the name of a discipline outside its folder", () => {
  const figures = figuresOf(root);
  expect(figures).toContain("cycles of value imports: 0\n");
  expect(figures).toContain("comparisons with the name of a discipline outside its folder: 0\n");
});

test("both are found where they are", () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-figures-"));
  try {
    mkdirSync(join(directory, "src", "engine"), { recursive: true });
    writeFileSync(
      join(directory, "src/engine/a.ts"),
      'import { b } from "./b.ts";\nexport const a = () => b;\n',
    );
    writeFileSync(
      join(directory, "src/engine/b.ts"),
      'import { a } from "./a.ts";\nexport const b = (discipline: string) => discipline === "class" && a;\n',
    );
    const figures = figuresOf(directory);
    expect(figures).toContain("cycles of value imports: 1\n  engine/a.ts, engine/b.ts\n");
    expect(figures).toContain("comparisons with the name of a discipline outside its folder: 1\n");
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
