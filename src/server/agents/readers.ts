// Readers of logs (J6). A log stays on its node, and agents listen on no port: a reader becomes an entry of the next sync
// answer, and the agent then sends the log piece by piece. The reader goes on when its own client has taken the piece.
//
// Invariant: a reader gets every byte once and in order, whatever the agent sends again.

import { randomBytes } from "node:crypto";
import type { WireLogPiece, WireLogPieceAnswer } from "../../protocol/index.ts";

export interface LogOrder {
  /** Who sends it: the key of an agent or of an adapter. */
  readonly reporter: string;
  readonly requestId: string;
  /** The grant token of the attempt, as the agent knows it. */
  readonly token: string;
  readonly from: number;
  readonly follow: boolean;
  /** The token whose readers it is counted with. */
  readonly countsAs: string;
}

export interface LogPart {
  /** Position of its first byte. */
  readonly at: number;
  readonly stream: "stdout" | "stderr";
  readonly data: Buffer;
}

/** Where the pieces go. `take` resolves when there is room for more. */
export interface LogSink {
  take(parts: readonly LogPart[], dropped: number): Promise<void>;
  /** Nothing follows; `missing`: the node has no log of this attempt. */
  end(why: "complete" | "missing" | "closed"): void;
}

export interface OpenReader extends Omit<LogOrder, "countsAs"> {
  readonly reader: string;
}

export interface Readers {
  /** Returns the way to stop. */
  open(order: LogOrder, sink: LogSink): () => void;
  countOf(token: string): number;
  /** Those whose logs it should send. */
  on(reporter: string): readonly OpenReader[];
  /** Undefined: that reader is gone, or another reporter has to send it. */
  take(reporter: string, reader: string, piece: WireLogPiece): Promise<WireLogPieceAnswer> | undefined;
  close(): void;
}

interface Reader extends LogOrder {
  readonly reader: string;
  readonly sink: LogSink;
  /** Up to where it has got; undefined before the first piece, since a wish may count from the end. */
  position: number | undefined;
  isOpen: boolean;
  /** Pieces are taken one after the other. */
  last: Promise<void>;
}

export function createReaders(wake: (reporter: string) => void): Readers {
  const readers = new Map<string, Reader>();

  const end = (reader: Reader, why: Parameters<LogSink["end"]>[0]) => {
    if (!reader.isOpen) return;
    reader.isOpen = false;
    readers.delete(reader.reader);
    reader.sink.end(why);
    wake(reader.reporter);
  };

  async function take(reader: Reader, piece: WireLogPiece): Promise<void> {
    if (!reader.isOpen) return;
    if (piece.is_missing === true) return end(reader, "missing");
    const position = reader.position ?? piece.from - (piece.dropped ?? 0);
    // The log has grown past what this reader had yet to read; or a piece before this one was lost, and the agent is told
    // where to go on.
    const dropped = Math.max(0, piece.from - position);
    if (dropped > (piece.dropped ?? 0)) return;
    const { parts, position: next } = newParts(piece, position);
    reader.position = next;
    await reader.sink.take(parts, dropped); // Also an empty one: it shows that the node answers.
    if (piece.is_end) end(reader, "complete");
  }

  return {
    open(order, sink) {
      const reader: Reader = {
        ...order,
        reader: randomBytes(12).toString("hex"),
        sink,
        position: undefined,
        isOpen: true,
        last: Promise.resolve(),
      };
      readers.set(reader.reader, reader);
      wake(order.reporter);
      return () => end(reader, "closed");
    },
    countOf: (token) => [...readers.values()].filter(({ countsAs }) => countsAs === token).length,
    on: (reporter) =>
      [...readers.values()]
        .filter((one) => one.reporter === reporter)
        .map(({ reader, requestId, token, from, follow, position }) => ({
          ...{ reader, reporter, requestId, token, follow },
          from: position ?? from,
        })),
    take(reporter, id, piece) {
      const reader = readers.get(id);
      if (reader === undefined || reader.reporter !== reporter) return undefined;
      reader.last = reader.last.then(() => take(reader, piece));
      return reader.last.then(() => ({ go_on: reader.isOpen, position: reader.position ?? 0 }));
    },
    close() {
      for (const reader of [...readers.values()]) end(reader, "closed");
    },
  };
}

/** What of a piece the reader does not have yet. */
function newParts(piece: WireLogPiece, position: number): { parts: LogPart[]; position: number } {
  const parts: LogPart[] = [];
  let at = piece.from;
  for (const { stream, data } of piece.parts) {
    const bytes = Buffer.from(data, "base64");
    const known = Math.min(bytes.length, Math.max(0, position - at));
    if (known < bytes.length) parts.push({ at: at + known, stream, data: bytes.subarray(known) });
    at += bytes.length;
  }
  return { parts, position: Math.max(position, at) };
}
