// Which nodes have room first, found node by node, beside what taking one run after the other finds.

import { expect, test } from "vitest";
import { type Cluster, createCluster, POOL } from "../placement/cluster.fixture.ts";
import { wantedOf } from "../placement/node-index.ts";
import { type Ask, Room } from "../placement/room.ts";
import { byEnd, type Pool, type Request, type Run } from "../state.ts";
import { type Going, NodeCover, RUNS_WALKED_MAX } from "./cover.ts";

/** So many runs that the search gives up bringing nodes in order. */
const NODES = 150;
const SUBMITTED = 900;

test.each([1, 2, 3])("seed %i: nodes are cleared as if runs went one after the other", (seed) => {
  const below = randomFrom(seed);
  const { state } = fullCluster(below);
  const pool = state.pools.get(POOL) as Pool;
  const runs = [...state.requests.values()].flatMap(({ run }: Request) => run ?? []);
  const seen = { few: 0, many: 0, never: 0 };
  for (let attempt = 0; attempt < 120; attempt++) {
    const byOrder = [byEnd, byToken][below(2)] as Going["byOrder"];
    const [every, kept] = [2 + below(30), below(3)];
    const mayGo = ({ token }: Run) => (kept === 0 ? token % every === 0 : token % every !== 0);
    const inOrder = runs.filter(mayGo).sort(byOrder);
    const ask: Ask = {
      need: [1 + below(8), below(12)],
      count: 1 + below(3),
      wanted: wantedOf(below(3) === 0 ? { zone: `z${below(3)}` } : {}),
      home: null,
    };
    const last = takenOneByOne(pool, ask, inOrder);
    const cover = new NodeCover(Room.soon(pool), ask);
    if (cover.isEnough) continue;
    const cleared = cover.firstCleared({ inOrder, byOrder, mayGo });
    expect(cleared?.at(-1)?.at(-1), `attempt ${attempt}`).toBe(last);
    if (last === undefined) {
      seen.never++;
      continue;
    }
    seen[inOrder.indexOf(last) < RUNS_WALKED_MAX ? "few" : "many"]++;
    for (const run of new Set(cleared?.flat())) cover.take(run);
    expect(cover.isEnough).toBe(true);
    cover.putBack(last);
    expect(cover.isEnough).toBe(false);
  }
  expect(Math.min(seen.few, seen.many, seen.never)).toBeGreaterThan(0);
});

/** The one with which the cover is enough. */
function takenOneByOne(pool: Pool, ask: Ask, runs: readonly Run[]): Run | undefined {
  const cover = new NodeCover(Room.soon(pool), ask);
  return runs.find((run) => {
    cover.take(run);
    return cover.isEnough;
  });
}

function byToken(a: Run, b: Run): number {
  return b.token - a.token;
}

function fullCluster(below: (bound: number) => number): Cluster {
  const node = (i: number) => ({ capacity: { gpu: 8, mcpu: 16 }, labels: { zone: `z${i % 3}` } });
  const cluster = createCluster(
    Object.fromEntries(Array.from({ length: NODES }, (_, i) => [`n${i}`, node(i)])),
  );
  for (let i = 0; i < SUBMITTED; i++) {
    cluster.submit(`r${i}`, {
      resources: { gpu: 1 + below(2), mcpu: 1 + below(3) },
      nodes: below(6) === 0 ? 2 : 1,
      walltimeMs: 1_000 * (1 + below(5_000)),
    });
  }
  return cluster;
}

/** A repeatable stream of whole numbers below a bound. */
function randomFrom(seed: number): (below: number) => number {
  let last = seed;
  return (below) => {
    last = (Math.imul(last, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (last >>> 8) % below;
  };
}
