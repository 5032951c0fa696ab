// The HTTP server: listens, serves the table of routes, and ends in order.

import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { startForesight } from "../foresight/index.ts";
import type { Leader, Log } from "../leader/index.ts";
import type { Replica } from "../replica/index.ts";
import type { Store } from "../store/index.ts";
import { createAgents } from "./agents/agents.ts";
import type { Services } from "./call.ts";
import { logChanges } from "./change-log.ts";
import { type Connections, watchConnections } from "./connections.ts";
import { createDenials } from "./denials.ts";
import { createFacts } from "./event-facts.ts";
import { createGrants } from "./grants.ts";
import { HANDLERS } from "./handlers.ts";
import { createHearing } from "./hearing.ts";
import { createHostCheck, isLoopback } from "./hosts.ts";
import {
  CALLS_PER_CONNECTION_MAX,
  CLOSE_GRACE_MS,
  CONNECTIONS_CHECK_MS,
  CONNECTIONS_MAX,
  CONNECTIONS_PER_ADDRESS_MAX,
  DEFAULT_RATES,
  HANDSHAKE_TIMEOUT_MS,
  HEADER_BYTES_MAX,
  HEADERS_TIMEOUT_MS,
  IDLE_CONNECTIONS_PER_ADDRESS_MAX,
  KEEP_ALIVE_MS,
  type Rates,
  REQUEST_TIMEOUT_MS,
  STANDSTILL_MS,
} from "./limits.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { createDestinations, LOOPBACK } from "./notices/destinations.ts";
import { createNotices } from "./notices/notices.ts";
import { createSend } from "./notices/post.ts";
import { loadPages } from "./pages.ts";
import { createListener } from "./pipeline.ts";
import { createQueueRows } from "./queue-rows.ts";
import { createRateLimits } from "./rates.ts";
import { watchRejections } from "./rejections.ts";
import { createReplicated } from "./replicated.ts";
import { createSessions } from "./sessions.ts";
import { createStrangers } from "./strangers.ts";
import { createStreams } from "./streams.ts";
import { loadTokenBook, type MadeToken, makeAdminToken, revokeLostToken } from "./tokens.ts";
import { createWaiting } from "./waiting.ts";

export interface ServerOptions {
  readonly leader: Leader;
  /** The same, of a server that is one of several. */
  readonly replica?: Replica;
  readonly store: Store;
  /** `host:port`; port 0 takes any that is free. */
  readonly listen?: string;
  /** Certificate and key in PEM. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Listens beyond this machine without TLS. Tokens can then be read on the way. */
  readonly insecureBind?: boolean;
  /** Further names that the server answers to. */
  readonly allowedHosts?: readonly string[];
  /** Private networks to which notices may be sent; one that only this machine reaches may send to this machine. */
  readonly noticeNetworks?: readonly string[];
  readonly rates?: Partial<Rates>;
  /** The one whose observer the leader was given. */
  readonly metrics?: Metrics;
  readonly log?: Log;
  readonly version?: string;
  /** The replica for plans and suggestions is made at once, not with the first question. */
  readonly warmForesight?: boolean;
}

export interface RunningServer {
  readonly url: string;
  /** The first start makes an administrator; undefined when there is a token already. */
  makeFirstToken(name?: string): Promise<MadeToken | undefined>;
  /** For an administrator who has the data and has lost the token. */
  makeAdminToken(name: string): Promise<MadeToken>;
  /** Ends streams and waiting calls, finishes the others. Leaves leader and store open. */
  close(): Promise<void>;
}

export const DEFAULT_LISTEN = "127.0.0.1:7770";

const silentLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** What the person who starts the server did wrong, with a way out. */
export class ServerError extends Error {
  readonly hint: string;
  constructor(message: string, hint: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "ServerError";
    this.hint = hint;
  }
}

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { leader, replica, store, tls, log = silentLog, version = "0.1.0" } = options;
  const { host, port } = addressOf(options);
  const tokens = await loadTokenBook(store);
  const stopReloading = replica?.onTokensChanged(tokens.reload);
  const metrics = options.metrics ?? createMetrics();
  const grants = createGrants(leader.grantKeys);
  const agents = createAgents(leader, grants);
  const waiting = createWaiting(leader);
  const facts = createFacts(leader, store);
  const streams = createStreams({ leader, store, facts, tokens, grants, log });
  const destinations = createDestinations(options.noticeNetworks ?? (isLoopback(host) ? LOOPBACK : []));
  const send = createSend(destinations);
  const notices = createNotices({ leader, replica, store, facts, tokens, grants, send, log });
  const foresight = startForesight({ leader, store, log });
  const stopMetrics = metrics.follow(leader, { streams, replica, notices, foresight });
  const stopLog = logChanges(leader, log);
  const stopHistory = replica?.onHistory(() => {
    grants.use(replica.grantKeys);
    streams.endAll();
    agents.adopted.beginHistory();
  });
  const rates = createRateLimits({ ...DEFAULT_RATES, ...options.rates });
  const strangers = createStrangers(leader);
  const denials = createDenials(leader);
  const rejections = watchRejections(leader);
  const replicated = replica && createReplicated(replica, { positions: streams.positions, log });
  const services: Services = {
    agents,
    leader,
    hear: createHearing(leader, replicated?.forwarding),
    replica,
    store,
    foresight,
    tokens,
    sessions: createSessions({ leader, tokens, log }),
    grants,
    waiting,
    streams,
    metrics,
    rates,
    queueRows: createQueueRows(),
    rejections,
    strangers,
    denials,
    ...{ notices, destinations },
    log,
    version,
  };
  const serve = createListener({
    services,
    handlers: HANDLERS,
    checkHost: createHostCheck(host, options.allowedHosts ?? []),
    ...(replicated && { replicated }),
    pages: loadPages(),
    extraHeaders: tls === undefined ? {} : { "strict-transport-security": "max-age=31536000" },
  });

  const server = createHttpServer(serve, tls);
  const connections = watchConnections(server, {
    connectionsMax: CONNECTIONS_MAX,
    perAddressMax: CONNECTIONS_PER_ADDRESS_MAX,
    idlePerAddressMax: IDLE_CONNECTIONS_PER_ADDRESS_MAX,
  });
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  const shownHost = address.family === "IPv6" ? `[${address.address}]` : address.address;
  const url = `${tls === undefined ? "http" : "https"}://${shownHost}:${address.port}`;
  log.info({ url }, "listening");
  if (options.warmForesight === true) foresight.warmUp(); // Not before: a server that cannot listen ends at once.

  const makeAdmin = async (name: string): Promise<MadeToken> => {
    // Names of tokens in use are unique: the new one replaces those of the same name.
    for (const old of tokens.find(name)) tokens.put(await revokeLostToken(leader, old));
    const { record, secret } = await makeAdminToken(leader, name);
    tokens.put(record);
    return { id: record.id, name, secret };
  };
  return {
    url,
    // Of several servers the one that leads makes it.
    makeFirstToken: async (name = "admin") =>
      tokens.list().length > 0 || replica?.role() === "follower" ? undefined : makeAdmin(name),
    makeAdminToken: makeAdmin,
    async close() {
      stopMetrics();
      rejections.close();
      stopLog();
      stopReloading?.();
      stopHistory?.();
      streams.close();
      waiting.close();
      agents.close();
      await notices.close();
      facts.close();
      await foresight.close();
      await closeServer(server, connections);
      await strangers.close();
      await denials.close();
      log.info({ url }, "closed");
    },
  };
}

/** Where to listen, if that is safe. */
export function addressOf(options: Pick<ServerOptions, "listen" | "tls" | "insecureBind">): {
  host: string;
  port: number;
} {
  const { host, port } = parseListen(options.listen ?? DEFAULT_LISTEN);
  if (isLoopback(host) || options.tls !== undefined || options.insecureBind === true) return { host, port };
  throw new ServerError(
    `Listening on ${host} without TLS would send tokens in the clear.`,
    "Give a certificate and a key, listen on 127.0.0.1, or say insecure-bind if you accept that.",
  );
}

export function createHttpServer(serve: RequestListener, tls?: ServerOptions["tls"]): Server {
  const limits = {
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: CONNECTIONS_CHECK_MS,
    noDelay: true,
  };
  const server =
    tls === undefined
      ? createServer(limits, serve)
      : createTlsServer(
          {
            ...limits,
            cert: tls.cert,
            key: tls.key,
            minVersion: "TLSv1.2",
            handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
          },
          serve,
        );
  server.timeout = STANDSTILL_MS;
  server.maxRequestsPerSocket = CALLS_PER_CONNECTION_MAX;
  return server;
}

export function parseListen(listen: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(listen.trim());
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) {
    throw new ServerError(
      `"${listen}" is not an address to listen on.`,
      "Write host:port, such as 127.0.0.1:7770.",
    );
  }
  return { host: match[1] ?? (match[2] === "" ? "0.0.0.0" : (match[2] as string)), port };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const busy = error.code === "EADDRINUSE";
      const hint = busy
        ? "Choose another port, or stop the server that uses this one."
        : "Choose another address.";
      reject(new ServerError(`Cannot listen on ${host}:${port}: ${error.message}.`, hint, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
}

const SWEEP_MS = 20;

function closeServer(server: Server, connections: Connections): Promise<void> {
  return new Promise((resolve) => {
    const sweep = setInterval(() => connections.closeIdle(), SWEEP_MS);
    const force = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
    server.close(() => {
      clearInterval(sweep);
      clearTimeout(force);
      resolve();
    });
    connections.closeIdle();
  });
}
