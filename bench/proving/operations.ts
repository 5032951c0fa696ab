// What the clients of a proof ask of a server, whatever way they talk to it, and what they are answered.

export type Operation =
  /** `retries`: how many further attempts it may have. */
  | { readonly kind: "submit"; readonly key: string; readonly component: string; readonly retries?: number }
  | { readonly kind: "look"; readonly key: string; readonly id: string }
  | { readonly kind: "renew"; readonly key: string; readonly id: string; readonly token: string }
  | { readonly kind: "release"; readonly key: string; readonly id: string; readonly token: string }
  /** The attempt failed; another one follows. */
  | { readonly kind: "fail"; readonly key: string; readonly id: string; readonly token: string }
  /** A release with the token of an earlier attempt, which must be refused (L1). */
  | { readonly kind: "stale"; readonly key: string; readonly id: string; readonly token: string }
  | { readonly kind: "cancel"; readonly key: string; readonly id: string };

export interface Told {
  /** The server refused; that is an answer too. */
  readonly refusal: string | null;
  readonly id: string;
  readonly number: number;
  readonly status: string;
  /** Of the allocation, if there is one. */
  readonly token: string | null;
  /** The whole answer, word by word. */
  readonly text: string;
}

/** A server that a proof may end at any moment. */
export interface Server {
  /** When it can take calls: how long that took since the start of the process. Rejects if it ends first. */
  readonly ready: Promise<number>;
  /** Rejects when the server goes away before it has answered. */
  ask(operation: Operation): Promise<Told>;
  /** Resolves when it is gone, with what it said last. */
  readonly ended: Promise<{ readonly code: number | null; readonly said: string }>;
  /** kill -9; resolves when it is gone. Rejects if it had ended by itself. */
  kill(): Promise<void>;
}

export type ServerStarter = () => Server;

/** How many requests fit each pool: one where all are granted, one where most wait. */
export const POOLS = { wide: 10_000, tight: 4 } as const;

/** Who asks, where, and how urgently: in the tight pool one preempts the other. */
export const COMPONENTS = {
  wide: { pool: "wide", priority: 0 },
  tight: { pool: "tight", priority: 0 },
  urgent: { pool: "tight", priority: 10 },
} as const;

/** What a server under proof may do wrong on purpose. */
export type Canary = "answers early" | "forgets keys";
