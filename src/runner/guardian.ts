// The guardian program: ends a job after the process that started it, and reports in its place. With the argument
// `freeze` or `thaw` it does that and nothing else, for the watchdog.
//
// It learns what to do on its standard input, as one JSON object. Nothing is on the command line or in the environment,
// because both are readable by others and the report carries a token.
//
// Invariants
//   1. A job is reported as ended only after its enclosure is empty.
//   2. The guardian ends when nothing is left to do, and after GUARD_MS_MAX in any case.

import { readFileSync, rmSync } from "node:fs";
import { openEnclosure } from "./enclosure.ts";
import { prepareEnding, STUCK_AFTER_MS } from "./ending.ts";
import type { Charge, HookCall } from "./guard.ts";

const GUARD_MS_MAX = 24 * 3_600_000;
const CALL_MS_MAX = 10_000;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 10_000;
/** After one and a half of the longest usual lease the server has freed the units by itself. */
const RETRY_FOR_MS = 450_000;

// A hang-up, Ctrl-C or a polite request is meant for the job and its wrapper; the guardian goes last.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => undefined);
setTimeout(() => process.exit(1), GUARD_MS_MAX).unref();

const {
  plan,
  hook,
  temporaryDirectory,
  stuckAfterMs = STUCK_AFTER_MS,
} = JSON.parse(readFileSync(0, "utf8")) as Charge;
const [, , turn] = process.argv;
if (plan !== undefined && (turn === "freeze" || turn === "thaw")) {
  const enclosure = openEnclosure(plan);
  await enclosure.freeze(); // A thaw undoes a freeze of its own only; what stands still already is not disturbed by it.
  if (turn === "thaw") enclosure.thaw();
  process.exit(0);
}
if (plan !== undefined) {
  const ending = prepareEnding(openEnclosure(plan), stuckAfterMs);
  const end = await ending.stop(0);
  if (end.kind === "stuck") await keepUnits(ending.gone);
}
if (temporaryDirectory !== undefined) rmSync(temporaryDirectory, { recursive: true, force: true });
const endedAtMs = Date.now();
const endMs = performance.now() + (hook?.retryForMs ?? RETRY_FOR_MS);
for (const call of hook?.calls ?? []) await make(stamped(call), endMs);
process.exit(0);

/** The report may arrive much later than the end that it is about. */
function stamped({ clockOffsetMs, ...call }: HookCall): HookCall {
  if (clockOffsetMs === undefined || call.body === undefined) return call;
  const ended_at = new Date(endedAtMs + clockOffsetMs).toISOString();
  return { ...call, body: JSON.stringify({ ...(JSON.parse(call.body) as object), ended_at }) };
}

/** Units in use are not given to others, and an alert asks a person to look. */
async function keepUnits(gone: Promise<void>): Promise<void> {
  let isGone = false;
  void gone.then(() => {
    isGone = true;
  });
  const { alert, renewal, everyMs } = hook?.stuck ?? {};
  if (alert !== undefined) await make(alert, performance.now() + RETRY_FOR_MS);
  while (!isGone) {
    if (renewal !== undefined) await make(renewal, performance.now());
    await Promise.race([gone, new Promise((resolve) => setTimeout(resolve, everyMs))]);
  }
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
