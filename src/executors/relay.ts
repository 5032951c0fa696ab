// Sends logs to their readers through the server: executors listen on no port (J6).

import type { WireLogPiece, WireLogPieceAnswer, WireNodeSyncAnswer } from "../protocol/index.ts";
import type { LogPart, LogReader } from "./log-reader.ts";

type WantedLog = WireNodeSyncAnswer["logs"][number];

export interface Relays {
  /** The present readers. Those that are served already are not served twice. */
  serve(readers: readonly WantedLog[]): void;
  /** There is more to read of some attempt. */
  noteGrown(): void;
  close(): void;
}

export interface LogSource {
  /** Below zero: that many bytes before the end. Undefined: there is no log of this attempt. */
  open(token: string, from: number): LogReader | undefined;
  /** Nothing will be added. */
  isComplete(token: string): boolean;
  send(reader: string, piece: WireLogPiece, signal: AbortSignal): Promise<WireLogPieceAnswer>;
}

const PIECE_BYTES_MAX = 384 * 1024;
const PART_BYTES_MAX = 48 * 1024;
const PARTS_MAX = 256;
/** An empty piece after this time shows that the executor is alive. */
const IDLE_MS_MAX = 5_000;

export function createRelays(source: LogSource): Relays {
  const active = new Set<string>();
  const growth = new Set<() => void>();
  const ending = new AbortController();

  async function relay({ reader: id, token, from, follow }: WantedLog): Promise<void> {
    const log = source.open(token, from);
    if (log === undefined) {
      const piece = { from: Math.max(0, from), parts: [], is_end: true, is_missing: true };
      return void (await source.send(id, piece, ending.signal));
    }
    for (;;) {
      const isComplete = source.isComplete(token) || !follow; // Asked first: what is written before an end is read.
      const piece = nextPiece(log, isComplete);
      if (piece.parts.length === 0 && !piece.is_end && (await hasGrown())) continue;
      const { go_on, position } = await source.send(id, piece, ending.signal);
      if (!go_on || piece.is_end) return;
      log.seek(position);
    }
  }

  /** Resolves with false when it is time to send an empty piece. */
  function hasGrown(): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (grown: boolean) => {
        clearTimeout(timer);
        growth.delete(proceed);
        resolve(grown);
      };
      const proceed = () => settle(true);
      const timer = setTimeout(() => settle(false), IDLE_MS_MAX);
      growth.add(proceed);
    });
  }

  return {
    serve(readers) {
      for (const reader of readers) {
        if (active.has(reader.reader)) continue;
        active.add(reader.reader);
        // A reader that is still there is in the next answer, with the position that it has got to.
        void relay(reader)
          .catch(() => undefined)
          .finally(() => active.delete(reader.reader));
      }
    },
    noteGrown() {
      for (const proceed of [...growth]) proceed();
    },
    close() {
      ending.abort();
    },
  };
}

function nextPiece(log: LogReader, isComplete: boolean): WireLogPiece {
  const { from, parts, dropped } = log.next(PIECE_BYTES_MAX);
  const joined = joinParts(parts);
  const sent = joined.slice(0, PARTS_MAX);
  if (sent.length < joined.length) log.seek(from + sent.reduce((sum, { data }) => sum + data.length, 0));
  return {
    from,
    ...(dropped > 0 && { dropped }),
    parts: sent.map(({ stream, data }) => ({ stream, data: data.toString("base64") })),
    is_end: isComplete && parts.length === 0,
  };
}

/** Lines are many and short: neighbours of one stream travel together. */
function joinParts(parts: readonly LogPart[]): LogPart[] {
  const joined: LogPart[] = [];
  for (const { stream, data } of parts) {
    const last = joined.at(-1);
    if (last !== undefined && last.stream === stream && last.data.length + data.length <= PART_BYTES_MAX)
      joined[joined.length - 1] = { stream, data: Buffer.concat([last.data, data]) };
    else joined.push({ stream, data });
  }
  return joined;
}
