// What to do next about an attempt in Slurm (S2–S6): what is written down, what Slurm shows, what is wanted.

import { expect, test } from "vitest";
import type { Wish } from "../attempt.ts";
import { START_MS_MAX } from "../attempt.ts";
import type { AccountedJob, QueuedJob } from "./commands.ts";
import { REFUSED_RESTART } from "./script.ts";
import { type AccountOf, accountsOfName } from "./states.ts";
import { CATCH_UP_MS_MAX, type Move, type Note, nextMoves, RELEASE_AGAIN_MS } from "./steps.ts";
import type { Trace } from "./traces.ts";

const NOW = 10_000_000;
const queued = (id: string, state: string, reason = "None"): QueuedJob => ({
  ...{ id, state, reason, comment: "berth lab", name: "berth-r-1" },
});
const accounted = (id: string, state: string, exitCode = 0, signal = 0): AccountOf => ({
  ...{ id, state, exitCode, signal, name: "berth-r-1", endedAt: undefined, isSure: true },
});
const unsure = (...job: Parameters<typeof accounted>): AccountOf => ({ ...accounted(...job), isSure: false });
const submitted: Note = { jobId: "7" };
const released: Note = { jobId: "7", releasedAtMs: NOW - 1_000 };
const running: Note = { ...released, hasRun: true };
const stopping: Note = { ...running, told: "stop", asked: "stop" };
const begun: Trace = { hasBegun: true };
const exited = (code: number): Trace => ({ hasBegun: true, exit: { code, wasTold: false } });
const toldAndExited = (code: number): Trace => ({ hasBegun: true, exit: { code, wasTold: true } });
const waitedLong: Note = { ...running, differingSinceMs: NOW - CATCH_UP_MS_MAX };

interface Case {
  readonly note: Note;
  readonly queue?: QueuedJob[];
  readonly accounts?: AccountOf[];
  readonly trace?: Trace;
  readonly missingForMs?: number;
  readonly wish?: Wish["do"];
  readonly isOverdue?: boolean;
  readonly want: string[];
}

const cases: Record<string, Case> = {
  "S2 a new attempt: its name is looked for in the accounting, too": { note: {}, want: ["account"] },
  "S2 absent: it is submitted": { note: {}, accounts: [], want: ["submit"] },
  "S2 submitted by a process that did not write the number down: it is now": {
    note: {},
    queue: [queued("7", "PENDING", "JobHeldUser")],
    want: ["note jobId=7"],
  },
  "S2 of two of one name the first counts": {
    note: {},
    queue: [queued("12", "PENDING", "JobHeldUser"), queued("7", "PENDING", "JobHeldUser")],
    want: ["note jobId=7"],
  },
  "S2 ended before its number was known (a lost disk): not started again": {
    note: {},
    accounts: [accounted("7", "COMPLETED")],
    want: ["note jobId=7"],
  },
  "S2 others of the name never ran and are cancelled": {
    note: running,
    queue: [queued("7", "RUNNING"), queued("9", "PENDING", "JobHeldUser")],
    want: ["cancel 9"],
  },
  "J5 the release is written down before it happens": {
    note: submitted,
    queue: [queued("7", "PENDING", "JobHeldUser")],
    want: [`note releasedAtMs=${NOW}`, "release 7"],
  },
  "J5 a release that the controller forgot: with the start, perhaps, whose script would begin soon": {
    note: released,
    queue: [queued("7", "PENDING", "JobHeldUser")],
    want: [`note differingSinceMs=${NOW}`],
  },
  "J5 that is waited for": {
    note: { ...released, differingSinceMs: NOW - RELEASE_AGAIN_MS + 1 },
    queue: [queued("7", "PENDING", "JobHeldUser")],
    want: [],
  },
  "S6 then it comes again": {
    note: { ...released, differingSinceMs: NOW - RELEASE_AGAIN_MS },
    queue: [queued("7", "PENDING", "JobHeldUser")],
    want: ["release 7"],
  },
  "S3 released and waiting: nothing": {
    note: released,
    queue: [queued("7", "PENDING", "Resources")],
    want: [],
  },
  "S3 not started in time: held, and given back": {
    note: { ...released, releasedAtMs: NOW - START_MS_MAX - 1 },
    queue: [queued("7", "PENDING", "Resources")],
    want: ["hold 7", "note gaveUp=Resources"],
  },
  "S3 given back: cancelled": {
    note: { ...released, gaveUp: "Resources" },
    queue: [queued("7", "PENDING", "JobHeldUser")],
    want: ["cancel 7"],
  },
  "S3 given back and gone: a start that failed, with Slurm's reason": {
    note: { ...released, gaveUp: "Resources" },
    accounts: [accounted("7", "CANCELLED")],
    want: ["end failed start_failed Slurm did not start it in time: Resources."],
  },
  "at work for the first time: written down": {
    note: released,
    queue: [queued("7", "RUNNING")],
    want: ["note hasRun=true"],
  },
  "S4 asked for a checkpoint: written down, then asked": {
    note: running,
    queue: [queued("7", "RUNNING")],
    wish: "checkpoint",
    want: ["note hasSaved=false told=checkpoint"],
  },
  "S4 told, but not asked yet": {
    note: { ...running, told: "checkpoint" },
    queue: [queued("7", "RUNNING")],
    wish: "checkpoint",
    want: ["ask checkpoint 7"],
  },
  "S4 SIGTERM after the checkpoint": {
    note: { ...running, told: "stop", asked: "checkpoint" },
    queue: [queued("7", "RUNNING")],
    wish: "stop",
    want: ["ask stop 7"],
  },
  "S4 asked to stop, within the grace: nothing more": {
    note: stopping,
    queue: [queued("7", "RUNNING")],
    wish: "stop",
    want: [],
  },
  "S4 the grace is over: cancelled": {
    note: stopping,
    queue: [queued("7", "RUNNING")],
    wish: "stop",
    isOverdue: true,
    want: ["cancel 7"],
  },
  "S6 a cancellation that the controller forgot comes again": {
    note: stopping,
    queue: [queued("7", "RUNNING")],
    wish: "end",
    want: ["cancel 7"],
  },
  "stopped before it was at work: cancelled, as our doing": {
    note: { ...released, told: "stop" },
    queue: [queued("7", "PENDING", "Priority")],
    wish: "stop",
    want: ["cancel 7"],
  },
  "cancelled before it was submitted: never submitted": {
    note: {},
    accounts: [],
    wish: "stop",
    want: ["end stopped"],
  },
  "S3 COMPLETING holds its units": {
    note: running,
    queue: [queued("7", "COMPLETING")],
    accounts: [],
    want: [],
  },
  "over in the queue: the accounting says how": {
    note: running,
    queue: [queued("7", "COMPLETED")],
    want: ["account"],
  },
  "the accounting is late: nothing is said yet": {
    note: running,
    queue: [queued("7", "FAILED")],
    accounts: [accounted("7", "RUNNING")],
    want: [],
  },
  "S3 COMPLETED": {
    note: running,
    accounts: [accounted("7", "COMPLETED")],
    trace: exited(0),
    want: ["end succeeded 0"],
  },
  "S3 FAILED": {
    note: running,
    accounts: [accounted("7", "FAILED", 3)],
    trace: exited(3),
    want: ["end failed 3"],
  },
  "J5 COMPLETED, but its script has not begun: the disk may be late": {
    note: running,
    accounts: [accounted("7", "COMPLETED")],
    want: [`note differingSinceMs=${NOW}`],
  },
  "J5 or the accounting means another job, which had the number before a controller crashed": {
    note: waitedLong,
    accounts: [unsure("7", "COMPLETED")],
    want: ["end lost Slurm says COMPLETED, but its script does not."],
  },
  "J5 also if that has failed": {
    note: waitedLong,
    accounts: [unsure("7", "FAILED", 3)],
    want: ["end lost Slurm says FAILED, but its script does not."],
  },
  "J5 a command whose number was given out twice has ended only by the word of its script": {
    note: waitedLong,
    accounts: [unsure("7", "COMPLETED")],
    trace: begun,
    want: ["end lost Slurm says COMPLETED, but its script does not."],
  },
  "S3 FAILED before its script began, as what Slurm cannot start: Slurm's word": {
    note: waitedLong,
    accounts: [accounted("7", "FAILED", 1)],
    want: ["end failed 1"],
  },
  "11.4 a job of which the accounting heard only the end: the script knows how": {
    note: running,
    accounts: [unsure("7", "FAILED", 3)],
    trace: exited(3),
    want: ["end failed 3"],
  },
  "S3 OUT_OF_MEMORY": {
    note: running,
    accounts: [accounted("7", "OUT_OF_MEMORY", 0, 9)],
    want: ["end failed oom 137"],
  },
  "S3 NODE_FAIL: lost": {
    note: waitedLong,
    accounts: [accounted("7", "NODE_FAIL")],
    want: ["end lost Slurm ended it: NODE_FAIL."],
  },
  "S3 BOOT_FAIL: lost": {
    note: running,
    accounts: [accounted("7", "BOOT_FAIL")],
    want: ["end lost Slurm ended it: BOOT_FAIL."],
  },
  "S3 a foreign PREEMPTED: lost": {
    ...{
      note: running,
      accounts: [accounted("7", "PREEMPTED")],
      want: ["end lost Slurm ended it: PREEMPTED."],
    },
  },
  "S3 TIMEOUT: by the partition's limit": {
    ...{
      note: running,
      accounts: [accounted("7", "TIMEOUT")],
      want: ["end failed walltime It ran longer than the time limit of its Slurm partition. 0"],
    },
  },
  "S3 started again after a crash of the controller, and refused by its script: the first may still end": {
    note: running,
    accounts: [accounted("7", "FAILED", REFUSED_RESTART)],
    trace: begun,
    want: [`note differingSinceMs=${NOW}`],
  },
  "S3 and if it does not: lost": {
    note: waitedLong,
    accounts: [accounted("7", "FAILED", REFUSED_RESTART)],
    trace: begun,
    want: ["end lost Slurm ended it: it was started again."],
  },
  "11.4 what has ended by itself has, whatever a controller that crashed makes of it": {
    note: running,
    accounts: [accounted("7", "CANCELLED")],
    trace: exited(0),
    want: ["end succeeded 0"],
  },
  "11.4 so has what it was requeued after": {
    note: running,
    accounts: [accounted("7", "REQUEUED"), accounted("7", "FAILED", REFUSED_RESTART)],
    trace: exited(3),
    want: ["end failed 3"],
  },
  "11.4 also with an exit code that looks like that of a signal": {
    note: running,
    accounts: [accounted("7", "CANCELLED")],
    trace: exited(137),
    want: ["end failed 137"],
  },
  "11.4 Slurm shows 200 as 72: the script knows better": {
    note: running,
    accounts: [accounted("7", "FAILED", 72)],
    trace: exited(200),
    want: ["end failed 200"],
  },
  "S3 a command that Slurm told to end has no result of its own, also if it ended well": {
    note: running,
    accounts: [accounted("7", "PREEMPTED")],
    trace: toldAndExited(0),
    want: ["end lost Slurm ended it: PREEMPTED."],
  },
  "S3 nor has one that a limit of Slurm ended": {
    note: running,
    accounts: [accounted("7", "OUT_OF_MEMORY", 0, 9)],
    trace: exited(1),
    want: ["end failed oom 1"],
  },
  "11.4 one that was told by somebody's signal, and not ended by Slurm, has": {
    note: running,
    accounts: [accounted("7", "COMPLETED")],
    trace: toldAndExited(0),
    want: ["end succeeded 0"],
  },
  "J5 Slurm says that it is over, the script has said nothing yet: it is waited for": {
    note: running,
    accounts: [accounted("7", "CANCELLED")],
    trace: begun,
    want: [`note differingSinceMs=${NOW}`],
  },
  "J5 for so long": {
    note: { ...running, differingSinceMs: NOW - CATCH_UP_MS_MAX + 1 },
    accounts: [accounted("7", "NODE_FAIL")],
    trace: begun,
    want: [],
  },
  "J5 and no longer": {
    note: waitedLong,
    accounts: [accounted("7", "NODE_FAIL")],
    trace: begun,
    want: ["end lost Slurm ended it: NODE_FAIL."],
  },
  "S4 what we have cancelled has nothing to say: its units are free at once": {
    note: stopping,
    accounts: [accounted("7", "CANCELLED")],
    trace: begun,
    wish: "stop",
    want: ["end stopped 0"],
  },
  "J5 the script has ended, Slurm shows it at work: it is waited for": {
    note: running,
    queue: [queued("7", "RUNNING")],
    trace: exited(0),
    want: [`note differingSinceMs=${NOW}`],
  },
  "J5 and then cancelled: a crashed controller has forgotten the end": {
    note: waitedLong,
    queue: [queued("7", "RUNNING")],
    trace: exited(0),
    want: ["cancel 7"],
  },
  "Slurm has caught up": {
    note: waitedLong,
    queue: [queued("7", "RUNNING")],
    trace: begun,
    want: ["note "],
  },
  "J5 a start that a crashed controller forgot: it is not released again": {
    note: released,
    queue: [queued("7", "PENDING", "JobHeldUser")],
    trace: begun,
    want: [`note differingSinceMs=${NOW} hasRun=true hasWaitedAgain=true`],
  },
  "J5 nor started, if it was released before the crash": {
    note: { ...running, hasWaitedAgain: true, differingSinceMs: NOW - 1 },
    queue: [queued("7", "PENDING", "Priority")],
    trace: begun,
    want: ["hold 7"],
  },
  "J5 and left alone until the controller has heard of its nodes": {
    note: { ...running, hasWaitedAgain: true, differingSinceMs: NOW - CATCH_UP_MS_MAX + 1 },
    queue: [queued("7", "PENDING", "JobHeldUser")],
    trace: begun,
    want: [],
  },
  "J5 or until it has ended by itself": {
    note: { ...running, hasWaitedAgain: true, differingSinceMs: NOW - 1 },
    queue: [queued("7", "PENDING", "JobHeldUser")],
    trace: exited(0),
    want: ["cancel 7"],
  },
  "J5 then it is cancelled": {
    note: { ...waitedLong, hasWaitedAgain: true },
    queue: [queued("7", "PENDING", "JobHeldUser")],
    trace: begun,
    want: ["cancel 7"],
  },
  "J5 and lost": {
    note: { ...waitedLong, hasWaitedAgain: true },
    accounts: [accounted("7", "CANCELLED")],
    trace: begun,
    want: ["end lost Slurm ended it: CANCELLED."],
  },
  "J5 also after a stop of ours the script of what was forgotten may still end": {
    note: { ...stopping, hasWaitedAgain: true },
    accounts: [accounted("7", "CANCELLED")],
    trace: begun,
    wish: "stop",
    want: [`note differingSinceMs=${NOW}`],
  },
  "J5 a CANCELLED that is not ours may be a start that was forgotten: the script may still begin": {
    note: released,
    accounts: [accounted("7", "CANCELLED")],
    want: [`note differingSinceMs=${NOW}`],
  },
  "J5 and if it does not, it never ran: a node may refuse a job, and Slurm then cancels it": {
    note: { ...released, differingSinceMs: NOW - CATCH_UP_MS_MAX },
    accounts: [accounted("7", "CANCELLED")],
    want: ["end lost Slurm cancelled it before it began."],
  },
  "S3 a foreign CANCELLED: failed": {
    note: waitedLong,
    accounts: [accounted("7", "CANCELLED")],
    want: ["end failed interrupted Slurm ended it: CANCELLED. 0"],
  },
  "S3 our own CANCELLED: stopped": {
    note: stopping,
    accounts: [accounted("7", "CANCELLED")],
    wish: "stop",
    want: ["end stopped 0"],
  },
  "11.4 saved, then ended with 0: the stop that was asked for": {
    note: { ...running, told: "checkpoint", asked: "checkpoint", hasSaved: true },
    accounts: [accounted("7", "COMPLETED")],
    trace: exited(0),
    wish: "checkpoint",
    want: ["end stopped 0"],
  },
  "S3 requeued in Slurm: it must not run again": {
    note: { ...running, hasWaitedAgain: true, differingSinceMs: NOW },
    queue: [queued("7", "PENDING", "BeginTime")],
    trace: toldAndExited(143),
    want: ["cancel 7"],
  },
  "S3 requeued and then cancelled: lost": {
    note: running,
    accounts: [accounted("7", "REQUEUED"), accounted("7", "CANCELLED")],
    want: ["end lost Slurm ended it: REQUEUED."],
  },
  "neither knows it: not yet lost": { note: running, accounts: [], missingForMs: 1_000, want: [] },
  "neither has known it for long: lost": {
    note: running,
    accounts: [],
    missingForMs: CATCH_UP_MS_MAX,
    want: ["end lost Slurm no longer knows it."],
  },
  "neither has known it for long, and its script has said how it ended": {
    note: running,
    accounts: [],
    missingForMs: CATCH_UP_MS_MAX,
    trace: exited(3),
    want: ["end failed 3"],
  },
  "never released and forgotten: it never ran, and is submitted again": {
    note: submitted,
    accounts: [],
    missingForMs: CATCH_UP_MS_MAX,
    want: ["note "],
  },
};

for (const [name, one] of Object.entries(cases)) {
  test(name, () => {
    const { note, queue = [], accounts, missingForMs = 0, wish = "carry_on", isOverdue = false } = one;
    const seen = {
      queued: queue,
      accounted: accounts,
      missingForMs,
      trace: one.trace ?? { hasBegun: false },
    };
    const moves = nextMoves(note, seen, { do: wish, isOverdue }, NOW);
    expect(moves.map((move) => textOf(move, note))).toEqual(one.want);
  });
}

const DAY_MS = 24 * 3_600_000;
const records: Record<string, { jobs: Partial<AccountedJob>[]; want: string[] }> = {
  "one of the name": { jobs: [{}], want: ["COMPLETED sure"] },
  "one without a name": { jobs: [{ name: "allocation" }], want: ["COMPLETED"] },
  "the number was given out twice": {
    jobs: [{ name: "berth-q-1", state: "NODE_FAIL" }, { state: "FAILED" }],
    want: ["FAILED"],
  },
  "but long ago": {
    jobs: [{ name: "other", endedAt: new Date(NOW - DAY_MS).toISOString() }, {}],
    want: ["COMPLETED sure"],
  },
};
for (const [name, { jobs, want }] of Object.entries(records)) {
  test(`what the accounting says of a number: ${name}`, () => {
    const all = jobs.map((job) => ({ ...accounted("7", "COMPLETED"), ...job }));
    const own = accountsOfName("berth-r-1", all, NOW);
    expect(own.map(({ state, isSure }) => (isSure ? `${state} sure` : state))).toEqual(want);
  });
}

function textOf(move: Move, before: Note): string {
  switch (move.kind) {
    case "note": {
      const changes = Object.entries(move.note).filter(([key, value]) => before[key as keyof Note] !== value);
      return `note ${changes
        .map(([key, value]) => `${key}=${value}`)
        .toSorted()
        .join(" ")}`;
    }
    case "end": {
      const { outcome, cause, message, exit_code } = move.end;
      return ["end", outcome, cause, message, exit_code].filter((word) => word !== undefined).join(" ");
    }
    case "ask":
      return `ask ${move.for} ${move.id}`;
    case "submit":
    case "account":
      return move.kind;
    default:
      return `${move.kind} ${move.id}`;
  }
}
