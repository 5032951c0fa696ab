// A small cluster for tests: nodes, two teams, and requests that say only what a case is about.

import type { Command, NodeChange, PolicyChange } from "../commands.ts";
import { decide } from "../decide.ts";
import type { Event } from "../events.ts";
import {
  type ComponentName,
  type NodeName,
  PLAIN_REQUEST,
  type PoolName,
  type RequestId,
  type RequestSpec,
} from "../records.ts";
import type { Resources } from "../resources.ts";
import type { DisciplineName, PoolSettings } from "../settings.ts";
import { createState, type EngineState } from "../state.ts";

export interface Cluster {
  readonly state: EngineState;
  nowMs: number;
  /** Does it, or throws what the engine refuses. */
  send(command: Command): readonly Event[];
  submit(
    id: string,
    asks: Partial<Omit<RequestSpec, "component">> & { component?: string },
  ): readonly Event[];
  end(id: string, outcome?: "succeeded" | "stopped"): readonly Event[];
  status(id: string): string | undefined;
  /** The names of the nodes that a run has. */
  placed(id: string): string[];
}

type NodeGiven = Omit<NodeChange, "name" | "pool"> & { readonly capacity: Resources };
type PolicyGiven = Omit<PolicyChange, "pool" | "component">;

export const POOL = "pool" as PoolName;

export function createCluster(
  nodes: Readonly<Record<string, NodeGiven>>,
  {
    discipline = "priority" as DisciplineName,
    settings = {} as Partial<PoolSettings>,
    policies = { team: {} } as Readonly<Record<string, PolicyGiven>>,
    /** Of a pool without nodes. */
    capacity = undefined as Resources | undefined,
  } = {},
): Cluster {
  const state = createState();
  const cluster: Cluster = {
    state,
    nowMs: 0,
    send(command) {
      const decision = decide(state, command, cluster.nowMs);
      if (decision.outcome === "accepted") return decision.events;
      throw decision.bug ?? new Error(`${decision.refusal.code}: ${decision.refusal.message}`);
    },
    submit: (id, asks) => cluster.send({ kind: "submitRequest", spec: specOf(id, asks) }),
    end: (id, outcome = "succeeded") =>
      cluster.send({ kind: "reportEnd", requestId: id as RequestId, outcome }),
    status: (id) => state.requests.get(id as RequestId)?.progress.status,
    placed: (id) =>
      state.requests.get(id as RequestId)?.progress.allocation?.placement.map(({ node }) => node) ?? [],
  };
  cluster.send({ kind: "createPool", name: POOL, discipline, settings, ...(capacity && { capacity }) });
  for (const [component, policy] of Object.entries(policies)) {
    const change = { ...policy, pool: POOL, component: component as ComponentName };
    cluster.send({ kind: "attachPolicy", policy: change });
  }
  for (const [name, node] of Object.entries(nodes)) {
    cluster.send({ kind: "putNode", node: { ...node, name: name as NodeName, pool: POOL } });
  }
  return cluster;
}

function specOf(id: string, asks: Parameters<Cluster["submit"]>[1]): RequestSpec {
  return {
    ...PLAIN_REQUEST,
    id: id as RequestId,
    resources: { gpu: 1 },
    ...asks,
    component: (asks.component ?? "team") as ComponentName,
  };
}
