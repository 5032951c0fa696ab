// Plays a workload against a real server on the embedded store, in real time: arrivals and ends go out in bulk
// calls, grants and preemptions come in by the event stream.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "../../src/sdk/index.ts";
import { openServer } from "../../src/server/index.ts";
import {
  arrivalsOf,
  componentName,
  type KueueWorkload,
  meanTimeToGrant,
  type Outcome,
  poolName,
  type Stream,
  VICTIMS_MAX,
} from "./virtual.ts";

const BULK_MAX = 1000;
const BEAT_MS = 5;

interface Run {
  readonly token: string;
  readonly startedAtMs: number;
}

export async function playOnServer(workload: KueueWorkload): Promise<Outcome> {
  const directory = mkdtempSync(join(tmpdir(), "berth-kueue-"));
  const unlimited = { perSecond: 1_000_000, burst: 1_000_000 };
  const server = await openServer({
    data: { directory },
    listen: "127.0.0.1:0",
    rates: { perToken: unlimited },
    onFatal: (error) => {
      throw error;
    },
  });
  const client = createClient({ url: server.url, token: server.firstToken?.secret as string });
  const stop = new AbortController();
  try {
    await setUp(client, workload);
    return await play(client, workload, stop);
  } finally {
    stop.abort();
    await server.close();
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

async function play(client: Client, workload: KueueWorkload, stop: AbortController): Promise<Outcome> {
  const arrivals = arrivalsOf(workload);
  const names = new Map<string, string>();
  const streams = new Map<string, Stream>(arrivals.map(({ id, stream }) => [id, stream]));
  const arrivedAtMs = new Map<string, number>();
  const grantedAtMs = new Map<string, number>();
  const runs = new Map<string, Run>();
  let [done, preemptions, lostUnitMs, next] = [0, 0, 0, 0];
  let ends: { id: string; token: string; atMs: number }[] = [];
  const stopped: { id: string; token: string }[] = [];
  const startedAt = performance.now();
  const nowMs = () => performance.now() - startedAt;

  const begin = (id: string, token: string) => {
    if (runs.get(id)?.token === token) return;
    const name = names.get(id) as string;
    runs.set(id, { token, startedAtMs: nowMs() });
    grantedAtMs.set(name, nowMs());
    ends.push({ id, token, atMs: nowMs() + (streams.get(name) as Stream).runMs });
  };
  const fetchGrant = async (id: string) => {
    if (runs.has(id)) return; // The bulk call's own answer was faster.
    const { token, name } = await client.requests.get(id);
    names.set(id, name as string);
    if (token != null) begin(id, token);
  };
  const preempt = (id: string) => {
    const run = runs.get(id);
    if (run === undefined) return;
    preemptions++;
    lostUnitMs += (nowMs() - run.startedAtMs) * (streams.get(names.get(id) as string) as Stream).units;
    runs.delete(id);
    ends = ends.filter((end) => end.id !== id);
    stopped.push({ id, token: run.token });
  };

  // Many grants are asked for at once, but what happens to one request is taken in order.
  const pending = new Map<string, Promise<void>>();
  const inOrder = (id: string, act: () => Promise<void>) => {
    const before = pending.get(id) ?? Promise.resolve();
    pending.set(id, before.then(act));
  };
  const watching = (async () => {
    for await (const event of client.events.stream({}, { signal: stop.signal })) {
      const id = event.request_id as string | undefined;
      if (id === undefined) continue;
      if (event.event === "request.allocated") inOrder(id, () => fetchGrant(id));
      else if (event.event === "request.preempting") {
        inOrder(id, async () => {
          if (!runs.has(id)) await fetchGrant(id);
          preempt(id);
        });
      }
    }
  })();

  while (done < arrivals.length) {
    const due = arrivals.slice(next, next + BULK_MAX).filter(({ atMs }) => atMs <= nowMs());
    next += due.length;
    if (due.length > 0) {
      const items = due.map(({ id, component, stream }) => ({
        component,
        name: id,
        resources: { [workload.key]: stream.units },
        preemption_class: stream.preemptionClass,
      }));
      const { results } = await client.requests.submitMany(items);
      results.forEach((result, index) => {
        if ("problem" in result) throw new Error(`refused: ${JSON.stringify(result.problem)}`);
        const { id: name, atMs } = due[index] as (typeof due)[number];
        names.set(result.id, name);
        arrivedAtMs.set(name, atMs);
        if (result.token != null) begin(result.id, result.token);
      });
    }
    const over = ends.filter(({ atMs }) => atMs <= nowMs()).slice(0, BULK_MAX);
    const finished = new Set(over);
    ends = ends.filter((end) => !finished.has(end));
    const items = [
      ...over.map(({ id, token }) => ({ id, token, outcome: "succeeded" as const })),
      ...stopped
        .splice(0, BULK_MAX - over.length)
        .map(({ id, token }) => ({ id, token, outcome: "stopped" as const })),
    ];
    if (items.length > 0) {
      const { results } = await client.requests.releaseMany(items);
      results.forEach((result, index) => {
        const { id, outcome } = items[index] as (typeof items)[number];
        if (outcome !== "succeeded" || "problem" in result) return; // A victim's end may cross its own result.
        runs.delete(id);
        done++;
      });
    }
    if (due.length === 0 && items.length === 0) await new Promise((resolve) => setTimeout(resolve, BEAT_MS));
  }
  const wallMs = Math.round(nowMs());
  stop.abort();
  await watching.catch(() => undefined);
  return {
    wallMs,
    meanTimeToGrantMs: meanTimeToGrant(workload, arrivedAtMs, grantedAtMs),
    preemptions,
    lostUnitMs,
  };
}
