// The server's side for the command line: opens servers and stores, and translates their errors.

import type { HostedOptions, Hosting } from "../cli/index.ts";
import type { Log } from "../leader/index.ts";
import { openServer, ServerError } from "../server/index.ts";
import {
  backupSqlite,
  isStoreError,
  moveStore,
  openPostgresStore,
  openSqliteStore,
  refuseOccupied,
  restoreSqlite,
} from "../store/index.ts";

const UNLIMITED = {
  perToken: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  perStranger: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  allStrangers: { perSecond: Number.POSITIVE_INFINITY, burst: 0 },
  failedLoginsPerMinute: 1_000_000,
};

export const hosting: Hosting = {
  async openServer({ log, logLevel = "info", tell, isUnlimited = false, ...options }) {
    return openServer({
      ...options,
      warmForesight: true,
      ...(isUnlimited && { rates: UNLIMITED }),
      log: await createLog(log, logLevel, tell),
    });
  },
  backup: (from, to) => backupSqlite({ from, to }),
  restore: (from, to) => restoreSqlite({ from, to }),
  refuseOccupied,
  move: moveStore,
  async inspect(where, noted) {
    const store =
      "file" in where
        ? await openSqliteStore({ path: where.file })
        : await openPostgresStore({ url: where.databaseUrl });
    try {
      const { damage } = await store.verify();
      const { events, requests, snapshots, audit } = await store.sizes();
      const comparison = noted && (await store.compareWithNoted(noted));
      const head = await store.head();
      return { head, events, requests, snapshots, audit, damage, ...(comparison && { comparison }) };
    } finally {
      await store.close();
    }
  },
  explain(error) {
    if (!(error instanceof ServerError) && !isStoreError(error)) return undefined;
    return { message: error.message, hint: error.hint };
  },
};

/** A team's server writes one JSON object per line; one that a person watches speaks only when something is wrong. */
async function createLog(
  kind: HostedOptions["log"],
  level: NonNullable<HostedOptions["logLevel"]>,
  tell: (text: string) => void,
): Promise<Log> {
  const ignore = () => undefined;
  if (kind === "silent") return { info: ignore, warn: ignore, error: ignore };
  if (kind === "people") {
    const say = (fields: object, message: string) => tell(`berth: ${message} ${describe(fields)}\n`);
    return { info: ignore, warn: say, error: say };
  }
  const { pino } = await import("pino");
  const logger = pino(
    { base: null, level, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: true }),
  );
  return {
    ...(level === "debug" && { debug: (fields, message) => logger.debug(fields, message) }),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
  };
}

function describe(fields: object): string {
  const { err, error = err, ...rest } = fields as { err?: unknown; error?: unknown };
  const why = error instanceof Error ? error.message : error;
  return [why, ...Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value)}`)]
    .filter((part) => part !== undefined && part !== "")
    .join(" ");
}
