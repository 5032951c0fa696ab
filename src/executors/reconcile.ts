// What follows from what the server wants for what an executor runs (E4): the same for agents, Slurm and Kubernetes.
// Pure, and level-triggered: it compares two states, so repeating it does no harm and a lost step comes again.

import type { WireNodeSyncAnswer, WireWantedPart } from "../protocol/index.ts";

/** One attempt that was ever ordered here, as it was when the sync was sent that is now answered. */
export interface KnownPart {
  readonly token: string;
  /** `archived`: its end was acknowledged. */
  readonly state: "running" | "ended" | "archived";
  /** Whether the sync listed it, and if so, as ended. */
  readonly listed: "no" | "running" | "ended";
}

export type Step =
  /** Wanted and never heard of: written down, then started. */
  | { readonly kind: "start"; readonly part: WireWantedPart }
  /** Wanted and running: it goes on, and hears what is wanted of it. */
  | { readonly kind: "instruct"; readonly part: WireWantedPart }
  /** Wanted and ended: it is listed as ended, again and again. */
  | { readonly kind: "report"; readonly token: string }
  /** Running, and its grant is over. */
  | { readonly kind: "kill"; readonly token: string }
  /** The server has taken note of its end. */
  | { readonly kind: "acknowledge"; readonly token: string };

/** Answers of an older epoch than one has seen mean nothing. */
export function reconcile(
  known: readonly KnownPart[],
  { jobs, epoch }: Pick<WireNodeSyncAnswer, "jobs" | "epoch">,
  epochSeen: number,
): Step[] {
  if (epoch < epochSeen) return [];
  const parts = new Map(known.map((part) => [part.token, part]));
  const wanted = new Set(jobs.map(({ token }) => token));
  return [
    ...jobs.flatMap((part) => stepOfWanted(part, parts.get(part.token)?.state)),
    ...known.filter(({ token }) => !wanted.has(token)).flatMap(stepOfUnwanted),
  ];
}

function stepOfWanted(part: WireWantedPart, state: KnownPart["state"] | undefined): Step[] {
  const { token } = part;
  if (state === "running") return [{ kind: "instruct", part }];
  if (state !== undefined) return [{ kind: "report", token }];
  // The server took it for known: the next sync does not list it, and brings what to run.
  return part.run === undefined ? [] : [{ kind: "start", part }];
}

/** An end is acknowledged only by the answer to a sync that listed it. */
function stepOfUnwanted({ token, state, listed }: KnownPart): Step[] {
  if (state === "running") return [{ kind: "kill", token }];
  return state === "ended" && listed === "ended" ? [{ kind: "acknowledge", token }] : [];
}
