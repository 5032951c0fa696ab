// The shapes of Kueue's scheduler performance suite: `npm run bench:kueue -- [DIRECTORY OF WORKLOADS] [--server]`.
// In virtual time the engine alone decides and everything else is instant; with --server a real server on the
// embedded store does it in real time. Priorities 50, 100, 200 become classes 2, 5, 8; reserved is the nominal
// quota, limit the nominal quota plus the borrowing limit. Preempted work runs its full time again.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type KueueWorkload, type Outcome, playInVirtualTime } from "./kueue/virtual.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { server: { type: "boolean", default: false }, only: { type: "string" } },
});
const directory = positionals[0] ?? "../shared/workloads";
const names = ["kueue-baseline", "kueue-large-scale"].filter(
  (name) => values.only === undefined || name === values.only,
);

for (const name of names) {
  const workload = JSON.parse(readFileSync(join(directory, `${name}.json`), "utf8")) as KueueWorkload;
  console.log(
    `\n${name}: ${workload.totalRequests} requests, ${workload.pools} pools of ${workload.capacityPerPool} ${workload.key}`,
  );
  report("virtual time, engine alone", workload, playInVirtualTime(workload));
  if (values.server) {
    const { playOnServer } = await import("./kueue/server.ts");
    report("real server, embedded store, bulk calls", workload, await playOnServer(workload));
  }
  const { published } = workload;
  console.log(
    `  Kueue publishes       ${published.wallMs} ms, mean time to grant ${JSON.stringify(published.meanTimeToGrantMs)}`,
  );
}

function report(how: string, { limits }: KueueWorkload, outcome: Outcome): void {
  const ratio = outcome.wallMs / limits.zeroLatencyReferenceMs;
  console.log(`  ${how}`);
  console.log(
    `    all done after      ${outcome.wallMs} ms = ${ratio.toFixed(3)} × zeroLatencyReferenceMs (aim 1.15); hard limit ${limits.capacityBoundMs} ms`,
  );
  console.log(
    `    mean time to grant  ${JSON.stringify(outcome.meanTimeToGrantMs)} (reference ${JSON.stringify(limits.zeroLatencyMeanTimeToGrantMs)})`,
  );
  console.log(
    `    preemptions         ${outcome.preemptions}, lost work ${Math.round(outcome.lostUnitMs / 1000)} unit·s`,
  );
  if (outcome.decisionMs !== undefined)
    console.log(`    deciding took       ${Math.round(outcome.decisionMs)} ms of processor time`);
}
