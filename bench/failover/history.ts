// What the clients of a proof were told, and when, for the judge. Times are those of one monotonic clock.

export interface Submission {
  /** Stands in a label of the request. Without an idempotency key the call is made once and never again. */
  readonly key: string;
  readonly component: string;
  readonly isRepeatable: boolean;
  /** Once it was acknowledged. */
  told?: { readonly id: string; readonly number: number; readonly receivedMs: number } | undefined;
  readonly sentMs: number;
}

/** What a client knows that it holds: from the answer that granted it until it first offered to give it back. */
export interface Holding {
  readonly requestId: string;
  readonly pool: string;
  readonly token: number;
  /** When the request was first sent. */
  readonly askedMs: number;
  readonly fromMs: number;
  /** The last moment at which the servers confirmed it, so far. */
  untilMs: number;
}

export interface Release {
  readonly requestId: string;
  readonly key: string;
  readonly grant: string;
  /** The answer, for a later comparison. */
  readonly told: string;
}

export interface History {
  readonly submissions: Submission[];
  readonly holdings: Holding[];
  readonly releases: Release[];
  /** Answers that no sound server gives, in words. */
  readonly stale: string[];
  readonly endedHolders: string[];
  readonly refused: string[];
  readonly contradicted: string[];
  renewals: number;
  retries: number;
}

export function createHistory(): History {
  return {
    ...{ submissions: [], holdings: [], releases: [] },
    ...{ stale: [], endedHolders: [], refused: [], contradicted: [] },
    renewals: 0,
    retries: 0,
  };
}

/** The part of a grant that grows (L1). */
export function tokenNumber(grant: string): number {
  return Number(grant.split(".")[0]);
}
