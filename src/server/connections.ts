// Open connections, and which of them go when there are too many.
//
// A connection is idle while no call of it is being served: it has not sent a whole request yet, or has its answer.
// Idle connections cost a client nothing, so they are the ones that a stranger can pile up; the longest idle one goes
// first, and a client that sends its request at once is served however many others say nothing, from however many
// addresses.
//
// Invariants
//   1. No address has more than `idlePerAddressMax` idle connections, nor more than `perAddressMax` in all.
//   2. There are no more than `connectionsMax`. A new one takes the place of the longest idle one, whoever has that.
//   3. A connection that was answered that its call cannot be read is gone `LINGER_MS` later, whether or not its client closes.

import { type IncomingMessage, type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { toProblem } from "../protocol/index.ts";
import { addressGroup } from "./addresses.ts";
import { HEADER_BYTES_MAX, LINGER_MS } from "./limits.ts";

export interface ConnectionLimits {
  readonly connectionsMax: number;
  readonly perAddressMax: number;
  readonly idlePerAddressMax: number;
}

export interface Connections {
  /** Those that serve no call now; Node never counts a connection that has sent nothing as idle. */
  closeIdle(): void;
}

interface Connection {
  readonly socket: Socket;
  readonly peer: Peer;
}

/** One address, and its connections by the port at their other end. */
interface Peer {
  readonly open: Map<number, Connection>;
  /** The longest idle one first. */
  readonly idle: Set<Connection>;
}

export function watchConnections(
  server: Server,
  { connectionsMax, perAddressMax, idlePerAddressMax }: ConnectionLimits,
): Connections {
  const peers = new Map<string, Peer>();
  /** Without those that were let go, which take a moment to close. */
  const all = new Set<Connection>();
  /** Of all addresses, the longest idle one first. */
  const idle = new Set<Connection>();

  const letGo = (connection: Connection) => {
    forget(connection);
    connection.socket.destroy();
  };

  const forget = (connection: Connection) => {
    all.delete(connection);
    work(connection);
  };

  /** By what calls come on: over TLS that is not what was connected. */
  const bySocket = new WeakMap<Socket, Connection>();
  const connectionOf = (socket: Socket): Connection | undefined => {
    const known = bySocket.get(socket);
    if (known !== undefined) return known;
    const { remoteAddress, remotePort = 0 } = socket;
    const found = peers.get(addressGroup(remoteAddress))?.open.get(remotePort);
    if (found !== undefined) bySocket.set(socket, found);
    return found;
  };

  const work = (connection: Connection) => {
    idle.delete(connection);
    connection.peer.idle.delete(connection);
  };

  const rest = (connection: Connection) => {
    if (!all.has(connection)) return;
    work(connection);
    idle.add(connection);
    connection.peer.idle.add(connection);
    for (const longest of connection.peer.idle) {
      if (connection.peer.idle.size <= idlePerAddressMax) return;
      letGo(longest);
    }
  };

  // Before TLS has begun, so that a handshake that never ends counts as well.
  server.on("connection", (socket: Socket) => {
    const address = addressGroup(socket.remoteAddress);
    const port = socket.remotePort;
    const peer = peers.get(address) ?? { open: new Map<number, Connection>(), idle: new Set<Connection>() };
    const [longest] = idle;
    const isFull = all.size >= connectionsMax;
    if (port === undefined || peer.open.size >= perAddressMax || (isFull && longest === undefined)) {
      socket.destroy();
      return;
    }
    if (isFull) letGo(longest as Connection);
    const connection = { socket, peer };
    peers.set(address, peer);
    peer.open.set(port, connection);
    all.add(connection);
    socket.once("close", () => {
      forget(connection);
      peer.open.delete(port);
      if (peer.open.size === 0) peers.delete(address);
    });
    rest(connection);
  });

  server.on("request", (request, response) => {
    const connection = connectionOf(request.socket);
    if (connection === undefined) return;
    const begin = () => work(connection);
    if (hasBody(request)) request.on("end", begin);
    else begin();
    response.on("close", () => {
      request.off("end", begin); // What was answered early may still send the rest of its body.
      rest(connection);
    });
  });

  server.on("clientError", answerUnreadable);

  return {
    closeIdle() {
      for (const connection of idle) connection.socket.destroy();
    },
  };
}

/** Until a body has arrived, its connection says no more than one that says nothing. */
function hasBody({ headers }: IncomingMessage): boolean {
  return (headers["content-length"] ?? "0") !== "0" || headers["transfer-encoding"] !== undefined;
}

/** What is not HTTP, or never became a whole request, reaches no route: it is answered here, and let go. */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const problem = problemOf(error);
  const body = JSON.stringify(problem);
  const lines = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    "content-type: application/problem+json",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${body}`);
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

function problemOf({ code }: NodeJS.ErrnoException) {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return toProblem("headers_too_large", `Address and headers have more than ${HEADER_BYTES_MAX} bytes.`);
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return toProblem("request_timeout", "The request did not arrive in time.", {
        hint: "Send headers and body at once.",
      });
    default:
      return toProblem("invalid_request", "What was sent is not HTTP.");
  }
}
