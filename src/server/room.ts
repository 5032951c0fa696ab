// Room for bulk calls: only so many are under way at a time, and the others wait as the bytes in which they came.
//
// Parsed, every item is a dozen objects. Objects that wait for their turn outlive the collections of the new generation,
// which have to move them, twice, and become garbage in the old one. Bytes lie outside of both. And whoever asks for one
// thing stands behind what is under way, not behind everything that was sent.

import { problemError } from "./problems.ts";

export interface Room {
  /** Resolves when there is room for so many bytes, in the order of the calls. Returns the way to leave. */
  enter(bytes: number): Promise<() => void>;
}

/** A call that is larger than all the room there is enters alone. */
export function createRoom({
  bytesMax,
  waitingBytesMax,
}: {
  readonly bytesMax: number;
  readonly waitingBytesMax: number;
}): Room {
  const waiting: { readonly bytes: number; enter(): void }[] = [];
  let bytesTaken = 0;
  let bytesWaiting = 0;

  function admit(): void {
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      if (bytesTaken > 0 && bytesTaken + next.bytes > bytesMax) return;
      waiting.shift();
      bytesWaiting -= next.bytes;
      bytesTaken += next.bytes;
      next.enter();
    }
  }

  return {
    async enter(bytes) {
      if (bytesWaiting + bytes > waitingBytesMax) {
        throw problemError("unavailable", "Too many bulk calls wait already.", {
          hint: "Nothing was changed; try again soon.",
          headers: { "retry-after": "1" },
        });
      }
      await new Promise<void>((enter) => {
        waiting.push({ bytes, enter });
        bytesWaiting += bytes;
        admit();
      });
      return () => {
        bytesTaken -= bytes;
        admit();
      };
    },
  };
}
