// Files with a secret in them: readable by their owner only, also where a file of that name was open to others.

import { lstatSync, rmSync, writeFileSync } from "node:fs";

export function writePrivateFile(path: string, content: string): void {
  const known = lstatSync(path, { throwIfNoEntry: false });
  // A file that exists would keep its mode, and those who have it open would read along. A device or a pipe is meant as it is.
  const isReplaced = known === undefined || known.isFile() || known.isSymbolicLink();
  if (isReplaced) rmSync(path, { force: true });
  writeFileSync(path, content, { mode: 0o600, flag: isReplaced ? "wx" : "w" });
}
