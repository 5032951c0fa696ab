// What the end of a command means for its grant (11.4): the holder judges, and the engine takes its word.

export type Outcome = "succeeded" | "failed" | "stopped";

/** How a command ended, as a shell would show it. */
export interface CommandEnd {
  readonly exitCode: number;
  readonly signal: NodeJS.Signals | null;
}

/** What the command knew of the end of its grant, and what it said about itself. */
export interface Circumstances {
  /** It was asked to checkpoint, or it got SIGTERM; undefined: neither. */
  readonly told: "checkpoint" | "stop" | undefined;
  /** It has reported a complete checkpoint since the notice. */
  readonly hasSaved: boolean;
  /** It has said that it is finished. */
  readonly hasFinished: boolean;
}

/** Why a command failed, where more is known than its exit code (J4). */
export function causeOfFailure({
  isInterrupted,
  isOutOfMemory,
}: {
  /** By a signal that a person has sent to it. */
  readonly isInterrupted: boolean;
  readonly isOutOfMemory: boolean;
}): { readonly cause?: "interrupted" | "oom"; readonly message?: string } {
  if (isInterrupted) return { cause: "interrupted" };
  return isOutOfMemory ? { cause: "oom", message: "The kernel ended it for lack of memory." } : {};
}

/**
 * Before anything was asked of it, an exit code is what it is everywhere. After the notice 0 is success, unless it has
 * saved or got SIGTERM: many programs answer both with 0. All other ends are the stop that was asked for.
 */
export function outcomeOf(
  { exitCode, signal }: CommandEnd,
  { told, hasSaved, hasFinished }: Circumstances,
): Outcome {
  const isClean = exitCode === 0 && signal === null;
  if (told === undefined) return isClean ? "succeeded" : "failed";
  if (hasFinished) return "succeeded";
  return isClean && told === "checkpoint" && !hasSaved ? "succeeded" : "stopped";
}
