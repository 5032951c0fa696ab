// What SQLite's result codes mean for us.

import { StoreError } from "../errors.ts";

const BUSY = 5;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;

/** SQLite's own words for them: not every failure that reaches us carries its code. */
const words = new Map([
  ["database is locked", BUSY],
  ["attempt to write a readonly database", READONLY],
  ["disk I/O error", IOERR],
  ["database disk image is malformed", CORRUPT],
  ["database or disk is full", FULL],
  ["unable to open database file", CANTOPEN],
  ["file is not a database", NOTADB],
]);

/** The same error as one of ours, if it comes from SQLite and is not a mistake in our statements. */
export function translateSqliteError(error: unknown, path: string): unknown {
  if (!(error instanceof Error)) return error;
  switch (resultCode(error)) {
    case BUSY:
      return new StoreError("locked", `The store ${path} is in use by another process.`, { cause: error });
    case FULL:
      return new StoreError("disk_full", `The disk of ${path} is full.`, { cause: error });
    case CORRUPT:
    case NOTADB:
      return new StoreError("corrupt", `The store ${path} is damaged: ${error.message}.`, { cause: error });
    case IOERR:
    case CANTOPEN:
    case READONLY:
      return new StoreError("unavailable", `The store ${path} cannot be read or written: ${error.message}.`, {
        cause: error,
      });
    default:
      return error;
  }
}

/** Extended codes carry the primary one in their lowest byte. */
function resultCode(error: Error & { errcode?: unknown }): number | undefined {
  return typeof error.errcode === "number" ? error.errcode & 0xff : words.get(error.message);
}
