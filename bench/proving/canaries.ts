// Faults that a proof must find: it runs once more on a copy of the source in which one text stands for another. Nothing
// in the source itself could switch them on.

import { readFile } from "node:fs/promises";
import type { Loader, Plugin } from "esbuild";

export interface Fault {
  readonly what: string;
  /** Below the root of the repository. */
  readonly file: string;
  /** Stands there exactly once: a fault that no longer fits the source must not look like one that was found. */
  readonly text: string;
  readonly instead: string;
}

/** All of them in one plugin: esbuild asks no second one for a file that the first has loaded. */
export function planted(root: string, ...faults: readonly Fault[]): Plugin {
  return {
    name: "faults",
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        const own = faults.filter(({ file }) => path === root + file);
        if (own.length === 0) return undefined;
        const contents = own.reduce(withFault, await readFile(path, "utf8"));
        return { contents, loader: "ts" satisfies Loader };
      });
    },
  };
}

export function withFault(source: string, { what, file, text, instead }: Fault): string {
  const parts = source.split(text);
  if (parts.length !== 2) throw new Error(`"${what}" cannot be planted: ${file} has changed.`);
  return parts.join(instead);
}

/** Says whether a fault was found, and returns it. */
export function tell(what: string, found: number): boolean {
  console.log(`canary: ${what}: ${found > 0 ? `found out ${found} times` : "NOT FOUND OUT"}`);
  return found > 0;
}
