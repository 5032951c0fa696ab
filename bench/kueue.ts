// The shapes of Kueue's scheduler performance suite: `npm run bench:kueue -- [DIRECTORY] [--virtual] [--only NAME]`.
// In virtual time the engine alone decides and everything else is instant; on a server all is real: the embedded
// store, HTTP, bulk calls, the event stream. Priorities 50, 100, 200 are classes 2, 5, 8; reserved is the nominal
// quota, limit the nominal quota plus the borrowing limit. Preempted work runs its full time again.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { playOnServer } from "./kueue/server.ts";
import { type KueueWorkload, type Outcome, playInVirtualTime } from "./kueue/virtual.ts";

const NAMES = ["kueue-baseline", "kueue-large-scale"];
const AIM = 1.15;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { virtual: { type: "boolean", default: false }, only: { type: "string" } },
});
const directory = positionals[0] ?? "../shared/workloads";
const missing = NAMES.find((name) => !existsSync(join(directory, `${name}.json`)));
if (missing !== undefined) {
  console.error(
    `There is no ${missing}.json in ${directory}. Say where the workloads are: npm run bench:kueue -- DIRECTORY`,
  );
  process.exit(2);
}

for (const name of NAMES.filter((each) => values.only === undefined || each === values.only)) {
  const workload = JSON.parse(readFileSync(join(directory, `${name}.json`), "utf8")) as KueueWorkload;
  const { published, limits, streams } = workload;
  const ratioOf = (wallMs: number) => wallMs / limits.zeroLatencyReferenceMs;
  const classes = streams.map((stream) => `${stream.name} (class ${stream.preemptionClass})`);
  const row = (
    what: string,
    wallMs: number,
    times: Record<string, number>,
    rest: readonly (number | string)[],
  ) =>
    print([
      what,
      wallMs,
      ratioOf(wallMs).toFixed(3),
      ...streams.map((stream) => times[stream.name] ?? "-"),
      ...rest,
    ]);

  const { pools, policiesPerPool, capacityPerPool, key } = workload;
  console.log(
    `\n${name}: ${workload.totalRequests} requests, ${pools} pools of ${capacityPerPool} ${key}, ${policiesPerPool} policies each`,
  );
  print(["", "all done, ms", "ratio", ...classes, "preemptions", "lost unit·s"]);
  row("Kueue, as published", published.wallMs, published.meanTimeToGrantMs, ["-", "-"]);
  row("reference, no delays", limits.zeroLatencyReferenceMs, limits.zeroLatencyMeanTimeToGrantMs, [
    limits.zeroLatencyPreemptions,
    "-",
  ]);
  const show = (how: string, outcome: Outcome) =>
    row(how, outcome.wallMs, outcome.meanTimeToGrantMs, [
      outcome.preemptions,
      Math.round(outcome.lostUnitMs / 1000),
    ]);

  const virtual = playInVirtualTime(workload);
  show("Berth, virtual time", virtual);
  const real = values.virtual ? undefined : await playOnServer(workload);
  if (real !== undefined) show("Berth, real server", real);
  console.log(
    `  The ratio is to the reference (aim ${AIM}); no scheduler is done before ${limits.capacityBoundMs} ms. Times to grant are means in ms.`,
  );
  console.log(
    `  Processor time: deciding in virtual time ${seconds(virtual)}${real ? `, server ${seconds(real)}` : ""}`,
  );
}

function seconds({ processorMs }: Outcome): string {
  return `${(processorMs / 1000).toFixed(1)} s`;
}

function print([what, ...cells]: readonly (number | string)[]): void {
  const columns = cells.map((cell) => String(cell).padStart(16));
  console.log(`  ${String(what).padEnd(21)}${columns.join(" ")}`);
}
