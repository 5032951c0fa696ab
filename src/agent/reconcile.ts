// What follows from an answer of the server for what runs here, and what follows from what a new agent finds (E4). Pure.

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

/** What an agent finds of an attempt that an earlier one has ordered. */
export interface Found {
  readonly hasEnd: boolean;
  /** Of the machine, when it was ordered. */
  readonly bootId: string;
  /** `none`: no shim has ever taken it up. */
  readonly shim: "none" | "alive" | "dead";
}

export type Finding =
  /** Its end is written down. */
  | "ended"
  /** The machine was restarted since. */
  | "lost"
  /** No shim has taken it up, and only one ever can: it is started. */
  | "start"
  | "adopt"
  /** Its shim died, and it with its shim: what is left of it is ended. */
  | "bury";

export function judge({ hasEnd, bootId, shim }: Found, currentBootId: string): Finding {
  if (hasEnd) return "ended";
  if (bootId !== currentBootId) return "lost";
  return ({ none: "start", alive: "adopt", dead: "bury" } as const)[shim];
}
