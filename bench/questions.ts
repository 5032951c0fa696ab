// What questions cost a server with a long queue: processor time per call, of the thread that serves everybody and of
// all other threads of the server (foresight, garbage collector) separately. The caller is another process.
// Then the same server under writes, with and without plans and explanations in flight: what they add to the p99 of a write,
// what an explanation with suggestions costs the foresight thread, and how much memory that thread takes.
// Usage: npm run bench:questions [-- WAITING]. Needs Linux, whose /proc says what each thread has used.

import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openServer } from "../src/server/index.ts";

const CALLS = 20;
/** The aim for the thread that serves everybody. */
const MAIN_MS_MAX = 10;
/** What questions in flight may add to the p99 of a write, and an explanation with suggestions cost the thread (Y12). */
const P99_GROWTH_MAX = 0.1;
const EXPLANATION_MS_MAX = 300;
const WRITES_PER_ROUND = 200;
const ROUNDS = 5;
const PLAN = { changes: [{ method: "PATCH", path: "/v1/pools/gpus", body: { capacity: { gpu: 12 } } }] };
const SERVER = "--server";

if (process.argv[2] === SERVER) await serve(Number(process.argv[3]));
else await measure(Number(process.argv[2] ?? 50_000));

async function serve(waiting: number): Promise<void> {
  const server = await openServer({
    data: "memory",
    listen: "127.0.0.1:0",
    rates: { perToken: { perSecond: Number.POSITIVE_INFINITY, burst: 0 } },
    leaderSettings: { waitingRequestsPerComponentMax: waiting + 100 },
    onFatal: (error) => {
      throw error;
    },
  });
  process.on("disconnect", () => process.exit(0));
  process.send?.({ url: server.url, secret: server.firstToken?.secret });
}

async function measure(waiting: number): Promise<void> {
  const child = fork(fileURLToPath(import.meta.url), [SERVER, String(waiting)]);
  const pid = child.pid as number;
  const [{ url, secret }] = (await once(child, "message")) as [{ url: string; secret: string }];
  const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
  const call = async (method: string, path: string, body?: unknown) => {
    const given = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(url + path, { method, headers, ...given });
    const text = await answer.text();
    if (answer.status >= 300)
      throw new Error(`${method} ${path} was answered with ${answer.status}: ${text}`);
    return text;
  };

  await call("PUT", "/v1/pools/gpus", { capacity: { gpu: 8 } });
  for (let team = 0; team < 10; team++)
    await call("PUT", `/v1/pools/gpus/policies/team-${team}`, { priority: team });
  for (let done = 0; done < waiting; done += 1_000) {
    const items = Array.from({ length: Math.min(1_000, waiting - done) }, (_, i) => ({
      component: `team-${i % 10}`,
      resources: { gpu: 1 + (i % 4) },
    }));
    await call("POST", "/v1/resource-requests/bulk", { items });
  }
  const { items: queue } = JSON.parse(await call("GET", "/v1/pools/gpus/queue?limit=100")) as {
    items: { id: string }[];
  };
  const [first, last] = [queue[0]?.id, queue.at(-1)?.id];
  const questions = {
    "one request": `/v1/resource-requests/${first}`,
    "explanation of the first": `/v1/resource-requests/${first}/explanation`,
    "explanation of the hundredth": `/v1/resource-requests/${last}/explanation`,
    "queue, one item": "/v1/pools/gpus/queue?limit=1",
    "queue, a page": "/v1/pools/gpus/queue",
    "list, a page": "/v1/resource-requests",
    pool: "/v1/pools/gpus",
    overview: "/v1/overview",
    "slim queue, first page": "/v1/queue?pool=gpus",
    "slim queue, a page far down": "/v1/queue?pool=gpus&cursor=40000",
    "slim queue, by reason": "/v1/queue?pool=gpus&why=units",
    "slim queue, found by words": "/v1/queue?pool=gpus&q=4711",
    timeline: "/v1/timeline?pool=gpus",
    usage: "/v1/usage",
    history: "/v1/pools/gpus/history",
    metrics: "/metrics",
  };
  console.log(
    `${waiting} waiting; processor time per call: the main thread (aim ${MAIN_MS_MAX} ms), all others`,
  );
  for (const [what, path] of Object.entries(questions)) {
    await call("GET", path);
    const before = usedMs(pid);
    for (let count = 0; count < CALLS; count++) await call("GET", path);
    const after = usedMs(pid);
    const [main, others] = [after.main - before.main, after.others - before.others].map(
      (ms) => ms / CALLS,
    ) as [number, number];
    console.log(`  ${what.padEnd(30)} ${main.toFixed(1).padStart(6)} ms ${others.toFixed(1).padStart(7)} ms`);
    if (main > MAIN_MS_MAX) process.exitCode = 1;
  }
  await measureInFlight(call, pid, { first: first as string, last: last as string });
  child.disconnect();
}

type Call = (method: string, path: string, body?: unknown) => Promise<string>;

/** Rounds without and with questions take turns, so that what else the machine does concerns both. */
async function measureInFlight(
  call: Call,
  pid: number,
  { first, last }: { readonly first: string; readonly last: string },
): Promise<void> {
  const cost = await explanationMs(call, pid, last);
  const p99s: { readonly quiet: number[]; readonly asked: number[] } = { quiet: [], asked: [] };
  let questions = 0;
  for (let round = 0; round < ROUNDS; round++) {
    p99s.quiet.push(await p99OfWrites(call));
    let isOver = false;
    const ask = async (question: () => Promise<unknown>) => {
      for (; !isOver; questions++) await question();
    };
    const asking = [
      ask(() => call("GET", `/v1/resource-requests/${first}/explanation?suggestions=true`)),
      ask(() => call("GET", `/v1/resource-requests/${last}/explanation?suggestions=true`)),
      ask(() => call("POST", "/v1/plans", PLAN)),
    ];
    p99s.asked.push(await p99OfWrites(call));
    isOver = true;
    await Promise.all(asking);
  }
  const [quiet, asked] = [medianOf(p99s.quiet), medianOf(p99s.asked)];
  const growth = asked / quiet - 1;
  const metrics = await call("GET", "/metrics");
  const bytes = Number(/^berth_foresight_bytes (\S+)/m.exec(metrics)?.[1]);
  console.log(
    `writes, p99 of ${WRITES_PER_ROUND}, median of ${ROUNDS} rounds: ${quiet.toFixed(1)} ms alone, ${asked.toFixed(1)} ms with ${questions} plans and explanations in flight: ` +
      `${(100 * growth).toFixed(0)} % more (< ${100 * P99_GROWTH_MAX} %)`,
  );
  console.log(
    `an explanation with suggestions: ${cost.toFixed(0)} ms of the foresight thread (≤ ${EXPLANATION_MS_MAX} ms)`,
  );
  console.log(`memory of the foresight thread: ${(bytes / (1 << 20)).toFixed(0)} MB`);
  if (growth >= P99_GROWTH_MAX || cost > EXPLANATION_MS_MAX || !(bytes > 0)) process.exitCode = 1;
}

async function p99OfWrites(call: Call): Promise<number> {
  const times: number[] = [];
  for (let count = 0; count < WRITES_PER_ROUND; count++) {
    const beganMs = performance.now();
    const answer = await call("POST", "/v1/resource-requests", {
      component: "team-0",
      resources: { gpu: 1 },
    });
    times.push(performance.now() - beganMs);
    await call("POST", `/v1/resource-requests/${(JSON.parse(answer) as { id: string }).id}/cancel`);
  }
  return times.sort((a, b) => a - b)[Math.ceil(0.99 * times.length) - 1] as number;
}

/** Of the thread that works most for it, which is not the main one. */
async function explanationMs(call: Call, pid: number, id: string): Promise<number> {
  const before = usedByThread(pid);
  for (let count = 0; count < CALLS; count++)
    await call("GET", `/v1/resource-requests/${id}/explanation?suggestions=true`);
  const spent = [...usedByThread(pid)].map(([thread, ms]) =>
    thread === String(pid) ? 0 : ms - (before.get(thread) ?? 0),
  );
  return Math.max(...spent) / CALLS;
}

function medianOf(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] as number;
}

function usedMs(pid: number): { readonly main: number; readonly others: number } {
  let [main, others] = [0, 0];
  for (const [thread, ms] of usedByThread(pid)) {
    if (thread === String(pid)) main = ms;
    else others += ms;
  }
  return { main, others };
}

/** The time that each thread was on a processor: the first field of `schedstat`, in nanoseconds. */
function usedByThread(pid: number): ReadonlyMap<string, number> {
  return new Map(
    readdirSync(`/proc/${pid}/task`).map((thread) => {
      const [used] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
      return [thread, Number(used) / 1e6];
    }),
  );
}
