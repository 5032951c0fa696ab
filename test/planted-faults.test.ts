// The proofs plant faults in a copy of the source: each of them, or none at all.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, expect, test } from "vitest";
import { type Fault, planted } from "../bench/proving/canaries.ts";

const root = mkdtempSync(join(tmpdir(), "berth-faults-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
writeFileSync(join(root, "one.ts"), `export const one = ["sound", "whole"];\n`);
writeFileSync(join(root, "all.ts"), `import { one } from "./one.ts";\nconsole.log(one, "fine");\n`);

const fault = (file: string, text: string, instead: string): Fault => ({
  ...{ what: text, file: `/${file}`, text, instead },
});

async function programWith(...faults: Fault[]): Promise<string> {
  const { outputFiles } = await build({
    ...{ entryPoints: [join(root, "all.ts")], bundle: true, write: false as const },
    ...{ logLevel: "silent", plugins: [planted(root, ...faults)] },
  });
  return outputFiles[0]?.text ?? "";
}

test("several in one file are planted together", async () => {
  const program = await programWith(
    fault("one.ts", `"sound"`, `"cracked"`),
    fault("one.ts", `"whole"`, `"broken"`),
    fault("all.ts", `"fine"`, `"bad"`),
  );
  for (const word of ["cracked", "broken", "bad"]) expect(program).toContain(word);
});

test("one that no longer fits the source fails the build", async () => {
  await expect(programWith(fault("one.ts", `"gone"`, `"x"`))).rejects.toThrow(/has changed/);
});
