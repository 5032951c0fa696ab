// Clients that never give up: what was not answered is asked again with the same key, until it is. They note
// every answer, for the judge.

import { setTimeout as delay } from "node:timers/promises";
import type { Operation, Server, Told } from "./operations.ts";

/** Nobody asks again sooner than this, unless there is a new server to ask. */
const RETRY_MS = 200;

export interface Acknowledged {
  readonly operation: Operation;
  readonly told: Told;
}

export interface Clients {
  /** All that was ever acknowledged. */
  readonly acknowledged: readonly Acknowledged[];
  retries: number;
  /** What went wrong, in the words of the server, and how often. */
  readonly failures: ReadonlyMap<string, number>;
  /** From now on they talk to this server. */
  use(server: Server): void;
  /** Asks again for some of what was answered before: the same answer must come (Q4). */
  repeat(count: number): Promise<void>;
  /** What is under way is finished, nothing new begins. */
  finish(): Promise<void>;
}

export function startClients(count: number, random: () => number): Clients {
  const acknowledged: Acknowledged[] = [];
  const failures = new Map<string, number>();
  let server: Server | undefined;
  let announce = () => {};
  let nextServer = new Promise<void>((resolve) => {
    announce = resolve;
  });
  let isFinishing = false;
  let made = 0;

  const clients: Clients = {
    acknowledged,
    failures,
    retries: 0,
    use(next) {
      server = next;
      announce();
      nextServer = new Promise((resolve) => {
        announce = resolve;
      });
    },
    async repeat(count) {
      const again = Array.from({ length: Math.min(count, acknowledged.length) }, () => {
        return acknowledged[Math.floor(random() * acknowledged.length)] as Acknowledged;
      });
      await Promise.all(again.map(({ operation }) => ask(operation)));
    },
    async finish() {
      isFinishing = true;
      await Promise.all(running);
    },
  };

  async function ask(operation: Operation): Promise<Told> {
    for (;;) {
      try {
        if (server === undefined) throw new Error("There is no server yet.");
        const told = await server.ask(operation);
        acknowledged.push({ operation, told });
        return told;
      } catch (error) {
        clients.retries++;
        const message = (error as Error).message;
        failures.set(message, (failures.get(message) ?? 0) + 1);
        await Promise.race([nextServer, delay(RETRY_MS)]);
      }
    }
  }

  async function live(): Promise<void> {
    while (!isFinishing) {
      const key = `k${++made}`;
      const pool = random() < 0.8 ? "wide" : "tight";
      const { id, status, token } = await ask({ kind: "submit", key, pool });
      if (status === "queued") await ask({ kind: "cancel", key: `${key}.cancel`, id });
      else if (token !== null) await ask({ kind: "release", key: `${key}.release`, id, token });
    }
  }

  const running = Array.from({ length: count }, live);
  return clients;
}
