// The load: connections that submit, are granted, and release, in a process of their own; beside them, where asked for,
// clients that hold what they have and renew it, and readers of the event stream.

import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type Connection, openConnection } from "./http.ts";

export interface Load {
  readonly url: string;
  readonly token: string;
  readonly connections: number;
  readonly warmUpMs: number;
  readonly ms: number;
  /** Items per call; 1: single calls. */
  readonly bulk: number;
  /** Cycles per second to be started; absent: as many as it takes. */
  readonly rate?: number;
  readonly beside?: Beside;
}

/** What goes on beside the cycles. */
export interface Beside {
  /** Each renews once in ten seconds. */
  readonly holders: number;
  /** The first reads everything, the others what concerns a component that does nothing. */
  readonly subscribers: number;
}

export interface Measured {
  readonly cyclesPerSecond: number;
  /** Of single calls, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly failures: number;
}

export interface Filling {
  readonly fill: number;
  readonly url: string;
  readonly token: string;
}

process.on("message", (question: Load | Filling) => {
  const answer = "fill" in question ? fill(question) : measure(question);
  answer.then(
    (told) => process.send?.(told),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => process.exit());
process.send?.("ready");

const SUBMISSION = { component: "bench", resources: { gpu: 1 }, labels: { run: "42" } };

async function measure(load: Load): Promise<Measured> {
  const connections = await Promise.all(
    Array.from({ length: load.connections }, () => openConnection(load.url, load.token)),
  );
  const latencies: number[] = [];
  let cycles = 0;
  let failures = 0;
  let isCounting = false;
  let isOver = false;
  const call = async (connection: Connection, path: string, body: unknown, good: number) => {
    const beganMs = performance.now();
    const answer = await connection.post(path, JSON.stringify(body));
    if (isCounting) {
      latencies.push(performance.now() - beganMs);
      cycles += load.bulk / 2; // A cycle is two calls; counting halves keeps short measurements exact.
    }
    if (answer.status !== good) failures++;
    return answer.body; // Only parsed where something in it is needed: the client shares the processors with the servers.
  };
  const cycle = load.bulk === 1 ? singleCycle : bulkCycle;
  const beside = load.beside === undefined ? undefined : await begin(load, load.beside);
  const beganMs = performance.now();
  const run = async (connection: Connection, index: number) => {
    // With a rate, every connection starts its cycles at its own fixed times, whatever the answers do.
    const everyMs = load.rate === undefined ? 0 : (1000 * load.connections * load.bulk) / load.rate;
    for (let count = 0; !isOver; count++) {
      if (everyMs > 0) {
        const dueMs = beganMs + (count + index / load.connections) * everyMs;
        const waitMs = dueMs - performance.now();
        if (waitMs > 0) await delay(waitMs);
      }
      await cycle(connection);
    }
  };

  async function singleCycle(connection: Connection) {
    const submitted = await call(connection, "/v1/resource-requests", SUBMISSION, 201);
    const { id, token } = await granted(connection, JSON.parse(submitted) as Granted);
    await call(connection, `/v1/resource-requests/${id}/release`, { token, outcome: "succeeded" }, 200);
  }

  async function bulkCycle(connection: Connection) {
    const items = Array.from({ length: load.bulk }, () => SUBMISSION);
    const submitted = await call(connection, "/v1/resource-requests/bulk", { items }, 200);
    const { results } = JSON.parse(submitted) as { results: Granted[] };
    const all: Granted[] = [];
    for (const submitted of results) all.push(await granted(connection, submitted));
    await call(connection, "/v1/resource-requests/bulk-release", { items: endsOf(all) }, 200);
  }

  const running = connections.map(run);
  await delay(load.warmUpMs);
  isCounting = true;
  const countingMs = performance.now();
  await delay(load.ms);
  isCounting = false;
  const seconds = (performance.now() - countingMs) / 1000;
  isOver = true;
  await Promise.all(running);
  failures += (await beside?.end()) ?? 0;
  for (const connection of connections) connection.close();
  latencies.sort((a, b) => a - b);
  const at = (part: number) =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * part))] ?? 0;
  return { cyclesPerSecond: cycles / seconds, p50: at(0.5), p99: at(0.99), failures };
}

interface Granted {
  readonly id: string;
  /** Absent: not granted yet. */
  readonly token?: string;
}

/** A decision that took long, such as on a busy machine, is answered before the grant, which follows soon. */
async function granted(connection: Connection, submitted: Granted): Promise<Granted> {
  if (submitted.token !== undefined) return submitted;
  const { body } = await connection.get(`/v1/resource-requests/${submitted.id}?wait=10&until=settled`);
  return JSON.parse(body) as Granted;
}

function endsOf(granted: readonly Granted[]): object[] {
  return granted.map(({ id, token }) => ({ id, token, outcome: "succeeded" }));
}

const RENEW_EVERY_MS = 10_000;

/** Begins what goes on beside the cycles. Its end tells how many calls and streams have failed. */
async function begin(load: Load, { holders, subscribers }: Beside): Promise<{ end(): Promise<number> }> {
  const connection = await openConnection(load.url, load.token);
  const items = Array.from({ length: holders }, () => SUBMISSION);
  const submitted = await connection.post("/v1/resource-requests/bulk", JSON.stringify({ items }));
  const { results } = JSON.parse(submitted.body) as { results: Granted[] };
  const held: Granted[] = [];
  for (const result of results) held.push(await granted(connection, result));
  const paths = Array.from({ length: subscribers }, (_, index) => (index === 0 ? "" : "?component=waiter"));
  const streams = await Promise.all(paths.map((query) => openStream(load, `/v1/events${query}`)));

  let failures = 0;
  let isOver = false;
  const renew = async () => {
    for (let count = 0; !isOver; count++) {
      const { id, token } = held[count % held.length] as Granted;
      const { status } = await connection.post(
        `/v1/resource-requests/${id}/renew`,
        JSON.stringify({ token }),
      );
      if (status !== 200) failures++;
      await delay(RENEW_EVERY_MS / holders);
    }
  };
  const renewing = renew();
  return {
    async end() {
      isOver = true;
      await renewing;
      await connection.post("/v1/resource-requests/bulk-release", JSON.stringify({ items: endsOf(held) }));
      connection.close();
      return failures + streams.filter((stream) => !stream.close()).length;
    },
  };
}

/** An event stream that is read and not looked at. Closing it tells whether it was open until then. */
async function openStream({ url, token }: Load, path: string): Promise<{ close(): boolean }> {
  const outgoing = get(url + path, { agent: false, headers: { authorization: `Bearer ${token}` } });
  const [incoming] = (await once(outgoing, "response")) as [IncomingMessage];
  let isOpen = incoming.statusCode === 200;
  incoming.once("close", () => {
    isOpen = false;
  });
  incoming.resume();
  return {
    close() {
      const wasOpen = isOpen;
      outgoing.destroy();
      return wasOpen;
    },
  };
}

/** Requests that wait, since their component has reached its limit. */
async function fill({ fill: count, url, token }: Filling): Promise<{ submitted: number }> {
  const connections = await Promise.all([1, 2, 3, 4].map(() => openConnection(url, token)));
  let left = count;
  await Promise.all(
    connections.map(async (connection) => {
      while (left > 0) {
        const length = Math.min(500, left);
        left -= length;
        const items = Array.from({ length }, (_, index) => ({
          component: "waiter",
          resources: { gpu: 1 + (index % 8) },
          walltime_seconds: 3_600,
        }));
        const { status } = await connection.post("/v1/resource-requests/bulk", JSON.stringify({ items }));
        if (status !== 200) throw new Error(`filling was answered with ${status}`);
      }
      connection.close();
    }),
  );
  return { submitted: count };
}
