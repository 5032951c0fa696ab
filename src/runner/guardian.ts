// The guardian program: outlives the process that started a job, ends the job after it, and reports.
//
// It learns on its standard input, one JSON message per line, what to do when that input ends without a word:
// then the other side has died, however suddenly. Nothing is on the command line or in the environment, because
// both are readable by others and the report carries a token.
//
// Invariants
//   1. A job is reported as ended only after its enclosure is empty.
//   2. The guardian ends when nothing is left to do, and after GUARD_MS_MAX in any case.

import { rmSync } from "node:fs";
import { openEnclosure } from "./enclosure.ts";
import { prepareEnding } from "./ending.ts";
import type { Charge, GuardMessage, HookCall } from "./guard.ts";
import { onLines } from "./lines.ts";

const GUARD_MS_MAX = 24 * 3_600_000;
const STUCK_AFTER_MS = 10_000;
const CALL_MS_MAX = 10_000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 10_000;
/** After one and a half of the longest usual lease the server has freed the units by itself. */
const RETRY_FOR_MS = 450_000;

// A hang-up, Ctrl-C or a polite request is meant for the job and its wrapper; the guardian goes last.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => undefined);

const charges = new Map<string, Charge>();

onLines(process.stdin, (line) => {
  const message = JSON.parse(line) as GuardMessage;
  if (message.kind === "take") charges.set(message.charge.id, message.charge);
  else charges.delete(message.id);
});
process.stdin.on("error", () => undefined); // "close" follows.
process.stdin.once("close", () => {
  setTimeout(() => process.exit(1), GUARD_MS_MAX).unref();
  void Promise.all([...charges.values()].map(finish)).then(() => process.exit(0));
});

async function finish({ plan, hook, temporaryDirectory }: Charge): Promise<void> {
  if (plan !== undefined) {
    const ending = prepareEnding(openEnclosure(plan), STUCK_AFTER_MS);
    void ending.stop(0);
    await ending.gone;
  }
  if (temporaryDirectory !== undefined) rmSync(temporaryDirectory, { recursive: true, force: true });
  const endMs = performance.now() + (hook?.retryForMs ?? RETRY_FOR_MS);
  for (const call of hook?.calls ?? []) await make(call, endMs);
}

/** Tries one server after the other until one of them has taken the call, or has refused it for good. */
async function make(call: HookCall, endMs: number): Promise<void> {
  for (let retryMs = RETRY_MS_MIN; ; retryMs = Math.min(retryMs * 2, RETRY_MS_MAX)) {
    for (const url of call.urls) {
      if (await isAnswered(url, call)) return;
    }
    if (performance.now() + retryMs > endMs) return;
    await new Promise((resolve) => setTimeout(resolve, retryMs * (0.5 + Math.random() / 2)));
  }
}

async function isAnswered(url: string, { urls: _, ...call }: HookCall): Promise<boolean> {
  try {
    const { status } = await fetch(url, { ...call, signal: AbortSignal.timeout(CALL_MS_MAX) });
    return status < 500 && status !== 429 && status !== 408;
  } catch {
    return false;
  }
}
