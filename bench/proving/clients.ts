// Clients that never give up: what was not answered is asked again with the same key, until it is. They note
// every answer, for the judge.

import { setTimeout as delay } from "node:timers/promises";
import type { Operation, Server, Told } from "./operations.ts";

/** Nobody asks again sooner than this, unless there is a new server to ask. */
const RETRY_MS = 200;
/** The part of requests that are granted twice, with a try of the first token after the second grant. */
const FENCED = 0.1;
/** Where units are scarce, a request is looked at so often before it gives up, and renewed so often before it ends. */
const LOOKS_MAX = 3;
const RENEWALS_MAX = 5;

export interface Acknowledged {
  readonly operation: Operation;
  readonly told: Told;
  /** How many answers had come when this was asked for the first time. */
  readonly after: number;
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
  /** They end without the answers that they still wait for. */
  abandon(): void;
}

/** No server will answer any more. */
class Abandoned extends Error {}

/** Keys begin with `prefix`: who comes later to the same store must not meet those of others. */
export function startClients(count: number, random: () => number, prefix = "k"): Clients {
  const acknowledged: Acknowledged[] = [];
  const failures = new Map<string, number>();
  let server: Server | undefined;
  let announce = () => {};
  let nextServer = new Promise<void>((resolve) => {
    announce = resolve;
  });
  let isFinishing = false;
  let isAbandoned = false;
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
      const kept = acknowledged.filter(({ operation: { kind } }) => kind !== "renew" && kind !== "look"); // Without keys.
      const again = Array.from({ length: Math.min(count, kept.length) }, () => {
        return kept[Math.floor(random() * kept.length)] as Acknowledged;
      });
      await Promise.all(again.map(({ operation }) => ask(operation)));
    },
    async finish() {
      isFinishing = true;
      await Promise.all(running);
    },
    abandon() {
      isFinishing = true;
      isAbandoned = true;
      announce();
    },
  };

  async function ask(operation: Operation): Promise<Told> {
    const after = acknowledged.length;
    for (;;) {
      if (isAbandoned) throw new Abandoned();
      try {
        if (server === undefined) throw new Error("There is no server yet.");
        const told = await server.ask(operation);
        acknowledged.push({ operation, told, after });
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
    try {
      while (!isFinishing) await liveOnce();
    } catch (error) {
      if (!(error instanceof Abandoned)) throw error;
    }
  }

  async function liveOnce(): Promise<void> {
    const key = `${prefix}${++made}`;
    const chosen = random();
    if (chosen < FENCED) return startAgain(key);
    const component = chosen < 0.5 ? "wide" : chosen < 0.8 ? "tight" : "urgent";
    const submitted = await ask({ kind: "submit", key, component });
    if (submitted.refusal !== null) return; // There is nothing to hold or to cancel.
    const { id } = submitted;
    const token = submitted.token ?? (await waitFor(key, id));
    if (token === null) return;
    const renewals = component === "wide" ? (random() < 0.3 ? 1 : 0) : Math.floor(random() * RENEWALS_MAX);
    for (let each = 0; each < renewals; each++) {
      await ask({ kind: "renew", key: `${key}.renew${each}`, id, token });
    }
    await ask({ kind: "release", key: `${key}.release`, id, token });
  }

  /** Fails once and is granted again; then the first token must be worth nothing, and the second one everything. */
  async function startAgain(key: string): Promise<void> {
    const { id, token } = await ask({ kind: "submit", key, component: "wide", retries: 1 });
    if (token === null) return;
    await ask({ kind: "fail", key: `${key}.fail`, id, token });
    await ask({ kind: "stale", key: `${key}.stale`, id, token });
    const again = await waitFor(key, id);
    if (again !== null) await ask({ kind: "release", key: `${key}.release`, id, token: again });
  }

  /** The token of its grant, or null: then it was cancelled, because none came soon. */
  async function waitFor(key: string, id: string): Promise<string | null> {
    for (let looks = 0; looks < LOOKS_MAX; looks++) {
      const { token } = await ask({ kind: "look", key: `${key}.look${looks}`, id });
      if (token !== null) return token;
    }
    // It may have been granted by now: then its holder has to end.
    return (await ask({ kind: "cancel", key: `${key}.cancel`, id })).token;
  }

  const running = Array.from({ length: count }, live);
  return clients;
}
