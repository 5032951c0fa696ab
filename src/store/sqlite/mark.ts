// Where the journal ended, in a small file beside the store, so that a store that has lost its end is noticed.
//
// Written after every commit, and put on the disk at the start and at an orderly end. It is therefore never ahead of
// what was acknowledged. After a loss of power it may be behind: a loss of the very last commits can then go unnoticed.

import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { StoreError } from "../errors.ts";
import type { Head } from "../store.ts";

export type End = { readonly incarnation: string } & Pick<Head, "seq" | "hash" | "auditId">;
/** `isOpen`: a server was at work, so that there must be a log. */
type Written = End & { readonly isOpen: boolean };

export type Mark = {
  /** After a commit. */
  move(head: Head): void;
  /** Everything is in the store now, and no log is needed. */
  rest(): void;
  close(): void;
};

export const NO_MARK: Mark = { move: () => undefined, rest: () => undefined, close: () => undefined };

/** Always as long, so that a mark replaces the one before it whole. */
const BYTES = 256;

/** Refuses a store that ends before its mark, unless a person accepts the loss. */
export function keepMark(
  path: string,
  { end, hasLog, acceptLoss }: { readonly end: End; readonly hasLog: boolean; readonly acceptLoss: boolean },
): Mark {
  const loss = acceptLoss ? undefined : lossSince(readMark(path), end, hasLog);
  if (loss !== undefined) {
    throw new StoreError("corrupt", `The store has lost its end: ${loss}.`, {
      hint: "Keep a copy, look for berth.db-wal, or restore a backup. To go on without it, start once with --accept-loss.",
    });
  }
  const { incarnation } = end;
  const at = ({ seq, hash, auditId }: Omit<End, "incarnation">, isOpen: boolean): Written => ({
    ...{ incarnation, seq, hash, auditId, isOpen },
  });
  let last = at(end, false);
  closeSync(openSync(path, "a", 0o600));
  const handle = openSync(path, "r+");
  const write = () => {
    try {
      writeSync(handle, JSON.stringify(last).padEnd(BYTES), 0);
    } catch {
      // A mark that stays behind does no harm; a commit that is on the disk must not fail for it.
    }
  };
  const rest = () => {
    last = at(last, false);
    write();
    fsyncSync(handle);
  };
  rest();
  return {
    move(head) {
      last = at(head, true);
      write();
    },
    rest,
    close: () => closeSync(handle),
  };
}

function lossSince(mark: Written | undefined, end: End, hasLog: boolean): string | undefined {
  // Another line of history: a backup was restored, or the store is new.
  if (mark === undefined || mark.incarnation !== end.incarnation) return undefined;
  if (end.seq < mark.seq) return `it ends at event ${end.seq}, but event ${mark.seq} was acknowledged`;
  if (end.auditId < mark.auditId)
    return `its audit log ends at entry ${end.auditId}, but entry ${mark.auditId} was written`;
  if (end.seq === mark.seq && end.hash !== mark.hash)
    return `event ${end.seq} is not the one that was acknowledged`;
  if (mark.isOpen && !hasLog) return "the server was not stopped in order, and its log (-wal) is missing";
  return undefined;
}

/** A mark that cannot be read says nothing. */
function readMark(path: string): Written | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Written;
  } catch {
    return undefined;
  }
}
