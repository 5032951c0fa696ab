// Explanations as a user reads them (14): the cases in which they were once wrong or silent, with the sentence that is shown.

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openTestServer, type TestServer } from "./server-support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await openTestServer();
});
afterAll(() => server.close());

interface Said {
  readonly label: string;
  readonly text: string;
}

async function made(path: string, body: object, method: "POST" | "PUT" = "POST") {
  const { status, body: answer } = await server.admin(method, path, body);
  expect(status, JSON.stringify(answer)).toBeLessThan(300);
  return answer;
}

const pool = (name: string, rest: object) => made("/v1/pools", { name, ...rest });
const policy = (name: string, component: string, rest: object = {}) =>
  made(`/v1/pools/${name}/policies/${component}`, rest, "PUT");
const submit = (component: string, gpu: number, rest: object = {}) =>
  made("/v1/resource-requests", { component, resources: { gpu }, ...rest });

async function why(id: string, query = "") {
  const { body } = await server.admin("GET", `/v1/resource-requests/${id}/explanation${query}`);
  const { sentence, lines } = body.text[0] as { sentence: string; lines: Said[] };
  const line = (label: string) => lines.find((one) => one.label === label)?.text;
  return { body, sentence, line };
}

test("class: what decides between two of one class is the score, with both values (Y7, 10.6)", async () => {
  await pool("scores", { capacity: { gpu: 1 }, discipline: "class" });
  await policy("scores", "nightly", { kind: "batch" });
  await policy("scores", "chat", { kind: "interactive" });
  await submit("chat", 1, { preemption_class: 9, checkpoint: "none" });
  const first = await submit("nightly", 1);
  const second = await submit("chat", 1);
  const { line } = await why(second.id);
  expect(line("first")).toMatch(
    new RegExp(`^#${first.number} of nightly: score 0\\.07\\d* before 0\\.05\\d* \\(10\\.6\\)$`),
  );
  const compared = await why(second.id, `?before=${first.number}`);
  expect(compared.sentence).toContain(
    `#${first.number} of nightly comes before #${second.number} in pool scores`,
  );
});

test("priority: who comes first, and why nobody is preempted, with both priorities (G1, V1)", async () => {
  await pool("order", { capacity: { gpu: 1 } });
  await policy("order", "high", { priority: 5 });
  await policy("order", "low");
  await submit("high", 1);
  const first = await submit("high", 1);
  const second = await submit("low", 1);
  const { line, sentence } = await why(second.id);
  expect(sentence).toBe(`#${second.number} waits for 1 gpu in pool order, place 2 of 2.`);
  expect(line("first")).toBe(`#${first.number} of high: priority 5 before 0 (G1.2)`);
  expect(line("preempts")).toBe("nobody: only the first in line may (V1)");
});

test("class: more victims than may go are counted (10.5)", async () => {
  await pool("few", { capacity: { gpu: 2 }, discipline: "class", settings: { max_victims: 1 } });
  await policy("few", "small");
  await policy("few", "large");
  await submit("small", 1, { preemption_class: 2, checkpoint: "auto" });
  await submit("small", 1, { preemption_class: 2, checkpoint: "auto" });
  const { id } = await submit("large", 2, { preemption_class: 8 });
  expect((await why(id)).line("preempts")).toContain(
    "nobody (2 runs would have to go, and at most 1 may, 10.5)",
  );
});

test("class: a run that costs more than the waiter is worth is left alone, with both numbers (10.5)", async () => {
  await pool("nearly", { capacity: { gpu: 1 }, discipline: "class" });
  await policy("nearly", "old");
  await policy("nearly", "new");
  await submit("old", 1, { preemption_class: 2, checkpoint: "manual", walltime_seconds: 7000 });
  const { id } = await submit("new", 1, { preemption_class: 3, walltime_seconds: 60 });
  expect((await why(id)).line("preempts")).toMatch(
    /^nobody can be stopped for it: #\d+ costs 11 min, and it is worth 3 min \(10\.5\)$/,
  );
});

test("nodes: those who may be taken are spread over the nodes (N2)", async () => {
  await pool("spread", {});
  for (const zone of ["a", "b"])
    await made("/v1/nodes", {
      name: `spread-${zone}`,
      pool: "spread",
      capacity: { gpu: 2 },
      labels: { zone },
    });
  await policy("spread", "spread-own", { reserved: { gpu: 2 } });
  await policy("spread", "spread-low");
  await policy("spread", "spread-high", { priority: 9 });
  for (const zone of ["a", "b"]) {
    await submit("spread-own", 1, { preemptible: false, constraints: { zone } });
    await submit("spread-low", 1, { constraints: { zone } });
  }
  const { id } = await submit("spread-high", 2);
  const { line } = await why(id);
  expect(line("needs")).toBe("none of 2 nodes has room: 2 taken by others (N2)");
  expect(line("preempts")).toContain("nobody (with all that may be taken, 0 of 1 node would have room, N2)");
  expect(line("now if")).toContain("the pool had 1 more node like spread-a (ask an operator)");
});

test("fair share: a gang that is owed nothing is told so (9.2)", async () => {
  await pool("gangs", { capacity: { gpu: 10 }, discipline: "fair_share" });
  for (const component of ["elastic", "one", "two"]) await policy("gangs", component);
  for (let i = 0; i < 10; i++) await submit("elastic", 1, { operation: "mass" });
  const { id } = await submit("one", 6, { operation: "g1", gang: true });
  await submit("two", 6, { operation: "g2", gang: true });
  expect((await why(id)).line("needs")).toContain("a gang is owed all that it asks for or nothing (9.2)");
});

test("ways out that go through a preemption are not hidden (Y10)", async () => {
  await pool("ways", { capacity: { gpu: 4 } });
  await policy("ways", "prod", { priority: 10, reserved: { gpu: 3 } });
  await policy("ways", "sandbox");
  await submit("prod", 2, { preemptible: false });
  await submit("sandbox", 2);
  const { id } = await submit("prod", 2, { preemptible: false });
  const { body, sentence } = await why(id);
  expect(sentence).toContain("for its own reserve, and does not hold up others.");
  const changes = body.suggestions.map(
    ({ change, starts }: { change: string; starts: string }) => `${change} ${starts}`,
  );
  expect(changes).toContain("preemptible after");
  expect(changes).toContain("more_reserved after");
});

test("a run: what of it is borrowed, who could take it and what protects it; a victim: what comes next (Y5, Y6)", async () => {
  await pool("runs", { capacity: { gpu: 4 } });
  await policy("runs", "owner", { reserved: { gpu: 3 } });
  await policy("runs", "guest");
  const guest = await submit("guest", 2);
  const running = await why(guest.id);
  expect(running.sentence).toMatch(/^#\d+ does not wait: it has run in pool runs for /);
  expect(running.line("holds")).toBe("gpu 2; borrowed gpu 2");
  expect(running.line("taken by")).toBe("nobody who waits now");
  const owner = await submit("owner", 3);
  const victim = await why(guest.id);
  expect(victim.sentence).toBe(`#${guest.number} is being stopped for #${owner.number} of owner (reclaim).`);
  expect(victim.line("next")).toBe("back in line, at place 1 of pool runs");
  expect((await why(owner.id)).sentence).toContain("is next in pool runs: its units are promised");
});

/** Runs that a later decision finds (Y6). */
const begun = ({ started_at }: { started_at: string }) =>
  vi.waitFor(() => expect(Date.now()).toBeGreaterThan(Date.parse(started_at)));

test.each([
  ["priority", "has priority 5, this one 0 (8.3)"],
  ["class", "is of class 5, this one of class 2 (10.5)"],
] as const)("%s: a victim is told who was spared, and by which rule (Y6)", async (discipline, later) => {
  const [firm, high, low, top] = ["firm", "high", "low", "top"].map((name) => `${name}-${discipline}`);
  await pool(discipline, { capacity: { gpu: 3 }, discipline });
  await policy(discipline, firm!, { reserved: { gpu: 1 } });
  await policy(discipline, high!, { priority: 5 });
  await policy(discipline, low!);
  await policy(discipline, top!, { priority: 9 });
  const safe = await submit(firm!, 1, { preemptible: false });
  const better = await submit(high!, 1, { preemption_class: 5 });
  const victim = await submit(low!, 1, { preemption_class: 2 });
  await begun(victim);
  const taker = await submit(top!, 1, { preemption_class: 8, walltime_seconds: 36_000 });
  const { sentence, line } = await why(victim.id);
  expect(sentence).toBe(`#${victim.number} is being stopped for #${taker.number} of ${top} (${discipline}).`);
  expect(line("spared")).toBe(
    `#${better.number} of ${high} ${later}; #${safe.number} of ${firm} is not preemptible (V2)`,
  );
});

test("fair_share: a victim is told that older runs were spared (Y6, 9.8)", async () => {
  await pool("newest", {
    capacity: { gpu: 4 },
    discipline: "fair_share",
    settings: { fair_share_starvation_timeout: 0 },
  });
  await policy("newest", "many");
  await policy("newest", "few", { reserved: { gpu: 1 } });
  const runs = [];
  for (let i = 0; i < 4; i++) runs.push(await submit("many", 1, { operation: "sweep" }));
  const [, , older, newest] = runs;
  await begun(newest);
  const taker = await submit("few", 1);
  await vi.waitFor(async () =>
    expect((await why(newest.id)).sentence).toBe(
      `#${newest.number} is being stopped for #${taker.number} of few (fair_share).`,
    ),
  );
  expect((await why(newest.id)).line("spared")).toBe(`#${older.number} started earlier (9.8)`);
});

test("without suggestions nothing is tried, and facts and words are there all the same", async () => {
  await pool("plain", { capacity: { gpu: 1 } });
  await policy("plain", "team");
  await submit("team", 1);
  const { id } = await submit("team", 1);
  const { body, line } = await why(id, "?suggestions=false");
  expect(body).toMatchObject({ suggestions: [], starts: null, code: "units" });
  expect(line("now if")).toBeUndefined();
});

test("where no single change would do, that is said, with the two that stand in its way at once (Y12)", async () => {
  await pool("twice", { capacity: { gpu: 3 } });
  await policy("twice", "bounded", { limit: { gpu: 2 } });
  await policy("twice", "free");
  await submit("bounded", 1);
  await submit("free", 2);
  const { id } = await submit("bounded", 2);
  const { body, line } = await why(id);
  expect(body).toMatchObject({ suggestions: [], truncated: false });
  expect(body.pools[0].blockers).toEqual(["limit", "units"]);
  expect(line("now if")).toBe("no single change was found: its own limit and too few units");
});
