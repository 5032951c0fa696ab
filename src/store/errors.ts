// Failures of a store: each has a code to act on, a sentence to show, and the original as its cause.

export type StoreErrorCode =
  | "fenced" // Another writer has moved the head: stop leading.
  | "locked" // Another process has the store open.
  | "newer_version" // Written by a newer version of Berth.
  | "corrupt" // What is stored is not what was written.
  | "wrong_clock" // The clock of this machine is far ahead of the journal.
  | "pruned" // The journal does not reach back that far any more.
  | "history_lost" // The journal does not contain what it had acknowledged.
  | "moved" // The store was copied to another place, which counts since then.
  | "disk_full" // Nothing was written; works again when there is room.
  | "unavailable"; // It does not answer, or an input/output error: the outcome may be unknown.

export class StoreError extends Error {
  readonly code: StoreErrorCode;
  readonly hint: string;

  constructor(code: StoreErrorCode, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = "StoreError";
    this.code = code;
    this.hint = options.hint ?? defaultHints[code];
  }
}

export function isStoreError(error: unknown, code?: StoreErrorCode): error is StoreError {
  return error instanceof StoreError && (code === undefined || error.code === code);
}

const defaultHints: Record<StoreErrorCode, string> = {
  fenced: "Another server leads now; this one must stop writing and start again.",
  locked: "Stop the other server, or start this one with another data directory.",
  newer_version: "Start the newer version of Berth, or restore a backup made by this one.",
  wrong_clock: "Set the clock of this machine, then start the server again.",
  corrupt: "Keep a copy of the store, then restore the latest backup.",
  pruned: "Start again from a snapshot of the current state.",
  history_lost: "Look whether the database was restored, or promoted before it had everything.",
  moved: "Start the server on the place that the store was moved to.",
  disk_full: "Make room on the disk; nothing was lost.",
  unavailable: "Check the disk or the database, then start the server again.",
};
