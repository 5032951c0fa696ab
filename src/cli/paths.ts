// Where things are kept on this machine (XDG), and how paths are shown.

import { homedir } from "node:os";
import { join, resolve } from "node:path";

type Environment = Readonly<Record<string, string | undefined>>;

export function dataDirectory(flag: string | undefined, env: Environment = process.env): string {
  const given = flag ?? env.BERTH_DATA_DIR;
  if (given) return resolve(given);
  return join(env.XDG_DATA_HOME || join(homedir(), ".local", "share"), "berth");
}

/** With `~` for the home directory. */
export function shownPath(path: string): string {
  const home = homedir();
  return path === home || path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}
