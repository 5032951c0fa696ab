// What commands need of the server's side. `bin` brings it, so that the command line itself stays a client.

export interface Hosting {
  openServer(options: HostedOptions): Promise<HostedServer>;
  /** A copy of the embedded store, taken while a server may be running on it. */
  backup(from: string, to: string): Promise<void>;
  /** Puts a copy back where no store is. */
  restore(from: string, to: string): Promise<void>;
  /** Says why nothing can be moved there. */
  refuseOccupied(place: StorePlace): Promise<void>;
  /** Moves everything to where no store is. The place is left with a note of where it went; `movedTo` is that note. */
  move(from: StorePlace, to: StorePlace, movedTo: string): Promise<MovedStore>;
  /** Reads a whole store: a file that no server uses, or a database. Compares it with a head that was noted before. */
  inspect(store: StorePlace, noted?: NotedHead): Promise<Inspection>;
  /** A sentence and a way out, if the error is one of those that people can act on. */
  explain(error: unknown): { readonly message: string; readonly hint: string } | undefined;
}

/** A file that no server uses, or a database. */
export type StorePlace = { readonly file: string } | { readonly databaseUrl: string };

export interface MovedStore {
  readonly head: NotedHead;
  readonly sizes: Readonly<Record<"events" | "requests" | "audit" | "tokens" | "snapshots", number>>;
}

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface HostedOptions {
  readonly data: { readonly directory: string } | { readonly databaseUrl: string };
  readonly listen: string;
  readonly tls?: { readonly certFile: string; readonly keyFile: string };
  readonly insecureBind?: boolean;
  readonly allowedHosts?: readonly string[];
  /** Private networks that notices may be sent to. */
  readonly noticeNetworks?: readonly string[];
  /** Where other servers on the same database reach this one. */
  readonly advertise?: string;
  /** A person says that a store which has lost its end is gone on with. */
  readonly acceptLoss?: boolean;
  /** A person says that the clock of this machine is right. */
  readonly acceptClock?: boolean;
  /** Name of the administrator that the first start makes. */
  readonly firstTokenName: string;
  readonly version: string;
  readonly log: "people" | "lines" | "silent";
  /** How much a log of lines says; `info` unless given. */
  readonly logLevel?: LogLevel;
  /** Nobody is slowed down: for demonstrations and tests on this machine. */
  readonly isUnlimited?: boolean;
  readonly tell: (text: string) => void;
  /** The process must end. */
  readonly onFatal: (error: unknown) => void;
}

export interface HostedServer {
  readonly url: string;
  readonly storeName: string;
  /** Only after the first start of a store. */
  readonly firstToken: { readonly name: string; readonly secret: string } | undefined;
  makeAdminToken(name: string): Promise<{ readonly secret: string }>;
  close(): Promise<void>;
}

/** The ends of the journal and of the audit log, as hash chains. */
export interface NotedHead {
  readonly seq: number;
  readonly hash: string;
  readonly auditId: number;
  readonly auditHash: string;
}

export interface Inspection {
  readonly head: NotedHead;
  readonly events: number;
  readonly requests: number;
  readonly snapshots: number;
  readonly audit: number;
  readonly damage: readonly { readonly where: string; readonly what: string }[];
  /** Only if a head was given: whether each chain still contains it, or no longer reaches back that far. */
  readonly comparison?: Readonly<Record<"journal" | "audit", "contained" | "changed" | "forgotten">>;
}
