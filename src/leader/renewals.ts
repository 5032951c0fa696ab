// What the lease of a request is, and what a holder is told when it renews it (L1, L2).

import {
  DEFAULT_POOL_SETTINGS,
  type EngineState,
  type PoolName,
  type RequestId,
  requestOf,
  type Stop,
} from "../engine/index.ts";
import type { Instruction, Renewal } from "./interface.ts";
import type { LeaseTerms } from "./leases.ts";

/** Units of a silent self-held run come free after this many leases; its holder stopped after one (L2). */
const PATIENCE = 1.5;

/** The lease that a request should have now: of its holder, or of the client that attends it while it waits. */
export function leaseOf(
  state: EngineState,
  requestId: RequestId,
): { readonly token: number | null; readonly terms: LeaseTerms } | null {
  const request = requestOf(state, requestId);
  if (request === undefined) return null;
  const { spec, progress } = request;
  const { allocation } = progress;
  if (allocation !== null) {
    const { leaseMs } = poolSettings(state, allocation.pool);
    const group = allocation.pool ?? "outside all pools";
    return { token: allocation.token, terms: { group, leaseMs, patienceMs: PATIENCE * leaseMs } };
  }
  if (progress.status !== "queued" || !spec.attended) return null;
  const pools = [...(state.components.get(spec.component)?.policies.keys() ?? [])];
  const leaseMs = Math.max(
    ...(pools.length > 0 ? pools : [null]).map((pool) => poolSettings(state, pool).leaseMs),
  );
  return { token: null, terms: { group: `waiting, ${leaseMs} ms`, leaseMs, patienceMs: leaseMs } };
}

export function renewalOf(
  state: EngineState,
  {
    requestId,
    token,
    leaseExpiresAtMs,
  }: {
    readonly requestId: RequestId;
    readonly token: number | null;
    readonly leaseExpiresAtMs: (requestId: RequestId) => number | undefined;
  },
): Renewal {
  const progress = requestOf(state, requestId)?.progress;
  if (progress === undefined) return { standing: "unknown" };
  const { status, allocation } = progress;
  const lease = leaseOf(state, requestId);
  const terms = {
    leaseMs: lease?.terms.leaseMs ?? DEFAULT_POOL_SETTINGS.leaseMs,
    renewAfterMs: poolSettings(state, allocation?.pool ?? null).renewalMs,
  };
  const expiresAtMs = leaseExpiresAtMs(requestId) ?? 0;
  if (status === "queued" && token === null) return { standing: "waiting", status, expiresAtMs, ...terms };
  if (allocation === null || (token !== null && token !== allocation.token))
    return { standing: "stale", status };
  return { standing: "holding", status, instruction: instructionOf(allocation.stop), expiresAtMs, ...terms };
}

function instructionOf(stop: Stop | null): Instruction {
  if (stop === null) return { do: "carry_on" };
  return { do: stop.phase === "checkpoint" ? "checkpoint" : "stop", deadlineMs: stop.deadlineMs, stop };
}

function poolSettings(state: EngineState, pool: PoolName | null) {
  const record = pool === null ? undefined : state.pools.get(pool)?.record;
  return record?.settings ?? DEFAULT_POOL_SETTINGS;
}
