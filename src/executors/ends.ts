// How the end of an attempt is written down and sent (J5).

import type { WireRunningPart } from "../protocol/index.ts";
import type { PartEnd, StoredEnd } from "./journal.ts";

const MESSAGE_CHARS_MAX = 4_000;
/** In base64 a piece of this length is as long as it may be on the wire. */
const TAIL_PIECE_BYTES = 48 * 1024;
/** The end of the output that is kept with the request (J6). */
export const TAIL_BYTES = 64 * 1024;

/** Of a job that never ran. */
export function startFailed(message: string): StoredEnd {
  return ending("failed", message, "start_failed");
}

export function ending(outcome: "lost" | "failed", message: string, cause?: PartEnd["cause"]): StoredEnd {
  const ended_at = new Date().toISOString();
  const text = message.slice(0, MESSAGE_CHARS_MAX);
  return { end: { outcome, message: text, ended_at, ...(cause !== undefined && { cause }) }, reports: [] };
}

/** For a sync: with the last of its output, and how much there was in all. */
export function endedPart(
  about: Pick<WireRunningPart, "request_id" | "token">,
  end: StoredEnd["end"],
  tail: Buffer,
  bytes?: number,
): WireRunningPart {
  const cut = Math.max(0, tail.length - TAIL_PIECE_BYTES);
  const pieces = [tail.subarray(0, cut), tail.subarray(cut)].filter((piece) => piece.length > 0);
  return {
    ...about,
    phase: "ended",
    end: {
      ...end,
      ...(end.message !== undefined && { message: printable(end.message) }),
      ...(pieces.length > 0 && { log_tail: pieces.map((piece) => piece.toString("base64")) }),
      ...(bytes !== undefined && { log_bytes: bytes }),
    },
  };
}

/** The server takes no control characters. */
export function printable(text: string): string {
  return text.replaceAll(/\p{C}/gu, "·");
}
