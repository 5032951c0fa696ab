// The directory dist/: whether it is up to date, and how a new build takes the place of the old one.
//
// A server or a command may be running out of dist/ meanwhile, and loads some of its files late. So files are replaced
// one by one, each by a rename, the entry points last; and the files of the build before stay until the next one.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const SOURCES = [
  "src",
  "scripts",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "tsconfig.build.json",
];
const ENTRY_POINTS = [join("cli", "berth.js")];
const STAMP = "build.json";

/**
 * A hash over the names and contents of everything that a build reads.
 * @param {string} root
 */
export function hashOfSources(root) {
  const hash = createHash("sha256");
  for (const file of SOURCES.flatMap((source) => filesIn(join(root, source))).toSorted()) {
    hash.update(relative(root, file)).update("\0").update(readFileSync(file)).update("\0");
  }
  return hash.digest("hex");
}

/**
 * @param {string} dist
 * @param {string} sources the hash of the sources as they are now
 */
export function isUpToDate(dist, sources) {
  const stamp = readStamp(dist);
  return stamp.sources === sources && stamp.files.every((file) => existsSync(join(dist, file)));
}

/**
 * Moves a finished build into dist/.
 * @param {string} built a directory on the same file system; gone afterwards
 * @param {string} dist
 * @param {string} sources the hash of the sources that it was built from
 */
export function putInPlace(built, dist, sources) {
  const before = new Set(readStamp(dist).files);
  const files = filesIn(built).map((file) => relative(built, file));
  const isEntry = (/** @type {string} */ file) => ENTRY_POINTS.includes(file);
  for (const file of [...files.filter((one) => !isEntry(one)), ...files.filter(isEntry)]) {
    mkdirSync(dirname(join(dist, file)), { recursive: true });
    renameSync(join(built, file), join(dist, file));
  }
  writeFileSync(join(built, STAMP), `${JSON.stringify({ sources, files })}\n`);
  renameSync(join(built, STAMP), join(dist, STAMP));
  const kept = new Set([...before, ...files, STAMP]);
  for (const file of filesIn(dist)) if (!kept.has(relative(dist, file))) rmSync(file);
  rmSync(built, { recursive: true, force: true });
}

/**
 * @param {string} dist
 * @returns {{ sources: string, files: string[] }}
 */
function readStamp(dist) {
  try {
    return JSON.parse(readFileSync(join(dist, STAMP), "utf8"));
  } catch {
    return { sources: "", files: [] };
  }
}

/**
 * @param {string} path a file or a directory
 * @returns {string[]}
 */
function filesIn(path) {
  if (!existsSync(path)) return [];
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
      const inner = join(path, entry.name);
      return entry.isDirectory() ? filesIn(inner) : [inner];
    });
  } catch {
    return [path];
  }
}
