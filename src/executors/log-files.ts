// The output of one attempt on the disk (J6): both streams in the order of their arrival, in files of some megabytes, of
// which the oldest is dropped when there are too many. A record is a letter for the stream, four bytes for the length, and
// the bytes. Positions count bytes of output; the name of a file is the position of its first.
//
// One process writes; others may read at any time, and see whole records only.

import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { LogPart, LogRead, LogReader, LogStream } from "./log-reader.ts";

export interface LogWriter {
  write(stream: LogStream, data: Buffer): void;
  /** Bytes that could not be written, because the disk is full. */
  lostBytes(): number;
  close(): void;
}

export interface LogLimits {
  readonly bytesMax: number;
  readonly fileBytesMax: number;
}

const LIMITS: LogLimits = { bytesMax: 100_000_000, fileBytesMax: 4_000_000 };
const HEADER_BYTES = 5;
/** In base64 such a part is as large as a part may be on the wire. */
const PART_BYTES_MAX = 48 * 1024;
const LETTERS: Record<LogStream, number> = { stdout: 0x6f, stderr: 0x65 };
const FILE = /^log\.(\d{15})$/;

/** Goes on after what there is already, in a file of its own. */
export function openLogWriter(directory: string, limits = LIMITS): LogWriter {
  let position = logBytes(directory);
  let fileBytes = 0;
  let lost = 0;
  let descriptor = openFile(directory, position);

  const turn = () => {
    const next = openFile(directory, position); // May fail: then the one before stays open.
    closeSync(descriptor);
    descriptor = next;
    fileBytes = 0;
    const starts = startsOf(directory);
    // With the file that is filled next, all of them shall not be more than allowed.
    while (starts.length > 1 && position - (starts[0] as number) + limits.fileBytesMax > limits.bytesMax)
      rmSync(join(directory, fileName(starts.shift() as number)), { force: true });
  };

  const writePart = (stream: LogStream, data: Buffer) => {
    const header = Buffer.alloc(HEADER_BYTES);
    header[0] = LETTERS[stream];
    header.writeUInt32BE(data.length, 1);
    const record = Buffer.concat([header, data]);
    try {
      if (fileBytes >= limits.fileBytesMax) turn();
      for (let done = 0; done < record.length; ) done += writeSync(descriptor, record, done);
      fileBytes += record.length;
      position += data.length;
    } catch {
      lost += data.length; // The job goes on, whatever the disk says.
      ftruncateSync(descriptor, fileBytes); // Half a record would spoil what comes after it.
    }
  };

  return {
    write(stream, data) {
      for (let at = 0; at < data.length; at += PART_BYTES_MAX)
        writePart(stream, data.subarray(at, at + PART_BYTES_MAX));
    },
    lostBytes: () => lost,
    close: () => closeSync(descriptor),
  };
}

/** Below zero: that many bytes before the end. */
export function openLogReader(directory: string, from: number): LogReader {
  let position = from < 0 ? Math.max(0, logBytes(directory) + from) : from;
  let file: { start: number; offset: number; position: number } | undefined;

  /** The file that the position is in, and how much before it is no longer there. */
  const locate = (): number => {
    const starts = startsOf(directory);
    const start = starts.findLast((one) => one <= position) ?? starts[0];
    if (start === undefined) return 0;
    const dropped = Math.max(0, start - position);
    position += dropped;
    if (file?.start !== start || file.position > position) file = { start, offset: 0, position: start };
    return dropped;
  };

  function next(bytesMax: number): LogRead {
    const dropped = locate();
    const read: LogPart[] = [];
    const begin = position;
    for (let left = bytesMax; file !== undefined && left > 0; ) {
      const records = readRecords(join(directory, fileName(file.start)), file.offset, left);
      if (records === undefined || records.length === 0) break;
      for (const { stream, data } of records) {
        const known = Math.min(data.length, position - file.position);
        file.offset += HEADER_BYTES + data.length;
        file.position += data.length;
        if (known < data.length) read.push({ stream, data: data.subarray(known) });
        position = Math.max(position, file.position);
        left -= data.length - known;
      }
    }
    // Complete: what follows is in the next file.
    if (
      read.length === 0 &&
      file !== undefined &&
      startsOf(directory).includes(position) &&
      file.start !== position
    ) {
      file = { start: position, offset: 0, position };
      const further = next(bytesMax);
      return { ...further, dropped: further.dropped + dropped };
    }
    return { from: begin, parts: read, dropped };
  }

  return {
    next,
    seek(wanted) {
      position = wanted;
    },
  };
}

/** The last bytes of both streams together. */
export function readTail(directory: string, bytes: number): Buffer {
  const reader = openLogReader(directory, -bytes);
  const chunks: Buffer[] = [];
  for (;;) {
    const { parts } = reader.next(bytes);
    if (parts.length === 0) return Buffer.concat(chunks);
    chunks.push(...parts.map(({ data }) => data));
  }
}

export function hasLog(directory: string): boolean {
  return startsOf(directory).length > 0;
}

/** The position after the last byte: also of what was dropped. */
export function logBytes(directory: string): number {
  const start = startsOf(directory).at(-1);
  if (start === undefined) return 0;
  const records = readRecords(join(directory, fileName(start)), 0, Number.POSITIVE_INFINITY) ?? [];
  return records.reduce((sum, { data }) => sum + data.length, start);
}

/** Whole records from there on, at least one if there is one. Undefined: the file is gone. */
function readRecords(path: string, offset: number, bytesMax: number): LogPart[] | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(path, "r");
  } catch {
    return undefined;
  }
  try {
    const length = Math.min(
      fstatSync(descriptor).size - offset,
      Math.max(bytesMax, PART_BYTES_MAX + HEADER_BYTES),
    );
    const bytes = Buffer.alloc(Math.max(0, length));
    const count = readSync(descriptor, bytes, 0, bytes.length, offset);
    return parseRecords(bytes.subarray(0, count));
  } finally {
    closeSync(descriptor);
  }
}

function parseRecords(bytes: Buffer): LogPart[] {
  const parts: LogPart[] = [];
  for (let at = 0; at + HEADER_BYTES <= bytes.length; ) {
    const end = at + HEADER_BYTES + bytes.readUInt32BE(at + 1);
    if (end > bytes.length) break;
    const stream = bytes[at] === LETTERS.stdout ? "stdout" : "stderr";
    parts.push({ stream, data: bytes.subarray(at + HEADER_BYTES, end) });
    at = end;
  }
  return parts;
}

function startsOf(directory: string): number[] {
  try {
    return readdirSync(directory)
      .flatMap((name) => FILE.exec(name)?.[1] ?? [])
      .map(Number)
      .toSorted((a, b) => a - b);
  } catch {
    return [];
  }
}

function openFile(directory: string, start: number): number {
  return openSync(join(directory, fileName(start)), "w", 0o600);
}

function fileName(start: number): string {
  return `log.${String(start).padStart(15, "0")}`;
}
