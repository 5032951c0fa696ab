// A pool on a Slurm of this machine. Jobs of its adapter run as `nobody`.

import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Site } from "../clusters/world.ts";
import type { SlurmCluster } from "./cluster.ts";

export const USER = "nobody";

export function siteOf({ directory, env, nodes }: SlurmCluster): Site {
  return {
    ...{ executor: "slurm", directory, env, nodes },
    adapterOptions(own) {
      const workDirectory = join(own, "work");
      mkdirSync(workDirectory, { recursive: true });
      chmodSync(workDirectory, 0o755);
      return { stateDirectory: join(own, "adapter"), workDirectory, policyFile: writePolicy(own) };
    },
  };
}

/** As whom jobs run, for an adapter of root; `home`: where, if they name no directory. */
export function writePolicy(own: string, home = "/"): string {
  const path = join(own, "agent.yaml");
  writeFileSync(path, `components: { "*": { users: [${USER}], directories: [${home}, /] } }\n`, {
    mode: 0o600,
  });
  return path;
}
