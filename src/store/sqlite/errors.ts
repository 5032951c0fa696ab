// What SQLite's result codes mean for us.

import { StoreError } from "../errors.ts";

const BUSY = 5;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;

/** The same error as one of ours, if it comes from SQLite and is not a mistake in our statements. */
export function translateSqliteError(error: unknown, path: string): unknown {
  // Extended codes carry the primary one in their lowest byte.
  const extended = (error as { errcode?: unknown } | null)?.errcode;
  if (typeof extended !== "number") return error;
  const reason = (error as Error).message;
  switch (extended & 0xff) {
    case BUSY:
      return new StoreError("locked", `The store ${path} is in use by another process.`, { cause: error });
    case FULL:
      return new StoreError("disk_full", `The disk of ${path} is full.`, { cause: error });
    case CORRUPT:
    case NOTADB:
      return new StoreError("corrupt", `The store ${path} is damaged: ${reason}.`, { cause: error });
    case IOERR:
    case CANTOPEN:
    case READONLY:
      return new StoreError("unavailable", `The store ${path} cannot be read or written: ${reason}.`, {
        cause: error,
      });
    default:
      return error;
  }
}
