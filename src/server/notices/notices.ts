// Notices (H2, H3): the server that leads reads the committed events behind the decisions, and sends what targets want to
// hear of. Nothing of a decision ever waits for it.
//
// Invariants
//   1. Only the leader sends. A leader that was replaced cannot move a target: its positions go through the journal's
//      compare-and-swap, and before each try it makes sure that it still leads.
//   2. At least once: the position of a target in the store never passes an event of which the message was neither
//      delivered nor is in the store itself. After a crash the same event has the same id again.
//   3. Memory is bounded: a target has at most `PENDING_MAX` messages and one summary, whatever happens.

import type { Leader, Log } from "../../leader/index.ts";
import type { WireEvent } from "../../protocol/index.ts";
import type { Replica } from "../../replica/index.ts";
import type { Store } from "../../store/index.ts";
import { toTimestamp } from "../../translation/index.ts";
import { NOTIFY_LABEL, noticeKindsOf } from "../../words/index.ts";
import type { Facts, Told } from "../event-facts.ts";
import type { Grants } from "../grants.ts";
import type { Identity } from "../identity.ts";
import { Sight } from "../sight.ts";
import { concernsPool } from "../streams.ts";
import type { TokenBook } from "../tokens.ts";
import { type Notice, testMessage, writeMessage } from "./messages.ts";
import { Outbox, type Pending, type Progress, progressFrom } from "./outbox.ts";
import type { Send } from "./post.ts";
import { signatureHeaders } from "./signature.ts";
import { ofRecord, rightsOf, type StoredTarget, type Target, toRecord } from "./target.ts";

export interface Notices {
  /** All of them; how they stand is exact on the leader, and a second old elsewhere. */
  list(): Promise<readonly StoredTarget[]>;
  /** To be called before the record is deleted: from then on nothing of it is written. */
  remove(name: string): void;
  /** From now on, as the store has it. */
  add(target: Target): void;
  /** Sends a message that says it is a test; undefined: delivered. */
  test(target: Target): Promise<string | undefined>;
  counts(): NoticeCounts;
  close(): Promise<void>;
}

export interface NoticeCounts {
  readonly targets: number;
  readonly failing: number;
  readonly pending: number;
  readonly sent: number;
  readonly failed: number;
  readonly lost: number;
}

export interface NoticeOptions {
  readonly leader: Leader;
  readonly replica: Replica | undefined;
  readonly store: Store;
  readonly facts: Facts;
  readonly tokens: TokenBook;
  readonly grants: Grants;
  readonly send: Send;
  readonly log: Log;
}

const LOOK_MS = 250;
const WRITE_MS = 1_000;
/** A target that has nothing to hear of need not be written for every event that passes it. */
const IDLE_EVENTS_MAX = 1_000;
/** A target whose token has ended is looked at again so often. */
const STOPPED_MS = 10_000;

export function createNotices(options: NoticeOptions): Notices {
  const { leader, replica, store, log } = options;
  let round: Round | undefined;
  let epoch: number | undefined;
  let isStarting = false;
  /** Targets may have been added or removed while they were read. */
  let isStale = false;
  const leadership = () => {
    if (replica !== undefined) return replica.role() === "leader" ? replica.epoch() : undefined;
    return leader.status().condition === "stopped" ? undefined : 0;
  };
  const look = async () => {
    const now = leadership();
    if (isStarting || (now === epoch && !isStale && round?.isOver() !== true)) return;
    isStarting = true;
    isStale = false;
    try {
      round?.end();
      round = now === undefined ? undefined : startRound((await store.listTargets()).map(ofRecord), options);
      epoch = now;
    } catch (error) {
      log.warn({ err: error }, "the targets of notices could not be read");
    } finally {
      isStarting = false;
    }
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  timer.unref();
  void look();

  return {
    async list() {
      const own = round?.list();
      return own ?? (await store.listTargets()).map(ofRecord);
    },
    add(target) {
      isStale ||= isStarting;
      round?.add(target);
    },
    remove(name) {
      isStale ||= isStarting;
      round?.remove(name);
    },
    async test(target) {
      const nowMs = Date.now();
      const message = testMessage(target, `test_${target.name}_${nowMs}`, toTimestamp(nowMs));
      return options.send(postOf(target, message, AbortSignal.timeout(TEST_MS)));
    },
    counts: () => countsOf(round?.list() ?? []),
    async close() {
      clearInterval(timer);
      round?.end();
      await round?.written();
    },
  };
}

const TEST_MS = 15_000;

function countsOf(targets: readonly StoredTarget[]): NoticeCounts {
  const counts = { targets: targets.length, failing: 0, pending: 0, sent: 0, failed: 0, lost: 0 };
  for (const { progress } of targets) {
    if (progress.awaySinceMs !== null) counts.failing++;
    counts.pending += progress.pending.length;
    counts.sent += progress.sent;
    counts.failed += progress.failed;
    counts.lost += progress.lost;
  }
  return counts;
}

function postOf(target: Target, message: Pick<Pending, "id" | "body">, signal: AbortSignal) {
  const { url, secret } = target;
  const { id, body } = message;
  const headers = secret === null ? {} : signatureHeaders({ id, body, atMs: Date.now() }, secret);
  return { url, headers, body, signal };
}

/** As long as this server leads. */
interface Round {
  list(): readonly StoredTarget[];
  add(target: Target): void;
  remove(name: string): void;
  /** The reader has failed: another round may do better. */
  isOver(): boolean;
  end(): void;
  /** Resolves when what was reached is in the store, if the store takes it. */
  written(): Promise<void>;
}

interface Box {
  readonly target: Target;
  readonly outbox: Outbox<Notice>;
  written: Progress;
  isBusy: boolean;
  isRemoved: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
}

function startRound(stored: readonly StoredTarget[], options: NoticeOptions): Round {
  const { leader, log } = options;
  const boxes = new Map<string, Box>();
  const over = new AbortController();
  const reader = createReader(boxes, options, over.signal);
  const writer = createWriter(boxes, leader, log);
  const deliver = createDelivery(options, { signal: over.signal, changed: writer.changed });
  const put = ({ target, progress }: StoredTarget) => {
    const box = { target, outbox: new Outbox<Notice>(progress, Math.random), written: progress };
    boxes.set(target.name, { ...box, isBusy: false, isRemoved: false, timer: undefined });
  };
  for (const each of stored) put(each);
  reader.begin(deliver);
  for (const box of boxes.values()) deliver(box);

  return {
    list: () => [...boxes.values()].map(({ target, outbox }) => ({ target, progress: outbox.progress })),
    add(target) {
      put({ target, progress: progressFrom(reader.seq() ?? leader.seq()) });
      reader.begin(deliver);
    },
    remove(name) {
      const box = boxes.get(name);
      if (box === undefined) return;
      box.isRemoved = true;
      clearTimeout(box.timer);
      boxes.delete(name);
    },
    isOver: reader.hasFailed,
    end() {
      over.abort();
      for (const { timer } of boxes.values()) clearTimeout(timer);
      writer.stop();
    },
    written: () => writer.writeAll(),
  };
}

// --- From the journal to what targets want to hear of

function createReader(boxes: ReadonlyMap<string, Box>, options: NoticeOptions, signal: AbortSignal) {
  const { leader, facts, tokens, log } = options;
  let readSeq: number | undefined;
  let isFailed = false;

  const read = async (fromSeq: number, deliver: (box: Box) => void) => {
    for await (const message of leader.events(fromSeq + 1, signal)) {
      if (message.kind === "reset") {
        readSeq = message.seq;
        for (const { outbox } of boxes.values()) outbox.skip(message.seq);
        continue;
      }
      const lastSeq = message.events.at(-1)?.seq ?? fromSeq;
      const told = await facts.tell(message.events);
      for (const box of boxes.values()) {
        const identity = rightsOf(box.target, tokens, leader.nowMs());
        if (identity !== undefined) gather(box, told, identity);
        if (box.outbox.readSeq < lastSeq) box.outbox.read(lastSeq);
        deliver(box);
      }
      readSeq = lastSeq;
    }
  };
  return {
    seq: () => readSeq,
    hasFailed: () => isFailed,
    /** From where the target is that has got least far; there is nothing to read while there are no targets. */
    begin(deliver: (box: Box) => void) {
      if (readSeq !== undefined || boxes.size === 0) return;
      readSeq = Math.min(...[...boxes.values()].map(({ outbox }) => outbox.readSeq));
      read(readSeq, deliver).catch((error: unknown) => {
        isFailed = true;
        if (!signal.aborted) log.warn({ err: error }, "events for notices could not be read");
      });
    },
  };
}

function gather({ target, outbox }: Box, { events, world }: Told, identity: Identity): void {
  const sight = new Sight(identity, world);
  for (const event of events) {
    if (event.seq <= outbox.readSeq || event.request_id === undefined) continue;
    const kind = noticeKindsOf(event).find((each) => target.on.includes(each));
    const request = kind && world.request(event.request_id);
    if (kind === undefined || request === undefined || !sight.reaches(request)) continue;
    const isAsked = (request.labels[NOTIFY_LABEL] ?? "").split(",").includes(target.name);
    if (!isAsked && (target.isAskedOnly || !isMeant(target, event, world))) continue;
    const { seq, at, request_id: requestId } = event;
    outbox.gather({ kind, seq, at, requestId: requestId as Notice["requestId"] }, seq);
  }
}

function isMeant({ component, pool }: Target, event: WireEvent, world: Told["world"]): boolean {
  if (component !== null && event.component !== component) return false;
  return pool === null || concernsPool(event, pool, world);
}

// --- From there to the receiver

function createDelivery(
  options: NoticeOptions,
  { signal, changed }: { readonly signal: AbortSignal; readonly changed: () => void },
): (box: Box) => void {
  const { leader, replica, tokens, send, log } = options;

  const messageFor = async (box: Box, identity: Identity): Promise<Pending | undefined> => {
    const due = box.outbox.due(leader.nowMs());
    if (due !== undefined) return due;
    const gathered = box.outbox.take(leader.nowMs());
    if (gathered === undefined) return undefined;
    const message = await writeMessage(gathered, { target: box.target, identity }, options).catch(
      (error: unknown) => {
        box.outbox.giveBack(gathered);
        throw error;
      },
    );
    if (message !== undefined) return box.outbox.begin(gathered, message, leader.nowMs());
    box.outbox.drop(gathered);
    return undefined;
  };

  const attempt = async (box: Box): Promise<number> => {
    const identity = rightsOf(box.target, tokens, leader.nowMs());
    if (identity === undefined) return STOPPED_MS;
    const message = await messageFor(box, identity);
    if (message === undefined) return 0;
    await replica?.untilSure();
    const problem = await send(postOf(box.target, message, signal));
    if (signal.aborted || box.isRemoved) return 0;
    const wasAway = box.outbox.progress.awaySinceMs !== null;
    if (problem === undefined) box.outbox.succeeded(message.id, leader.nowMs());
    else box.outbox.failed(message.id, leader.nowMs(), problem);
    const fields = { target: box.target.name, ...(problem !== undefined && { problem }) };
    if (!wasAway && problem !== undefined) log.warn(fields, "a notice could not be delivered");
    if (wasAway && problem === undefined) log.info(fields, "notices are delivered again");
    changed();
    return 0;
  };

  const schedule = (box: Box, waitMs = 0) => {
    clearTimeout(box.timer);
    const nextAtMs = box.outbox.nextAtMs();
    if (box.isBusy || nextAtMs === undefined || signal.aborted || box.isRemoved) return;
    const delayMs = Math.max(waitMs, nextAtMs - leader.nowMs(), 0);
    box.timer = setTimeout(run, Math.min(delayMs, 2 ** 31 - 1), box);
    box.timer.unref();
  };
  function run(box: Box): void {
    box.isBusy = true;
    let waitMs = 0;
    attempt(box)
      .then((ms) => (waitMs = ms))
      .catch((error: unknown) => {
        waitMs = STOPPED_MS;
        if (!signal.aborted) log.warn({ err: error, target: box.target.name }, "a notice could not be made");
      })
      .finally(() => {
        box.isBusy = false;
        schedule(box, waitMs);
      });
  }
  return schedule;
}

// --- How far they have got, in the store

function createWriter(boxes: ReadonlyMap<string, Box>, leader: Leader, log: Log) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;

  const write = async (isWorthIt: (box: Box) => boolean) => {
    const changed = [...boxes.values()].filter(
      (box) => box.outbox.progress !== box.written && isWorthIt(box),
    );
    if (changed.length === 0) return;
    const reached = changed.map((box) => [box, box.outbox.progress] as const);
    const targets = reached.map(([{ target }, progress]) => toRecord({ target, progress }));
    const answer = await leader.perform({ kind: "putTargets", targets }, { actor: "berth", audit: false });
    if (answer.outcome === "refused") throw new Error(answer.refusal.message);
    for (const [box, progress] of reached) box.written = progress;
  };
  const writeSoon = () => {
    if (isStopped) return;
    timer ??= setTimeout(() => {
      timer = undefined;
      write(isFurther).catch((error: unknown) => {
        log.warn({ err: error }, "how far notices have got could not be written");
        writeSoon();
      });
    }, WRITE_MS).unref();
  };
  const idle = setInterval(() => {
    if ([...boxes.values()].some((box) => isFurther(box))) writeSoon();
  }, 10 * WRITE_MS);
  idle.unref();

  return {
    changed: writeSoon,
    async writeAll() {
      await write(() => true).catch(() => undefined);
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
      clearInterval(idle);
    },
  };
}

function isFurther({ outbox: { progress }, written }: Box): boolean {
  if (progress === written) return false;
  const isTried =
    progress.sent + progress.failed + progress.lost !== written.sent + written.failed + written.lost;
  return isTried || progress.seq - written.seq > IDLE_EVENTS_MAX;
}
