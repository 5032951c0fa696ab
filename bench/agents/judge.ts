// Holds what the servers say of jobs against what the jobs themselves have written down. Shares no code with the product.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Api, Body } from "./calls.ts";
import type { Struck } from "./faults.ts";
import { type Followed, type Output, readWhole } from "./followers.ts";
import { type LoadedJob, nowS } from "./load.ts";
import { LOST_SECONDS } from "./scene.ts";

export const QUESTIONS = [
  "double starts",
  "exits lost",
  "exits invented",
  "survivors of ended jobs",
  "requests alive twice",
  "logs incomplete",
  "other problems",
] as const;
export type Question = (typeof QUESTIONS)[number];

export interface Verdict {
  readonly problems: Readonly<Record<Question, readonly string[]>>;
  readonly starts: number;
  readonly ends: number;
  readonly attempts: number;
  readonly lines: number;
  readonly saved: number;
  readonly resumed: number;
  readonly lost: number;
  readonly followed: number;
}

/** All that one process has written down. */
interface Marks {
  readonly key: string;
  readonly request: string;
  readonly attempt: number;
  readonly rank: number;
  readonly role: string;
  /** Undefined where machines have no names of their own. */
  readonly node: string | undefined;
  readonly startedAt: number;
  readonly lastAt: number;
  readonly isResumed: boolean;
  readonly hasSaved: boolean;
  readonly end?: { readonly at: number; readonly code: number; readonly out: number; readonly err: number };
}

/**
 * Away for less than this, a node has lost nothing: it acts two thirds into the time after which it counts as lost, and the
 * server at the end of it. Both count from the last answered sync, which the server may have held for five seconds; a second more
 * is for the clocks. What is suspended is not lost before the server says so.
 */
const LOSS_AFTER_S_MIN = { kill: (LOST_SECONDS * 2) / 3 - 6, suspend: LOST_SECONDS - 6 };
/** For logs that do not come. */
const LOGS_MS_MAX = 90_000;
/** Code of a job that ended because it was asked to. */
const ASKED_CODE = 7;

export async function judge(given: {
  readonly api: Api;
  readonly jobs: readonly LoadedJob[];
  readonly evidence: string;
  readonly struck: Struck;
  readonly survivors: readonly string[];
  readonly followed: readonly Followed[];
  readonly others: readonly string[];
}): Promise<Verdict> {
  const { api, jobs, evidence, struck, followed } = given;
  const problems = Object.fromEntries(QUESTIONS.map((one) => [one, [] as string[]])) as Record<
    Question,
    string[]
  >;
  problems["survivors of ended jobs"].push(...given.survivors);
  problems["other problems"].push(...given.others);
  const marks = readdirSync(evidence).map((name) => readMarks(evidence, name));
  const mains = new Map<string, Marks[]>();
  for (const one of marks) if (one.role === "main") mains.set(one.key, [...(mains.get(one.key) ?? []), one]);
  for (const [key, starts] of mains)
    if (starts.length > 1) problems["double starts"].push(`${key} was started ${starts.length} times`);

  const patience = { leftMs: LOGS_MS_MAX };
  let lines = 0;
  let attempts = 0;
  let lost = 0;
  const known = new Set(jobs.map(({ id }) => id));
  for (const { request, key } of marks)
    if (!known.has(request)) problems["other problems"].push(`${key} ran, and was not submitted`);
  for (const job of jobs) {
    const own = marks.filter(({ request }) => request === job.id);
    problems["requests alive twice"].push(...aliveTwice(own));
    problems["survivors of ended jobs"].push(...tickedAfterEnd(job, own));
    for (const attempt of job.latest.attempts as Body[]) {
      attempts += 1;
      if (attempt.outcome === "lost") lost += 1;
      const ran = own.filter((one) => one.attempt === attempt.attempt && one.role === "main");
      const { lostExits, invented } = judgeExit(job, attempt, ran, struck);
      problems["exits lost"].push(...lostExits);
      problems["exits invented"].push(...invented);
      for (const one of ran) {
        const place = { id: job.id, attempt: one.attempt, rank: one.rank };
        const output = await readWhole(api, place, patience);
        const found = judgeLog(job, one, output, hasLostItsShim(attempt, one, struck));
        lines += found.lines;
        problems["logs incomplete"].push(...found.problems);
        const other = followed.find((it) => it.id === job.id && it.attempt === one.attempt);
        if (other !== undefined && one.rank === 0)
          problems["logs incomplete"].push(...judgeFollowed(one.key, other.output, output));
      }
    }
    const ended = new Set((job.latest.attempts as Body[]).map(({ attempt }) => attempt));
    for (const one of own)
      if (!ended.has(one.attempt)) problems["exits lost"].push(`${one.key} ran, and no end was reported`);
  }
  const all = [...mains.values()].flat();
  return {
    problems,
    ...{ starts: all.length, ends: all.filter(({ end }) => end !== undefined).length, attempts, lines, lost },
    saved: all.filter(({ hasSaved }) => hasSaved).length,
    resumed: all.filter(({ isResumed }) => isResumed).length,
    followed: followed.filter(({ output }) => output.isComplete).length,
  };
}

function readMarks(directory: string, name: string): Marks {
  const [request = "", attempt = "", rank = "", role = ""] = name.split(".");
  const lines = readFileSync(join(directory, name), "utf8").trim().split("\n");
  const words = lines.map((line) => line.split(" "));
  const times = words.map(([, at]) => Number(at)).filter((at) => at > 0);
  const end = words.find(([what]) => what === "end");
  return {
    ...{ key: `${request}.${attempt}.${rank}`, request, attempt: Number(attempt), rank: Number(rank), role },
    node: /\.(node-\d)-boot-/.exec(name)?.[1],
    startedAt: times[0] ?? 0,
    lastAt: times.at(-1) ?? 0,
    isResumed: words[0]?.[4] === "1",
    hasSaved: words.some(([what]) => what === "saved"),
    ...(end !== undefined && {
      end: { at: Number(end[1]), code: Number(end[2]), out: Number(end[3]), err: Number(end[4]) },
    }),
  };
}

/** Everything of an attempt stands still for good before anything of the next one moves. */
function aliveTwice(own: readonly Marks[]): string[] {
  return own.flatMap((one) =>
    own
      .filter((next) => next.attempt > one.attempt && next.startedAt < one.lastAt)
      .map((next) => {
        const ms = Math.round((one.lastAt - next.startedAt) * 1000);
        return `${one.key} (${one.role}) moved until ${ms} ms after ${next.key} had started`;
      }),
  );
}

function tickedAfterEnd({ heardEnds }: LoadedJob, own: readonly Marks[]): string[] {
  return own.flatMap(({ key, role, attempt, lastAt }) => {
    const heardAt = heardEnds.get(attempt) ?? Number.POSITIVE_INFINITY;
    if (lastAt <= heardAt) return [];
    return [`${key} (${role}) moved ${Math.round((lastAt - heardAt) * 1000)} ms after its end was reported`];
  });
}

function judgeExit(job: LoadedJob, attempt: Body, ran: readonly Marks[], struck: Struck) {
  const { exit_code: code, signal, outcome, cause, message } = attempt;
  const name = `${job.id}.${attempt.attempt}`;
  const said = `${outcome} ${code ?? "without a code"} ${signal ?? ""} ${cause ?? ""} ${message ?? ""}`;
  const codes = ran.flatMap(({ end }) => (end === undefined ? [] : [end.code]));
  // Of several parts, one that a signal ended writes no end, and may be the one that decides.
  const isOthers = signal !== null && codes.length < (attempt.nodes ?? []).length;
  const mayBeUnknown =
    isOthers ||
    (code === null && mayBeLost(job, attempt, struck)) ||
    struck.shims.has(name) ||
    (outcome === "cancelled" && ran.length === 0);
  const lostExits: string[] = [];
  const invented: string[] = [];
  if (codes.length > 0 && !codes.includes(code) && !mayBeUnknown)
    lostExits.push(`${name} ended with ${codes.join(", ")}, reported: ${said}`);
  if (outcome === "lost" && !mayBeLost(job, attempt, struck))
    lostExits.push(`${name} counts as lost although its node was there: ${said}`);
  if (cause === "start_failed") lostExits.push(`${name} was not started: ${said}`);
  if (codes.length === 0 && code !== null && signal === null)
    invented.push(`${name} wrote no end, reported: ${said}`);
  const isOwnCode = code === job.code || code === ASKED_CODE;
  if (outcome === "succeeded" && !(codes.includes(0) && isOwnCode))
    invented.push(`${name} did not succeed: ${said}`);
  return { lostExits, invented };
}

/**
 * Its node, one of them if there were several, was reset, or away for long enough, since the attempt began. The server says which
 * nodes: a part may be gone before it has written its first mark.
 */
function mayBeLost(job: LoadedJob, attempt: Body, { resets, absences }: Struck): boolean {
  const nodes: readonly string[] = attempt.nodes ?? [];
  const beganAt = Date.parse(attempt.started_at) / 1000 - (Date.now() / 1000 - nowS());
  const isLater = (at: number) => at >= beganAt - 1;
  const afterS = LOSS_AFTER_S_MIN[job.onLost];
  return (
    resets.some(({ node, at }) => nodes.includes(node) && isLater(at)) ||
    absences.some(({ node, from, to }) => nodes.includes(node) && to - from >= afterS && isLater(to))
  );
}

/** What its shim had not read when it was killed, by itself or with the machine, is in no log. */
function hasLostItsShim(attempt: Body, { request, node, startedAt }: Marks, struck: Struck): boolean {
  const isReset = struck.resets.some(
    (one) => (node === undefined || node === one.node) && one.at >= startedAt - 1,
  );
  return struck.shims.has(`${request}.${attempt.attempt}`) || (attempt.exit_code === null && isReset);
}

/** Each line once and in order; all of them, if it has come to its end and its shim has seen that. */
function judgeLog(
  job: LoadedJob,
  { key, end }: Marks,
  output: Output,
  hasLostShim: boolean,
): { lines: number; problems: string[] } {
  const problems: string[] = [];
  if (!output.isComplete || output.isTail) problems.push(`${key}: its node does not send the whole log`);
  if (output.dropped > 0) problems.push(`${key}: ${output.dropped} bytes dropped`);
  let lines = 0;
  for (const [stream, letter] of [
    ["stdout", "o"],
    ["stderr", "e"],
  ] as const) {
    const texts = output[stream].split("\n");
    const rest = texts.pop() ?? "";
    const wrong = texts.findIndex((text, index) => text !== lineOf(job, letter, index + 1, key));
    if (wrong >= 0)
      problems.push(`${key}: line ${wrong + 1} of ${stream} is "${texts[wrong]?.slice(0, 80)}"`);
    lines += texts.length;
    const count = hasLostShim ? undefined : end?.[letter === "o" ? "out" : "err"];
    if (count === undefined && !lineOf(job, letter, texts.length + 1, key).startsWith(rest))
      problems.push(`${key}: ${stream} ends with "${rest.slice(0, 80)}"`);
    if (count !== undefined && (texts.length !== count || rest !== ""))
      problems.push(`${key}: ${texts.length} of ${count} lines of ${stream}`);
  }
  return { lines, problems };
}

/** As the job writes it. */
function lineOf({ kind }: LoadedJob, letter: "o" | "e", number: number, key: string): string {
  if (letter === "e") return `e ${number} ${key}`;
  const length = kind === "loud" && number % 50 === 0 ? 30_000 : (number * 7919) % 97;
  return `o ${number} ${key} ${"x".repeat(length)}`;
}

/** What was read while it was written is the same. */
function judgeFollowed(key: string, followed: Output, whole: Output): string[] {
  return [
    ...followed.jumps.map((jump) => `${key}: its follower jumped ${jump}`),
    ...(followed.isTail ? judgeTail(key, followed, whole) : sameStreams(key, followed, whole)),
  ];
}

/** Its node did not answer: then the kept end of it followed, in which streams are not told apart, with a mark for what is missing. */
function judgeTail(key: string, followed: Output, whole: Output): string[] {
  const lengthOf = ({ stdout, stderr }: Output) => stdout.length + stderr.length;
  const read = lengthOf(followed) + followed.dropped;
  return !followed.isComplete || read === lengthOf(whole)
    ? []
    : [`${key}: its follower has read ${read} of ${lengthOf(whole)} bytes`];
}

function sameStreams(key: string, followed: Output, whole: Output): string[] {
  return [
    ...(["stdout", "stderr"] as const).flatMap((stream) => {
      const isSame = followed.isComplete
        ? followed[stream] === whole[stream]
        : whole[stream].startsWith(followed[stream]);
      return isSame ? [] : [`${key}: the follower of ${stream} has read something else`];
    }),
  ];
}
