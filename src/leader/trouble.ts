// What happens when the store fails, and the only place that changes the condition of the leader.
//
// Invariants
//   1. After a failed commit memory is thrown away: it is loaded anew from the store, or the process ends.
//   2. Nothing is acknowledged while the outcome of a commit is unknown.
//   3. A leader that has stopped stays so.

import { isStoreError } from "../store/index.ts";
import { LEADER } from "./batch.ts";
import type { Inbox } from "./inbox.ts";
import type { LeaderErrorCode } from "./interface.ts";
import type { Ledger } from "./ledger.ts";
import type { OwnCommands } from "./own-commands.ts";
import type { Reads } from "./reads.ts";
import { recover } from "./recovery.ts";
import type { EventStream } from "./stream.ts";
import type { Condition, Surroundings } from "./surroundings.ts";

export interface TroubleKeeper {
  readonly condition: Condition;
  /** Goes on after a commit that a full disk refused; throws where nothing can be done about the failure. */
  survive(error: unknown): Promise<void>;
  /** Memory cannot be trusted any more, or another server leads. */
  end(error: unknown): void;
  stop(why: string, code?: LeaderErrorCode): void;
}

const PROBE_MS = 1_000;

export function createTroubleKeeper(
  { store, clock, nowMs, log }: Surroundings,
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
    // A file that failed in another way may hold anything: only a restart reads it anew. One of several servers that
    // cannot reach the database steps down.
    if (!isStoreError(error, "disk_full")) throw error;

    condition = { kind: "readOnly", why: error.message };
    log.error({ err: error }, "the store takes nothing: read only until it does");
    inbox.fail("disk_full");
    ledger.replace((await recover(store, ledger.head)).memory, ledger.head);
    reads.serve();
    probeLater();
  }

  function probeLater(): void {
    clock.after(PROBE_MS, () => void probe());
  }

  /** The proof that the store takes something is the note about it. */
  async function probe(): Promise<void> {
    if (condition.kind !== "readOnly") return;
    const note = { actor: LEADER, action: "resume_writing", target: "store", outcome: "disk_full" };
    const hand = inbox.takeAudit();
    try {
      const body = { code: "disk_full", message: condition.why };
      await ledger.record({ atMs: nowMs(), audit: [{ ...note, body }, ...hand.audit] });
      hand.settle([]);
    } catch (error) {
      if (!isStoreError(error, "disk_full")) return end(error);
      inbox.fail("disk_full");
      return probeLater();
    }
    log.info({ seq: ledger.head.seq }, "the store works again");
    condition = { kind: "leading" };
    own.restart();
    reads.serve();
    onResume();
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
