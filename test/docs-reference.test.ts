// The reference is what the code says, and what it says is complete.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { commandPaths, referenceFiles } from "../scripts/docs.ts";

const directory = fileURLToPath(new URL("../docs/reference/", import.meta.url));
let files: Record<string, string> = {};
beforeAll(async () => {
  files = await referenceFiles();
});

describe("docs/reference is up to date (npm run docs)", () => {
  test.each(["commands.md", "settings.md", "errors.md", "apply.schema.json"])("%s", (name) => {
    expect(readFileSync(directory + name, "utf8")).toBe(files[name]);
  });
});

test("every command has help with examples", async () => {
  const lacking: string[] = [];
  for (const path of await commandPaths()) {
    const title = `berth ${path.join(" ")}\n`;
    const text = files["commands.md"] as string;
    const from = text.indexOf(`# ${title}`);
    const section = text.slice(from, text.indexOf("\n#", from + 2) + 1 || undefined);
    const needsExamples = !["checkpoint done", "checkpoint progress", "checkpoint defer"].includes(
      path.join(" "),
    );
    if (from < 0 || !section.includes("Usage:") || (needsExamples && !section.includes("Examples:")))
      lacking.push(title);
  }
  expect(lacking).toEqual([]);
});
