// What questions cost a server with a long queue: processor time per call, of the thread that serves everybody and of
// all other threads of the server (foresight, garbage collector) separately. The caller is another process.
// Then the same server under writes, with and without plans and explanations in flight from a third process: what they add
// to the p99 of a write, what an explanation with suggestions costs the foresight thread, and how much memory that thread
// takes. A write is measured three times: the processor time of the main thread from the call of the leader to its answer,
// the same from the call of the server to its answer, with whatever else that thread did meanwhile, and the time on the
// clock of the caller. The last depends on how many cores there are and on what else they do: it is only printed.
// Usage: npm run bench:questions [-- WAITING]. Needs Linux, whose /proc says what each thread has used.

import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openServer } from "../src/server/index.ts";

const CALLS = 20;
/** The aim for the thread that serves everybody. */
const MAIN_MS_MAX = 10;
/** What questions in flight may add to the p99 of the leader, and an explanation with suggestions cost the thread (Y12). */
const P99_GROWTH_MAX = 0.1;
const EXPLANATION_MS_MAX = 300;
/** Short rounds that take turns, so that what else the machine does concerns both kinds. */
const WRITES_PER_ROUND = 100;
const ROUNDS = 80;
const PLAN = { changes: [{ method: "PATCH", path: "/v1/pools/gpus", body: { capacity: { gpu: 12 } } }] };
/** After so many submissions at once the thread has caught up within this time. */
const FOLLOWING_MS_MAX = 300_000;
const SERVER = "--server";
const ASKER = "--asker";

if (process.argv[2] === SERVER) await serve(Number(process.argv[3]));
else if (process.argv[2] === ASKER) askOnDemand(process.argv[3] as string, process.argv[4] as string);
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
  const { leader } = server;
  const perform = leader.perform.bind(leader);
  const spent: number[] = [];
  leader.perform = async (...args) => {
    const beganMs = usedByMain(process.pid);
    const answer = await perform(...args);
    if (args[0].kind === "submitRequest") spent.push(usedByMain(process.pid) - beganMs);
    return answer;
  };
  process.on("message", () => process.send?.(spent.splice(0)));
  process.on("disconnect", () => process.exit(0));
  process.send?.({ url: server.url, secret: server.firstToken?.secret });
}

async function measure(waiting: number): Promise<void> {
  const program = fileURLToPath(import.meta.url);
  const child = fork(program, [SERVER, String(waiting)]);
  const pid = child.pid as number;
  const [{ url, secret }] = (await once(child, "message")) as [{ url: string; secret: string }];
  const call = callerOf(url, secret);

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
  await foreseen(call);
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
  const cost = await explanationMs(call, pid, last as string);
  const asker = fork(program, [ASKER, url, secret]);
  await measureInFlight(call, pid, {
    cost,
    async leaderMs() {
      child.send("spent");
      const [spent] = (await once(child, "message")) as [number[]];
      return spent;
    },
    async ask(isOn) {
      asker.send(isOn ? [first, last] : []);
      const [asked] = (await once(asker, "message")) as [number];
      return asked;
    },
  });
  asker.disconnect();
  child.disconnect();
}

/** Until the foresight thread has followed so far: without it, explanations are worked out by the main thread (X4). */
async function foreseen(call: Call): Promise<void> {
  const untilMs = performance.now() + FOLLOWING_MS_MAX;
  for (;;) {
    try {
      await call("POST", "/v1/plans", PLAN);
      return;
    } catch (error) {
      if (performance.now() > untilMs || !String(error).includes("foresight_unavailable")) throw error;
    }
  }
}

type Call = (method: string, path: string, body?: unknown) => Promise<string>;

function callerOf(url: string, secret: string): Call {
  const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
  return async (method, path, body) => {
    const given = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(url + path, { method, headers, ...given });
    const text = await answer.text();
    if (answer.status >= 300)
      throw new Error(`${method} ${path} was answered with ${answer.status}: ${text}`);
    return text;
  };
}

/** Keeps a plan and an explanation of each of these requests in flight, until it gets none; then says how many it asked. */
function askOnDemand(url: string, secret: string): void {
  const call = callerOf(url, secret);
  let isOver = true;
  let asked = 0;
  let asking: Promise<unknown> = Promise.resolve();
  const keepAsking = async (question: () => Promise<unknown>) => {
    for (; !isOver; asked++) await question();
  };
  const turn = async (ids: readonly string[]) => {
    isOver = ids.length === 0;
    await asking;
    process.send?.(asked);
    const explain = (id: string) => call("GET", `/v1/resource-requests/${id}/explanation?suggestions=true`);
    asking = Promise.all([
      ...ids.map((id) => keepAsking(() => explain(id))),
      keepAsking(() => call("POST", "/v1/plans", PLAN)),
    ]);
  };
  process.on("message", (ids: readonly string[]) => void turn(ids));
  process.on("disconnect", () => process.exit(0));
}

async function measureInFlight(
  call: Call,
  pid: number,
  {
    cost,
    ask,
    leaderMs,
  }: {
    readonly cost: number;
    readonly ask: (isOn: boolean) => Promise<number>;
    /** Of each write since the last time it was asked. */
    readonly leaderMs: () => Promise<readonly number[]>;
  },
): Promise<void> {
  const write = async (to: Written[]) => {
    await leaderMs();
    const written = await writes(call, pid);
    const spent = await leaderMs();
    to.push(...written.map((one, index) => ({ ...one, leaderMs: spent[index] as number })));
  };
  const alone: Written[] = [];
  const besides: Written[] = [];
  let questions = 0;
  await write([]); // The first of them are slow.
  for (let round = 0; round < ROUNDS; round++) {
    await write(alone);
    await ask(true);
    await write(besides);
    questions = await ask(false);
  }
  const metrics = await call("GET", "/metrics");
  const bytes = Number(/^berth_foresight_bytes (\S+)/m.exec(metrics)?.[1]);
  console.log(
    `p99 of ${alone.length} writes alone, and of as many with ${questions} plans and explanations in flight`,
  );
  const [leader, main, clock] = (["leaderMs", "mainMs", "clockMs"] as const).map((what) =>
    compared(alone, besides, what),
  ) as [Comparison, Comparison, Comparison];
  console.log(`  processor time of the leader      ${leader.text} (< ${100 * P99_GROWTH_MAX} %)`);
  console.log(`  processor time of the main thread ${main.text} (≤ ${MAIN_MS_MAX} ms more)`);
  console.log(`  clock of the caller               ${clock.text}`);
  console.log(
    `an explanation with suggestions: ${cost.toFixed(0)} ms of the foresight thread (≤ ${EXPLANATION_MS_MAX} ms)`,
  );
  console.log(`memory of the foresight thread: ${(bytes / (1 << 20)).toFixed(0)} MB`);
  const isMet = leader.after / leader.before - 1 < P99_GROWTH_MAX && main.after - main.before <= MAIN_MS_MAX;
  if (!isMet || cost > EXPLANATION_MS_MAX || !(bytes > 0)) process.exitCode = 1;
}

interface Comparison {
  readonly before: number;
  readonly after: number;
  readonly text: string;
}

function compared(alone: readonly Written[], besides: readonly Written[], what: keyof Written): Comparison {
  const [before, after] = [alone, besides].map((writes) => {
    const sorted = writes.map((one) => one[what]).sort((a, b) => a - b);
    return sorted[Math.ceil(0.99 * sorted.length) - 1] as number;
  }) as [number, number];
  const percent = 100 * (after / before - 1);
  return {
    before,
    after,
    text: `${before.toFixed(2)} ms, ${after.toFixed(2)} ms: ${percent.toFixed(0)} % more`,
  };
}

interface Written {
  /** From the call of the leader to its answer. */
  readonly leaderMs: number;
  readonly clockMs: number;
  /** What the main thread has done meanwhile, for this write or for others. */
  readonly mainMs: number;
}

async function writes(call: Call, pid: number): Promise<Omit<Written, "leaderMs">[]> {
  const written: Omit<Written, "leaderMs">[] = [];
  for (let count = 0; count < WRITES_PER_ROUND; count++) {
    const [beganMs, usedBeforeMs] = [performance.now(), usedByMain(pid)];
    const answer = await call("POST", "/v1/resource-requests", {
      component: "team-0",
      resources: { gpu: 1 },
    });
    written.push({ clockMs: performance.now() - beganMs, mainMs: usedByMain(pid) - usedBeforeMs });
    await call("POST", `/v1/resource-requests/${(JSON.parse(answer) as { id: string }).id}/cancel`);
  }
  return written;
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

function usedMs(pid: number): { readonly main: number; readonly others: number } {
  let [main, others] = [0, 0];
  for (const [thread, ms] of usedByThread(pid)) {
    if (thread === String(pid)) main = ms;
    else others += ms;
  }
  return { main, others };
}

function usedByThread(pid: number): ReadonlyMap<string, number> {
  return new Map(readdirSync(`/proc/${pid}/task`).map((thread) => [thread, usedBy(pid, thread)]));
}

function usedByMain(pid: number): number {
  return usedBy(pid, String(pid));
}

/**
 * The time that a thread was on a processor: the first field of `schedstat`, in nanoseconds. Of a thread that runs it is
 * as old as the last tick of the kernel, up to 4 ms; for the caller's own thread `cpuUsage` brings it up to date.
 */
function usedBy(pid: number, thread: string): number {
  if (pid === process.pid) process.cpuUsage();
  return Number.parseInt(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1"), 10) / 1e6;
}
