// What berth doctor says about the store: where it is, whether it is whole, and whether its history still contains a head
// that was noted elsewhere.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { megabytes, STORE_FILE, storeIn } from "../backup.ts";
import { type CliContext, CliError } from "../context.ts";
import type { Finding } from "../doctor.ts";
import { counted } from "../output/text.ts";
import { dataDirectory, shownPath } from "../paths.ts";
import { asCliError, hostingOf } from "../serving/host.ts";
import type { Inspection, NotedHead } from "../serving/hosting.ts";
import { findRunning } from "../serving/running.ts";

export interface StoreOptions {
  readonly dataDir?: string;
  readonly databaseUrl?: string;
  readonly verify?: boolean;
  readonly expect?: string;
}

/** The ends of both hash chains as one word, such as `120.9f2c…/45.ab12…`. */
export async function headOf(options: StoreOptions, context: CliContext): Promise<string> {
  const { head, damage } = await inspect(options, context);
  if (damage.length > 0) {
    throw new CliError("unavailable", "The store is damaged.", "See what is wrong: berth doctor --verify");
  }
  return `${head.seq}.${head.hash}/${head.auditId}.${head.auditHash}`;
}

const HEAD = /^(\d+)\.([0-9a-f]{64})\/(\d+)\.([0-9a-f]{64})$/;

function parseHead(text: string): NotedHead {
  const [, seq, hash, auditId, auditHash] = HEAD.exec(text.trim()) ?? [];
  if (hash === undefined || auditHash === undefined) {
    throw new CliError("usage", `"${text}" is not a head.`, "Give what berth doctor --head has printed.");
  }
  return { seq: Number(seq), hash, auditId: Number(auditId), auditHash };
}

export async function aboutStore(options: StoreOptions, context: CliContext): Promise<Finding[]> {
  const noted = options.expect === undefined ? undefined : parseHead(options.expect);
  const findings = options.databaseUrl === undefined ? aboutFile(options) : [];
  const isMissing = findings.some(({ state }) => state !== "good");
  if (noted === undefined && (isMissing || options.verify !== true)) return findings;
  try {
    const inspection = await inspect(options, context, noted);
    return [...findings, ...aboutContents(inspection), ...aboutNoted(inspection, noted)];
  } catch (error) {
    return [...findings, { what: "hashes", state: "bad", text: (error as Error).message }];
  }
}

function aboutFile({ dataDir }: StoreOptions): Finding[] {
  const directory = dataDirectory(dataDir);
  const store = join(directory, STORE_FILE);
  const size = statSync(store, { throwIfNoEntry: false })?.size;
  if (size === undefined)
    return [{ what: "data", state: "note", text: `no embedded store at ${shownPath(store)}` }];
  const log = statSync(`${store}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const running = findRunning(directory);
  const who =
    running === undefined ? "no server runs on it" : `pid ${running.pid} serves it at ${running.url}`;
  return [{ what: "data", state: "good", text: `${shownPath(store)}, ${megabytes(size + log)}; ${who}` }];
}

/** An embedded store is read from a copy, so that a server on it goes on. */
async function inspect(
  { dataDir, databaseUrl }: StoreOptions,
  context: CliContext,
  noted?: NotedHead,
): Promise<Inspection> {
  const hosting = await hostingOf(context);
  const scratch = mkdtempSync(join(tmpdir(), "berth-doctor-"));
  try {
    if (databaseUrl !== undefined) return await hosting.inspect({ databaseUrl }, noted);
    const copy = join(scratch, STORE_FILE);
    await hosting.backup(storeIn(dataDir), copy);
    return await hosting.inspect({ file: copy }, noted);
  } catch (error) {
    throw asCliError(hosting, error);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function aboutContents({ events, requests, snapshots, audit, damage }: Inspection): Finding[] {
  const sizes = [
    counted(events, "event"),
    counted(requests, "request"),
    counted(snapshots, "snapshot"),
    `${audit} audit entries`,
  ];
  const places = damage.slice(0, 5).map(({ where, what }) => `${where}: ${what}`);
  return [
    { what: "contents", state: "good", text: sizes.join(", ") },
    damage.length === 0
      ? { what: "hashes", state: "good", text: "everything is as it was written" }
      : { what: "hashes", state: "bad", text: places.join("; ") },
  ];
}

function aboutNoted({ comparison }: Inspection, noted: NotedHead | undefined): Finding[] {
  if (comparison === undefined || noted === undefined) return [];
  const places = { journal: `event ${noted.seq}`, audit: `entry ${noted.auditId}` };
  return (["journal", "audit"] as const).map((what): Finding => {
    const place = places[what];
    switch (comparison[what]) {
      case "contained":
        return { what, state: "good", text: `contains ${place} as it was noted` };
      case "forgotten":
        return { what, state: "note", text: `${place} is older than what is kept: note heads more often` };
      case "changed":
        return {
          what,
          state: "bad",
          text: `does not contain ${place} as it was noted: the history was rewritten or cut, or this is another store`,
        };
    }
  });
}
