// The numbered rules: the page has its index, and whatever cites a rule cites one that exists.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { citationsIn, danglingCitations, rulesOf, withIndex } from "../scripts/rules.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const page = readFileSync(`${root}docs/rules.md`, "utf8");

test("the index is that of the page (npm run docs)", () => {
  expect(page).toBe(withIndex(page));
});

test("no number is used twice", () => {
  const numbers = [...page.matchAll(/^- \*\*(\S+)\*\*/gm)].map(([, number]) => number);
  expect(numbers).toEqual([...rulesOf(page).keys()]);
});

test("every rule that is cited exists", () => {
  expect(danglingCitations(root, page)).toEqual([]);
});

test("a citation of nothing would be seen", () => {
  expect(citationsIn("see (V5, 9.4), rule 10.5 and section 11, but not (1.5) or (V8 engine)")).toEqual([
    "V5",
    "9.4",
    "10.5",
    "11",
  ]);
  expect(danglingCitations(root, page.replace("- **V5**", "- **V55**")).length).toBeGreaterThan(0);
});

test("every guide can be found from the README or the index of documents", () => {
  const index = ["README.md", "docs/README.md"].map((name) => readFileSync(root + name, "utf8")).join("\n");
  const guides = readdirSync(`${root}docs/guide`).map((name) => `guide/${name}`);
  expect(guides.filter((path) => !index.includes(`${path})`))).toEqual([]);
});

test("links between documents lead somewhere", () => {
  const pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].concat(
    readdirSync(`${root}docs`, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".md"))
      .map((name) => `docs/${name}`),
  );
  const broken = pages.flatMap((name) => {
    const links = [...readFileSync(root + name, "utf8").matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)];
    return links
      .map(([, link = ""]) => link)
      .filter((link) => !/^https?:/.test(link) && !existsSync(join(root, dirname(name), link)))
      .map((link) => `${name}: ${link}`);
  });
  expect(broken).toEqual([]);
});
