// Plants mistakes in a copy of the source, one at a time, and runs the tests that should notice. A mistake that no test
// notices ends the program with 1. Rules with a number or a preference in them are the ones that are easily lost.
// Usage: npm run prove:tests -- [WORDS THAT A MISTAKE CONTAINS]

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Fault, withFault } from "./proving/canaries.ts";

interface Mistake extends Fault {
  /** Run as they are first, so that a failure is the mistake's. */
  readonly tests: readonly string[];
}

/** Tests that take longer than this are ended: a mistake may keep them from ending by themselves. */
const TESTS_MS_MAX = 900_000;
const SCENARIOS = ["test/conformance.test.ts"];
const LEADER = ["src/leader"];
const CLASS = "src/engine/disciplines/class";
const FAIR = "src/engine/disciplines/fair_share";

const MISTAKES: readonly Mistake[] = [
  {
    what: "the pool where units are coming free is not preferred (G5)",
    file: "src/engine/scheduling/schedule.ts",
    text: "return a.isHelped === b.isHelped",
    instead: "return a.isHelped === b.isHelped || a.waiter !== b.waiter",
    tests: SCENARIOS,
  },
  {
    what: "a shield never ends (24 h of V6)",
    file: "src/engine/indexes/shields.ts",
    text: "first + DAY_MS",
    instead: "first + 1000 * DAY_MS",
    tests: SCENARIOS,
  },
  {
    what: "a shield ends a second early (24 h of V6)",
    file: "src/engine/indexes/shields.ts",
    text: "first + DAY_MS",
    instead: "first + DAY_MS - 1_000",
    tests: SCENARIOS,
  },
  {
    what: "nearly done from 80 % of the walltime on (10.4)",
    file: `${CLASS}/cost.ts`,
    text: "usedMs * 10 >= walltimeMs * 9",
    instead: "usedMs * 10 >= walltimeMs * 8",
    tests: SCENARIOS,
  },
  {
    what: "nearly done only beyond 90 % (10.4)",
    file: `${CLASS}/cost.ts`,
    text: "usedMs * 10 >= walltimeMs * 9",
    instead: "usedMs * 10 > walltimeMs * 9",
    tests: SCENARIOS,
  },
  {
    what: "a node is overcommitted for 14 s (9.9)",
    file: `${FAIR}/overcommit.ts`,
    text: "OVERCOMMIT_MS_MAX = 15_000",
    instead: "OVERCOMMIT_MS_MAX = 14_000",
    tests: SCENARIOS,
  },
  {
    what: "shares are compared without a tolerance (9)",
    file: `${FAIR}/tolerances.ts`,
    text: "SHARE_EPSILON = 1e-9",
    instead: "SHARE_EPSILON = 1e-12",
    tests: SCENARIOS,
  },
  {
    what: "holders are lost before the calls of the batch are heard",
    file: "src/leader/loop.ts",
    text: "const answers = decideCalls(batch, lookups, hand.calls);\n      own.decideLosses(batch);",
    instead: "own.decideLosses(batch);\n      const answers = decideCalls(batch, lookups, hand.calls);",
    tests: LEADER,
  },
  {
    what: "a read is answered before the disk has what it saw, beside two batches under way",
    file: "src/leader/reads.ts",
    text: "look.seq > ledger.head.seq || !mayAnswer()",
    instead: "look.seq > ledger.head.seq + 2 || !mayAnswer()",
    tests: LEADER,
  },
  {
    what: "what was seen of a batch that failed is answered, beside two batches under way",
    file: "src/leader/reads.ts",
    text: "look.memory !== ledger.memory",
    instead: "look.memory === undefined",
    tests: LEADER,
  },
  {
    what: "the same key is decided twice, beside two batches under way",
    file: "src/leader/lookups.ts",
    text: "if (record !== undefined) answers.set(keyOf(key), record);",
    instead: "void record;",
    tests: LEADER,
  },
  {
    what: "what was answered with a failure is decided all the same, beside two batches under way",
    file: "src/leader/loop.ts",
    text: "if (mine === failures && isLeading()) write(hand, lookups);",
    instead: "if (isLeading()) write(hand, lookups);",
    tests: LEADER,
  },
  {
    what: "a snapshot is begun while something is under way, beside two batches under way",
    file: "src/leader/loop.ts",
    text: "if (underWay.length === 0) {\n      chores.look();",
    instead: "chores.look();\n    if (underWay.length === 0) {",
    tests: LEADER,
  },
  {
    what: "a snapshot never finds its moment, beside two batches under way",
    file: "src/leader/loop.ts",
    text: "underWay.length >= store.commitsAtOnce || chores.needsRest",
    instead: "underWay.length >= store.commitsAtOnce",
    tests: LEADER,
  },
  {
    what: "a commit that follows on another one under way is refused for good, beside two batches under way",
    file: "src/store/postgres/postgres.ts",
    text: "if (before !== undefined && !(await before)) return false;\n          // Refused the first time it was tried: by another writer. Refused later: perhaps by ourselves.\n          if (before === undefined && isFenced) return false;",
    instead: "if (isFenced) return false;",
    tests: ["test/contract/postgres.test.ts"],
  },
  {
    what: "the brake comes on at exactly 30 % (L3)",
    file: "src/leader/leases.ts",
    text: "most * 100 > SILENT_PERCENT",
    instead: "most * 100 >= SILENT_PERCENT",
    tests: LEADER,
  },
  {
    what: "snapshots by count only, never by age",
    file: "src/leader/chores.ts",
    text: "return isDue || isLong || isOld;",
    instead: "return isDue || isLong || (isOld && false);",
    tests: LEADER,
  },
  {
    what: "silence is counted from the answer, not from the sending",
    file: "src/sdk/lease.ts",
    text: "confirmedAtMs = sentAtMs;",
    instead: "confirmedAtMs = monotonicMs() + 0 * sentAtMs;",
    tests: ["src/sdk"],
  },
  {
    what: "a signal without a look at the start time of the pid",
    file: "src/runner/enclosure.ts",
    text: "if (readProcess(row.pid)?.startTime === row.startTime) sendSignal",
    instead: "if (readProcess(row.pid) !== undefined) sendSignal",
    tests: ["src/runner"],
  },
  {
    what: "exit code 75 without a checkpoint counts as failed (11.4)",
    file: "src/runner/outcome.ts",
    text: "  if (hasFinished)",
    instead: "  if (exitCode === 75 && !hasSaved) return 'failed';\n  if (hasFinished)",
    tests: ["src/runner/outcome.test.ts"],
  },
  {
    what: "why shows two priorities or classes the wrong way round",
    file: "src/server/why/reasons.ts",
    text: "part} \x24{difference.theirs} before \x24{difference.mine}",
    instead: "part} \x24{difference.mine} before \x24{difference.theirs}",
    tests: ["test/e2e/cli-demo.test.ts"],
  },
];

const root = fileURLToPath(new URL("../", import.meta.url));
const copy = mkdtempSync(join(tmpdir(), "berth-tests-"));
const COPIED = ["bench", "docs", "scenarios", "scripts", "src", "test", "package.json", "tsconfig.json"];
let hasFailed = false;
try {
  for (const name of [...COPIED, "vitest.config.ts"]) {
    cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  const wanted = MISTAKES.filter(({ what }) => what.includes(process.argv[2] ?? ""));
  for (const tests of new Set(wanted.map((mistake) => mistake.tests))) mustPass(tests);
  for (const mistake of wanted) prove(mistake);
} finally {
  rmSync(copy, { recursive: true, force: true });
}
process.exit(hasFailed ? 1 : 0);

function mustPass(tests: readonly string[]): void {
  const failures = failuresOf(tests);
  if (failures.length === 0) return;
  console.log(`✗ ${tests.join(" ")} fails without any mistake: ${failures[0]}`);
  hasFailed = true;
}

function prove(mistake: Mistake): void {
  const path = join(copy, mistake.file);
  const sound = readFileSync(path, "utf8");
  writeFileSync(path, withFault(sound, mistake));
  const failures = failuresOf(mistake.tests);
  writeFileSync(path, sound);
  console.log(
    `mistake: ${mistake.what}: ${failures.length > 0 ? `found by ${failures.length} tests` : "NOT FOUND"}`,
  );
  for (const failure of failures.slice(0, 3)) console.log(`  ${failure}`);
  if (failures.length === 0) hasFailed = true;
}

/** The tests that fail, by name; for a scenario file also the scenarios. */
function failuresOf(tests: readonly string[]): string[] {
  const report = join(copy, "report.json");
  rmSync(report, { force: true });
  spawnSync(
    "npx",
    ["vitest", "run", ...tests, "--maxWorkers=1", "--reporter=json", `--outputFile=${report}`],
    { cwd: copy, stdio: "ignore", timeout: TESTS_MS_MAX },
  );
  if (!existsSync(report)) return [`${tests.join(" ")} did not come to an end`];
  const { testResults } = JSON.parse(readFileSync(report, "utf8")) as Report;
  return testResults.flatMap(({ message, assertionResults }) => {
    const failed = assertionResults.filter(({ status }) => status === "failed");
    if (failed.length === 0) return message === undefined || message === "" ? [] : [message];
    return failed.map(({ fullName, failureMessages }) => {
      const scenario = /^.*FAIL {2}\S+ {2}([^…]*)$/m.exec(failureMessages.join("\n"))?.[1];
      return scenario === undefined ? fullName : `${fullName}: ${scenario}`;
    });
  });
}

interface Report {
  readonly testResults: readonly {
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}
