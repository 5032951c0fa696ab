// What the leader offers to the rest of the server, and what it needs from the world.

import type {
  AttemptOutcome,
  Command,
  EndFacts,
  EngineState,
  Event,
  NodeName,
  PoolName,
  PreemptionReason,
  Refusal,
  RequestId,
  RequestProgress,
  RequestSpec,
  RequestStatus,
  Stop,
} from "../engine/index.ts";
import type { History } from "../history/index.ts";
import type {
  Attachment,
  AuditEntry,
  Head,
  JournalPosition,
  Json,
  Retention,
  Store,
  TargetRecord,
  TokenRecord,
} from "../store/index.ts";
import type { LeaseState } from "./leases.ts";
import type { Recovered } from "./recovery.ts";
import type { EventStream } from "./stream.ts";

export interface Leader {
  /**
   * Decides, commits, then answers: an answer is on disk. Rejects with a `LeaderError` when the store fails or
   * the leader cannot take the command; the same call with the same idempotency key then tells what happened.
   */
  perform(command: LeaderCommand, context: CallContext): Promise<Answer>;
  /** Many at once, in one batch where it fits; each stands for itself. */
  performMany(calls: readonly Call[]): Promise<readonly Answer[]>;
  /** A command as it would be decided now: whether a grant was taken up, only the leases know (L2). */
  completed(command: Command): Command;

  /**
   * Looks at the state; answered when all that was seen is on the disk. `look` must not wait or write, may be called again
   * if what it saw was taken back, and must return nothing that changes later.
   */
  read<T>(look: (view: View) => T): Promise<T>;

  /**
   * A sign of life of a holder (its token), or of the client that waits for an attended request (null). Clients name
   * themselves, so that mass silence can be distinguished from the silence of one of them (L3).
   */
  renew(requestId: RequestId, token: number | null, client?: string): Promise<Renewal>;
  /** A sign of life of the client that waits for an attended request, whatever it wanted (L2). */
  hear(requestId: RequestId, client: string): void;
  /** A sign of life of a node's agent (E3). */
  hearNode(name: NodeName): void;

  /**
   * A denial, or something else worth remembering. Resolves when it is in the audit log, with whatever is committed
   * next; or at once while the store takes nothing, to be written when it does.
   */
  audit(entry: AuditEntry): Promise<void>;

  /** Called after every commit that brought events, in order. Returns the way to stop. */
  onCommit(listener: (batch: CommittedBatch) => void): () => void;
  /**
   * The committed events from `fromSeq` on, for as long as the caller reads; never a gap, never one twice. Slow
   * readers are served from the store. Ends when the signal is aborted or the leader closes.
   */
  events(fromSeq: number, signal?: AbortSignal): AsyncIterable<StreamMessage>;

  /**
   * For work that can wait: resolves when what has arrived by now has been decided and, where the store does not keep it
   * waiting, answered. At once if nothing has.
   */
  giveWay(): Promise<void>;

  /** Of the last committed event. */
  seq(): number;
  /** The time of the cluster: never runs backwards, and wall-clock jumps do nothing to it. */
  nowMs(): number;
  status(): LeaderStatus;
  /** For signing the grant tokens that holders see, oldest first. */
  readonly grantKeys: readonly GrantKey[];
  /** Takes nothing new, finishes what waits, saves a snapshot. Leaves the store open. */
  close(): Promise<void>;
}

/** Signs the grants from one event on, until the next key begins. */
export interface GrantKey {
  readonly fromSeq: number;
  /** Hexadecimal. */
  readonly secret: string;
  /** Added to the position of a grant, it makes the number that holders see. */
  readonly offset: number;
  /** The database had lost the end of the history before it: holders from then still run, through no fault of theirs (C14). */
  readonly isAfterLoss?: boolean;
}

/** A leader that can end without its process (C6). */
export interface ReplicatedLeader extends Leader {
  epoch(): number;
  /** The end of what was acknowledged. */
  position(): JournalPosition;
  /** Reads that were not sure whether it leads may be now. */
  leaseRenewed(): void;
  /** Leads no longer: whatever waits fails, nothing is written. */
  stepDown(why: string): void;
  /** Finishes what it has begun and leaves the lease to others, or to one of them. They have the state: no snapshot is saved. */
  retire(to?: string): Promise<void>;
}

/** What the engine decides, and the changes that only the store needs to know. */
export type LeaderCommand =
  | Command
  /** Made, changed or (with `revokedAtMs`) revoked. */
  | { readonly kind: "putToken"; readonly token: TokenRecord }
  | { readonly kind: "deleteToken"; readonly tokenId: string }
  /** Made, or further along with the journal. */
  | { readonly kind: "putTargets"; readonly targets: readonly TargetRecord[] }
  | { readonly kind: "deleteTarget"; readonly name: string }
  /** Ends a pause of expiry after mass silence (L3). */
  | { readonly kind: "resumeExpiry"; readonly name: PoolName };

export interface Call {
  readonly command: LeaderCommand;
  readonly context: CallContext;
}

export interface CallContext {
  /** Who asks, for the audit log: name or id of the token. */
  readonly actor: string;
  readonly idempotency?:
    | { readonly scope: string; readonly key: string; readonly bodyHash: string }
    | undefined;
  /** Absent: made from the command. `false`: nothing is recorded. */
  readonly audit?: { readonly action: string; readonly target: string; readonly detail?: Json } | false;
  /** Written with the events of the command, if it is accepted. */
  readonly attachments?: readonly Attachment[] | undefined;
  /** Looked at right before the decision, such as an If-Match: what it returns is the answer. */
  readonly precondition?: ((view: View) => LeaderRefusal | undefined) | undefined;
  /**
   * Makes the body of the answer from the state right after the decision. Kept with the idempotency key, so
   * that the same call gets the same answer. Only called for what was accepted; must not throw.
   */
  readonly present?: ((view: View, events: readonly Event[]) => Json) | undefined;
}

export type Answer =
  | {
      readonly outcome: "accepted";
      /** What `present` made of it. */
      readonly body: Json;
      /** Of the last event of this command: a client that sends it with a read sees its own writes. */
      readonly seq: number;
      readonly atMs: number;
      /** Empty for an answer that is given again. */
      readonly events: readonly Event[];
      /** The first answer to the same idempotency key. */
      readonly replayed: boolean;
    }
  | { readonly outcome: "refused"; readonly refusal: LeaderRefusal; readonly replayed: boolean };

/** Codes of the engine, of the leader (`idempotency_conflict`, `mixed_versions`), and of the caller's precondition. */
export interface LeaderRefusal {
  readonly code:
    | Refusal["code"]
    | "idempotency_conflict"
    | "mixed_versions"
    | "precondition_failed"
    | "plan_outdated"
    | "forbidden";
  readonly message: string;
  readonly hint: string;
}

/** The state and what the leader keeps beside it. Valid only while `look` runs. */
export interface View {
  readonly state: EngineState;
  readonly nowMs: number;
  /** The state reflects the events up to this one. */
  readonly seq: number;
  /** The small number that people type; undefined for requests that are not in memory (see `store.getRequest`). */
  numberOf(requestId: RequestId): number | undefined;
  /** By small number, among the requests in memory. */
  idOf(number: number): RequestId | undefined;
  /** The last event that may have concerned a pool (X3). */
  poolSeqOf(pool: PoolName): number;
  /** Attempts that have ended, oldest first. */
  attemptsOf(requestId: RequestId): readonly EndedAttempt[];
  /** Those requests in memory of which an attempt has ended. */
  attempted(): Iterable<RequestId>;
  /** What pools gave, as far as it is not in the store yet. */
  readonly history: History;
  /** When the holder (or the waiting client of an attended request) must have been heard of again. */
  leaseExpiresAtMs(requestId: RequestId): number | undefined;
  /** When a node with an agent was last heard of. */
  nodeHeardAtMs(name: NodeName): number | undefined;
  /** How the holder, or the waiting client of an attended request, stands. */
  leaseOf(requestId: RequestId): LeaseState | undefined;
}

/** `body` of a `RequestRecord`: the projection of a request, and all that is left of it when it has ended. */
export interface RequestBody {
  readonly number: number;
  readonly spec: RequestSpec;
  readonly progress: Readonly<RequestProgress>;
  readonly attempts: readonly EndedAttempt[];
}

export interface EndedAttempt {
  readonly attempt: number;
  readonly pool: string | null;
  readonly token: number;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly outcome: AttemptOutcome;
  /** What is known beside the outcome; absent in records that are older than this. */
  readonly end?: EndFacts;
  /** When the server learnt of the end, if that was later. */
  readonly reportedAtMs?: number;
  readonly preemptedFor: RequestId | null;
  readonly reason: PreemptionReason | null;
  /** Where it ran, in a pool with nodes; absent in records that are older than this. */
  readonly nodes?: readonly string[];
  /** When it was asked to stop, and when its last checkpoint was complete; absent: it was not, or the record is older. */
  readonly toldAtMs?: number;
  readonly savedAtMs?: number;
}

/** `body` of a `DecisionRecord`, for the waiter and for each victim. */
export interface DecisionBody {
  readonly rules: number;
  readonly role: "waiter" | "victim";
  readonly decision: Extract<Event, { kind: "preemptionDecided" }>;
}

export interface CommittedEvent {
  readonly seq: number;
  readonly atMs: number;
  readonly event: Event;
}

export interface CommittedBatch {
  readonly events: readonly CommittedEvent[];
  /** Every request that one of the events is about. */
  readonly requestIds: ReadonlySet<RequestId>;
}

export type StreamMessage =
  | { readonly kind: "events"; readonly events: readonly CommittedEvent[] }
  /** History before this event is gone: read the state anew; the stream goes on after `seq`. */
  | { readonly kind: "reset"; readonly seq: number };

export type Renewal =
  | {
      readonly standing: "holding";
      readonly status: RequestStatus;
      readonly instruction: Instruction;
      readonly expiresAtMs: number;
      readonly leaseMs: number;
      readonly renewAfterMs: number;
    }
  /** It waits still. Silence ends only requests that are attended (L2). */
  | {
      readonly standing: "waiting";
      readonly status: "queued";
      readonly expiresAtMs: number;
      readonly leaseMs: number;
      readonly renewAfterMs: number;
    }
  /** The grant is over, or the request has ended: the holder must stop (L1). */
  | { readonly standing: "stale"; readonly status: RequestStatus }
  /** Not in memory: ended a while ago (`store.getRequest` knows), or never there. */
  | { readonly standing: "unknown" };

/** `stop` is SIGTERM, and SIGKILL at the deadline; in phase `kill` at once (11). */
export type Instruction =
  | { readonly do: "carry_on" }
  | { readonly do: "checkpoint" | "stop"; readonly deadlineMs: number; readonly stop: Stop };

export interface LeaderStatus {
  /**
   * `leading` with `trouble`: no new requests; `following`: another server leads; `read_only`: the store cannot take anything now; `stopped`: closed,
   * or ended by a fatal error.
   */
  readonly condition: "leading" | "following" | "read_only" | "stopped";
  readonly trouble: string | null;
  readonly epoch: number;
  readonly seq: number;
  readonly startedAtMs: number;
  readonly waitingCommands: number;
  readonly holders: number;
  readonly engineErrors: number;
  readonly snapshotSeq: number;
  readonly recovery: { readonly events: number; readonly ms: number };
  readonly commits: number;
  /** Pools in which nothing expires, since too many holders fell silent at once (L3). */
  readonly brakes: readonly {
    /** The pool, or those who wait. */
    readonly group: string;
    /** Clients that fell silent, and all that there are. */
    readonly silent: number;
    readonly clients: number;
    readonly untilMs: number;
  }[];
}

export type LeaderErrorCode =
  /** Nothing was written; works again when there is room. */
  | "disk_full"
  /** The store failed: nobody knows whether the command took effect, until it is sent again with its key. */
  | "unavailable"
  /** Too much waits already; nothing was done. */
  | "overloaded"
  /** Too many requests of the component wait already; nothing was done. */
  | "queue_full"
  /** Another server leads, or may do so by now; nothing was done. */
  | "not_leader"
  /** The leader has stopped, or is about to. */
  | "stopped";

export class LeaderError extends Error {
  readonly code: LeaderErrorCode;
  constructor(code: LeaderErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "LeaderError";
    this.code = code;
  }
}

/** Time as the leader needs it; tests bring their own. */
export interface Clock {
  /** Never runs backwards. */
  monotonicMs(): number;
  /** Only looked at once, at the start. */
  wallMs(): number;
  /** Returns the way to call it off. */
  after(delayMs: number, run: () => void): () => void;
  /** After everything that is ready now has had its turn. */
  soon(run: () => void): void;
}

/** The part of pino that is used. */
export interface Log {
  /** Absent where nobody reads that much. */
  debug?(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface LeaderSettings {
  /** Names this process where leadership is recorded. */
  readonly holder: string;
  readonly retention: Retention;
  /** Ended requests leave the memory after this time; the store keeps them. */
  readonly endedInMemoryMs: number;
  /** Where there are more of them, they leave much sooner. */
  readonly endedInMemoryMax: number;
  readonly snapshotEveryEvents: number;
  readonly snapshotEveryMs: number;
  readonly pruneEveryMs: number;
  readonly batchCommandsMax: number;
  readonly waitingCommandsMax: number;
  readonly waitingRequestsPerComponentMax: number;
}

/** Told how long things took, for the metrics. */
export interface Observer {
  decided?(commandKind: string, ms: number): void;
  committed?(commit: { readonly ms: number; readonly commands: number; readonly events: number }): void;
}

export interface LeaderOptions {
  readonly store: Store;
  readonly clock?: Clock;
  readonly log?: Log;
  readonly settings?: Partial<LeaderSettings>;
  readonly observer?: Observer;
  /** A person says that the clock of this machine is right, however far it is ahead of the journal. */
  readonly acceptClock?: boolean;
  /** Memory can no longer be trusted, or another server leads: it must end, or follow. */
  readonly onFatal: (error: unknown) => void;
  /** Of a server that is one of several; absent: nobody else can lead. */
  readonly replica?: {
    /** Taken over already, and the state at that head. */
    readonly taken: {
      readonly head: Head;
      readonly recovered: Recovered;
      readonly isAfterLoss: boolean;
    };
    /** Whether this server knows that it still leads. Asked before every answer from memory, which waits if not (C6). */
    readonly mayAnswer: () => boolean;
    /** The newest form of events that all servers can read (C12). */
    readonly eventForm: () => number;
    /** Outlives the leadership. */
    readonly stream: EventStream;
  };
}
