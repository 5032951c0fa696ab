// One server of several on one database: it leads or follows, and the rest of the server need not know which.

import type { Clock, Leader, LeaderSettings, Log, Observer } from "../leader/index.ts";
import type { DatabasePath, Head, Member, Store } from "../store/index.ts";
import type { Loss } from "./history.ts";
import type { KeeperTimes } from "./keeper.ts";
import type { TailTimes } from "./tail.ts";
import type { LeaseTimes } from "./watch.ts";

export type Role = "leader" | "follower";

/**
 * The leader's surface on every server. Reads, previews and the stream are answered from what this server has; a
 * follower's `perform` and `renew` reject with `not_leader`, and the server forwards such calls instead (C9).
 */
export interface Replica extends Leader {
  readonly id: string;
  role(): Role;
  /** Of the leadership that the state reflects. */
  epoch(): number;
  /** Where the leader is, as far as this server knows; undefined: there is none, or it cannot be reached from others. */
  leaderUrl(): string | undefined;
  /** How old the state may be that this server answers from. */
  behindMs(): number;
  /** Leadership changed so often since this server started. */
  leaderChanges(): number;
  /** Calls back when another history has begun, with keys of its own: positions of the one before mean nothing any more (C14). */
  onHistory(listener: () => void): () => void;
  /** A client knows of more than the journal has. */
  loseHistory(known: Pick<Head, "seq" | "epoch">, why: string): Promise<void>;
  /** The last loss that this server has declared. */
  historyLost(): Loss | undefined;
  historyLosses(): number;
  /** Waits while an answer from memory could be stale; throws `not_leader` where this server has to step down (C6). */
  untilSure(): Promise<void>;
  /** Resolves when the state reflects this event, or when the time is over: then false (C8). */
  reaches(seq: number, withinMs: number): Promise<boolean>;
  /** Calls back whenever tokens may have been changed by another server (C10), again if that fails. Returns the way to stop. */
  onTokensChanged(listener: () => Promise<void>): () => void;
  cluster(): Promise<Cluster>;
  /** Makes room for another server to lead, or for this one: releases the lease and follows (C13). */
  handOver(to?: string): Promise<void>;
}

export interface Cluster {
  readonly epoch: number;
  readonly leaderId: string | null;
  readonly members: readonly Member[];
  readonly head: Head;
  readonly isHinted: boolean;
  /** Undefined: this server does not know yet, or its store is its own. */
  readonly databasePath: DatabasePath | undefined;
}

export interface ReplicaTimes extends LeaseTimes, KeeperTimes, TailTimes {
  /** Candidates read the lease so often, ± 20 %. */
  readonly watchEveryMs: number;
  readonly beatEveryMs: number;
  /** Followers look so often whether there is a snapshot to compare with (C7). */
  readonly compareEveryMs: number;
  /** Tokens are read again at most so often. */
  readonly tokensEveryMs: number;
}

/** C3, C4, C6, C7. */
export const DEFAULT_REPLICA_TIMES: ReplicaTimes = {
  renewEveryMs: 400,
  sureMs: 1_000,
  freshMs: 5_000,
  silenceMs: 8_000,
  hintedSilenceMs: 1_200,
  watchEveryMs: 250,
  tailEveryMs: 200,
  tailGapMs: 20,
  beatEveryMs: 1_000,
  tokensEveryMs: 400,
  compareEveryMs: 30_000,
};

export interface ReplicaOptions {
  readonly store: Store;
  /** Where others reach this server; known when it listens. */
  readonly url: () => string | null;
  readonly version: string;
  readonly clock?: Clock;
  readonly log?: Log;
  readonly settings?: Partial<LeaderSettings>;
  readonly times?: Partial<ReplicaTimes>;
  readonly observer?: Observer;
  /** As for a leader. */
  readonly acceptClock?: boolean;
  /** The store is damaged, or memory cannot be trusted: the process must end. */
  readonly onFatal: (error: unknown) => void;
}
