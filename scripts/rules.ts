// The index of docs/rules.md, and the check that every rule that is cited exists. `npm run docs` writes the index.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const RULE = /^- \*\*([A-Z]?\d+(?:\.\d+)?)\*\* \*(.*?)\.\*/gm;
const INDEX = /\n## Index\n[\s\S]*$/;
const SECTIONS = ["14", "15", "16", "17"];

/** Number → title, in the order of the page. */
export function rulesOf(page: string): Map<string, string> {
  return new Map([...page.matchAll(RULE)].map(([, number = "", title = ""]) => [number, title]));
}

/** The page with the index that belongs to it. */
export function withIndex(page: string): string {
  const rows = [...rulesOf(page)].map(([number, title]) => `| ${number} | ${title} |`);
  return `${page.replace(INDEX, "").trimEnd()}\n\n## Index\n\n| Rule | About |\n| --- | --- |\n${rows.join("\n")}\n`;
}

/** Citations of rules that the page does not have, with the files that have them. */
export function danglingCitations(root: string, page: string): string[] {
  const rules = rulesOf(page);
  const sections = new Set([...page.matchAll(/^## (\d+)\. /gm)].map(([, number = ""]) => number));
  for (const section of SECTIONS) sections.add(section);
  return ["src", "docs", "test", "README.md", "ARCHITECTURE.md"]
    .flatMap((path) => filesAt(join(root, path)))
    .flatMap((file) =>
      citationsIn(readFileSync(file, "utf8"))
        .filter((cited) => !rules.has(cited) && !sections.has(cited))
        .map((cited) => `${file.slice(root.length)} cites ${cited}`),
    );
}

const LETTERED = /^[RPQAGVNL]\d{1,2}$/;
const NUMBERED = /^(8|9|10|11)\.\d{1,2}$/;

/** `(V5)`, `(P4, 9.1)`, `rule 9.7`, `section 11`. */
export function citationsIn(text: string): string[] {
  const inBrackets = [...text.matchAll(/\(([^()\n]{1,80})\)/g)].flatMap(([, inner = ""]) => {
    const parts = inner.split(/, | and /);
    return parts.every((part) => LETTERED.test(part) || NUMBERED.test(part)) ? parts : [];
  });
  const inWords = [...text.matchAll(/\b(?:[Rr]ule|[Ss]ection) ([RPQAGVNL]\d{1,2}|\d{1,2}(?:\.\d{1,2})?)\b/g)];
  return [...inBrackets, ...inWords.map(([, cited = ""]) => cited)];
}

function filesAt(path: string): string[] {
  if (/\.(ts|md)$/.test(path)) return [path];
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const inner = join(path, entry.name);
    if (entry.isDirectory()) return filesAt(inner);
    return /\.(ts|md)$/.test(entry.name) ? [inner] : [];
  });
}
