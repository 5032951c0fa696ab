// Every line of shell in README and guide, run against a real server. `UPDATE_DOCS=1` writes what was printed into
// the documents instead of comparing it.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { createReader, normalise, shellLinesOf, withoutHostname } from "./docs-support.ts";
import { buildBerth } from "./e2e/run-support.ts";
import { temporaryDirectory } from "./e2e/runner-support.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const pages = [
  "README.md",
  ...readdirSync(`${root}docs/guide`)
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/guide/${name}`),
];

/** The only lines of shell that are not run here: they are how this test came to run, and are played elsewhere. */
const notRun = ["npm ci && npm link", "berth up --capacity gpu=2"];

let berth = "";
beforeAll(async () => {
  berth = await buildBerth();
});

describe.each(pages)("%s", (page) => {
  const text = readFileSync(root + page, "utf8");

  test("has its shell in blocks that are run", () => {
    const others = [...text.matchAll(/^```(?:sh|bash|shell)\n([\s\S]*?)^```$/gm)].flatMap((block) =>
      (block[1] as string).trim().split("\n"),
    );
    expect(others.filter((line) => !notRun.includes(line))).toEqual([]);
    expect(shellLinesOf(text).length).toBeGreaterThan(0);
  });

  test("prints what it says", { timeout: 1_200_000 }, async () => {
    const reader = createReader(berth, temporaryDirectory());
    const printed: { from: number; to: number; output: string }[] = [];
    try {
      for (const line of shellLinesOf(text)) {
        const output = await reader.type(line);
        if (process.env.UPDATE_DOCS) printed.push({ ...line, output });
        else
          expect({ line: line.command, output: normalise(output) }).toEqual({
            line: line.command,
            output: normalise(line.output),
          });
      }
    } finally {
      await reader.close();
    }
    if (process.env.UPDATE_DOCS) writeFileSync(root + page, withOutputs(text, printed));
  });
});

function withOutputs(text: string, printed: readonly { from: number; to: number; output: string }[]): string {
  let updated = text;
  for (const { from, to, output } of printed.toReversed()) {
    const gap = /\n\n$/.test(text.slice(from, to)) || text.slice(from, to) === "\n" ? "\n" : "";
    const shown = withoutHostname(output)
      .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:7770")
      .replaceAll(/\bpid \d+/g, "pid 4711");
    const ended = shown === "" || shown.endsWith("\n") ? shown : `${shown}\n`;
    updated = updated.slice(0, from) + ended + gap + updated.slice(to);
  }
  return updated;
}
