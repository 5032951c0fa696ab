// Calls on their way to the next batch, and audit entries that wait to be written with it.
//
// Invariants
//   1. Every call that was taken in is answered exactly once, or fails.
//   2. What waits has a limit, and what is known to be too much is refused before it waits.
//   3. An audit entry stays here until it is on the disk, however often writing it fails.

import { type ComponentName, waitingCountOf } from "../engine/index.ts";
import type { AuditEntry } from "../store/index.ts";
import { type Answer, type Call, LeaderError, type LeaderErrorCode } from "./interface.ts";
import type { Ledger } from "./ledger.ts";
import type { Condition, Surroundings } from "./surroundings.ts";

export interface Inbox {
  perform(call: Call): Promise<Answer>;
  /** Calls that are made together are answered together, though they may be decided in several batches. */
  performMany(calls: readonly Call[]): Promise<readonly Answer[]>;
  /** Resolves when the entry is on the disk, or cannot be for now. */
  audit(entry: AuditEntry): Promise<void>;

  /** What waits now, for the next batch: in hand until it is on the disk or fails. */
  take(): Hand;
  /** The same of audit entries alone. */
  takeAudit(): Hand;
  /** Nothing can be written now: every call fails, and entries are no longer waited for. */
  fail(code: LeaderErrorCode): void;
  /** From now on every call is refused. */
  close(): void;

  readonly waitingCalls: number;
  readonly isEmpty: boolean;
}

/** What one batch has in hand. */
export interface Hand {
  readonly calls: readonly Call[];
  readonly audit: readonly AuditEntry[];
  /** Only so many calls were decided: the others come first in the next batch. */
  giveBack(decided: number): void;
  /** All of it is on the disk. The answers are those of the calls, in their order. */
  settle(answers: readonly Answer[]): void;
}

const WAITING_AUDIT_MAX = 10_000;
/** What callers are shown. Where the store is, and what exactly it says, is for the log. */
const MESSAGES: Readonly<Record<LeaderErrorCode, string>> = {
  disk_full: "The disk is full: nothing can be written now.",
  unavailable: "The store does not answer.",
  overloaded: "Too many commands wait already.",
  queue_full: "Too many requests of this component wait already.",
  not_leader: "This server does not lead any more.",
  stopped: "The leader has stopped.",
};
export const SHORT_OF_ROOM =
  "The disk is full: the reserve that is left is for ending and administering work, not for new requests.";

export function errorOf(code: LeaderErrorCode): LeaderError {
  return new LeaderError(code, MESSAGES[code]);
}

interface WaitingCall {
  readonly call: Call;
  resolve(answer: Answer): void;
  reject(error: LeaderError): void;
}

interface WaitingEntry {
  readonly entry: AuditEntry;
  settle(): void;
}

interface InHand {
  calls: readonly WaitingCall[];
  readonly audit: readonly WaitingEntry[];
}

export function createInbox(
  { store, log, settings }: Surroundings,
  parts: {
    readonly ledger: Ledger;
    readonly condition: () => Condition;
    /** Something waits for the next batch. */
    readonly onArrival: () => void;
  },
): Inbox {
  const { ledger, condition, onArrival } = parts;
  const waiting: WaitingCall[] = [];
  const waitingAudit: WaitingEntry[] = [];
  const inHand = new Set<InHand>();
  let isClosed = false;

  function objectionTo(calls: readonly Call[]): LeaderError | undefined {
    const now = condition();
    if (now.kind === "stopped") return errorOf(now.code);
    if (isClosed) return errorOf("stopped");
    if (now.kind === "readOnly") return errorOf("disk_full");
    if (waiting.length + calls.length > settings.waitingCommandsMax) return errorOf("overloaded");
    return objectionToNew(calls);
  }

  /** Why new requests cannot be taken now, though other commands can. */
  function objectionToNew(calls: readonly Call[]): LeaderError | undefined {
    const { state } = ledger.memory;
    const max = settings.waitingRequestsPerComponentMax;
    const hasRoom = store.hasRoom();
    if (hasRoom && state.requests.size < max) return undefined;
    const components = new Set<ComponentName>();
    for (const { command } of calls) {
      if (command.kind === "submitRequest") components.add(command.spec.component);
    }
    if (components.size === 0) return undefined;
    if (!hasRoom) return new LeaderError("disk_full", SHORT_OF_ROOM);
    const isFull = [...components].some((component) => waitingCountOf(state, component, max) >= max);
    return isFull ? errorOf("queue_full") : undefined;
  }

  function takeInHand(callsMax: number): Hand {
    const hand: InHand = { calls: waiting.splice(0, callsMax), audit: waitingAudit.splice(0) };
    inHand.add(hand);
    return {
      calls: hand.calls.map(({ call }) => call),
      audit: hand.audit.map(({ entry }) => entry),
      giveBack(decided) {
        if (!inHand.has(hand)) return;
        waiting.unshift(...hand.calls.slice(decided));
        hand.calls = hand.calls.slice(0, decided);
      },
      settle(answers) {
        if (!inHand.delete(hand)) return;
        for (const { settle } of hand.audit) settle();
        for (const [at, answer] of answers.entries()) (hand.calls[at] as WaitingCall).resolve(answer);
      },
    };
  }

  return {
    perform(call) {
      const objection = objectionTo([call]);
      if (objection !== undefined) return Promise.reject(objection);
      return new Promise((resolve, reject) => {
        waiting.push({ call, resolve, reject });
        onArrival();
      });
    },
    performMany(calls) {
      const objection = objectionTo(calls);
      if (objection !== undefined) return Promise.reject(objection);
      if (calls.length === 0) return Promise.resolve([]);
      return new Promise((resolveAll, reject) => {
        const answers: Answer[] = [];
        let open = calls.length;
        for (const [index, call] of calls.entries()) {
          const resolve = (answer: Answer) => {
            answers[index] = answer;
            if (--open === 0) resolveAll(answers);
          };
          waiting.push({ call, resolve, reject });
        }
        onArrival();
      });
    },
    audit(entry) {
      if (waitingAudit.length >= WAITING_AUDIT_MAX) {
        log.error({ entry }, "an audit entry was lost: too many wait for the store");
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        waitingAudit.push({ entry, settle: resolve });
        if (condition().kind === "leading") onArrival();
        else resolve();
      });
    },
    take: () => takeInHand(settings.batchCommandsMax),
    takeAudit: () => takeInHand(0),
    fail(code) {
      const hands = [...inHand];
      inHand.clear();
      const failed = [...hands.flatMap(({ calls }) => calls), ...waiting.splice(0)];
      for (const { reject } of failed) reject(errorOf(code));
      waitingAudit.unshift(...hands.flatMap(({ audit }) => audit));
      for (const { settle } of waitingAudit) settle();
    },
    close() {
      isClosed = true;
    },
    get waitingCalls() {
      return waiting.length;
    },
    get isEmpty() {
      return waiting.length + waitingAudit.length === 0;
    },
  };
}
