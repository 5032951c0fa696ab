// A standby that is behind replaces the primary: what was committed after its last event is lost (C14). What is lost is
// known from the journal of the dead primary; the servers must report exactly that, and nothing else may be wrong.

import { setTimeout as delay } from "node:timers/promises";
import { type Outcome, type Scene, sound, untilWritten } from "./faults.ts";
import type { History } from "./history.ts";
import {
  type Books,
  differences,
  type JournalEntry,
  judge,
  readBooks,
  reissues,
  toldBy,
  type Verdict,
} from "./judge.ts";
import { type Database, withStandby } from "./outages.ts";
import type { Message, Reader } from "./streams.ts";

export interface Loss {
  /** The last event that the standby has, and the last that the primary had. */
  keptSeq: number;
  lastSeq: number;
  /** What the primary would have shown to readers. */
  told: readonly Message[];
  /** Requests whose submission, whose grant and whose end are lost. */
  readonly submitted: Set<string>;
  readonly granted: Set<string>;
  readonly ended: Set<string>;
}

export function noLoss(): Loss {
  return { keptSeq: 0, lastSeq: 0, told: [], submitted: new Set(), granted: new Set(), ended: new Set() };
}

const REPORT_MS_MAX = 15_000;

export async function promoteWithLoss(scene: Scene, database: Database, loss: Loss): Promise<Outcome> {
  const { epoch } = await sound(scene);
  const dead = database.current;
  const { cut, promoteIt, link, standby } = await withStandby(database);
  for (const replica of scene.cluster.replicas) await untilWritten(scene, replica);
  await cut();
  const before = scene.load.acknowledged();
  await untilTrue(() => scene.load.acknowledged() > before + 10);
  const heardSeq = scene.witness.seq;
  await dead.crash();
  scene.witness.forgetSeq(); // What a leader says from now on is about another history.
  await promoteIt(scene, async () => {
    loss.keptSeq = (await readBooks(standby.url)).journal.at(-1)?.seq ?? 0;
  });
  const beganMs = performance.now();
  for (const replica of scene.cluster.replicas) await untilWritten(scene, replica);
  const recoveredMs = performance.now() - beganMs;
  await dead.restart(); // Nobody uses it any more but this judge.
  note(loss, (await readBooks(dead.url)).journal);
  await dead.crash();
  await link.close();
  const after = await sound(scene);
  const problems = after.epoch > epoch ? [] : [`epoch ${after.epoch} follows epoch ${epoch}`];
  return { recoveredMs, problems: [...problems, ...(await wrongReport(scene, loss, heardSeq))] };
}

function note(loss: Loss, journal: readonly JournalEntry[]): void {
  loss.lastSeq = journal.at(-1)?.seq ?? 0;
  loss.told = toldBy(journal);
  for (const { seq, event } of journal) {
    if (seq <= loss.keptSeq) continue;
    const id = String(event.requestId);
    if (event.kind === "requestSubmitted") loss.submitted.add((event.spec as { id: string }).id);
    if (event.kind === "requestAllocated") loss.granted.add(id);
    if (event.kind === "attemptEnded") loss.ended.add(id);
  }
}

/**
 * The server that declares the loss says from which event to which: the last is at least what clients had heard of, and
 * at most what there was.
 */
async function wrongReport({ cluster, call }: Scene, loss: Loss, heardSeq: number): Promise<string[]> {
  const wanted = `events ${loss.keptSeq + 1} to ${loss.lastSeq}`;
  let said = "nothing";
  const untilMs = performance.now() + REPORT_MS_MAX;
  while (performance.now() < untilMs) {
    for (const replica of cluster.replicas) {
      const answer = await call(replica, "GET", "/v1/cluster").catch(() => undefined);
      const report = answer?.body?.history_lost as { lost_from: number; lost_to: number } | null | undefined;
      if (report === undefined || report === null) continue;
      const { lost_from: from, lost_to: to } = report;
      if (from === loss.keptSeq + 1 && to >= heardSeq && to <= loss.lastSeq) return [];
      said = `events ${from} to ${to}`;
    }
    await delay(500);
  }
  return [`${wanted} were lost (clients had heard of ${heardSeq}), and the servers report ${said}`];
}

async function untilTrue(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await delay(50);
}

/** What clients were told, without what a loss has taken. */
export function withoutLost(history: History, loss: Loss): History {
  const isGone = (id: string) => loss.submitted.has(id) || loss.granted.has(id);
  const isAbout = (text: string) =>
    [...loss.submitted, ...loss.granted, ...loss.ended].some((id) => text.includes(id));
  return {
    ...history,
    submissions: history.submissions.map((each) =>
      each.told !== undefined && loss.submitted.has(each.told.id) ? { ...each, told: undefined } : each,
    ),
    holdings: history.holdings.filter(({ requestId }) => !isGone(requestId)),
    releases: history.releases.filter(({ requestId }) => !isGone(requestId) && !loss.ended.has(requestId)),
    refused: history.refused.filter((text) => !isAbout(text)),
    endedHolders: history.endedHolders.filter((text) => !isAbout(text)),
    stale: history.stale.filter((text) => !isAbout(text)),
    contradicted: history.contradicted.filter((text) => !isAbout(text)),
  };
}

/** The usual verdict: nothing is missing but what the dead primary alone had. */
export function judgeLoss(books: Books, history: History, readers: readonly Reader[], loss: Loss): Verdict {
  const verdict = judge(books, withoutLost(history, loss), []);
  const expected =
    history.submissions.filter(({ told }) => told !== undefined && loss.submitted.has(told.id)).length +
    history.releases.filter(({ requestId }) => loss.ended.has(requestId)).length;
  const told = toldBy(books.journal);
  return {
    ...verdict,
    problems: {
      ...verdict.problems,
      // Numbers of grants that were lost must not come again, either (L1).
      "tokens reissued": reissues(history.holdings),
      "gaps and repetitions in streams": readers.flatMap((reader) => misreadAcross(reader, loss.told, told)),
      "nothing was lost at all": expected > 0 ? [] : ["the proof proves nothing"],
    },
  };
}

/**
 * A reader sees the lost history up to some event, starts afresh, and sees the other one from there on. One that did not
 * have to start afresh has seen nothing of what is lost.
 */
function misreadAcross(
  { name, messages, resets }: Reader,
  lost: readonly Message[],
  told: readonly Message[],
): string[] {
  const starts = [{ seq: 0, after: 0 }, ...resets];
  return starts.flatMap(({ seq: fromSeq, after }, index) => {
    const next = starts[index + 1];
    const part = messages.slice(after, next?.after);
    const lastSeq = next === undefined ? Number.POSITIVE_INFINITY : (part.at(-1)?.seq ?? 0);
    const wanted = (history: readonly Message[]) =>
      history.filter(({ seq }) => seq > fromSeq && seq <= lastSeq);
    const wrong = differences(name, part, wanted(told));
    const isBeforeLoss = index === 0 && next !== undefined;
    return isBeforeLoss && wrong.length > 0 ? differences(name, part, wanted(lost)) : wrong;
  });
}
