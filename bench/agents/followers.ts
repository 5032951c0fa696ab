// Reads the output of attempts as it is written, over every interruption, and at the end once more as a whole.

import { setTimeout as delay } from "node:timers/promises";
import type { Api } from "./calls.ts";

export interface Output {
  stdout: string;
  stderr: string;
  /** Bytes that the server said were no longer there. */
  dropped: number;
  /** The server said that nothing follows. */
  isComplete: boolean;
  /** Only the end of it, because the node did not answer. */
  isTail: boolean;
  /** What did not follow on what came before it. */
  readonly jumps: string[];
}

export interface Followed {
  readonly id: string;
  readonly attempt: number;
  readonly output: Output;
}

export function follow(
  api: Api,
  { id, attempt }: { readonly id: string; readonly attempt: number },
  signal: AbortSignal,
): Followed {
  const output = emptyOutput();
  void (async () => {
    let position = 0;
    while (!output.isComplete && !signal.aborted) {
      const query = `attempt=${attempt}&from=${position}&follow=true`;
      position = await read(api, { id, query, position }, output, signal).catch(() => position);
      await delay(200, undefined, { signal }).catch(() => undefined);
    }
  })();
  return { id, attempt, output };
}

/** What is left of the time that logs which do not come are waited for, all together. */
export interface Patience {
  leftMs: number;
}

/** The whole output of one part of an attempt that has ended. */
export async function readWhole(
  api: Api,
  { id, attempt, rank }: { readonly id: string; readonly attempt: number; readonly rank: number },
  patience: Patience,
): Promise<Output> {
  for (;;) {
    const beganMs = performance.now();
    const output = emptyOutput();
    const query = `attempt=${attempt}&rank=${rank}`;
    const limitMs = Math.ceil(Math.max(8_000, Math.min(40_000, patience.leftMs)));
    await read(api, { id, query, position: 0 }, output, AbortSignal.timeout(limitMs)).catch(() => 0);
    if (output.isComplete && !output.isTail) return output;
    await delay(500);
    patience.leftMs -= performance.now() - beganMs;
    if (patience.leftMs < 0) return output;
  }
}

function emptyOutput(): Output {
  return { stdout: "", stderr: "", dropped: 0, isComplete: false, isTail: false, jumps: [] };
}

/** Returns the position up to which it has got, also in the middle. */
async function read(
  api: Api,
  { id, query, position }: { readonly id: string; readonly query: string; readonly position: number },
  output: Output,
  signal: AbortSignal,
): Promise<number> {
  const answer = await api.open(`/v1/jobs/${id}/logs?format=events&${query}`, signal);
  if (answer.status !== 200 || answer.body === null) return position;
  if (answer.headers.get("berth-log") === "tail") output.isTail = true;
  let at = position;
  let rest = "";
  const decoder = new TextDecoder();
  try {
    for await (const piece of answer.body as unknown as AsyncIterable<Uint8Array>) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line !== "") at = take(JSON.parse(line) as Line, at, output);
    }
  } catch {
    // Cut off: the follower goes on from here.
  }
  return at;
}

type Line =
  | { readonly position: number; readonly stream: "stdout" | "stderr"; readonly data: string }
  | { readonly dropped: number; readonly end?: never }
  | { readonly end: true };

function take(line: Line, at: number, output: Output): number {
  if ("position" in line) {
    const data = Buffer.from(line.data, "base64");
    if (line.position !== at) output.jumps.push(`from ${at} to ${line.position}`);
    output[line.stream] += data.toString("latin1");
    return line.position + data.length;
  }
  if (line.end === true) output.isComplete = true;
  else {
    output.dropped += line.dropped;
    return at + line.dropped;
  }
  return at;
}
