// Runs after `npm ci`. Without the development packages there is nothing to build with, and that is no error.

import { createRequire } from "node:module";

if (isInstalled("typescript/package.json") && isInstalled("esbuild/package.json"))
  await import("./build.mjs");

/** @param {string} file */
function isInstalled(file) {
  try {
    createRequire(import.meta.url).resolve(file);
    return true;
  } catch {
    return false;
  }
}
