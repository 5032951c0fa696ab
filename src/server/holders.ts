// What is known about holders beside the engine: who calls, who is silent, and how runs ended.

import { type EndFacts, type RequestId, requestOf } from "../engine/index.ts";
import type { EndedAttempt, Leader, LeaderRefusal, View } from "../leader/index.ts";
import type { WireJob, WirePoolAnswer, WireRelease, WireRequest } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import type { Call } from "./call.ts";

const CLIENT_ID = /^[\w.-]{1,64}$/;

/** One process of a client if it names itself, else its API token (L3). */
export function clientOf({ identity, incoming }: Pick<Call, "identity" | "incoming">): string {
  const named = incoming.headers["berth-client"];
  return typeof named === "string" && CLIENT_ID.test(named)
    ? `${identity.tokenId} ${named}`
    : `token ${identity.name}`;
}

export interface Silence {
  readonly silent_since: string;
  readonly given_up_at: string;
}

/** Of a holder whose renewals are overdue (L2). */
export function silenceOf(view: View, id: RequestId): Silence | undefined {
  const lease = view.leaseOf(id);
  if (lease === undefined || lease.token === null || !lease.isSilent) return undefined;
  return { silent_since: toTimestamp(lease.heardAtMs), given_up_at: toTimestamp(lease.givenUpAtMs) };
}

export function addSilence(shown: WireRequest, view: View, id: RequestId): void {
  const silence = silenceOf(view, id);
  if (silence === undefined) return;
  shown.holder_silent_since = silence.silent_since;
  shown.given_up_at = silence.given_up_at;
}

/** Only a holder that is silent can be declared lost. */
export function abandonedGuard(id: RequestId): (view: View) => LeaderRefusal | undefined {
  return (view) => {
    const allocation = requestOf(view.state, id)?.progress.allocation;
    if (allocation?.phase !== undefined) {
      return {
        code: "in_use",
        message: `Request "${id}" is a job: its executor ends it, and says so.`,
        hint: "If its node is gone for good: berth node confirm-lost.",
      };
    }
    const lease = view.leaseOf(id);
    if (lease === undefined || lease.token === null || lease.isSilent) return undefined;
    const seconds = Math.round((view.nowMs - lease.heardAtMs) / 1000);
    return {
      code: "in_use",
      message: `The holder of request "${id}" was heard of ${seconds} s ago.`,
      hint: "Cancel it without abandoned: its holder stops the work, and then the units come free.",
    };
  };
}

export function pauseOf(leader: Leader, pool: string): Pick<WirePoolAnswer, "expiry_paused"> {
  const brake = leader.status().brakes.find(({ group }) => group === pool);
  if (brake === undefined) return {};
  const { silent, clients, untilMs } = brake;
  return { expiry_paused: { silent, clients, until: toTimestamp(untilMs) } };
}

export function toEndFacts({ exit_code, signal, cause, message, ended_at }: WireRelease): EndFacts {
  return {
    ...(ended_at !== undefined && { atMs: Date.parse(ended_at) }),
    ...(exit_code !== undefined && { exitCode: exit_code }),
    ...(signal !== undefined && { signal }),
    ...(cause !== undefined && { cause }),
    ...(message !== undefined && { message }),
  };
}

export function presentEnd({ end }: EndedAttempt) {
  const { exitCode = null, signal = null, cause = null, message = null } = end ?? {};
  return { exit_code: exitCode, signal, cause, message };
}

type WireAttempt = WireRequest["attempts"][number];

/** How a job ended: with what, and why (J4). */
export function presentExit(attempt: WireAttempt | undefined): WireJob["exit"] {
  if (attempt === undefined) return null;
  const { exit_code, signal, message } = attempt;
  return { reason: exitReason(attempt), exit_code, signal, message };
}

function exitReason({ outcome, cause }: WireAttempt): NonNullable<WireJob["exit"]>["reason"] {
  if (outcome !== "succeeded" && outcome !== "failed") return outcome;
  return cause === "oom" || cause === "start_failed" || cause === "walltime" ? cause : "exited";
}

/** A report may come late: the request ended when its last attempt did. */
export function endedAtOf(endedAtMs: number | null, attempts: readonly EndedAttempt[]): string | null {
  if (endedAtMs === null) return null;
  const last = attempts.at(-1);
  return toTimestamp(last?.reportedAtMs === endedAtMs ? last.endedAtMs : endedAtMs);
}
