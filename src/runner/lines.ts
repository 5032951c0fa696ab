// Whole lines from a stream. What follows the last line break is never delivered: its writer died in the middle.

import type { Readable } from "node:stream";

const LINE_CHARS_MAX = 8_000_000;

/** A line longer than allowed ends the stream, so that nobody can fill our memory. */
export function onLines(stream: Readable, deliver: (line: string) => void, charsMax = LINE_CHARS_MAX): void {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > charsMax) stream.destroy();
    for (const line of lines) deliver(line);
  });
}
