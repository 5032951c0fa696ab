// A build takes the place of the one before while commands and servers run out of it.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { hashOfSources, isUpToDate, putInPlace } from "../scripts/dist.mjs";
import { temporaryDirectory } from "./e2e/runner-support.ts";

function write(directory: string, files: Readonly<Record<string, string>>): string {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), text);
  }
  return directory;
}

const PROJECT = { "src/a.ts": "1", "src/deep/b.ts": "2", "package.json": "{}" };

test("nothing is built when the sources are as they were", () => {
  const root = write(temporaryDirectory(), PROJECT);
  const dist = join(root, "dist");
  expect(isUpToDate(dist, hashOfSources(root))).toBe(false);
  putInPlace(write(join(root, "dist.1"), { "cli/berth.js": "v1" }), dist, hashOfSources(root));
  expect(isUpToDate(dist, hashOfSources(root))).toBe(true);
});

test.each([
  ["a changed file", { "src/a.ts": "3" }],
  ["a new file", { "src/c.ts": "" }],
  ["another version of a package", { "package-lock.json": "{}" }],
])("%s makes a build necessary", (_, change) => {
  const root = write(temporaryDirectory(), PROJECT);
  const dist = join(root, "dist");
  putInPlace(write(join(root, "dist.1"), { "cli/berth.js": "v1" }), dist, hashOfSources(root));
  write(root, change);
  expect(isUpToDate(dist, hashOfSources(root))).toBe(false);
});

test("a build with a missing file is not up to date", () => {
  const root = write(temporaryDirectory(), PROJECT);
  const sources = hashOfSources(root);
  write(join(root, "dist"), { "build.json": JSON.stringify({ sources, files: ["runner/guardian.js"] }) });
  expect(isUpToDate(join(root, "dist"), sources)).toBe(false);
});

test("a running server finds its files after a build, and they are gone after the next one", () => {
  const root = temporaryDirectory();
  const dist = join(root, "dist");
  const install = (version: number) =>
    putInPlace(
      write(join(root, `dist.${version}`), {
        "cli/berth.js": `v${version}`,
        [`cli/chunk-${version}.js`]: "",
        "runner/guardian.js": `v${version}`,
      }),
      dist,
      `sources ${version}`,
    );
  install(1);
  install(2);
  expect(existsSync(join(dist, "cli/chunk-1.js"))).toBe(true);
  expect(readFileSync(join(dist, "cli/berth.js"), "utf8")).toBe("v2");
  expect(readFileSync(join(dist, "runner/guardian.js"), "utf8")).toBe("v2");
  install(3);
  expect(existsSync(join(dist, "cli/chunk-1.js"))).toBe(false);
  expect(existsSync(join(dist, "cli/chunk-2.js"))).toBe(true);
  expect(existsSync(join(root, "dist.3"))).toBe(false);
});
