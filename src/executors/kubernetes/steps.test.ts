// What to do next about an attempt in Kubernetes (K1–K3): what is written down, what the cluster shows, what is wanted.

import { expect, test } from "vitest";
import type { Wish } from "../attempt.ts";
import { START_MS_MAX } from "../attempt.ts";
import type { PodEnd, PodFacts } from "./states.ts";
import { type Move, type Note, nextMoves, type Seen } from "./steps.ts";

const NOW = 10_000_000;
const JOB = "berth-1-1";
const pod = (stage: PodFacts["stage"], more: Partial<PodFacts> = {}): PodFacts => ({
  ...{ uid: "u1", name: "p1", job: JOB, stage, isDeleted: false, why: undefined, end: undefined },
  ...more,
});
const exited = (exitCode: number, said?: string): PodEnd => ({
  kind: "exited",
  exitCode,
  ...(said && { said }),
});
const over = (end: PodEnd, more: Partial<PodFacts> = {}) => pod("over", { end, ...more });
const CARRY_ON: Wish = { do: "carry_on", isOverdue: false };
const STOP: Wish = { do: "stop", isOverdue: false };
const SAVE: Wish = { do: "checkpoint", isOverdue: false };
const MADE: Note = { madeAtMs: NOW - 1_000, isMade: true };
const SEEN: Note = { ...MADE, pods: { [JOB]: "u1" } };
const RAN: Note = { ...SEEN, hasRun: true, hasSaved: false, hasFinished: false, ends: {} };
const HERE = { [JOB]: { isDeleted: false } };
const LEAVING = { [JOB]: { isDeleted: true } };

interface Case {
  readonly note: Note;
  readonly jobs?: Record<string, { isDeleted: boolean }>;
  readonly pods?: PodFacts[];
  readonly isConfirmed?: boolean;
  readonly saying?: string;
  readonly wish?: Wish;
  readonly want: (Move | { kind: Move["kind"] })[];
}

const noted = (note: Note): Move => ({ kind: "note", note });
const ends = (end: object) => ({ kind: "end", end }) as Move;

const cases: Record<string, Case> = {
  "J5: that it will be made is written down first": { note: {}, want: [noted({ madeAtMs: NOW })] },
  "it is made": { note: { madeAtMs: NOW }, want: [{ kind: "make" }] },
  "it was made, and the adapter ended before it wrote that down": {
    note: { madeAtMs: NOW },
    jobs: HERE,
    want: [{ kind: "make" }],
  },
  "not wanted any more, before anything was made": {
    note: {},
    wish: STOP,
    want: [ends({ outcome: "stopped" })],
  },
  "not wanted any more, and perhaps made": {
    note: { madeAtMs: NOW },
    wish: STOP,
    want: [{ kind: "confirm" }],
  },
  "not wanted any more, and not made by the cluster's own word": {
    ...{ note: { madeAtMs: NOW }, wish: STOP, isConfirmed: true, want: [ends({ outcome: "stopped" })] },
  },
  "not wanted any more, and there": {
    note: { madeAtMs: NOW },
    wish: STOP,
    jobs: HERE,
    want: [noted({ madeAtMs: NOW, isMade: true })],
  },
  "its pod is not there yet": { note: MADE, jobs: HERE, want: [] },
  "its first pod is written down": {
    ...{ note: MADE, jobs: HERE, pods: [pod("waiting")] },
    want: [noted({ ...SEEN, ends: {}, hasRun: false, hasSaved: false, hasFinished: false })],
  },
  "it runs": { note: RAN, jobs: HERE, pods: [pod("running")], want: [] },
  "it has ended by itself: first the note": {
    ...{ note: RAN, jobs: HERE, pods: [over(exited(3))] },
    want: [noted({ ...RAN, ends: { [JOB]: exited(3) } })],
  },
  "it has ended by itself": {
    ...{ note: { ...RAN, ends: { [JOB]: exited(3) } }, jobs: HERE, pods: [over(exited(3))] },
    want: [ends({ outcome: "failed", exit_code: 3 })],
  },
  "K2: its job was deleted by Kubernetes' word only": { note: RAN, want: [{ kind: "confirm" }] },
  "K2: its job is gone": {
    note: RAN,
    isConfirmed: true,
    want: [noted({ ...RAN, broken: "its job was deleted" })],
  },
  "K2: gone, so it is lost": {
    ...{ note: { ...RAN, broken: "its job was deleted" }, isConfirmed: true },
    want: [ends({ outcome: "lost", message: "Kubernetes ended it: its job was deleted." })],
  },
  "K3: its pod was taken away": {
    ...{ note: RAN, jobs: HERE, pods: [pod("ending", { isDeleted: true })] },
    want: [noted({ ...RAN, broken: "its pod was deleted" })],
  },
  "K3: taken away, so the job goes before it makes another": {
    ...{
      note: { ...RAN, broken: "its pod was deleted" },
      jobs: HERE,
      pods: [pod("ending", { isDeleted: true })],
    },
    want: [{ kind: "delete", job: JOB }],
  },
  "K3: what was taken away is lost, whatever its exit code": {
    ...{ note: { ...RAN, broken: "its pod was deleted", ends: { [JOB]: exited(143) } }, jobs: LEAVING },
    want: [ends({ outcome: "lost", message: "Kubernetes ended it: its pod was deleted." })],
  },
  "J5: another pod was made for it": {
    ...{ note: RAN, jobs: HERE, pods: [over(exited(143)), pod("waiting", { uid: "u2", name: "p2" })] },
    want: [noted({ ...RAN, ends: { [JOB]: exited(143) } })],
  },
  "J5: another pod, so all of it must go": {
    ...{ note: { ...RAN, ends: { [JOB]: exited(143) } }, jobs: HERE },
    pods: [over(exited(143)), pod("waiting", { uid: "u2", name: "p2" })],
    want: [
      noted({
        ...RAN,
        ends: { [JOB]: exited(143) },
        broken: "its pod was taken away, and another one was made",
      }),
    ],
  },
  "K2: asked to save": {
    note: RAN,
    jobs: HERE,
    pods: [pod("running")],
    wish: SAVE,
    want: [noted({ ...RAN, told: "checkpoint" })],
  },
  "K2: asked to save: SIGTERM and its whole grace": {
    ...{ note: { ...RAN, told: "checkpoint" }, jobs: HERE, pods: [pod("running")], wish: SAVE },
    want: [{ kind: "delete", job: JOB }],
  },
  "K2: it saves": {
    note: { ...RAN, told: "checkpoint" },
    jobs: LEAVING,
    pods: [pod("ending", { isDeleted: true })],
    wish: SAVE,
    want: [],
  },
  "K2: time is up": {
    ...{
      note: { ...RAN, told: "stop" },
      jobs: LEAVING,
      pods: [pod("ending", { isDeleted: true })],
      wish: STOP,
    },
    want: [{ kind: "hurry" }],
  },
  "11.2: it has saved": {
    ...{ note: { ...RAN, told: "checkpoint" }, jobs: LEAVING, pods: [over(exited(143, "done"))], wish: SAVE },
    want: [noted({ ...RAN, told: "checkpoint", hasSaved: true, ends: { [JOB]: exited(143, "done") } })],
  },
  "K2: stopped, when no pod is left": {
    ...{ note: { ...RAN, told: "stop", ends: { [JOB]: exited(0) } }, jobs: LEAVING, wish: STOP },
    want: [ends({ outcome: "stopped", exit_code: 0 })],
  },
  "K2: stopped before it had a pod": {
    note: { ...MADE, told: "stop" },
    jobs: HERE,
    wish: STOP,
    want: [{ kind: "delete", job: JOB }],
  },
  "K2: its job may still make a pod, until the cluster says otherwise": {
    ...{ note: { ...MADE, told: "stop" }, jobs: LEAVING, wish: STOP, want: [{ kind: "confirm" }] },
  },
  "K3: it did not start in time": {
    note: { ...SEEN, ends: {}, hasRun: false, madeAtMs: NOW - START_MS_MAX - 1 },
    jobs: HERE,
    pods: [pod("waiting", { why: "0/3 nodes are available" })],
    want: [
      noted({
        ...SEEN,
        ends: {},
        hasRun: false,
        madeAtMs: NOW - START_MS_MAX - 1,
        gaveUp: "0/3 nodes are available",
      }),
    ],
  },
  "K3: it has no pod, and the cluster's events say why": {
    note: { ...MADE, madeAtMs: NOW - START_MS_MAX - 1 },
    jobs: HERE,
    saying: "FailedCreate: exceeded quota",
    want: [noted({ ...MADE, madeAtMs: NOW - START_MS_MAX - 1, gaveUp: "FailedCreate: exceeded quota" })],
  },
  "K3: given back, with the scheduler's reason": {
    ...{ note: { ...MADE, gaveUp: "0/3 nodes are available" }, jobs: LEAVING, isConfirmed: true },
    want: [
      ends({
        outcome: "failed",
        cause: "start_failed",
        message: "Kubernetes did not start it in time: 0/3 nodes are available",
      }),
    ],
  },
};

for (const [
  name,
  { note, jobs = {}, pods = [], isConfirmed = false, saying, wish = CARRY_ON, want },
] of Object.entries(cases)) {
  test(name, () => {
    const seen: Seen = { jobs: new Map(Object.entries(jobs)), pods, isConfirmed, saying };
    expect(nextMoves([JOB], note, seen, wish, NOW)).toMatchObject(want);
    expect(nextMoves([JOB], note, seen, wish, NOW)).toHaveLength(want.length);
  });
}

test("E7: one failure of several ends the others, and is the attempt's", () => {
  const names = ["berth-1-1-0", "berth-1-1-1"];
  const [first, second] = names as [string, string];
  const note: Note = {
    ...{ ...MADE, hasRun: true, pods: { [first]: "a", [second]: "b" }, ends: { [second]: exited(3) } },
  };
  const jobs = new Map(names.map((name) => [name, { isDeleted: false }]));
  const live = pod("running", { uid: "a", job: first });
  const done = over(exited(3), { uid: "b", job: second });
  const seen: Seen = { jobs, pods: [live, done], isConfirmed: false };
  const [move] = nextMoves(names, note, seen, CARRY_ON, NOW);
  expect(move).toMatchObject({ kind: "note", note: { broken: `its part ${second} has failed` } });
  const broken = (move as Extract<Move, { kind: "note" }>).note;
  expect(nextMoves(names, broken, seen, CARRY_ON, NOW)).toEqual(
    names.map((job) => ({ kind: "delete", job })),
  );
  const leaving = new Map(names.map((name) => [name, { isDeleted: true }]));
  expect(nextMoves(names, broken, { ...seen, jobs: leaving }, CARRY_ON, NOW)).toEqual([
    { kind: "hurry", pods: [live] },
  ]);
  const all = { ...broken, ends: { [second]: exited(3), [first]: exited(143) } };
  const gone: Seen = { jobs: leaving, pods: [], isConfirmed: false };
  // Its own exit code, not that of the part that was ended because of it.
  expect(nextMoves(names, all, gone, CARRY_ON, NOW)).toMatchObject([
    { kind: "end", end: { outcome: "failed", exit_code: 3 } },
  ]);
});

test("a second pod, which Kubernetes makes when the first is taken away, is discarded before it starts (J5)", () => {
  const note: Note = { ...MADE, hasRun: true, pods: { [JOB]: "a" }, broken: "its pod was deleted" };
  const first = pod("ending", { uid: "a", isDeleted: true });
  const second = pod("waiting", { uid: "b" });
  const seen = (isDeleted: boolean, ...pods: PodFacts[]): Seen => ({
    ...{ jobs: new Map([[JOB, { isDeleted }]]), pods, isConfirmed: false },
  });
  const movesFor = (what: Seen) => nextMoves([JOB], note, what, CARRY_ON, NOW);
  expect(movesFor(seen(false, first, second))).toEqual([
    { kind: "delete", job: JOB },
    { kind: "discard", pods: [second] },
  ]);
  expect(movesFor(seen(true, first, second))).toEqual([{ kind: "discard", pods: [second] }]);
  expect(movesFor(seen(true, first, { ...second, stage: "ending", isDeleted: true }))).toEqual([]);
});
