// Looks at SQLite's write-ahead log before SQLite does.
//
// SQLite reads the log up to the first frame that is not right and takes the rest for a write that a
// crash has interrupted. That is true of the last transaction only, since each one is on the disk before
// the next begins. If several follow a broken frame, they were acknowledged, and the log is damaged:
// going on without them would lose them in silence.

import { readFileSync } from "node:fs";
import type { Damage } from "../store.ts";

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC_LITTLE_ENDIAN = 0x377f0682;

type Sum = readonly [number, number];

export function findWalDamage(path: string): Damage | undefined {
  const log = readLog(`${path}-wal`);
  if (log === undefined || log.subarray(0, HEADER_BYTES).every((byte) => byte === 0)) return undefined;

  const isLittleEndian = log.readUInt32BE(0) === MAGIC_LITTLE_ENDIAN;
  const pageBytes = log.readUInt32BE(8);
  const frameBytes = FRAME_HEADER_BYTES + pageBytes;
  const frameCount = Math.floor((log.length - HEADER_BYTES) / frameBytes);
  let sum = checksum(log.subarray(0, 24), [0, 0], isLittleEndian);
  if (!isSum(log, 24, sum)) {
    return frameCount < 1
      ? undefined
      : { where: `${path}-wal, byte 0`, what: "the header of the log is damaged" };
  }

  const salts = log.subarray(16, 24);
  let brokenOffset: number | undefined;
  let commitsAfter = 0;
  for (let index = 0; index < frameCount; index++) {
    const offset = HEADER_BYTES + index * frameBytes;
    const hasOurSalts = log.subarray(offset + 8, offset + 16).equals(salts);
    if (brokenOffset === undefined) {
      sum = checksum(log.subarray(offset, offset + 8), sum, isLittleEndian);
      sum = checksum(log.subarray(offset + FRAME_HEADER_BYTES, offset + frameBytes), sum, isLittleEndian);
      if (!hasOurSalts || !isSum(log, offset + 16, sum)) brokenOffset = offset;
    }
    // The last frame of a transaction says how large the database is after it.
    if (brokenOffset !== undefined && hasOurSalts && log.readUInt32BE(offset + 4) !== 0) commitsAfter++;
  }
  if (brokenOffset === undefined || commitsAfter < 2) return undefined;
  return {
    where: `${path}-wal, byte ${brokenOffset}`,
    what: `${commitsAfter} commits follow a frame that was changed`,
  };
}

function readLog(path: string): Buffer | undefined {
  try {
    const log = readFileSync(path);
    return log.length < HEADER_BYTES ? undefined : log;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function checksum(bytes: Buffer, [first, second]: Sum, isLittleEndian: boolean): Sum {
  const word = (offset: number) => (isLittleEndian ? bytes.readUInt32LE(offset) : bytes.readUInt32BE(offset));
  let [s0, s1] = [first, second];
  for (let offset = 0; offset < bytes.length; offset += 8) {
    s0 = (s0 + word(offset) + s1) >>> 0;
    s1 = (s1 + word(offset + 4) + s0) >>> 0;
  }
  return [s0, s1];
}

function isSum(log: Buffer, offset: number, [first, second]: Sum): boolean {
  return log.readUInt32BE(offset) === first && log.readUInt32BE(offset + 4) === second;
}
