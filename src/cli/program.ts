// How this program was started, so that what it tells people to type works for them.

import { realpathSync } from "node:fs";
import { basename, delimiter, join, relative, sep } from "node:path";
import { shownPath } from "./paths.ts";

/** `berth` where the search path finds this very program; otherwise the way to it, such as `./berth`. */
export function programName(script: string, searchPath: string, directory: string): string {
  const name = "berth";
  if (basename(script) !== name) return name; // Not the launcher: a test, or a program of its own.
  const own = realPath(script);
  const found = searchPath
    .split(delimiter)
    .map((folder) => realPath(join(folder, name)))
    .find((path) => path !== undefined);
  if (found === own) return name;
  const near = relative(directory, script);
  return near.startsWith("..") ? shownPath(script) : `.${sep}${near}`;
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
