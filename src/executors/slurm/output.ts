// The output file of a job in Slurm (J6): both streams, as they were written.

import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import type { LogReader } from "../log-reader.ts";

/** Undefined: the job has written nothing yet. */
export function openFileReader(path: string, from: number): LogReader | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === undefined) return undefined;
  let position = from < 0 ? Math.max(0, size + from) : from;
  return {
    next(bytesMax) {
      const data = readPart(path, position, Math.min(bytesMax, PART_BYTES_MAX));
      const begin = position;
      position += data.length;
      return { from: begin, parts: data.length === 0 ? [] : [{ stream: "stdout", data }], dropped: 0 };
    },
    seek(wanted) {
      position = wanted;
    },
  };
}

export function readFileTail(path: string, bytes: number): Buffer {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return size === 0 ? Buffer.alloc(0) : readPart(path, Math.max(0, size - bytes), bytes);
}

/** As much as fits into one part of a piece. */
const PART_BYTES_MAX = 48 * 1024;

function readPart(path: string, from: number, bytesMax: number): Buffer {
  const descriptor = openSync(path, "r");
  try {
    const length = Math.max(0, Math.min(bytesMax, fstatSync(descriptor).size - from));
    const data = Buffer.alloc(length);
    return data.subarray(0, readSync(descriptor, data, 0, length, from));
  } finally {
    closeSync(descriptor);
  }
}
