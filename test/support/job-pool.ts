// A pool of jobs on a real engine, for the tests of those who send it commands.

import {
  type Command,
  type ComponentName,
  createState,
  decide,
  type EngineState,
  PLAIN_REQUEST,
  type PoolName,
  type PoolSettings,
  type RequestId,
  type RequestSpec,
} from "../../src/engine/index.ts";

export interface JobPool {
  readonly state: EngineState;
  readonly pool: PoolName;
  /** Does it, or throws what the engine refuses. */
  send(command: Command): void;
  /** A job of one GPU. */
  submit(id: string, spec?: Partial<RequestSpec>): void;
}

export function openJobPool(settings: Partial<PoolSettings>, nowMs: () => number = () => 0): JobPool {
  const pool = "cluster" as PoolName;
  const component = "lab" as ComponentName;
  const state = createState();
  const send = (command: Command) => {
    const decision = decide(state, command, nowMs());
    if (decision.outcome === "refused") throw new Error(decision.refusal.message);
  };
  send({ kind: "createPool", name: pool, settings });
  send({ kind: "attachPolicy", policy: { pool, component } });
  return {
    ...{ state, pool, send },
    submit(id, spec = {}) {
      const plain = { ...PLAIN_REQUEST, id: id as RequestId, component, resources: { gpu: 1 }, isJob: true };
      send({ kind: "submitRequest", spec: { ...plain, ...spec } });
    },
  };
}
