// The longest pause of the event loop: from when a timer was due until it ran, without the time in which the machine
// gave the processor to others.

import { readFileSync } from "node:fs";

const EVERY_MS = 1;

/** Starts to watch. What is returned gives the longest pause since it was last asked, in milliseconds. */
export function watchPauses(): () => number {
  let longestMs = 0;
  let dueMs = performance.now() + EVERY_MS;
  let waitedMs = waitedForProcessorMs();
  const look = () => {
    const waitedNowMs = waitedForProcessorMs();
    longestMs = Math.max(longestMs, performance.now() - dueMs - (waitedNowMs - waitedMs));
    waitedMs = waitedNowMs;
    dueMs = performance.now() + EVERY_MS;
    setTimeout(look, EVERY_MS).unref();
  };
  setTimeout(look, EVERY_MS).unref();
  return () => {
    const told = longestMs;
    longestMs = 0;
    return told;
  };
}

/** By this thread, ready to run; 0 where the system does not tell. */
function waitedForProcessorMs(): number {
  try {
    const [, waitedNs = "0"] = readFileSync("/proc/thread-self/schedstat", "utf8").split(" ");
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}
