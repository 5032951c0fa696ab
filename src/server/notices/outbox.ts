// What one target still has to be sent, and when: pure, so that a day of retries is a test of a millisecond.
//
// Invariants
//   1. Every event up to `seq` was sent, is one of `pending`, or was given up and counted as lost.
//   2. At most one try a second. What happens meanwhile gathers, and becomes one message (H3).
//   3. A message is tried 8 times within 24 hours. While a target is away, further messages are begun ever less often, so
//      that `pending` stays small.

export interface Pending {
  /** Of the event, or of the first and last event of a summary: the same at every try. */
  readonly id: string;
  readonly body: string;
  readonly beganAtMs: number;
  readonly tries: number;
  readonly nextAtMs: number;
}

/** How far a target has got; kept in the store. */
export interface Progress {
  readonly seq: number;
  readonly pending: readonly Pending[];
  /** Since the first try that failed, until one succeeds. */
  readonly awaySinceMs: number | null;
  /** Why the last try failed. */
  readonly problem: string | null;
  readonly lastSentAtMs: number | null;
  readonly sent: number;
  readonly failed: number;
  readonly lost: number;
}

export const GAP_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** When the tries of a message are, counted from the first one. */
export const TIMETABLE_MS = [
  ...[0, 5_000, MINUTE_MS, 10 * MINUTE_MS],
  ...[HOUR_MS, 4 * HOUR_MS, 12 * HOUR_MS, 24 * HOUR_MS],
];
export const PENDING_MAX = 128;
/** Of those that gather, so many are listed in a summary; the others are counted. */
export const LISTED_MAX = 20;

export interface Gathered<Notice> {
  readonly listed: readonly Notice[];
  readonly count: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
}

export function progressFrom(seq: number): Progress {
  return {
    ...{ seq, pending: [], awaySinceMs: null, problem: null, lastSentAtMs: null },
    ...{ sent: 0, failed: 0, lost: 0 },
  };
}

export class Outbox<Notice> {
  #progress: Progress;
  #listed: Notice[] = [];
  #count = 0;
  #firstSeq = 0;
  #readSeq: number;
  #isTaken = false;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #begunAtMs = Number.NEGATIVE_INFINITY;
  /** Between 0 and 1: receivers that were away are not tried by everybody at the same moment. */
  readonly #random: () => number;

  constructor(progress: Progress, random: () => number) {
    this.#progress = progress;
    this.#readSeq = progress.seq;
    this.#random = random;
  }

  get progress(): Progress {
    return this.#progress;
  }

  /** Events up to here were looked at. */
  get readSeq(): number {
    return this.#readSeq;
  }

  gather(notice: Notice, seq: number): void {
    if (this.#count === 0) this.#firstSeq = seq;
    if (this.#listed.length < LISTED_MAX) this.#listed.push(notice);
    this.#count++;
  }

  /** All that concerns this target, up to here, was gathered. */
  read(seq: number): void {
    this.#readSeq = seq;
    if (this.#count === 0 && !this.#isTaken) this.#progress = { ...this.#progress, seq };
  }

  /** The history up to here is gone, and what was in it cannot be known. */
  skip(seq: number): void {
    this.#progress = { ...this.#progress, lost: this.#progress.lost + 1 };
    this.read(seq);
  }

  /** When there is something to do; undefined: not before something happens. */
  nextAtMs(): number | undefined {
    const due = this.#progress.pending.map(({ nextAtMs }) => nextAtMs);
    if (this.#count > 0) due.push(this.#beginAtMs());
    return due.length === 0 ? undefined : Math.max(this.#triedAtMs + GAP_MS, Math.min(...due));
  }

  /** A message that is due to be tried again. */
  due(nowMs: number): Pending | undefined {
    return this.#progress.pending.find(({ nextAtMs }) => nextAtMs <= nowMs);
  }

  /** Takes out what has gathered, if a message of it may begin now. Until then, what comes gathers for the next one. */
  take(nowMs: number): Gathered<Notice> | undefined {
    if (this.#count === 0 || this.#isTaken || this.#beginAtMs() > nowMs) return undefined;
    const gathered = {
      ...{ listed: this.#listed, count: this.#count },
      ...{ firstSeq: this.#firstSeq, lastSeq: this.#readSeq },
    };
    this.#listed = [];
    this.#count = 0;
    this.#isTaken = true;
    return gathered;
  }

  /** What was taken has become a message. */
  begin({ lastSeq }: Gathered<Notice>, message: Pick<Pending, "id" | "body">, nowMs: number): Pending {
    const pending = { ...message, beganAtMs: nowMs, tries: 0, nextAtMs: nowMs };
    const all = [...this.#progress.pending, pending];
    const kept = all.slice(-PENDING_MAX);
    const lost = this.#progress.lost + all.length - kept.length;
    this.#progress = { ...this.#progress, seq: lastSeq, pending: kept, lost };
    this.#isTaken = false;
    this.#begunAtMs = nowMs;
    return pending;
  }

  /** No message could be made of what was taken: it gathers again. */
  giveBack({ listed, count, firstSeq }: Gathered<Notice>): void {
    this.#isTaken = false;
    this.#listed = [...listed, ...this.#listed].slice(0, LISTED_MAX);
    this.#count += count;
    this.#firstSeq = firstSeq;
  }

  /** Of what was taken nothing is left to say. */
  drop({ lastSeq }: Gathered<Notice>): void {
    this.#isTaken = false;
    this.#progress = { ...this.#progress, seq: lastSeq };
  }

  succeeded(id: string, nowMs: number): void {
    this.#triedAtMs = nowMs;
    const isBack = this.#progress.awaySinceMs !== null;
    const pending = this.#progress.pending
      .filter((message) => message.id !== id)
      .map((message) => (isBack ? { ...message, nextAtMs: nowMs } : message));
    const sent = this.#progress.sent + 1;
    const good = { awaySinceMs: null, problem: null, lastSentAtMs: nowMs };
    this.#progress = { ...this.#progress, ...good, pending, sent };
  }

  failed(id: string, nowMs: number, problem: string): void {
    this.#triedAtMs = nowMs;
    const pending = this.#progress.pending.flatMap((message) =>
      message.id === id ? this.#later(message) : [message],
    );
    const lost = this.#progress.lost + this.#progress.pending.length - pending.length;
    const awaySinceMs = this.#progress.awaySinceMs ?? nowMs;
    const failed = this.#progress.failed + 1;
    this.#progress = { ...this.#progress, pending, lost, awaySinceMs, failed, problem };
  }

  /** Up to a tenth earlier than the timetable says; after the last try it is given up. */
  #later(message: Pending): Pending[] {
    const tries = message.tries + 1;
    const offsetMs = TIMETABLE_MS[tries];
    if (offsetMs === undefined) return [];
    const nextAtMs = message.beganAtMs + Math.round(offsetMs * (1 - this.#random() / 10));
    return [{ ...message, tries, nextAtMs }];
  }

  /** While it is away, the next message begins a tenth of that time after the one before (invariant 3). */
  #beginAtMs(): number {
    const { awaySinceMs } = this.#progress;
    if (awaySinceMs === null) return this.#begunAtMs;
    return this.#begunAtMs + Math.max(GAP_MS, (this.#begunAtMs - awaySinceMs) / 10);
  }
}
