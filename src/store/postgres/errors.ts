// What PostgreSQL's error codes, and the lack of one, mean for us.

import { StoreError } from "../errors.ts";

/** The same error as one of ours, unless it is a mistake in our statements. */
export function translatePostgresError(error: unknown): unknown {
  if (error instanceof StoreError || !(error instanceof Error)) return error;
  const reason = error.message;
  if (isTrouble(error)) {
    return new StoreError("unavailable", `The database does not answer: ${reason}.`, {
      hint: "Check that PostgreSQL runs and can be reached.",
      cause: error,
    });
  }
  switch (codeOf(error)) {
    case "53100":
      return new StoreError("disk_full", "The disk of the database is full.", { cause: error });
    case "25006":
      // What a managed database does when its disk is full, and what a demoted primary looks like.
      return new StoreError("unavailable", "The database is read only.", {
        hint: "Check the disk of the database, and whether it is the primary.",
        cause: error,
      });
    case "XX001":
    case "XX002":
      return new StoreError("corrupt", `The database is damaged: ${reason}.`, { cause: error });
    case "28000":
    case "28P01":
    case "3D000":
    case "42501":
      return new StoreError("unavailable", `The database refuses us: ${reason}.`, {
        hint: "Check the user, the password, the database and its permissions in the URL.",
        cause: error,
      });
    default:
      return error;
  }
}

/** Nobody knows whether the statement was carried out: the way to the server, or the server, broke. */
export function isTrouble(error: unknown): boolean {
  const code = codeOf(error);
  // Errors of sockets, and those that the driver makes itself, do not have an SQLSTATE; `EPIPE` only looks like one.
  if (code === undefined || !/^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code)) return error instanceof Error;
  return troubleCodes.test(code);
}

// Connection exceptions, a transaction in which we stood still for too long (frozen, or starved), transaction
// rollbacks, lack of resources but for the disk, a lock that was
// not to be had, operator intervention, and errors of the server's system.
const troubleCodes = /^(08...|25P0[34]|40...|53[^1]..|55P03|57...|58...)$/;

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
}
