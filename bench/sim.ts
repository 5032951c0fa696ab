// The engine under random commands, with the full check after every step: `npm run sim -- --seeds 2000`.
// A failure prints its seed; `npm run sim -- --seed 17` repeats it. In discipline `fair_share` it ends with long-run shares.

import { parseArgs } from "node:util";
import { simulate } from "../test/simulation/engine/simulate.ts";
import { proveLongRun } from "./proving/long-run.ts";

const LONG_RUN_REQUESTS = 10_000;
const DISCIPLINES = ["priority", "class", "fair_share"] as const;

/** Situations that a run of enough seeds must have reached, or it has not looked where it should. */
const RARE_EVERYWHERE = [
  "grant that fills a gap",
  "hold without victims",
  "hold ended: taken_over",
  "hold ended: not_covered",
  "hold ended: blocked_by_limit",
  "waiter cancelled while its victims stop",
  "waiter expired while its victims stop",
  "several victims at once",
  "preemption: reclaim",
  "preemption: backfill",
  "preemption: administration",
  "shielded after too many preemptions",
  "stop: walltime",
  "stop: cancellation",
  "stop: extended after progress",
  "stop: deferred",
  "checkpoint completed",
  "attempt ended: lost, queued",
  "attempt ended: lost, expired",
  "attempt ended: preempted, preempted",
  "attempt ended: walltime, queued",
  "attempt ended: succeeded, released",
  "retry after a delay",
  "wait timeout",
  "rejection",
  "restart while victims stop",
  "refused: stale_token",
  "refused: in_use",
  "refused: reserved_over_capacity",
  "policyDetached",
  "poolDeleted",
  "endedForgotten",
  "requestDeleted",
];
const RARE_OF: Readonly<Record<(typeof DISCIPLINES)[number], readonly string[]>> = {
  priority: [...RARE_EVERYWHERE, "preemption: priority"],
  class: [
    ...RARE_EVERYWHERE,
    "preemption: class",
    "preemption: sensitive",
    "taken back from a class that is not lower",
    "taken for class 10",
    "taken by band",
    "taken from its own component",
    "taken from a service",
    "taken without a checkpoint",
    "taken while others hold",
    "as many victims as max_victims",
    "granted at class 10",
    "granted to sensitive work",
  ],
  fair_share: [
    "hold without victims",
    "waiter cancelled while its victims stop",
    "several stop for a starving request",
    "takes because an element above it starves",
    "preemption: fair_share",
    "preemption: aggressive",
    "preemption: limit",
    "shielded after too many preemptions",
    "restart while victims stop",
  ],
};
const RARE_IN_SUMS = ["hold ended: not_admitted"];
const RARE_ON_NODES = [
  "gang granted",
  "gang granted across topology groups",
  "gang lost with one of its nodes",
  "granted under constraints",
  "granted beside others on a node",
  "granted while a node is draining",
  "granted while a node is suspect",
  "granted while a node is down",
  "node drained",
  "nodeRemoved",
];
const RARE_OF_CLASS_ON_NODES = [
  "gang takes victims",
  "gang as a victim",
  "taken from home nodes",
  "taken under constraints",
];

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "200" },
    seed: { type: "string" },
    steps: { type: "string", default: "100" },
    discipline: { type: "string", default: "priority" },
    nodes: { type: "boolean", default: false },
  },
});
const discipline = DISCIPLINES.find((each) => each === values.discipline);
if (discipline === undefined) {
  console.error(`--discipline is one of ${DISCIPLINES.join(", ")}, not ${values.discipline}`);
  process.exit(2);
}
const steps = Number(values.steps);
const first = values.seed === undefined ? 1 : Number(values.seed);
const count = values.seed === undefined ? Number(values.seeds) : 1;

const totals = new Map<string, number>();
let [events, restarts, virtualMs, violationCount] = [0, 0, 0, 0];
const startedAt = performance.now();
for (let seed = first; seed < first + count; seed++) {
  try {
    const report = simulate(seed, { steps, discipline, onNodes: values.nodes });
    events += report.journal.length;
    restarts += report.restarts;
    virtualMs += report.virtualMs;
    for (const [what, times] of report.counts) totals.set(what, (totals.get(what) ?? 0) + times);
  } catch (error) {
    violationCount++;
    console.error(error instanceof Error ? error.message : error);
    console.error(
      `  repeat: npm run sim -- --discipline ${discipline}${values.nodes ? " --nodes" : ""} --steps ${steps} --seed ${seed}`,
    );
    if (violationCount >= 10) break;
  }
}

const preemptions = [...totals]
  .filter(([what]) => what.startsWith("preemption: "))
  .reduce((sum, [, n]) => sum + n, 0);
console.log(`discipline ${discipline}${values.nodes ? ", on nodes" : ""}`);
console.log(
  `seeds ${count} · steps ${count * steps} · events ${events} · preemptions ${preemptions} · restarts ${restarts}`,
);
console.log(
  `virtual time ${Math.round(virtualMs / 3_600_000)} h · wall time ${((performance.now() - startedAt) / 1000).toFixed(1)} s`,
);
console.log("situations:");
for (const [what, times] of [...totals].sort(([a], [b]) => (a < b ? -1 : 1)))
  console.log(`  ${String(times).padStart(9)}  ${what}`);

const rare = [
  ...RARE_OF[discipline],
  ...(values.nodes ? RARE_ON_NODES : RARE_IN_SUMS),
  ...(!values.nodes && discipline === "class" ? ["more victims than max_victims"] : []),
  ...(values.nodes && discipline === "class" ? RARE_OF_CLASS_ON_NODES : []),
  ...(values.nodes && discipline === "fair_share" ? ["preemption: overcommit", "hold ended: node_lost"] : []),
];
const missed = count >= 500 ? rare.filter((what) => !totals.has(what)) : [];
for (const what of missed) console.error(`never reached: ${what}`);
const isFair = discipline !== "fair_share" || values.seed !== undefined || proveLongRun(LONG_RUN_REQUESTS);
console.log(`${violationCount} violations`);
process.exitCode = violationCount > 0 || missed.length > 0 || !isFair ? 1 : 0;
