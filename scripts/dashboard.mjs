// Builds the page: esbuild bundles src/dashboard, each view as a chunk of its own, with hashed names, compressed once and for all.
//
// What the server reads is manifest.json: {"files": [{"file", "paths", "type", "isHashed", "gzip", "brotli"}]}. A file answers
// each of its paths; `{number}` in a path stands for any whole number. What is hashed never changes and may be cached for ever.
// `gzip` and `brotli` name the compressed forms beside it.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { brotliCompressSync, gzipSync, constants as zlib } from "node:zlib";
import { build } from "esbuild";

/** B2, gzipped. */
const FIRST_VIEW_BYTES_MAX = 45 * 1024;
const ALL_VIEWS_BYTES_MAX = 110 * 1024;

const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/** Where the page stands: one level below the prefix, or two. Addresses in it are relative, so that any prefix will do. */
const PAGES = {
  "index.html": { up: "./", paths: ["/", "/queue", "/timeline", "/shares", "/policies"] },
  "below.html": { up: "../", paths: ["/requests/{number}"] },
};

/**
 * @param {string} root of the project
 * @param {string} directory to build into
 * @returns {Promise<import("./dashboard.mjs").Sizes>}
 */
export async function buildDashboard(root, directory) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: { app: "src/dashboard/main.tsx", style: "src/dashboard/style/style.css" },
    outdir: "/assets",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    minify: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "browser",
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
  });
  mkdirSync(join(directory, "assets"), { recursive: true });
  const assets = outputFiles.map(({ path, contents }) => ({ name: basename(path), contents }));
  const icon = readFileSync(join(root, "src/dashboard/style/icon.svg"));
  const hash = createHash("sha256").update(icon).digest("hex").slice(0, 8).toUpperCase();
  assets.push({ name: `icon-${hash}.svg`, contents: icon });

  const files = assets.map(({ name, contents }) =>
    writeFile(directory, `assets/${name}`, contents, { paths: [`/assets/${name}`], isHashed: true }),
  );
  const names = assets.map(({ name }) => name);
  for (const [file, { up, paths }] of Object.entries(PAGES)) {
    const html = pageOf(readFileSync(join(root, "src/dashboard/index.html"), "utf8"), names, up);
    files.push(writeFile(directory, file, Buffer.from(html), { paths, isHashed: false }));
  }
  writeFileSync(join(directory, "manifest.json"), `${JSON.stringify({ files }, null, 2)}\n`);
  const sizes = sizesOf(
    metafile,
    new Map(assets.map(({ name, contents }) => [name, gzipSync(contents).length])),
  );
  checkSizes(sizes);
  return sizes;
}

/**
 * @param {string} template
 * @param {readonly string[]} names
 * @param {string} up
 */
function pageOf(template, names, up) {
  const named = (/** @type {string} */ start) =>
    `${up}assets/${names.find((name) => name.startsWith(`${start}-`))}`;
  return template.replaceAll(/%(app|style|icon)%/g, (_, start) => named(start));
}

/**
 * @param {string} directory
 * @param {string} file
 * @param {Uint8Array} contents
 * @param {{ paths: string[], isHashed: boolean }} served
 */
function writeFile(directory, file, contents, served) {
  const gzip = `${file}.gz`;
  const brotli = `${file}.br`;
  writeFileSync(join(directory, file), contents);
  writeFileSync(join(directory, gzip), gzipSync(contents, { level: 9 }));
  const params = { [zlib.BROTLI_PARAM_QUALITY]: 11, [zlib.BROTLI_PARAM_SIZE_HINT]: contents.length };
  writeFileSync(join(directory, brotli), brotliCompressSync(contents, { params }));
  const extension = /** @type {keyof typeof TYPES} */ (file.slice(file.lastIndexOf(".") + 1));
  return { file, type: TYPES[extension], ...served, gzip, brotli };
}

/**
 * What the first view loads: the entry, its style, the chunk of the overview, and whatever these import.
 * @param {import("esbuild").Metafile} metafile
 * @param {ReadonlyMap<string, number>} bytes gzipped, by name
 */
function sizesOf({ outputs }, bytes) {
  const paths = Object.keys(outputs);
  const pathOf = (/** @type {string} */ end) =>
    /** @type {string} */ (paths.find((path) => outputs[path]?.entryPoint?.endsWith(end)));
  /** @param {string} path @param {Set<string>} seen */
  const withImports = (path, seen) => {
    if (seen.has(path)) return seen;
    seen.add(path);
    for (const { path: next, kind } of outputs[path]?.imports ?? []) {
      if (kind === "import-statement") withImports(next, seen);
    }
    return seen;
  };
  const first = withImports(pathOf("dashboard/main.tsx"), new Set());
  withImports(pathOf("views/overview.tsx"), first);
  first.add(pathOf("style/style.css"));
  const sum = (/** @type {Iterable<string>} */ some) =>
    [...some].reduce((total, path) => total + (bytes.get(basename(path)) ?? 0), 0);
  return { first: sum(first), all: sum(paths), files: Object.fromEntries(bytes) };
}

/** @param {{ first: number, all: number }} sizes */
export function checkSizes({ first, all }) {
  const tooMuch = [
    first > FIRST_VIEW_BYTES_MAX && `the first view has ${first} bytes of ${FIRST_VIEW_BYTES_MAX}`,
    all > ALL_VIEWS_BYTES_MAX && `all views together have ${all} bytes of ${ALL_VIEWS_BYTES_MAX}`,
  ].filter((one) => one !== false);
  if (tooMuch.length > 0) throw new Error(`The dashboard is too big (gzipped): ${tooMuch.join(", ")}.`);
}
