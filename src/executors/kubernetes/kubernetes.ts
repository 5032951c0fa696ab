// Kubernetes as an executor (22). Every look compares what the cluster shows with what is wanted, and carries out what follows
// (`steps.ts`).
//
// Invariant: what a look could not see changes nothing. An API server that does not answer leaves everything as it was.

import { uptime } from "node:os";
import type { WireWantedPart } from "../../protocol/index.ts";
import { instructAttempt, inTurn } from "../attempt.ts";
import { startFailed } from "../ends.ts";
import type { Executor, ExecutorEvents } from "../executor.ts";
import { hasLog, openLogReader } from "../log-files.ts";
import { RunAsRefusal } from "../run-as.ts";
import { Attempt, type KubernetesOrder } from "./attempt.ts";
import type { Kubernetes } from "./client.ts";
import { JOB_LABEL, POOL_LABEL, poolLabel } from "./labels.ts";
import { createLogCopies } from "./logs.ts";
import { jobNames, type ManifestSettings, manifestsOf } from "./manifest.ts";
import { openMirror } from "./mirror.ts";
import type { Job, Pod } from "./objects.ts";
import { factsOf, type PodFacts } from "./states.ts";
import { type Move, nextMoves, type Seen } from "./steps.ts";
import type { ClusterTroubles } from "./troubles.ts";

export interface KubernetesSettings extends ManifestSettings {
  readonly kubernetes: Kubernetes;
  readonly startMsMax: number | undefined;
  readonly troubles: ClusterTroubles;
}

/** What the cluster shows of the pool's jobs. */
interface Look {
  readonly jobs: readonly Job[];
  readonly pods: readonly Pod[];
}

const AT_ONCE = 8;
const MOVES_MAX = 8;
/** Changes that come together are looked at once. */
const GATHER_MS = 20;
/** Not 0: that would take a pod out of sight while it may still run. */
const GRACE_SECONDS_MIN = 1;
/** While something changes, the next look comes so soon. */
const SOON_MS = 1_000;
const EVENTS_EVERY_MS = 5_000;
/** A pod whose time is up is reminded so often. */
const HURRY_AGAIN_MS = 5_000;

export function createKubernetesExecutor(
  settings: KubernetesSettings,
  events: ExecutorEvents,
): Executor<KubernetesOrder> {
  const { kubernetes, troubles } = settings;
  const attempts = new Map<string, Attempt>();
  const selector = `${POOL_LABEL}=${poolLabel(settings.pool)}`;
  const looks = createLooks(() => events.onChange());
  const mirrorEvents = (what: string) => ({
    onChange: () => looks.in(GATHER_MS),
    onTrouble: (message: string | undefined) => troubles.set(what, message),
  });
  const jobs = openMirror(kubernetes.jobs(selector), mirrorEvents("jobs"));
  const pods = openMirror(kubernetes.pods(selector), mirrorEvents("pods"));
  const logs = createLogCopies(kubernetes, {
    onGrown: () => events.onLogGrown(),
    isOver: (uid) => {
      const pod = pods.items()?.find(({ metadata }) => metadata?.uid === uid);
      return pods.items() !== undefined && (pod === undefined || factsOf(pod).stage === "over");
    },
  });

  function look(): Look | undefined {
    const found = { jobs: jobs.items(), pods: pods.items() };
    return found.jobs === undefined || found.pods === undefined ? undefined : (found as Look);
  }

  /** Moves follow each other until the cluster must be looked at again. */
  async function advance(attempt: Attempt, first: Look): Promise<void> {
    let seen = seenBy(attempt, first, false);
    for (let count = 0; count < MOVES_MAX && !attempt.isOver; count++) {
      const { names, note, wish } = attempt;
      const moves = nextMoves(names, note, seen, wish, Date.now(), settings.startMsMax);
      if (moves.length === 0) return;
      for (const move of moves) {
        if (move.kind === "confirm") seen = seenBy(attempt, await ask(attempt), true);
        else await carryOut(attempt, move, seen.pods);
      }
      if (moves.some(({ kind }) => kind !== "note" && kind !== "confirm")) return;
    }
  }

  /** The cluster's own answer, for one attempt. */
  async function ask({ names }: Attempt): Promise<Look> {
    const own = `${JOB_LABEL} in (${names.join(",")})`;
    const [foundJobs, foundPods] = await Promise.all([
      kubernetes.jobs(own).list(),
      kubernetes.pods(own).list(),
    ]);
    return { jobs: foundJobs.items, pods: foundPods.items };
  }

  async function carryOut(
    attempt: Attempt,
    move: Exclude<Move, { kind: "confirm" }>,
    seen: readonly PodFacts[],
  ): Promise<void> {
    switch (move.kind) {
      case "note": {
        const hasSaved = move.note.hasSaved === true && attempt.note.hasSaved !== true;
        return hasSaved ? attempt.keepReport({ kind: "done" }, move.note) : attempt.keepNote(move.note);
      }
      case "make":
        return make(attempt);
      case "delete":
        return kubernetes.deleteJob(move.job);
      case "discard":
        for (const pod of move.pods) await kubernetes.deletePod(pod, GRACE_SECONDS_MIN);
        return;
      case "hurry":
        return hurry(attempt, move.pods);
      case "end":
        // Its log is read to the end first, while there is one.
        if (!seen.every(({ uid }) => logs.isComplete(uid))) return;
        return attempt.keepEnd(move.end);
      default:
        return move satisfies never;
    }
  }

  async function make(attempt: Attempt): Promise<void> {
    const { job, requestId } = attempt.entry.order;
    if (job === undefined) return attempt.keepEnd(startFailed("What to run was not kept.").end);
    for (const manifest of job.manifests) {
      if ((await kubernetes.makeJob(manifest, requestId)) !== "taken") continue;
      const { name } = manifest.metadata;
      return attempt.keepEnd(startFailed(`Kubernetes has a job ${name} that is not this one.`).end);
    }
    attempt.keepNote({ ...attempt.note, isMade: true });
  }

  /** A pod may have been given longer when it was asked to save. */
  async function hurry(attempt: Attempt, live: readonly PodFacts[]): Promise<void> {
    const nowMs = Date.now();
    const { wish, question, entry } = attempt;
    const byMs =
      wish.do === "stop"
        ? question.deadlineAtMs
        : nowMs + (wish.do === "end" ? 0 : 1000 * entry.order.graceSeconds);
    const { hurriedToMs } = attempt;
    const isNews = hurriedToMs === undefined || byMs < hurriedToMs - HURRY_AGAIN_MS;
    if (!isNews && nowMs < hurriedToMs + HURRY_AGAIN_MS) return;
    attempt.hurriedToMs = Math.max(byMs, nowMs);
    const graceSeconds = Math.max(GRACE_SECONDS_MIN, Math.ceil((byMs - nowMs) / 1000));
    for (const pod of live) await kubernetes.deletePod(pod, graceSeconds);
  }

  async function follow(attempt: Attempt, found: Look): Promise<void> {
    try {
      if (!attempt.isOver) {
        const { pods: own } = seenBy(attempt, found, false);
        for (const pod of own) if (hasOutput(pod)) logs.follow(pod, attempt.entry.directory);
        await hearEvents(attempt, own);
        await advance(attempt, found);
        attempt.show(own);
      }
      troubles.set(attempt.names.join(), undefined);
    } catch (error) {
      troubles.note(attempt.names.join(), error);
      attempt.complain((error as Error).message);
    }
    await attempt.passReports(events.passOn);
  }

  /** Events of the scheduler, the node or the job's controller tell why it does not start (K3). */
  async function hearEvents(attempt: Attempt, own: readonly PodFacts[]): Promise<void> {
    const { isMade, hasRun } = attempt.note;
    const waiting = own.filter(({ stage }) => stage === "waiting");
    if (isMade !== true || hasRun === true || (own.length > 0 && waiting.length === 0)) return;
    if (performance.now() - (attempt.saying?.atMs ?? 0) < EVENTS_EVERY_MS) return;
    const name = waiting[0]?.name ?? (attempt.names[0] as string);
    const isFirst = attempt.saying === undefined;
    attempt.saying = { atMs: performance.now(), text: attempt.saying?.text };
    if (isFirst) return; // It has only just been made.
    const last = (await kubernetes.events(name)).findLast(({ type }) => type === "Warning");
    const text = last && `${last.reason}: ${last.message}`;
    attempt.saying = { atMs: performance.now(), text };
  }

  /** One that cannot be put away does not hold up the others. */
  async function tidy(what: string, work: Promise<void>): Promise<void> {
    try {
      await work;
      troubles.set(what, undefined);
    } catch (error) {
      troubles.note(what, error);
    }
  }

  return {
    order: (part) => orderOf(part, settings),
    start: (entry) => void attempts.set(entry.order.token, new Attempt(entry)),
    async list() {
      const found = look();
      if (found !== undefined)
        await inTurn([...attempts.values()], AT_ONCE, (attempt) => follow(attempt, found));
      if ([...attempts.values()].some(({ isInMotion }) => isInMotion)) looks.in(SOON_MS);
      return [...attempts.values()].map((attempt) => attempt.listing());
    },
    instruct: (part, terms) => instructAttempt(attempts, part, terms, uptime()),
    stop: (token) => attempts.get(token)?.disown(),
    forget({ order: { token } }) {
      const { note, names } = attempts.get(token) ?? {};
      for (const uid of Object.values(note?.pods ?? {})) logs.forget(uid);
      if (names !== undefined) troubles.set(names.join(), undefined);
      attempts.delete(token);
      looks.in(GATHER_MS);
    },
    /** All that is wanted has an attempt by now: other jobs and pods with our mark are over, or orphans. */
    async settle() {
      const names = new Set([...attempts.values()].flatMap((attempt) => attempt.names));
      const { jobs: allJobs = [], pods: allPods = [] } = look() ?? {};
      for (const { metadata: { name = "", deletionTimestamp } = {} } of allJobs)
        if (!names.has(name) && deletionTimestamp == null) await tidy(name, kubernetes.deleteJob(name));
      for (const pod of allPods)
        if (!names.has(factsOf(pod).job)) await tidy(factsOf(pod).name, kubernetes.releasePod(pod));
    },
    openLog: ({ directory }, from) => (hasLog(directory) ? openLogReader(directory, from) : undefined),
    close() {
      looks.close();
      jobs.close();
      pods.close();
      logs.close();
    },
  };
}

function hasOutput({ stage, end }: PodFacts): boolean {
  return stage === "running" || stage === "ending" || end?.kind === "exited";
}

function seenBy({ names, saying }: Attempt, { jobs, pods }: Look, isConfirmed: boolean): Seen {
  const own = jobs.filter(({ metadata }) => names.includes(metadata?.name ?? ""));
  return {
    jobs: new Map(
      own.map(({ metadata }) => [metadata?.name ?? "", { isDeleted: metadata?.deletionTimestamp != null }]),
    ),
    // In the order in which they were made: the first one of a job is the attempt.
    pods: pods
      .filter(({ metadata }) => names.includes(metadata?.labels?.[JOB_LABEL] ?? ""))
      .toSorted((a, b) => madeAtMs(a) - madeAtMs(b))
      .map(factsOf),
    isConfirmed,
    saying: saying?.text,
  };
}

function madeAtMs({ metadata }: Pod): number {
  return new Date(metadata?.creationTimestamp ?? 0).getTime();
}

/** What is written down, or why it cannot run. */
function orderOf(
  part: WireWantedPart,
  settings: KubernetesSettings,
): ReturnType<Executor<KubernetesOrder>["order"]> {
  const { request_id: requestId, token, grace_seconds: graceSeconds } = part;
  const order: KubernetesOrder = { requestId, token, names: jobNames(part), graceSeconds };
  try {
    return { order: { ...order, job: { manifests: manifestsOf(part, settings) } } };
  } catch (error) {
    if (error instanceof RunAsRefusal) return { order, end: startFailed(error.message) };
    throw error;
  }
}

/** The next look, as soon as anybody wants it. */
function createLooks(begin: () => void): { in(ms: number): void; close(): void } {
  let timer: NodeJS.Timeout | undefined;
  let atMs = Number.POSITIVE_INFINITY;
  return {
    in(ms) {
      const wantedAtMs = performance.now() + ms;
      if (wantedAtMs >= atMs) return;
      clearTimeout(timer);
      atMs = wantedAtMs;
      timer = setTimeout(() => {
        atMs = Number.POSITIVE_INFINITY;
        begin();
      }, ms);
    },
    close: () => clearTimeout(timer),
  };
}
