// What the lease of a request is, how its holder stands, and what a renewal is answered with (L1, L2).

import {
  type Command,
  DEFAULT_POOL_SETTINGS,
  type EngineState,
  type PoolName,
  type PoolSettings,
  type RequestId,
  requestOf,
  type Stop,
} from "../engine/index.ts";
import type { Instruction, Renewal } from "./interface.ts";
import type { Leases, LeaseTerms, WantedLease } from "./leases.ts";
import type { NodeClocks } from "./nodes.ts";

/** Units of a silent self-held run come free after this many leases; its holder stopped after one (L2). */
const PATIENCE = 1.5;
/** A holder that has missed this many renewals is silent. */
const MISSED_RENEWALS = 2;
const WAITING = "waiting";

/** The lease that a request should have now: of its holder, or of the client that attends it while it waits. */
export function leaseOf(state: EngineState, requestId: RequestId): WantedLease | null {
  const request = requestOf(state, requestId);
  if (request === undefined) return null;
  const { spec, progress } = request;
  const { allocation } = progress;
  const client = { client: `token ${spec.submittedBy}`, attended: spec.attended };
  // Who runs a job is its executor, of which its nodes speak (E3); an attended one also needs its client (J8).
  if (spec.isJob === true && !spec.attended) return null;
  if (allocation !== null) {
    const settings = poolSettings(state, allocation.pool);
    const group = allocation.pool ?? "outside all pools";
    return { token: allocation.token, ...client, terms: termsOf(group, settings, PATIENCE) };
  }
  if (progress.status !== "queued" || !spec.attended) return null;
  const pools = [...(state.components.get(spec.component)?.policies.keys() ?? [])];
  const [settings = DEFAULT_POOL_SETTINGS] = pools
    .map((pool) => poolSettings(state, pool))
    .sort((a, b) => b.leaseMs - a.leaseMs);
  return { token: null, ...client, terms: termsOf(`${WAITING}, ${settings.leaseMs} ms`, settings, 1) };
}

function termsOf(group: string, settings: PoolSettings, patience: number): LeaseTerms {
  const { leaseMs } = settings;
  const silentAfterMs = MISSED_RENEWALS * renewalMsOf(settings);
  return { group, leaseMs, patienceMs: patience * leaseMs, silentAfterMs };
}

/** Several times within a lease, however short it is. */
function renewalMsOf({ leaseMs, renewalMs }: PoolSettings): number {
  return Math.min(renewalMs, Math.floor(leaseMs / 3));
}

/** Ends the pause of expiry in a pool, and among those who wait (L3). */
export function resumeExpiry(
  { leases, nodes }: { leases: Leases; nodes: Pick<NodeClocks, "lift"> },
  pool: PoolName,
): void {
  nodes.lift(pool);
  for (const { group } of leases.brakes())
    if (group === pool || group.startsWith(`${WAITING}, `)) leases.lift(group);
}

/** Ending a grant that nobody holds frees its units at once (L2). */
export function withoutHolder(leases: Pick<Leases, "stateOf">, command: Command): Command {
  if (command.kind !== "cancelRequest" && command.kind !== "deleteRequest") return command;
  const isFree = leases.stateOf(command.requestId)?.isFree === true;
  return isFree ? { ...command, noHolder: "not_taken_up" } : command;
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
    renewAfterMs: renewalMsOf(poolSettings(state, allocation?.pool ?? null)),
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
