// The clocks of nodes that have an agent (E3). Like those of leases they are memory: after a restart all of them start
// afresh, and many nodes that fall silent at once are a broken way rather than many broken machines (L3).
//
// Invariants
//   1. Only nodes of pools whose executor is `agents` have a clock.
//   2. A node is lost only after it was silent for the whole of `node_lost_seconds`, and never while the brake of
//      its pool is on.

import {
  type Command,
  DEFAULT_POOL_SETTINGS,
  type EngineState,
  type NodeName,
  nodeViewsOf,
  type PoolSettings,
  type RequestId,
  requestOf,
} from "../engine/index.ts";
import { type Brake, createLeases, type LeaseTerms } from "./leases.ts";

export interface NodeClocks {
  /** A sync has come (E2). */
  hear(name: NodeName): void;
  heardAtMs(name: NodeName): number | undefined;
  /** Nodes, pools or settings may have changed. */
  keep(state: EngineState): void;
  /** All clocks start afresh. */
  amnesty(): void;
  /** What silence means now, and the brakes that were put on at this moment. */
  expired(state: EngineState): { readonly commands: readonly Command[]; readonly alerts: readonly Brake[] };
  nextCheckMs(): number | null;
  lift(group: string): boolean;
  brakes(): readonly Brake[];
}

/** Silent for so long, a node gets nothing new (E3). */
export const SUSPECT_AFTER_MS = 20_000;

export function createNodeClocks(now: () => number): NodeClocks {
  // A node has one client, itself; the brake counts clients.
  const clocks = createLeases(now);
  const idOf = (name: NodeName) => name as string as RequestId;
  /** In the order of the last signs of life. */
  const heard = new Map<NodeName, number>();

  function hear(name: NodeName): void {
    if (!heard.delete(name)) return;
    heard.set(name, now());
    clocks.renew(idOf(name), CLOCK, name);
  }

  /** Those silent long enough to be suspected, longest first. */
  function silent(): NodeName[] {
    const names: NodeName[] = [];
    for (const [name, heardAtMs] of heard) {
      if (heardAtMs + SUSPECT_AFTER_MS > now()) break;
      names.push(name);
    }
    return names;
  }

  return {
    hear,
    heardAtMs: (name) => heard.get(name),
    keep(state) {
      const names = new Set<NodeName>();
      for (const { record, pool } of state.nodes.values()) {
        const { settings } = pool.record;
        if (settings.executor !== "agents" || record.state === "down") continue;
        names.add(record.name);
        if (!heard.has(record.name)) heard.set(record.name, now());
        clocks.restore(idOf(record.name), {
          token: CLOCK,
          client: record.name,
          attended: false,
          terms: termsOf(pool.record.name, settings),
        });
      }
      for (const name of heard.keys()) {
        if (names.has(name)) continue;
        heard.delete(name);
        clocks.keep(idOf(name), null);
      }
    },
    amnesty() {
      for (const name of heard.keys()) heard.set(name, now());
      clocks.amnesty();
    },
    expired(state) {
      const { lost, alerts } = clocks.expired();
      const suspects = silent().flatMap((name): Command[] =>
        state.nodes.get(name)?.record.state === "ready" ? [{ kind: "suspectNode", name }] : [],
      );
      const losses = lost.flatMap(({ requestId }) => {
        const name = requestId as string as NodeName;
        clocks.renew(requestId, CLOCK); // Not again before another silence of this length.
        return lossOf(state, name);
      });
      return { commands: [...suspects, ...losses], alerts };
    },
    nextCheckMs() {
      const first = heard.values().next().value;
      const suspectMs = first === undefined ? Number.POSITIVE_INFINITY : first + SUSPECT_AFTER_MS;
      // A node that is suspected already waits for its loss alone.
      const soonestMs = Math.min(
        suspectMs > now() ? suspectMs : Number.POSITIVE_INFINITY,
        clocks.nextCheckMs() ?? Number.POSITIVE_INFINITY,
      );
      return soonestMs === Number.POSITIVE_INFINITY ? null : soonestMs;
    },
    lift: clocks.lift,
    brakes: clocks.brakes,
  };
}

/** All clocks are of one kind: a node has no grants that differ. */
const CLOCK = 0;

/** The agent acts at two thirds of the time (E3), so from then on its silence counts for the brake. */
function termsOf(group: string, { nodeLostMs = DEFAULT_NODE_LOST_MS }: PoolSettings): LeaseTerms {
  return { group, leaseMs: (nodeLostMs * 2) / 3, patienceMs: nodeLostMs, silentAfterMs: SUSPECT_AFTER_MS };
}

const DEFAULT_NODE_LOST_MS = DEFAULT_POOL_SETTINGS.nodeLostMs as number;

/**
 * The node is down, and what ran there is lost. Not so where a person has drained it, because that must stay known, and
 * where something runs on: then the node stays, gets nothing new, and all but that is lost (E3).
 */
function lossOf(state: EngineState, name: NodeName): Command[] {
  const node = state.nodes.get(name);
  if (node === undefined) return [];
  const { record, pool } = node;
  const mayRunOn = pool.record.settings.allowRunOn === true;
  const runs = (nodeViewsOf(state, [name])[0]?.runs ?? []).map(({ requestId }) => requestId);
  const staying = runs.filter((id) => mayRunOn && requestOf(state, id)?.spec.runsOn === true);
  const isPlain = record.state === "ready" || record.state === "suspect";
  if (isPlain && staying.length === 0) return [{ kind: "loseNode", name }];
  const losses = runs.flatMap((requestId): Command[] => {
    const token = requestOf(state, requestId)?.progress.allocation?.token;
    if (staying.includes(requestId) || token === undefined) return [];
    return [{ kind: "loseHolder", requestId, token }];
  });
  // A pool may give up its nodes before they would be suspected: what is lost must not be placed there again.
  return record.state === "ready" ? [{ kind: "suspectNode", name }, ...losses] : losses;
}
