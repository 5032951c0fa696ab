// The agent of a node (20): says what runs here, hears what should, and makes the one into the other.
//
// Invariants
//   1. An attempt is written down before it is started, and a known one is never started again (J5).
//   2. An end is listed in every sync until the answer to a sync that listed it no longer wants it.
//   3. At most one sync is under way; an answer of an older epoch than one has seen changes nothing (E2).
//   4. Whatever becomes of this process, the shims go on, each until the time that a server has granted (E3, E5).

import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import type { WireNodeSync, WireNodeSyncAnswer, WireWantedPart } from "../protocol/index.ts";
import type { CheckpointAnswer } from "../runner/index.ts";
import { type Client, isBerthError } from "../sdk/index.ts";
import type { Device } from "./devices.ts";
import { type Entry, keyOf, openJournal, readJson, writeDurably, writeEnd } from "./journal.ts";
import { hasLog } from "./log.ts";
import type { NumberedReport, OnLost } from "./messages.ts";
import { jobOrderOf, type OrderSettings } from "./orders.ts";
import { type Part, watchPart } from "./part.ts";
import { type KnownPart, reconcile, type Step } from "./reconcile.ts";
import { createRelays } from "./relay.ts";
import { startFailed } from "./supervision.ts";

export interface AgentOptions {
  readonly client: Client;
  readonly node: string;
  readonly stateDirectory: string;
  readonly version: string;
  readonly bootId: string;
  readonly capacity: Readonly<Record<string, number>>;
  /** What the machine shows now. */
  readonly devices: () => readonly Device[];
  readonly policyFile?: string | undefined;
  readonly secrets: string;
  /** For people: what goes wrong, and what is right again. */
  readonly tell: (text: string) => void;
}

export interface Agent {
  /** Leaves the jobs alone. */
  close(): Promise<void>;
}

interface Highest {
  readonly epoch: number;
  readonly token?: string;
}

const HOLD_SECONDS = 5;
const SYNC_MS_MAX = 15_000;
const RETRY_MS_MIN = 200;
const RETRY_MS_MAX = 5_000;
/** The devices are looked at so often. */
const DEVICES_EVERY_MS = 30_000;
const PRUNE_EVERY_MS = 3_600_000;
/** Of the time after which a silent node is down. */
const LEASE_SHARE = 2 / 3;

export function startAgent(options: AgentOptions): Agent {
  const { client, node, stateDirectory, bootId, tell } = options;
  const journal = openJournal(stateDirectory);
  const parts = new Map<string, Part>();
  const session = randomUUID();
  const highestFile = join(stateDirectory, "highest.json");
  let highest = readJson<Highest>(highestFile);
  let seen: string | undefined;
  let isClosed = false;
  const ending = new AbortController();
  const news = createNews();
  const devices = lookNowAndThen(options.devices, DEVICES_EVERY_MS);
  const relays = createRelays({
    find: (token) => {
      const directory = journal.find(token)?.entry.directory;
      return directory !== undefined && hasLog(directory) ? directory : undefined;
    },
    isComplete: (token) => parts.get(token)?.isEnded() ?? true,
    send: (reader, piece, signal) => client.agent.sendLog(node, reader, piece, { signal }),
  });
  const orders: OrderSettings = {
    checkpoints: join(stateDirectory, "checkpoints"),
    policyFile: options.policyFile,
    secrets: options.secrets,
    hasGpus: (options.capacity.gpu ?? 0) > 0,
  };

  function watch(entry: Entry): void {
    const { token } = entry.order;
    const part = watchPart(entry, bootId, {
      onChange() {
        news.note();
        relays.noteGrown(); // Also when it has ended: then its log is complete.
      },
      onLogGrown: relays.noteGrown,
      passOn: (report) => passOn(entry, report),
    });
    parts.set(token, part);
  }

  /** The same report has the same key, however often it is sent. */
  async function passOn({ order }: Entry, { id, report }: NumberedReport): Promise<CheckpointAnswer> {
    const { requestId: request_id, token } = order;
    const { kind, ...rest } = report;
    const idempotencyKey = `${keyOf(token)}-${id}`;
    try {
      await client.agent.checkpoint(node, { request_id, token, report: kind, ...rest }, { idempotencyKey });
      return { accepted: true, message: "noted" };
    } catch (error) {
      // Refused for good: its grant is over, or it makes no sense now.
      if (isBerthError(error) && error.status >= 400 && error.status < 500)
        return { accepted: false, message: error.message };
      throw error;
    }
  }

  function start(part: WireWantedPart, leaseUntil: number, onLost: OnLost): void {
    const { request_id: requestId, token } = part;
    const job = jobOrderOf(part, orders);
    const order = { requestId, token, bootId, onLost, leaseUntil };
    const entry = journal.write(typeof job === "string" ? order : { ...order, job });
    if (typeof job === "string") writeEnd(entry.directory, startFailed(job));
    watch(entry);
    news.note();
  }

  function take(step: Step, answer: WireNodeSyncAnswer, leaseUntil: number): void {
    switch (step.kind) {
      case "start":
        return start(step.part, leaseUntil, onLostOf(step.part.run?.on_lost, answer));
      case "instruct":
        return instruct(parts.get(step.part.token) as Part, step.part, answer, leaseUntil);
      case "report": {
        const found = parts.has(step.token) ? undefined : journal.find(step.token);
        if (found !== undefined) watch(found.entry);
        return;
      }
      case "kill":
        return parts.get(step.token)?.say({ kind: "kill" });
      case "acknowledge":
        return acknowledge(parts.get(step.token) as Part);
      default:
        return step satisfies never;
    }
  }

  function acknowledge(part: Part): void {
    const { order } = part.entry;
    const isFinished = part.listing().end?.outcome === "succeeded";
    part.close();
    parts.delete(order.token);
    if (journal.find(order.token)?.isArchived === false) journal.archive(part.entry);
    if (isFinished) rmSync(join(orders.checkpoints, order.requestId), { recursive: true, force: true });
  }

  function known(
    listed: ReadonlyMap<string, "running" | "ended">,
    wanted: readonly WireWantedPart[],
  ): KnownPart[] {
    const current = [...parts.entries()].map(([token, part]): KnownPart => {
      const state = part.isEnded() ? "ended" : "running";
      return { token, state, listed: listed.get(token) ?? "no" };
    });
    const archived = wanted
      .filter(({ token }) => !parts.has(token) && journal.find(token) !== undefined)
      .map(({ token }): KnownPart => ({ token, state: "archived", listed: "no" }));
    return [...current, ...archived];
  }

  function syncBody(): WireNodeSync {
    return {
      session,
      boot_id: bootId,
      agent_version: options.version,
      ...(highest !== undefined && { highest }),
      ...(seen !== undefined && { seen, wait_seconds: HOLD_SECONDS }),
      capacity: options.capacity,
      devices: devices().map(({ index, model, uuid, strangers }) => ({
        ...{ index, strangers },
        ...(model !== undefined && { model }),
        ...(uuid !== undefined && { uuid }),
      })),
      jobs: [...parts.values()].map((part) => part.listing()),
    };
  }

  function act(answer: WireNodeSyncAnswer, body: WireNodeSync, sentAt: number): void {
    const epochSeen = highest?.epoch ?? 0;
    if (answer.epoch < epochSeen) return;
    if (answer.epoch > epochSeen) {
      highest = { epoch: answer.epoch };
      writeDurably(highestFile, highest);
    }
    const listed = new Map(
      body.jobs.map(({ token, phase }) => [token, phase === "ended" ? "ended" : "running"] as const),
    );
    const leaseUntil = sentAt + answer.lost_after_seconds * LEASE_SHARE;
    for (const step of reconcile(known(listed, answer.jobs), answer, epochSeen))
      take(step, answer, leaseUntil);
    relays.serve(answer.logs);
    seen = answer.version;
  }

  async function syncOnce(): Promise<void> {
    const changed = news.next();
    const body = syncBody();
    const sentAt = uptime();
    const answer = await client.agent.sync(node, body, {
      signal: AbortSignal.any([changed, ending.signal]),
      timeoutMs: SYNC_MS_MAX,
      retryForMs: 0,
    });
    const isHeld = body.seen === answer.version;
    act(answer, body, sentAt);
    // A server that does not hold the call is not asked without end.
    const restMs = (answer.sync_after_seconds - (uptime() - sentAt)) * 1000;
    if (isHeld && restMs > 0) await news.within(restMs, ending.signal);
  }

  async function loop(): Promise<void> {
    let retryMs = RETRY_MS_MIN;
    let trouble: string | undefined;
    while (!isClosed) {
      try {
        await syncOnce();
        if (trouble !== undefined) tell("The server answers again.");
        trouble = undefined;
        retryMs = RETRY_MS_MIN;
      } catch (error) {
        if (isClosed) return;
        if ((error as Error).name === "AbortError") continue; // Something has changed: it is sent at once.
        const why = error instanceof Error ? error.message : String(error);
        if (why !== trouble) tell(`No answer from the server: ${why}`);
        trouble = why;
        seen = undefined;
        await news.within(retryMs * (0.5 + Math.random() / 2), ending.signal);
        retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
      }
    }
  }

  for (const entry of journal.open()) watch(entry);
  const pruning = setInterval(() => journal.prune(Date.now()), PRUNE_EVERY_MS).unref();
  const looping = loop();
  return {
    async close() {
      isClosed = true;
      ending.abort();
      clearInterval(pruning);
      relays.close();
      for (const part of parts.values()) part.close();
      await looping;
    },
  };
}

function instruct(part: Part, wanted: WireWantedPart, answer: WireNodeSyncAnswer, leaseUntil: number): void {
  const { do: what, reason = "", left_seconds = 0 } = wanted.instruction;
  const onLost = onLostOf(part.entry.order.onLost, answer);
  part.say({ kind: "lease", until: leaseUntil, onLost });
  part.say({ kind: "instruct", do: what, reason, leftMs: left_seconds * 1000 });
  for (const { id, signal } of wanted.signals)
    if (!part.hasDelivered(id)) part.say({ kind: "signal", id, signal });
}

/** The pool has the last word on who may run on. */
function onLostOf(wanted: OnLost = "suspend", { may_run_on }: WireNodeSyncAnswer): OnLost {
  return wanted === "run-on" && !may_run_on ? "suspend" : wanted;
}

/** Something to say: the sync that waits is given up for one that says it. */
function createNews() {
  let current = new AbortController();
  let isNew = false;
  return {
    note(): void {
      isNew = true;
      current.abort(abortError());
    },
    /** Aborted by the next news. */
    next(): AbortSignal {
      isNew = false;
      current = new AbortController();
      return current.signal;
    },
    /** Resolves after the time, or with news. */
    within(ms: number, signal: AbortSignal): Promise<void> {
      if (isNew) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        const settle = () => {
          clearTimeout(timer);
          resolve();
        };
        current.signal.addEventListener("abort", settle, { once: true });
        signal.addEventListener("abort", settle, { once: true });
      });
    },
  };
}

function abortError(): Error {
  return new DOMException("Something has changed.", "AbortError");
}

/** Looking costs a process of its own. */
function lookNowAndThen<T>(look: () => T, everyMs: number): () => T {
  let value = look();
  let atMs = performance.now();
  return () => {
    if (performance.now() - atMs > everyMs) {
      value = look();
      atMs = performance.now();
    }
    return value;
  };
}
