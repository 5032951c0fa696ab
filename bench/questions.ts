// What questions cost a server with a long queue: processor time per call, of the thread that serves everybody and of
// all other threads of the server (foresight, garbage collector) separately. The caller is another process.
// Usage: npm run bench:questions [-- WAITING]. Needs Linux, whose /proc says what each thread has used.

import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openServer } from "../src/server/index.ts";

const CALLS = 20;
/** The aim for the thread that serves everybody. */
const MAIN_MS_MAX = 10;
const SERVER = "--server";

if (process.argv[2] === SERVER) await serve(Number(process.argv[3]));
else await measure(Number(process.argv[2] ?? 50_000));

async function serve(waiting: number): Promise<void> {
  const server = await openServer({
    data: "memory",
    listen: "127.0.0.1:0",
    rates: { perToken: { perSecond: Number.POSITIVE_INFINITY, burst: 0 } },
    leaderSettings: { waitingRequestsPerComponentMax: waiting + 1 },
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
  child.disconnect();
}

/** By thread, the time that it was on a processor: the first field of `schedstat`, in nanoseconds. */
function usedMs(pid: number): { readonly main: number; readonly others: number } {
  let [main, others] = [0, 0];
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const ms = Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e6;
    if (thread === String(pid)) main = ms;
    else others += ms;
  }
  return { main, others };
}
