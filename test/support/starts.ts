// When a request starts if nothing new arrives and every run ends at its walltime (X6): played on a copy of the state,
// one moment after the other, by looking at everything that runs each time.

import {
  decide,
  type EngineState,
  nextWakeMs,
  type RequestId,
  requestIds,
  requestOf,
} from "../../src/engine/index.ts";
import { copyOf } from "./suggested.ts";

const AUTO_CHECKPOINT_MS = 300_000;

/** Undefined: not until then; null: it takes more moments than are played. */
export function startOnCopy(
  state: EngineState,
  id: RequestId,
  { nowMs, untilMs, momentsMax }: { nowMs: number; untilMs: number; momentsMax: number },
): number | undefined | null {
  const copy = copyOf(state, nowMs);
  const startedAtMs = () => requestOf(copy, id)?.progress.allocation?.startedAtMs;
  let atMs = nowMs;
  for (let moment = 0; startedAtMs() === undefined; moment++) {
    if (moment === momentsMax) return null;
    const ends = new Map([...requestIds(copy)].map((each) => [each, endOf(copy, each, atMs)] as const));
    const nextMs = Math.max(atMs, Math.min(nextWakeMs(copy) ?? Number.POSITIVE_INFINITY, ...ends.values()));
    if (nextMs > untilMs) return undefined;
    atMs = nextMs;
    endThose([...ends].flatMap(([each, endMs]) => (endMs <= atMs ? each : [])));
  }
  return startedAtMs();

  function endThose(due: readonly RequestId[]): void {
    const stopOf = (each: RequestId) => requestOf(copy, each)?.progress.allocation?.stop ?? null;
    for (const requestId of due) {
      if (stopOf(requestId)?.phase !== "checkpoint") continue;
      const token = requestOf(copy, requestId)!.progress.allocation!.token;
      decide(copy, { kind: "reportCheckpoint", requestId, token, checkpoint: { report: "done" } }, atMs);
    }
    const ends = due.map((requestId) => ({
      requestId,
      outcome: stopOf(requestId) === null ? ("succeeded" as const) : ("stopped" as const),
    }));
    decide(copy, { kind: "tick", ends }, atMs);
  }
}

function endOf(state: EngineState, id: RequestId, nowMs: number): number {
  const { spec, progress } = requestOf(state, id)!;
  if (progress.allocation === null) return Number.POSITIVE_INFINITY;
  const { stop, startedAtMs } = progress.allocation;
  if (stop === null)
    return spec.walltimeMs === null ? Number.POSITIVE_INFINITY : startedAtMs + spec.walltimeMs;
  if (stop.phase !== "checkpoint") return nowMs;
  const takesMs =
    spec.checkpoint === "auto" ? (spec.checkpointMs ?? AUTO_CHECKPOINT_MS) : Number.POSITIVE_INFINITY;
  return Math.min(stop.toldAtMs + takesMs, stop.deadlineMs - 1);
}
