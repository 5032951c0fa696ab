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

test("every command and sub-command has help with examples of itself", async () => {
  const text = files["commands.md"] as string;
  const lacking: string[] = [];
  for (const path of await commandPaths()) {
    const line = `berth ${path.join(" ")}`;
    const from = text.indexOf(`# ${line}\n`);
    const section = text.slice(from, text.indexOf("\n#", from + 2) + 1 || undefined);
    const [help = "", examples = ""] = section.split("\nExamples:\n");
    const isShown = [line, `berth ${path.at(-1)}`].some((one) => examples.includes(one)); // `request why` is `why`.
    if (from < 0 || !help.includes(`Usage: ${line}`) || !isShown) lacking.push(line);
  }
  expect(lacking).toEqual([]);
});
