// Secrets are named by a job, and resolved where it runs (J2): a file each, in a folder of the component or for all.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { RunAsRefusal } from "./run-as.ts";

/** Their names are checked where they enter, so that none leads out of the folder; a component is a name, too. */
export function secretsOf(
  names: readonly string[],
  component: string,
  directory: string,
): Record<string, string> {
  return Object.fromEntries(
    names.map((name) => {
      const value = readSecret(join(directory, component, name)) ?? readSecret(join(directory, name));
      if (value === undefined)
        throw new RunAsRefusal(`There is no secret ${name} for ${component} on this node.`);
      return [name, value];
    }),
  );
}

/** Without the line break that editors add. */
function readSecret(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").replace(/\n$/, "");
  } catch {
    return undefined;
  }
}
