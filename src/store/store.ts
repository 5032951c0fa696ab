// What a store promises, whatever keeps the bytes: memory, an embedded file or PostgreSQL.
//
// The journal is the truth; everything else can be derived from it and is written with it. The store
// does not know what events mean: it keeps them in order, proves that nothing was changed, and lets
// exactly one writer append.
//
// Invariants
//   1. Sequence numbers are dense from 1, and epochs never go down along them.
//   2. A commit is all or nothing, and only the writer that knows the head can make it.
//   3. A resolved `commit` is on disk. A rejected one left nothing behind, unless its error says
//      `unavailable`: then the next one to open the store reads the head to know.
//   4. Journal and audit are hash chains, so that a changed, missing or foreign row has a position.

/** Anything that JSON can carry unchanged. */
export type Json = unknown;

/** An event as the store sees it: a kind, and the rest is the engine's business. */
export type StoredEvent = { readonly kind: string };

export type JournalEvent = {
  readonly seq: number;
  readonly epoch: number;
  readonly atMs: number;
  readonly event: StoredEvent;
};

/** The end of the journal, on which every commit does its compare-and-swap. */
export type Head = {
  readonly epoch: number;
  /** Of the last event; 0 while there is none. */
  readonly seq: number;
  /** Time of the last commit: the clock of the next leader must not start before it. */
  readonly atMs: number;
  readonly hash: string;
  /** Of the last audit entry; 0 while there is none. */
  readonly auditId: number;
  readonly auditHash: string;
  /** Names the last commit, so that its writer recognises it after a broken connection. */
  readonly commitId: string;
};

/** Where a reader of the journal stands: after this event, with which the commit of this hash ended. */
export type JournalPosition = Pick<Head, "seq" | "hash" | "epoch" | "atMs">;

/** What was committed since a position, up to `reached`. That is before the head if there was too much for one read. */
export type JournalPart = {
  readonly head: Head;
  readonly events: readonly JournalEvent[];
  readonly reached: JournalPosition;
};

/** All that one batch changes. Everything but the first three fields may be left out. */
export type Commit = {
  readonly epoch: number;
  readonly expectedSeq: number;
  readonly atMs: number;
  readonly events?: readonly StoredEvent[];
  readonly audit?: readonly AuditEntry[];
  readonly idempotency?: readonly IdempotencyRecord[];
  /** Written or replaced, whole; what was submitted stays as it was, so only the rest is written again. */
  readonly requests?: readonly RequestRecord[];
  readonly decisions?: readonly DecisionRecord[];
  /** Written or replaced, whole. */
  readonly attachments?: readonly Attachment[];
  /** Written or replaced, whole. */
  readonly history?: readonly HistoryRecord[];
  /** Written or replaced, whole: revoking a token is writing it with `revokedAtMs`. */
  readonly tokens?: readonly TokenRecord[];
  /** Written or replaced, whole. */
  readonly targets?: readonly TargetRecord[];
  /** The records of these requests, their decisions and attachments are forgotten (Q6). */
  readonly deletedRequestIds?: readonly string[];
  readonly deletedTokenIds?: readonly string[];
  readonly deletedTargets?: readonly string[];
};

/** A request as lists, history and SQL users see it. `body` is the whole object as the API shows it. */
export type RequestRecord = {
  readonly id: string;
  /** The small number that people type; unique, grows with submission. */
  readonly number: number;
  readonly status: string;
  readonly component: string;
  readonly pool: string | null;
  readonly operation: string | null;
  readonly submittedAtMs: number;
  /** Null while the request lives. */
  readonly endedAtMs: number | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly body: Json;
};

/** One decision as it concerns one request; `seq` is that of the event that recorded it. */
export type DecisionRecord = {
  readonly requestId: string;
  readonly seq: number;
  readonly atMs: number;
  readonly body: Json;
};

/** What belongs to a request and is no part of its history: what a job runs (J2), the end of its output (J6). */
export type Attachment = {
  readonly requestId: string;
  /** Names it among those of the request. */
  readonly part: string;
  readonly body: Json;
};

/** What a pool gave in a day, or how it was used for some minutes; `part` names it among those of the same time. */
export type HistoryRecord = {
  readonly kind: "day" | "sample";
  readonly atMs: number;
  readonly pool: string;
  readonly part: string;
  readonly body: Json;
};

export type HistoryQuery = {
  readonly kind: HistoryRecord["kind"];
  readonly pool?: string;
  readonly fromMs: number;
  /** Not included. */
  readonly toMs: number;
};

export type AuditEntry = {
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly outcome: string;
  readonly body: Json;
};

export type AuditRecord = AuditEntry & {
  /** Dense from 1. */
  readonly id: number;
  /** The head of the journal after the commit that brought this entry. */
  readonly seq: number;
  readonly atMs: number;
  readonly hash: string;
};

export type IdempotencyKey = { readonly scope: string; readonly key: string };

export type IdempotencyRecord = IdempotencyKey & {
  readonly atMs: number;
  readonly bodyHash: string;
  readonly answer: Json;
};

export type TokenRecord = {
  readonly id: string;
  readonly name: string;
  /** SHA-256 of the secret, in hexadecimal; the secret itself is never stored. */
  readonly hash: string;
  readonly role: string;
  /** Null means all of them. */
  readonly components: readonly string[] | null;
  readonly pools: readonly string[] | null;
  readonly permissions: readonly string[];
  /** As whom its jobs may run (E6); absent: as its role may say. */
  readonly runAs?: readonly string[];
  readonly createdAtMs: number;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  /** Of a session of the dashboard, or a link that becomes one: it has the rights of another token (B9). */
  readonly session?: { readonly kind: "link" | "session"; readonly parentId: string };
};

/** Where notices go (H2), and how far it has got with the journal (H3). */
export type TargetRecord = { readonly name: string; readonly body: Json };

export type Snapshot = {
  /** The state after this event. */
  readonly seq: number;
  readonly atMs: number;
  readonly stateHash: string;
  /** Read from the store as they are asked for. */
  readonly pieces: AsyncIterable<Uint8Array>;
};

/** A snapshot that is still being made: its pieces are written as they come, its hash is known at the end. */
export type SnapshotDraft = Omit<Snapshot, "stateHash"> & { readonly stateHash: () => string };

/** Who leads. Candidates watch `renewals` with their own clock; safety comes from the head, not from here. */
export type Lease = {
  readonly epoch: number;
  /** Null: nobody has to be waited for. */
  readonly holder: string | null;
  readonly renewals: number;
  /** The leader has stopped in favour of this server: the others let it try first. */
  readonly offeredTo?: string;
};

/**
 * A lock that ends with its connection, so that the death of a leader is noticed at once. A hint and nothing more:
 * safety comes from the head, and behind a pooler that shares connections there is no hint.
 */
export type LeaderHint = {
  readonly isHeld: boolean;
  /** How this server reaches the database; undefined until it has. */
  readonly path: DatabasePath | undefined;
  /** Waits for the lock, however long that takes. False: there is none on this path. Rejects when the connection breaks. */
  acquire(): Promise<boolean>;
  release(): Promise<void>;
};

/** Through a pooler a session is not ours alone: no lock, and no news of commits. */
export type DatabasePath = "direct" | "pooler";

export type News = "commit" | "lease";

/** One server of the cluster, as it describes itself. */
export type Member = {
  readonly id: string;
  /** Where others reach it; null if nowhere. */
  readonly url: string | null;
  readonly version: string;
  /** The newest form of events that it reads. */
  readonly eventForm: number;
  readonly seq: number;
};

/** A server that was alive lately; it may have ended in order since. */
export type RecentMember = Member & { readonly hasLeft: boolean };

export type TakeOver = {
  readonly holder: string;
  /** Take over only if the lease is still as it was seen. */
  readonly observed?: Lease;
  /** The highest epoch that anyone out there has reported: the new one is above it. */
  readonly epochFloor?: number;
};

export type RequestQuery = {
  readonly status?: readonly string[];
  readonly pool?: string;
  readonly component?: string;
  readonly operation?: string;
  readonly label?: { readonly key: string; readonly value: string };
  readonly idPrefix?: string;
  /** Only records of ended, or only of live requests. */
  readonly ended?: boolean;
  /** Only of requests that have ended since, the latest end first. */
  readonly endedSinceMs?: number;
  /** Only of requests that were submitted before. */
  readonly submittedBeforeMs?: number;
  readonly limit: number;
  readonly cursor?: string;
};

/** A cursor that was never given out leads to an empty page. */
export type Page<T> = { readonly items: readonly T[]; readonly nextCursor: string | null };

/** How long things are kept. The journal is kept longer if no snapshot covers it. */
export type Retention = {
  readonly journalMs: number;
  readonly endedRequestsMs: number;
  readonly idempotencyMs: number;
  readonly auditMs: number;
  readonly samplesMs: number;
  readonly daysMs: number;
};

export type Pruned = {
  readonly events: number;
  readonly snapshots: number;
  readonly requests: number;
  readonly decisions: number;
  readonly idempotency: number;
  readonly audit: number;
  readonly history: number;
};

/** What was found wrong, and exactly where. */
export type Damage = { readonly where: string; readonly what: string };

export type Verification = {
  readonly events: number;
  readonly commits: number;
  readonly auditEntries: number;
  readonly snapshots: number;
  readonly records: number;
  /** Empty when all is well. */
  readonly damage: readonly Damage[];
};

/** The ends of both hash chains, noted outside the store. */
export type NotedHead = Pick<Head, "seq" | "hash" | "auditId" | "auditHash">;

/** Per chain: it still contains what was noted, it no longer does, or it no longer reaches back that far. */
export type Comparison = Readonly<Record<"journal" | "audit", "contained" | "changed" | "forgotten">>;

export type Sizes = {
  readonly bytes: number;
  readonly events: number;
  readonly firstSeq: number;
  readonly snapshots: number;
  readonly requests: number;
  readonly decisions: number;
  readonly idempotency: number;
  readonly audit: number;
  readonly tokens: number;
  readonly targets: number;
  readonly history: number;
};

export type StoreMeta = {
  readonly kind: "memory" | "sqlite" | "postgres";
  readonly schemaVersion: number;
  /** Made once, when the store is created. */
  readonly clusterId: string;
  /** Made anew when a backup is restored: the same cluster, another line of history. */
  readonly incarnation: string;
};

/** Which database, on which of its timelines; undefined where nobody can tell. */
export type Origin = { readonly now: string | undefined; readonly noted: string | undefined };

export type Store = {
  /** As it was read last. */
  readonly meta: StoreMeta;
  /** Another server may have begun another history (C14). */
  refreshMeta(): Promise<StoreMeta>;
  /** The journal has lost its end: from here on another incarnation. */
  beginHistory(): Promise<void>;
  /** Where the journal is written now, and where it was written when that was last noted. */
  origin(): Promise<Origin>;
  noteOrigin(origin: string): Promise<void>;

  /**
   * Rejects with `fenced` when epoch or sequence are not those of the head, as the commits before will have made it. They
   * may be under way still: they are made in the order of the calls, and what follows on one that fails fails, too.
   */
  commit(commit: Commit): Promise<Head>;
  /** How many commits under way are worth while: where the store writes elsewhere, one can be written and one sent. */
  readonly commitsAtOnce: number;
  head(): Promise<Head>;

  /** Raises the epoch: from here on the leader before is fenced. */
  takeOver(takeOver: TakeOver): Promise<Head>;
  lease(): Promise<Lease>;
  /** False when another server leads by now. */
  renewLease(epoch: number): Promise<boolean>;
  /** Says that nobody needs to wait for this holder any longer, or nobody but the server that it prefers. */
  releaseLease(epoch: number, offeredTo?: string): Promise<void>;

  /** Only where several servers can share the store. */
  readonly hint?: LeaderHint;
  /**
   * Calls back when another server has committed, or has released or taken the lease, soon after; not every time, and never where
   * a pooler is in the way. Returns the way to stop.
   */
  onNews?(listener: (news: News) => void): () => void;
  /** This server is about to write: what can be prepared is. */
  warmUp(): void;
  /** This server is alive; it replaces what the server said before. */
  beat(member: Member): Promise<void>;
  /**
   * The form in which events are written: raised to this one when every server that was alive within this time reads it, by
   * the clock of the database, and never lowered (C12). Returns what it is now.
   */
  raiseEventForm(form: number, withinMs: number): Promise<number>;
  /** This server ends in order. */
  leave(memberId: string): Promise<void>;
  /** The time by a clock that is not this machine's; undefined where there is none. */
  clockMs(): Promise<number | undefined>;
  /** The servers that were alive within this time, by the clock of the database. */
  members(withinMs: number): Promise<readonly RecentMember[]>;

  /**
   * The events from `fromSeq` on, at most `limit`, checked against the hash chain as they are read.
   * Rejects with `pruned` when the journal no longer reaches back that far.
   */
  readEvents(fromSeq: number, limit: number): Promise<readonly JournalEvent[]>;
  /**
   * What follows on a position that was read before, in one statement: the hash chain goes on from there. Rejects with
   * `pruned` as above, and with `history_lost` when the journal does not contain the position any more (C14).
   */
  readAfter(position: JournalPosition, commitsMax: number): Promise<JournalPart>;
  /** Exists when this resolves, and not before: what an interrupted one has left is never read. */
  saveSnapshot(draft: SnapshotDraft): Promise<void>;
  /** The newest undamaged one, or the newest before an event. */
  latestSnapshot(beforeSeq?: number): Promise<Snapshot | undefined>;

  getRequest(id: string): Promise<RequestRecord | undefined>;
  getRequestByNumber(number: number): Promise<RequestRecord | undefined>;
  /** Newest first. */
  listRequests(query: RequestQuery): Promise<Page<RequestRecord>>;
  /** Oldest first. */
  listDecisions(requestId: string): Promise<readonly DecisionRecord[]>;
  getAttachment(requestId: string, part: string): Promise<Attachment | undefined>;
  /** Newest first. */
  listAudit(query: { readonly limit: number; readonly cursor?: string }): Promise<Page<AuditRecord>>;
  /** In the order of time, then of pools and parts; page by page, so that nobody holds it all. */
  listHistory(query: HistoryQuery): AsyncIterable<readonly HistoryRecord[]>;
  /** One answer per key, in the order asked; undefined for keys never seen. */
  findAnswers(keys: readonly IdempotencyKey[]): Promise<readonly (IdempotencyRecord | undefined)[]>;

  /** In order of creation. */
  listTokens(): Promise<readonly TokenRecord[]>;
  /** By name. */
  listTargets(): Promise<readonly TargetRecord[]>;

  /** False while the disk is so full that only the reserve for ending and administering work is left. */
  hasRoom(): boolean;
  prune(retention: Retention, nowMs: number): Promise<Pruned>;
  verify(): Promise<Verification>;
  compareWithNoted(noted: NotedHead): Promise<Comparison>;
  sizes(): Promise<Sizes>;
  close(): Promise<void>;
};
