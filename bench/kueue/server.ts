// Plays a workload against a real server on the embedded store, in real time. Arrivals and ends go out in bulk
// calls, one of each under way at a time, so that what becomes due meanwhile goes together; what happens comes in
// by the event stream, grants with their tokens.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "../../src/sdk/index.ts";
import { bundle, start } from "../serving/start.ts";
import {
  type Arrival,
  arrivalsOf,
  componentName,
  type End,
  type KueueWorkload,
  meanTimeToGrant,
  type Outcome,
  poolName,
  popEnd,
  pushEnd,
  VICTIMS_MAX,
} from "./virtual.ts";

const BULK_MAX = 1000;
const BEAT_MS = 1;
/** A thousand decisions in one call take their time on a slow machine. */
const TIMEOUT_MS = 600_000;

export async function playOnServer(workload: KueueWorkload): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), "berth-kueue-"));
  const server = await start<{ url: string; token: string }>(await bundle("server"), [
    "berth",
    "sqlite",
    join(directory, "berth.sqlite"),
  ]);
  const client = createClient({ ...server.first, timeoutMs: TIMEOUT_MS });
  try {
    await setUp(client, workload);
    return await new Play(client, workload, () => processorMs(server.first)).outcome();
  } finally {
    await server.end();
    rmSync(directory, { recursive: true, force: true });
  }
}

type Client = ReturnType<typeof createClient>;

async function setUp(client: Client, workload: KueueWorkload): Promise<void> {
  for (let pool = 0; pool < workload.pools; pool++) {
    const name = poolName(pool);
    await client.pools.create({
      name,
      capacity: { [workload.key]: workload.capacityPerPool },
      discipline: "class",
      settings: { max_victims: VICTIMS_MAX },
    });
    for (let policy = 0; policy < workload.policiesPerPool; policy++) {
      await client.policies.attach(name, {
        component: componentName(pool, policy),
        reserved: { [workload.key]: workload.reservedPerPolicy },
        limit: { [workload.key]: workload.limitPerPolicy },
      });
    }
  }
}

interface Run {
  readonly token: string;
  readonly startedAtMs: number;
}

interface Release {
  readonly id: string;
  readonly token: string;
  readonly outcome: "succeeded" | "stopped";
}

/** One play: what is due, what runs, and what has come of it. */
class Play {
  readonly #client: Client;
  readonly #workload: KueueWorkload;
  readonly #processorMs: () => Promise<number>;
  readonly #arrivals: readonly Arrival[];
  readonly #arrivalOf: ReadonlyMap<string, Arrival>;
  readonly #grantedAtMs = new Map<string, number>();
  /** By id of the request, as the ends are. */
  readonly #runs = new Map<string, Run>();
  readonly #ends: End[] = [];
  readonly #stopped: Release[] = [];
  #startedAt = 0;
  #next = 0;
  #done = 0;
  #preemptions = 0;
  #lostUnitMs = 0;

  constructor(client: Client, workload: KueueWorkload, processorMs: () => Promise<number>) {
    this.#client = client;
    this.#processorMs = processorMs;
    this.#workload = workload;
    this.#arrivals = arrivalsOf(workload);
    this.#arrivalOf = new Map(this.#arrivals.map((arrival) => [arrival.id, arrival]));
  }

  async outcome(): Promise<Outcome> {
    const over = new AbortController();
    const events = this.#client.events.stream({}, { signal: over.signal });
    await events.next(); // It is open: from here on nothing is missed.
    this.#startedAt = performance.now();
    const watching = this.#watch(events);
    const processorMsBefore = await this.#processorMs();
    const channels = [
      this.#keepSending(() => this.#dueArrivals(), over.signal),
      this.#keepSending(() => this.#dueReleases(), over.signal),
    ];
    await watching;
    const wallMs = Math.round(this.#nowMs());
    over.abort();
    await Promise.all(channels);
    return {
      wallMs,
      meanTimeToGrantMs: meanTimeToGrant(this.#workload, this.#grantedAtMs),
      preemptions: this.#preemptions,
      lostUnitMs: this.#lostUnitMs,
      processorMs: (await this.#processorMs()) - processorMsBefore,
    };
  }

  #nowMs(): number {
    return performance.now() - this.#startedAt;
  }

  /** Ends with the last event that counts. */
  async #watch(events: ReturnType<Client["events"]["stream"]>): Promise<void> {
    for await (const event of events) {
      const { request_id: id, name, token } = event;
      if (id === undefined || name === undefined) continue;
      if (event.event === "request.allocated") this.#begin(id, name, token as string);
      else if (event.event === "request.preempting") this.#preempt(id, name);
      else if (event.event === "request.released" && ++this.#done === this.#arrivals.length) return;
    }
  }

  #begin(id: string, name: string, token: string): void {
    const nowMs = this.#nowMs();
    const { stream } = this.#arrivalOf.get(name) as Arrival;
    this.#runs.set(id, { token, startedAtMs: nowMs });
    this.#grantedAtMs.set(name, nowMs);
    pushEnd(this.#ends, { id, token, atMs: nowMs + stream.runMs });
  }

  #preempt(id: string, name: string): void {
    const run = this.#runs.get(id);
    this.#preemptions++;
    if (run === undefined) return; // Its end is on its way, and counts.
    const { stream } = this.#arrivalOf.get(name) as Arrival;
    this.#lostUnitMs += (this.#nowMs() - run.startedAtMs) * stream.units;
    this.#runs.delete(id);
    this.#stopped.push({ id, token: run.token, outcome: "stopped" });
  }

  async #keepSending(due: () => (() => Promise<unknown>) | undefined, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const send = due();
      if (send === undefined) await new Promise((resolve) => setTimeout(resolve, BEAT_MS));
      else await send();
    }
  }

  #dueArrivals(): (() => Promise<unknown>) | undefined {
    const nowMs = this.#nowMs();
    const due = this.#arrivals.slice(this.#next, this.#next + BULK_MAX).filter(({ atMs }) => atMs <= nowMs);
    if (due.length === 0) return undefined;
    this.#next += due.length;
    const items = due.map(({ id, component, stream }) => ({
      component,
      name: id,
      resources: { [this.#workload.key]: stream.units },
      preemption_class: stream.preemptionClass,
    }));
    return async () => {
      const { results } = await this.#client.requests.submitMany(items);
      const refused = results.find((result) => "problem" in result);
      if (refused !== undefined) throw new Error(`refused: ${JSON.stringify(refused)}`);
    };
  }

  /** What has run its time, and the victims. A refusal is one whose end has crossed its preemption. */
  #dueReleases(): (() => Promise<unknown>) | undefined {
    const items = this.#stopped.splice(0, BULK_MAX);
    const nowMs = this.#nowMs();
    for (let end = this.#ends[0]; end !== undefined && end.atMs <= nowMs; end = this.#ends[0]) {
      if (items.length === BULK_MAX) break;
      popEnd(this.#ends);
      const { id, token } = end;
      if (this.#runs.get(id)?.token !== token) continue; // It was preempted.
      this.#runs.delete(id);
      items.push({ id, token, outcome: "succeeded" });
    }
    return items.length === 0 ? undefined : () => this.#client.requests.releaseMany(items);
  }
}

/** What the server has used of the processor since it began, as it says itself. */
async function processorMs({ url, token }: { url: string; token: string }): Promise<number> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  return 1000 * Number(/^process_cpu_seconds_total (\S+)/m.exec(await answer.text())?.[1]);
}
