// Records what a real Slurm answers to the adapter's client, for `slurm.test.ts`. Needs what `npm run prove:slurm` needs:
//
//   npx tsx test/recorded/record-slurm.ts          writes test/recorded/slurm-VERSION.json
//
// Another version than the installed one: SLURM_BIN names the directory of its programs and daemons.

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { until } from "../../bench/clusters/world.ts";
import { missingPrograms, openSlurmCluster, type SlurmCluster } from "../../bench/slurm/cluster.ts";
import {
  createSlurm,
  programsIn,
  type RunProgram,
  type Slurm,
  SlurmFailure,
} from "../../src/executors/index.ts";

/** What one call of the client asked of a program, and what it got. */
export interface Recorded {
  readonly program: string;
  readonly args: readonly string[];
  readonly output?: string;
  readonly failure?: string;
}

const missing = missingPrograms();
if (missing.length > 0) {
  for (const line of missing) console.error(line);
  process.exit(2);
}
const cluster = await openSlurmCluster();
try {
  await record(cluster);
} finally {
  await cluster.close();
}

async function record({ run, bin, env, directory, killNode }: SlurmCluster): Promise<void> {
  const programs = programsIn(bin, env);
  const calls: Record<string, Recorded[]> = {};
  let label = "";
  const recording: RunProgram = async (program, args, input) => {
    const call = (answer: Partial<Recorded>) => {
      calls[label] = [...(calls[label] ?? []), { program, args: args.map(plain), ...answer }];
    };
    try {
      const output = await programs(program, args, input);
      call({ output: plain(output) });
      return output;
    } catch (error) {
      call({ failure: (error as Error).message });
      throw error;
    }
  };
  const plain = (text: string) => text.replaceAll(directory, "/shared");
  const slurm = createSlurm(programs);
  const recorded = createSlurm(recording);
  const take = async (name: string, ask: (client: Slurm) => Promise<unknown>) => {
    label = name;
    await ask(recorded).catch((error) => {
      if (!(error instanceof SlurmFailure)) throw error;
    });
  };
  const options = (name: string) => [
    `--job-name=${name}`,
    "--comment=berth lab",
    "--export=NONE",
    `--output=${directory}/out`,
    "--gres=gpu:1",
    "--nodes=1",
  ];
  const stateOf = async (id: string) => (await slurm.queue()).find((job) => job.id === id)?.state;
  const accounted = (id: string, state: string) =>
    until(`${id} is ${state}`, async () =>
      (await slurm.accounts({ ids: [id], names: [] })).some((job) => job.state === state),
    );

  await take("version", (client) => client.version());
  await take("time", (client) => client.time());
  await take("nodes idle", (client) => client.nodes());
  await take("partition", (client) => client.partition("berth"));
  await take("no partition", (client) => client.partition("nowhere"));
  await take("setting", (client) => client.setting("PreemptType"));
  await take("submit", (client) => client.submit(options("berth-a-1"), "#!/bin/sh\nsleep 2\nexit 3\n"));
  await take("queue held", (client) => client.queue("berth"));
  await take("release", (client) => client.release("1"));
  await until("it runs", async () => (await stateOf("1")) === "RUNNING");
  await take("queue running", (client) => client.queue("berth"));
  await take("nodes at work", (client) => client.nodes());
  await accounted("1", "FAILED");
  await take("accounts failed", (client) => client.accounts({ ids: ["1"], names: [] }));
  await take("accounts by name", (client) => client.accounts({ ids: [], names: ["berth-a-1"] }));
  await take("queue over", (client) => client.queue("berth"));
  await take("no job", (client) => client.release("99"));
  await take("accounts of none", (client) => client.accounts({ ids: ["99"], names: [] }));

  const long = await slurm.submit(options("berth-b-1"), "#!/bin/sh\ntrap : USR1\nsleep 300\n");
  await slurm.release(long);
  await until("the next runs", async () => (await stateOf(long)) === "RUNNING");
  await take("signal", (client) => client.signal(long, "USR1", "batch"));
  await take("cancel", (client) => client.cancel(long));
  await accounted(long, "CANCELLED");
  await take("accounts cancelled", (client) => client.accounts({ ids: [long], names: [] }));

  const again = await slurm.submit([...options("berth-c-1"), "--requeue"], "#!/bin/sh\nsleep 300\n");
  await slurm.release(again);
  await until("the third runs", async () => (await stateOf(again)) === "RUNNING");
  await run("scontrol", "requeue", again);
  await until("it waits again", async () => (await stateOf(again)) === "PENDING");
  await take("queue requeued", (client) => client.queue("berth"));
  for (const state of ["REQUEUED", "PENDING"]) await accounted(again, state);
  await take("accounts requeued", (client) => client.accounts({ ids: [again], names: [] }));
  await slurm.cancel(again);

  await run("sbatch", "--array=0-1", "--hold", "--job-name=others|job", "--wrap=true");
  await take("queue array", (client) => client.queue("berth"));
  await run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=a test");
  await killNode("n2");
  await run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=a test");
  await take("nodes drained and down", (client) => client.nodes());

  const version = (await slurm.version()).split(".").slice(0, 2).join(".");
  const path = fileURLToPath(new URL(`slurm-${version}.json`, import.meta.url));
  writeFileSync(path, `${JSON.stringify(calls, null, 2)}\n`);
  console.log(`Wrote ${path}: ${Object.keys(calls).length} calls.`);
}
