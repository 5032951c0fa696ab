// Usage adds up (H6): over a simulated month with preemptions, pools that shrink and grow, policies that change and
// restarts, what the accounts say is what the pool gave, to the millisecond. The judge reads the events alone.

import { expect, test } from "vitest";
import {
  type Command,
  createState,
  decide,
  type Event,
  evolve,
  nextWakeMs,
  type PoolName,
  type RequestId,
  restoreState,
  resume,
  snapshotOf,
} from "../src/engine/index.ts";
import {
  accountOfRow,
  createHistory,
  type DueRow,
  foldInto,
  fromJson,
  type History,
  openDays,
  toJson,
  toRow,
} from "../src/history/index.ts";
import { openMemoryStore } from "../src/store/index.ts";
import { seededRandom } from "./simulation/engine/random.ts";
import { createFakeClock, createPool, createRig, pool, spec, submit } from "./simulation/rig.ts";

const DAY_MS = 24 * 3_600_000;
const START_MS = Date.parse("2026-10-01T00:00:00Z");
const TEAMS = ["alice", "bob", "carol"];
const POOLS = ["lab", "farm"];

interface Journalled {
  readonly event: Event;
  readonly atMs: number;
}

/** Days as the store gives them back. */
type Day = Extract<DueRow, { kind: "day" }>;

class World {
  state = createState();
  history = createHistory(this.state);
  nowMs = START_MS;
  readonly journal: Journalled[] = [];
  readonly days: Day[] = [];
  running: RequestId[] = [];
  #count = 0;
  readonly #random;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    for (const name of POOLS)
      this.do({ kind: "createPool", name: pool(name), capacity: { gpu: 16, slots: 100 } });
    for (const name of POOLS)
      for (const [index, component] of TEAMS.entries())
        this.do({
          kind: "attachPolicy",
          policy: {
            pool: pool(name),
            component: component as never,
            priority: index,
            reserved: { gpu: 2 + index },
          },
        });
  }

  do(command: Command): void {
    const decision = decide(this.state, command, this.nowMs);
    if (decision.outcome === "refused") return;
    for (const event of decision.events) {
      foldInto(this.history, this.state, event, this.nowMs);
      this.journal.push({ event, atMs: this.nowMs });
      if (event.kind === "requestAllocated") this.running.push(event.requestId);
      if (event.kind === "attemptEnded") this.running = this.running.filter((id) => id !== event.requestId);
    }
    // As a commit does: rows go to the store and come back from it.
    for (const due of this.history.due) {
      if (due.kind !== "day") continue;
      const { atMs, pool: name, part, body } = toRow(due);
      const account = accountOfRow(JSON.parse(JSON.stringify(body)));
      this.days.push({ kind: "day", atMs, pool: name, component: part, account });
    }
    this.history.due = [];
  }

  step(): void {
    const random = this.#random;
    const untilMs = this.nowMs + random.int(1_000, 4 * 3_600_000);
    const wake = () => nextWakeMs(this.state) ?? Number.POSITIVE_INFINITY;
    for (let wakeMs = wake(); wakeMs <= untilMs; wakeMs = wake()) {
      this.nowMs = Math.max(this.nowMs, wakeMs);
      this.do({ kind: "tick" });
    }
    this.nowMs = untilMs;
    const choice = random.int(0, 99);
    const name = pool(POOLS[random.int(0, 1)] as string);
    const component = TEAMS[random.int(0, 2)] as never;
    if (choice < 50) {
      const resources = { gpu: random.int(1, 6), slots: random.int(1, 9) };
      const checkpoint = random.int(0, 1) === 0 ? "none" : "auto";
      const changes = { component, resources, checkpoint, submittedBy: `user-${random.int(1, 3)}` } as const;
      this.do({ kind: "submitRequest", spec: spec(`r${++this.#count}`, changes) });
    } else if (choice < 80 && this.running.length > 0) {
      const id = this.running[random.int(0, this.running.length - 1)] as RequestId;
      const token = this.state.requests.get(id)?.progress.allocation?.token ?? 0;
      if (choice < 55)
        this.do({ kind: "reportCheckpoint", requestId: id, token, checkpoint: { report: "done" } });
      else
        this.do({ kind: "reportEnd", requestId: id, token, outcome: choice < 70 ? "succeeded" : "failed" });
    } else if (choice < 88) {
      this.do({ kind: "updatePool", name, capacity: { gpu: random.int(8, 24) }, force: true });
    } else if (choice < 96) {
      this.do({
        kind: "updatePolicy",
        policy: { pool: name, component, reserved: { gpu: random.int(0, 4) }, priority: random.int(0, 9) },
        force: true,
      });
    } else if (this.#count > 0) {
      this.do({ kind: "cancelRequest", requestId: `r${random.int(1, this.#count)}` as RequestId });
    }
  }

  /** From a snapshot, as text. */
  restart(): void {
    const text = JSON.stringify({ engine: snapshotOf(this.state), history: toJson(this.history) });
    const { engine, history } = JSON.parse(text) as { engine: never; history: unknown };
    this.state = restoreState(engine);
    this.history = fromJson(history, this.state);
    resume(this.state, this.nowMs);
  }

  all(): Day[] {
    return [...this.days, ...openDays(this.history, this.nowMs)];
  }
}

/** What each pool gave to each component, per key, in unit-milliseconds: every run from its grant to its end. */
function given(journal: readonly Journalled[], nowMs: number): Map<string, number> {
  const sums = new Map<string, number>();
  const specs = new Map<RequestId, { component: string; resources: Record<string, number> }>();
  const open = new Map<RequestId, { pool: PoolName; atMs: number }>();
  const close = (id: RequestId, endMs: number) => {
    const run = open.get(id);
    const asked = specs.get(id);
    if (run === undefined || asked === undefined) return;
    open.delete(id);
    for (const [key, amount] of Object.entries(asked.resources)) {
      if (key === "step_run") continue;
      const at = `${run.pool} ${asked.component} ${key}`;
      sums.set(at, (sums.get(at) ?? 0) + amount * (endMs - run.atMs));
    }
  };
  for (const { event, atMs } of journal) {
    if (event.kind === "requestSubmitted") specs.set(event.spec.id, event.spec as never);
    if (event.kind === "requestAllocated" && event.pool !== null)
      open.set(event.requestId, { pool: event.pool, atMs });
    if (event.kind === "attemptEnded") close(event.requestId, atMs);
  }
  for (const id of [...open.keys()]) close(id, nowMs);
  return sums;
}

function accounted(days: readonly Day[], byUser: boolean): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { pool: name, component, account } of days) {
    for (const each of byUser ? account.users.values() : [account]) {
      for (const [key, { own, borrowed }] of each.keys) {
        if (own + borrowed === 0) continue;
        const at = `${name} ${component} ${key}`;
        sums.set(at, (sums.get(at) ?? 0) + own + borrowed);
      }
    }
  }
  return sums;
}

const sorted = (sums: Map<string, number>) => [...sums].filter(([, sum]) => sum > 0).sort();

test.each([1, 2, 3])("seed %i: a month adds up to what the pools gave, through restarts", (seed) => {
  const world = new World(seed);
  const endMs = START_MS + 31 * DAY_MS;
  let preempted = 0;
  for (let count = 0; world.nowMs < endMs; count++) {
    world.step();
    if (count % 40 === 39) world.restart();
  }
  for (const { event } of world.journal) if (event.kind === "preemptionDecided") preempted++;
  expect(preempted, "the month has preemptions").toBeGreaterThan(5);

  const days = world.all();
  expect(new Set(days.map(({ atMs }) => atMs)).size).toBeGreaterThan(25);
  expect(sorted(accounted(days, false))).toEqual(sorted(given(world.journal, world.nowMs)));
  expect(sorted(accounted(days, true))).toEqual(sorted(given(world.journal, world.nowMs)));
  for (const { account } of days) {
    for (const sums of account.keys.values()) {
      for (const sum of Object.values(sums)) expect(sum).toBeGreaterThanOrEqual(0);
    }
  }
});

test("a follower, and a server that replays everything, keep the same accounts", () => {
  const world = new World(7);
  for (let count = 0; count < 150; count++) {
    world.step();
    if (count % 40 === 39) world.restart();
  }
  const state = createState();
  const history = createHistory(state);
  const days: Day[] = [];
  for (const { event, atMs } of world.journal) {
    evolve(state, event);
    foldInto(history, state, event, atMs);
    days.push(...history.due.flatMap((due) => (due.kind === "day" ? [due] : [])));
    history.due = [];
  }
  expect([...days, ...openDays(history, world.nowMs)]).toEqual(world.all());
});

test("what is lent is what others borrow of an idle reserve, and no more", () => {
  const state = createState();
  const history: History = createHistory(state);
  let nowMs = START_MS;
  const act = (command: Command) => {
    const decision = decide(state, command, nowMs);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message);
    for (const event of decision.events) foldInto(history, state, event, nowMs);
  };
  act({ kind: "createPool", name: pool("lab"), capacity: { gpu: 10 } });
  act({
    kind: "attachPolicy",
    policy: { pool: pool("lab"), component: "owner" as never, reserved: { gpu: 6 } },
  });
  act({ kind: "attachPolicy", policy: { pool: pool("lab"), component: "guest" as never } });
  act({ kind: "submitRequest", spec: spec("r1", { component: "guest" as never, resources: { gpu: 7 } }) });
  nowMs += 3_600_000;
  const account = (component: string) =>
    openDays(history, nowMs)
      .find((day) => day.component === component)
      ?.account.keys.get("gpu");
  // Four are nobody's; of the owner's six, three are lent.
  expect(account("guest")).toEqual({ own: 0, borrowed: 7 * 3_600_000, lent: 0, lost: 0, waited: 0 });
  expect(account("owner")).toEqual({ own: 0, borrowed: 0, lent: 3 * 3_600_000, lost: 0, waited: 0 });
});

test("a leader writes a day when it is over, and samples in between; the next one goes on from there", async () => {
  const store = await openMemoryStore();
  const clock = createFakeClock();
  const rig = await createRig({ store, clock });
  await createPool(rig);
  await rig.do(submit("r1"));
  const startedMs = rig.leader.nowMs();
  clock.freeze(5 * 60_000);
  await rig.do(submit("r2", { resources: { gpu: 1 } }));
  const rowsOf = async (kind: "day" | "sample") => {
    const found = [];
    for await (const rows of store.listHistory({ kind, fromMs: 0, toMs: Number.MAX_SAFE_INTEGER }))
      found.push(...rows);
    return found;
  };
  const samples = await rowsOf("sample");
  expect(samples.at(-1)).toMatchObject({
    pool: "main",
    body: { capacity: { gpu: 2 }, components: { team: { u: { gpu: 1 } } } },
  });
  expect(await rowsOf("day")).toEqual([]);
  await rig.leader.close();

  const next = await createRig({ store, clock });
  clock.freeze(3 * 3_600_000); // Past midnight.
  await next.do(submit("r3"));
  const [day] = await rowsOf("day");
  const midnightMs = startedMs - (startedMs % DAY_MS) + DAY_MS;
  const untilMidnightMs = midnightMs - startedMs;
  const secondMs = untilMidnightMs - 5 * 60_000;
  expect(day).toMatchObject({ atMs: midnightMs - DAY_MS, pool: "main", part: "team" });
  const { own, borrowed } = accountOfRow(day?.body).keys.get("gpu") ?? { own: 0, borrowed: 0 };
  expect(own + borrowed).toBe(untilMidnightMs + secondMs);
  await next.leader.close();
});
