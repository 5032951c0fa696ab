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
      const policyFile = join(own, "agent.yaml");
      const policy = `components: { "*": { users: [${USER}], directories: [/] } }\n`;
      writeFileSync(policyFile, policy, { mode: 0o600 });
      return { stateDirectory: join(own, "adapter"), workDirectory, policyFile };
    },
  };
}
