// How the output of an attempt is read, wherever it is kept (J6). Positions count bytes of output.

export type LogStream = "stdout" | "stderr";

export interface LogPart {
  readonly stream: LogStream;
  readonly data: Buffer;
}

export interface LogRead {
  readonly from: number;
  readonly parts: readonly LogPart[];
  /** Bytes before `from` that the reader wanted and that are no longer there. */
  readonly dropped: number;
}

export interface LogReader {
  /** What follows what was read last; no parts: nothing yet. */
  next(bytesMax: number): LogRead;
  /** Goes on from there instead. */
  seek(position: number): void;
}
