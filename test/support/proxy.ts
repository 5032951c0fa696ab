// A TCP proxy that misbehaves on demand: it delays, resets, and falls silent with its sockets open, in one direction or
// in both, as a pulled cable does. What it is given while it is silent it keeps, and delivers when the cable is back, as
// TCP would: so a message may arrive long after its sender has given up.
//
// Invariant: in each direction of a connection bytes keep their order, and an end comes after the bytes before it.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** Towards the target, back from it, or both. */
export type Way = "to" | "from" | "both";

export interface TcpProxy {
  readonly port: number;
  /** Connections that are made from now on go to this port of this machine. */
  aim(port: number): void;
  /** Nothing passes this way, and neither side is notified. */
  silence(way: Way): void;
  /** All connections are reset, and all new ones. */
  reset(): void;
  /** Everything is delivered so much later. */
  delay(ms: number): void;
  /** Resolves when the next thing arrives that has to be kept for now. */
  untilHeld(): Promise<void>;
  /** As it was: what was kept is delivered. */
  heal(): void;
  close(): Promise<void>;
}

type Parcel = { readonly dueMs: number; readonly bytes: Buffer | "end" | "reset" };

/** One direction of a connection. */
interface Lane {
  take(bytes: Parcel["bytes"]): void;
  pump(): void;
}

interface Trouble {
  isResetting: boolean;
  delayMs: number;
  isSilent(way: "to" | "from"): boolean;
  onHeld(): void;
}

/** Listens on this address, by default for this machine alone. */
export async function startTcpProxy(address = "127.0.0.1"): Promise<TcpProxy> {
  let targetPort = 0;
  let silent: Way | undefined;
  const waiting: (() => void)[] = [];
  const trouble: Trouble = {
    isResetting: false,
    delayMs: 0,
    isSilent: (way) => silent === way || silent === "both",
    onHeld() {
      for (const proceed of waiting.splice(0)) proceed();
    },
  };
  const connections = new Set<{ pump(): void; reset(): void }>();

  const server = createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
    if (trouble.isResetting) return void near.on("error", ignore).resetAndDestroy();
    const far = connect({ host: "127.0.0.1", port: targetPort, noDelay: true, allowHalfOpen: true });
    const to = createLane(far, "to", trouble);
    const from = createLane(near, "from", trouble);
    const connection = {
      pump() {
        to.pump();
        from.pump();
      },
      reset() {
        near.resetAndDestroy();
        far.resetAndDestroy();
      },
    };
    connections.add(connection);
    passOn(near, to);
    passOn(far, from);
    for (const socket of [near, far]) {
      socket.on("close", () => near.destroyed && far.destroyed && connections.delete(connection));
    }
  });
  server.listen(0, address);
  await once(server, "listening");

  return {
    port: (server.address() as AddressInfo).port,
    aim(port) {
      targetPort = port;
    },
    silence(way) {
      silent = way;
    },
    reset() {
      trouble.isResetting = true;
      for (const connection of connections) connection.reset();
    },
    delay(ms) {
      trouble.delayMs = ms;
    },
    untilHeld: () => new Promise((resolve) => waiting.push(resolve)),
    heal() {
      silent = undefined;
      trouble.isResetting = false;
      trouble.delayMs = 0;
      for (const connection of connections) connection.pump();
    },
    async close() {
      for (const connection of connections) connection.reset();
      server.close();
      await once(server, "close");
    },
  };
}

function passOn(source: Socket, lane: Lane): void {
  let isOver = false;
  source.on("data", (bytes) => lane.take(bytes));
  source.on("end", () => lane.take("end"));
  source.on("error", () => {
    isOver = true;
    lane.take("reset");
  });
  source.on("close", () => {
    if (!isOver) lane.take("end");
  });
}

function createLane(target: Socket, way: "to" | "from", trouble: Trouble): Lane {
  const parcels: Parcel[] = [];
  let timer: NodeJS.Timeout | undefined;

  function pump(): void {
    clearTimeout(timer);
    while (parcels.length > 0 && !trouble.isSilent(way)) {
      const waitMs = parcels[0]!.dueMs - performance.now();
      if (waitMs > 0 && trouble.delayMs > 0) {
        timer = setTimeout(pump, waitMs);
        return;
      }
      deliver(target, parcels.shift()!.bytes);
    }
  }

  return {
    take(bytes) {
      parcels.push({ dueMs: performance.now() + trouble.delayMs, bytes });
      if (trouble.isSilent(way)) trouble.onHeld();
      pump();
    },
    pump,
  };
}

function deliver(target: Socket, bytes: Parcel["bytes"]): void {
  if (target.destroyed) return;
  if (bytes === "reset") target.resetAndDestroy();
  else if (bytes === "end") target.end();
  else target.write(bytes);
}

function ignore(): void {}
