// What callers may use up at most. Sizes of bodies and of what is in them are limits of the protocol.

/** Request line and headers together. */
export const HEADER_BYTES_MAX = 16 * 1024;
export const URL_LENGTH_MAX = 8 * 1024;
export const HEADERS_TIMEOUT_MS = 10_000;
/** For the whole request to arrive; answers may take longer. */
export const REQUEST_TIMEOUT_MS = 30_000;
export const KEEP_ALIVE_MS = 65_000;
/** A connection on which nothing moves, such as that of a client that does not read its answer. */
export const STANDSTILL_MS = 120_000;
export const HANDSHAKE_TIMEOUT_MS = 10_000;
/** How often connections are checked against the times above. */
export const CONNECTIONS_CHECK_MS = 1_000;
/** After the last answer on a connection that the client does not close. */
export const LINGER_MS = 1_000;
export const CALLS_PER_CONNECTION_MAX = 1_000;
export const CONNECTIONS_MAX = 10_000;
/** One address, or one /64 of IPv6. Many clients may share one behind a proxy. */
export const CONNECTIONS_PER_ADDRESS_MAX = 5_000;
/** Connections that serve no call now; the longest idle one goes first. */
export const IDLE_CONNECTIONS_PER_ADDRESS_MAX = 500;

/** Below this size the schemas alone bound what a body can contain, and no walk through it is needed. */
export const SMALL_BODY_BYTES = 4 * 1024;

export const STREAMS_PER_TOKEN_MAX = 10;
/** With the streams of its sessions: whoever opens the dashboard often must not take those of others. */
export const STREAMS_WITH_SESSIONS_MAX = 50;
export const STREAMS_MAX = 2_000;
/** Readers of logs, with those of its sessions: each is work for a node. */
export const LOG_READERS_PER_TOKEN_MAX = 50;
/** What a slow reader of a stream may leave unread before it is cut off; it resumes where it was. */
export const STREAM_BUFFER_BYTES_MAX = 1024 * 1024;
export const STREAM_HEARTBEAT_MS = 15_000;
export const LONG_POLLS_MAX = 10_000;

/** The event loop and open calls get this long to finish when the server closes. */
export const CLOSE_GRACE_MS = 5_000;

/** How often a caller may call. `burst` calls may come at once; then it is `perSecond`. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

export interface Rates {
  readonly perToken: Rate;
  /** Calls without a token, by address. */
  readonly perStranger: Rate;
  /** Calls without a token that need one, from all addresses together. */
  readonly allStrangers: Rate;
  /** Tokens that are not known, by address, per minute; then nothing more is looked at for a minute. */
  readonly failedLoginsPerMinute: number;
}

export const DEFAULT_RATES: Rates = {
  perToken: { perSecond: 50, burst: 100 },
  perStranger: { perSecond: 10, burst: 20 },
  allStrangers: { perSecond: 200, burst: 400 },
  failedLoginsPerMinute: 5,
};

/** All who ask for one component may do so as often as this many tokens may call. */
export const TOKENS_PER_COMPONENT = 4;

/** Denied calls are counted for so long, and then written down. */
export const TALLY_MS = 60_000;
/** Of strangers, for so many of the busiest addresses; all others together are one entry more. */
export const STRANGERS_LISTED_MAX = 20;

/** Of one token, so many are written down one by one in that time; the others are counted. */
export const DENIALS_WRITTEN_MAX = 100;

/** Tokens that say nothing about their end. */
export const TOKEN_LIFE_MS_DEFAULT = 90 * 24 * 3_600_000;
export const TOKENS_MAX = 10_000;
/** With which a machine becomes a node (E1). */
export const JOIN_TOKEN_LIFE_MS = 600_000;

/** Of notices (H2): each may have a connection of its own. */
export const TARGETS_MAX = 200;
export const TARGETS_PER_OWNER_MAX = 20;

/** Of the dashboard (B8, B9): a link to sign in, a session, and how long one lasts that nobody uses. */
export const LINK_LIFE_MS = 600_000;
export const SESSION_LIFE_MS = 12 * 3_600_000;
export const SESSION_IDLE_MS = 3_600_000;
/** The use of a session is written down at most this often. */
export const SESSION_TOUCH_MS = 300_000;
export const SESSIONS_PER_TOKEN_MAX = 50;
