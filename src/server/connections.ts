// Open connections, and which of them go when there are too many.
//
// A connection is idle while no call of it is being served: it has not sent a whole request yet, or has its answer.
// Idle connections cost a client nothing, so they are the ones that a stranger can pile up; the longest idle one goes
// first, and a client that sends its request at once is served however many others say nothing.
//
// Invariants
//   1. No address has more than `idlePerAddressMax` idle connections, nor more than `perAddressMax` in all.
//   2. A connection that was answered that its call cannot be read is gone `LINGER_MS` later, whether or not its client closes.

import { type Server, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { toProblem } from "../protocol/index.ts";
import { addressGroup } from "./addresses.ts";
import { HEADER_BYTES_MAX, LINGER_MS } from "./limits.ts";

export interface ConnectionLimits {
  readonly perAddressMax: number;
  readonly idlePerAddressMax: number;
}

export interface Connections {
  /** Those that serve no call now; Node never counts a connection that has sent nothing as idle. */
  closeIdle(): void;
}

/** One address, and its connections by the port at their other end. */
interface Peer {
  readonly open: Map<number, Socket>;
  /** The longest idle one first. */
  readonly idle: Set<number>;
}

export function watchConnections(
  server: Server,
  { perAddressMax, idlePerAddressMax }: ConnectionLimits,
): Connections {
  const peers = new Map<string, Peer>();

  const rest = ({ open, idle }: Peer, port: number) => {
    if (!open.has(port)) return;
    idle.add(port);
    for (const longest of idle) {
      if (idle.size <= idlePerAddressMax) return;
      idle.delete(longest);
      open.get(longest)?.destroy();
    }
  };

  // Before TLS has begun, so that a handshake that never ends counts as well.
  server.on("connection", (socket: Socket) => {
    const address = addressGroup(socket.remoteAddress);
    const port = socket.remotePort;
    const peer = peers.get(address) ?? { open: new Map<number, Socket>(), idle: new Set<number>() };
    if (port === undefined || peer.open.size >= perAddressMax) {
      socket.destroy();
      return;
    }
    peers.set(address, peer);
    peer.open.set(port, socket);
    socket.once("close", () => {
      peer.open.delete(port);
      peer.idle.delete(port);
      if (peer.open.size === 0) peers.delete(address);
    });
    rest(peer, port);
  });

  server.on("request", ({ socket: { remoteAddress, remotePort } }, response) => {
    const peer = peers.get(addressGroup(remoteAddress));
    if (peer === undefined || remotePort === undefined) return;
    peer.idle.delete(remotePort);
    response.once("close", () => rest(peer, remotePort));
  });

  server.on("clientError", answerUnreadable);

  return {
    closeIdle() {
      for (const { open, idle } of peers.values()) for (const port of idle) open.get(port)?.destroy();
    },
  };
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
