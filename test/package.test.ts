// What people install: the npm package, and the files of deploy/.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const manifest = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as Record<string, unknown>;

describe("the npm package", () => {
  const packed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [{ files }] = JSON.parse(packed.slice(packed.indexOf("["))) as [{ files: { path: string }[] }];
  const paths = new Set(files.map(({ path }) => path));

  test("can be published", () => {
    expect(manifest.private).toBeUndefined();
    for (const field of [
      "name",
      "version",
      "description",
      "license",
      "keywords",
      "engines",
      "bin",
      "exports",
    ]) {
      expect(manifest, field).toHaveProperty(field);
    }
    for (const script of ["preinstall", "install", "postinstall"]) {
      expect(manifest.scripts).not.toHaveProperty(script);
    }
  });

  test("has what its documents link to", () => {
    const pages = [...paths].filter((path) => path.endsWith(".md"));
    expect(pages).toContain("README.md");
    const missing = pages.flatMap((page) =>
      linksOf(page)
        .filter((target) => !paths.has(target) && ![...paths].some((path) => path.startsWith(`${target}/`)))
        .map((target) => `${page} → ${target}`),
    );
    expect(missing).toEqual([]);
  });

  test("has no tests, no caches and no sources", () => {
    const strange = [...paths].filter((path) => /(^|\/)(__pycache__|tests?|src|bench)\/|\.pyc$/.test(path));
    expect(strange).toEqual([]);
  });
});

/** Relative links of a page, as paths from the root. */
function linksOf(page: string): string[] {
  const text = readFileSync(root + page, "utf8").replaceAll(/^```[\s\S]*?^```$/gm, "");
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = ""]) => link.replace(/#.*$/, ""))
    .filter((link) => link !== "" && !/^[a-z]+:/.test(link))
    .map((link) => normalize(join(dirname(page), link)).replace(/\/$/, ""));
}

describe("deploy/systemd", () => {
  const units = readdirSync(`${root}deploy/systemd`).filter((name) => /\.(service|timer)$/.test(name));

  test("is what systemd understands", () => {
    if (spawnSync("systemd-analyze", ["--version"]).status !== 0) {
      process.stderr.write("The systemd units were not verified: there is no systemd-analyze.\n");
      return;
    }
    const directory = mkdtempSync(join(tmpdir(), "berth-units-"));
    try {
      for (const unit of units) {
        // A program that exists takes the place of one that may not be installed here.
        const text = readFileSync(`${root}deploy/systemd/${unit}`, "utf8");
        writeFileSync(
          join(directory, unit),
          text.replaceAll("ExecStart=/usr/bin/berth", "ExecStart=/bin/true"),
        );
      }
      const verified = spawnSync(
        "systemd-analyze",
        ["verify", "--man=no", ...units.map((unit) => join(directory, unit))],
        {
          encoding: "utf8",
        },
      );
      const about = verified.stderr.split("\n").filter((line) => units.some((unit) => line.includes(unit)));
      expect(about).toEqual([]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  test("names options that the server has", () => {
    const reference = readFileSync(`${root}docs/reference/settings.md`, "utf8");
    const text = readFileSync(`${root}deploy/systemd/server.env`, "utf8");
    const variables = text.match(/BERTH_[A-Z_]+/g) ?? [];
    expect(variables.length).toBeGreaterThan(0);
    for (const variable of variables) expect(reference).toContain(variable);
  });
});

test("the proof with ZenML says what is missing, and ends with 2", () => {
  const { ZENML_SOURCE: _, ZENML_PYTHON: __, ...env } = process.env;
  const { status, stderr } = spawnSync(`${root}integrations/zenml/prove.sh`, { env, encoding: "utf8" });
  expect(stderr).toMatch(/^Not proven\. What is missing:\n {2}- ZENML_SOURCE: .*\n {2}- ZENML_PYTHON: /);
  expect(status).toBe(2);
});

test("programs of deploy/ can be executed", () => {
  for (const name of ["deb.sh", "prove-package.sh", "image/build.sh", "kubernetes/prove.mjs"]) {
    expect(statSync(`${root}deploy/${name}`).mode & 0o111).not.toBe(0);
  }
});
