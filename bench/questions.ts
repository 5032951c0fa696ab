// What questions cost a server with a long queue: processor time per call, that of the caller included.
// Usage: npm run bench:questions [-- WAITING]

import { openServer } from "../src/server/index.ts";

const waiting = Number(process.argv[2] ?? 50_000);
const CALLS = 20;
const unlimited = { perSecond: Number.POSITIVE_INFINITY, burst: 0 };

const server = await openServer({
  data: "memory",
  listen: "127.0.0.1:0",
  rates: { perToken: unlimited },
  leaderSettings: { waitingRequestsPerComponentMax: waiting + 1 },
  onFatal: (error) => {
    throw error;
  },
});
const headers = {
  authorization: `Bearer ${server.firstToken?.secret}`,
  "content-type": "application/json",
};
const call = async (method: string, path: string, body?: unknown) => {
  const answer = await fetch(server.url + path, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (answer.status >= 300) throw new Error(`${method} ${path} was answered with ${answer.status}: ${text}`);
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
const queue = JSON.parse(await call("GET", "/v1/pools/gpus/queue?limit=100")) as { items: { id: string }[] };
const [first, last] = [queue.items[0]?.id, queue.items.at(-1)?.id];
const questions = {
  "one request": `/v1/resource-requests/${first}`,
  "explanation of the first": `/v1/resource-requests/${first}/explanation`,
  "explanation of the hundredth": `/v1/resource-requests/${last}/explanation`,
  "queue, one item": "/v1/pools/gpus/queue?limit=1",
  "queue, a page": "/v1/pools/gpus/queue",
  "list, a page": "/v1/resource-requests",
  pool: "/v1/pools/gpus",
  metrics: "/metrics",
};
console.log(`${waiting} waiting; processor time per call`);
for (const [what, path] of Object.entries(questions)) {
  await call("GET", path);
  const before = process.cpuUsage();
  for (let count = 0; count < CALLS; count++) await call("GET", path);
  const { user, system } = process.cpuUsage(before);
  console.log(`  ${what.padEnd(30)} ${((user + system) / 1000 / CALLS).toFixed(1)} ms`);
}
await server.close();
