// One fair-share pool with many operations below fifty groups of teams, a tenth of them gangs; the pool is full.

import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type GroupName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
} from "../src/engine/index.ts";

const POOL = "shared" as PoolName;
const GROUPS = 50;
const TEAMS = 500;

export interface GangWorld {
  /** One more request of one operation, or one less. */
  change(): void;
}

export function createGangWorld({ operations }: { readonly operations: number }): GangWorld {
  const state = createState();
  let nowMs = 1_700_000_000_000;
  let nextId = 0;
  const send = (command: Command) => {
    nowMs += 1;
    const decision = decide(state, command, nowMs);
    if (decision.outcome === "refused") throw new Error(decision.refusal.message, { cause: decision.bug });
  };
  const submit = (operation: number): RequestId => {
    const id = `r${nextId++}` as RequestId;
    const gang = operation % 10 === 0;
    send({
      kind: "submitRequest",
      spec: {
        ...PLAIN_REQUEST,
        id,
        component: `team-${operation % TEAMS}` as ComponentName,
        operation: `operation-${operation}`,
        resources: { gpu: gang ? 8 : 1 + (operation % 4), step_run: 1 },
        gang,
      },
    });
    return id;
  };

  const groups = Array.from({ length: GROUPS }, (_, i) => ({
    name: `group-${i}` as GroupName,
    weight: 1 + (i % 3),
  }));
  send({
    kind: "createPool",
    name: POOL,
    capacity: { gpu: operations * 2 },
    discipline: "fair_share",
    groups,
  });
  for (let i = 0; i < TEAMS; i++) {
    const component = `team-${i}` as ComponentName;
    const group = `group-${i % GROUPS}` as GroupName;
    send({ kind: "attachPolicy", policy: { pool: POOL, component, group } });
  }
  for (let i = 0; i < operations; i++) submit(i);

  let turn = 0;
  let latest: RequestId | undefined;
  return {
    change() {
      if (latest === undefined) latest = submit((turn++ * 7) % operations);
      else {
        send({ kind: "cancelRequest", requestId: latest });
        latest = undefined;
      }
    },
  };
}
