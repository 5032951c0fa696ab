// What happens when the store fails, and the only place that changes the condition of the leader.
//
// Invariants
//   1. After a failed commit memory is thrown away: it is loaded anew from the store, or the process ends.
//   2. Nothing is acknowledged while the outcome of a commit is unknown.
//   3. A leader that has stopped stays so.

import type { RequestId } from "../engine/index.ts";
import { isStoreError } from "../store/index.ts";
import { LEADER } from "./batch.ts";
import type { Inbox } from "./inbox.ts";
import type { LeaderErrorCode } from "./interface.ts";
import type { Ledger } from "./ledger.ts";
import type { OwnCommands } from "./own-commands.ts";
import { touchedBy } from "./projections.ts";
import type { Reads } from "./reads.ts";
import { committedOf, recover } from "./recovery.ts";
import type { EventStream } from "./stream.ts";
import type { Condition, Surroundings, Trouble } from "./surroundings.ts";

export interface TroubleKeeper {
  readonly condition: Condition;
  /** Goes on from what the store has, where that can be known; throws where it cannot. */
  survive(error: unknown): Promise<void>;
  /** Memory cannot be trusted any more, or another server leads. */
  end(error: unknown): void;
  stop(why: string, code?: LeaderErrorCode): void;
}

const PROBE_MS = 1_000;

export function createTroubleKeeper(
  { store, clock, nowMs, log, settings }: Surroundings,
  parts: {
    readonly ledger: Ledger;
    readonly inbox: Inbox;
    readonly reads: Reads;
    readonly own: OwnCommands;
    readonly stream: EventStream;
    /** Of several servers one that cannot write follows: only the lease says who leads next. */
    readonly isReplica: boolean;
    readonly onResume: () => void;
    readonly onStop: () => void;
    readonly onFatal: (error: unknown) => void;
  },
): TroubleKeeper {
  const { ledger, inbox, reads, own, stream, isReplica, onResume, onStop, onFatal } = parts;
  let condition: Condition = { kind: "leading" };

  async function survive(error: unknown): Promise<void> {
    const isFull = isStoreError(error, "disk_full");
    // A file that failed may hold anything: only a restart reads it anew. A database that is away comes back.
    const isAway = isStoreError(error, "unavailable") && store.meta.kind === "postgres" && !isReplica;
    if (!isFull && !isAway) throw error;

    const why: Trouble = { code: isFull ? "disk_full" : "unavailable", message: error.message };
    condition = { kind: "readOnly", why };
    log.error({ err: error }, "the store takes nothing: read only until it does");
    inbox.fail(why.code);
    if (isFull) {
      ledger.replace((await recover(store, ledger.head)).memory, ledger.head);
      reads.serve();
    }
    probeLater(() => (isFull ? recordResumption(why) : resumeAfterAbsence(why)));
  }

  function probeLater(resume: () => Promise<void>): void {
    clock.after(PROBE_MS, () => void probe(resume));
  }

  async function probe(resume: () => Promise<void>): Promise<void> {
    if (condition.kind !== "readOnly") return;
    try {
      await resume();
    } catch (error) {
      if (isStoreError(error, "disk_full") || isStoreError(error, "unavailable")) return probeLater(resume);
      return end(error);
    }
    log.info({ seq: ledger.head.seq }, "the store works again");
    condition = { kind: "leading" };
    own.restart();
    reads.serve();
    onResume();
  }

  /** The proof that the store takes something is the note about it. */
  async function recordResumption(why: Trouble): Promise<void> {
    const note = { actor: LEADER, action: "resume_writing", target: "store", outcome: why.code, body: why };
    await ledger.record({ atMs: nowMs(), audit: [note, ...inbox.takeAudit()] });
    inbox.auditWritten();
  }

  /**
   * The last commit may have been made, or may even be under way still. A new epoch ends that doubt; then the
   * journal says what happened.
   */
  async function resumeAfterAbsence(why: Trouble): Promise<void> {
    const { epoch, seq } = ledger.head;
    const found = await store.head();
    const { holder } = await store.lease();
    if (found.epoch !== epoch && holder !== settings.holder) {
      throw new Error(`another server leads since epoch ${found.epoch}`);
    }
    const taken = await store.takeOver({ holder: settings.holder });
    ledger.replace((await recover(store, taken)).memory, taken);
    await recordResumption(why);
    if (taken.seq === seq) return;
    const events = (await store.readEvents(seq + 1, taken.seq - seq)).map(committedOf);
    const touched = new Set<RequestId>(events.flatMap(({ event }) => touchedBy(event)));
    stream.publish({ events, requestIds: touched });
  }

  function end(error: unknown): void {
    if (condition.kind === "stopped") return;
    stop(error instanceof Error ? error.message : String(error), codeOf(error));
    log.error({ err: error }, "the leader ends");
    onFatal(error);
  }

  function stop(why: string, code: LeaderErrorCode = "stopped"): void {
    if (condition.kind === "stopped") return;
    condition = { kind: "stopped", why, code: isReplica ? "not_leader" : "stopped" };
    inbox.fail(code);
    reads.serve();
    if (!isReplica) stream.close();
    onStop();
  }

  return {
    get condition() {
      return condition;
    },
    survive,
    end,
    stop,
  };
}

/** What the callers of a failed batch are answered: fenced, it left nothing behind; unavailable, nobody knows. */
function codeOf(error: unknown): LeaderErrorCode {
  if (isStoreError(error, "fenced")) return "not_leader";
  return isStoreError(error, "unavailable") ? "unavailable" : "stopped";
}
