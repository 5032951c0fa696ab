// A small `berth run` without a server: reads its options from a file, runs the job, returns its exit code.
// A change of the window's size, of all signals, suspends the job: it is the one that nothing else uses here.

import { readFileSync } from "node:fs";
import {
  exitCodeOf,
  forwardSignals,
  isJobRefusal,
  type JobOptions,
  startJob,
} from "../../src/runner/index.ts";

const options = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as JobOptions;
// Like any wrapper, it passes on what it was started with.
if (process.env.BERTH_JOB !== undefined) options.env.BERTH_JOB = process.env.BERTH_JOB;

try {
  const job = await startJob(options);
  const stopForwarding = forwardSignals(job);
  process.once("SIGWINCH", () => {
    void job.freeze().then((isFrozen) => process.stdout.write(isFrozen ? "frozen\n" : "moving\n"));
  });
  process.stdout.write(`running ${job.pid}\n`);
  const exit = await job.exited;
  await job.gone;
  stopForwarding();
  job.close();
  process.exitCode = exitCodeOf(exit);
} catch (error) {
  if (!isJobRefusal(error)) throw error;
  process.stderr.write(`${error.code}: ${error.message}\n`);
  process.exitCode = error.exitCode;
}
