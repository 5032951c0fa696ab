// The adapter under proof, as `berth adapter slurm --nodes` runs it. Its argument is JSON.

import { createSlurm, programsIn, startSlurmAdapter } from "../../src/executors/index.ts";
import { createClient } from "../../src/sdk/index.ts";

const { urls, token, pool, stateDirectory, workDirectory, policyFile } = JSON.parse(
  process.argv[2] ?? "{}",
) as { readonly urls: string[] } & Record<
  "token" | "pool" | "stateDirectory" | "workDirectory" | "policyFile",
  string
>;
startSlurmAdapter({
  client: createClient({ urls, token }),
  slurm: createSlurm(programsIn(process.env.SLURM_BIN, process.env)),
  ...{ pool, stateDirectory, workDirectory, policyFile },
  version: "proof",
  reportsNodes: true,
  partition: "berth",
  account: undefined,
  secrets: "/nonexistent",
  startMsMax: undefined,
  tell: (text) => console.error(`adapter: ${text}`),
});
process.on("disconnect", () => process.exit(0)); // The proof has ended.
process.send?.({});
