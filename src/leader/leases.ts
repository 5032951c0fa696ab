// The clocks of leases (13). They are kept outside the engine and are never written: after a restart all of
// them start afresh, so that an outage of the server ends nobody's work (L3).
//
// Invariants
//   1. A group is in the order of the last renewals, so its first lease is the first to run out.
//   2. Only a lease that was silent for its whole patience is ever given out as lost, and never while
//      the brake of its group is on.

import type { RequestId } from "../engine/index.ts";

/** Who must be heard of, and how long their silence is borne. */
export interface LeaseTerms {
  /** Leases with the same terms, which fall silent together when the way to us is broken. */
  readonly group: string;
  readonly leaseMs: number;
  /** When the holder counts as lost; a self-held one has fenced itself by then (L2). */
  readonly patienceMs: number;
}

export interface LostHolder {
  readonly requestId: RequestId;
  /** `null`: the client of an attended request that still waits. */
  readonly token: number | null;
}

export interface Brake {
  readonly group: string;
  readonly silent: number;
  readonly holders: number;
  readonly untilMs: number;
}

export interface Leases {
  /** Makes the lease of a request what it should be; a new one starts now. `null`: there is none any more. */
  keep(
    requestId: RequestId,
    wanted: { readonly token: number | null; readonly terms: LeaseTerms } | null,
  ): void;
  /** A sign of life. False if this token does not hold. */
  renew(requestId: RequestId, token: number | null): boolean;
  /** When silence passes the lease of this token. */
  expiresAtMs(requestId: RequestId, token: number | null): number | undefined;
  /** Whoever is lost by now, and the brakes that were put on at this moment. */
  expired(): { readonly lost: readonly LostHolder[]; readonly alerts: readonly Brake[] };
  /** When `expired` may have something to say. */
  nextCheckMs(): number | null;
  /** All leases start afresh. */
  amnesty(): void;
  brakes(): readonly Brake[];
  readonly count: number;
}

/** Mass silence (L3). */
const SILENT_HOLDERS_MIN = 5;
const SILENT_FRACTION = 0.3;
const SILENCE_WINDOW_MS = 60_000;
const BRAKE_MS_MAX = 15 * 60_000;
/** How often a brake is looked at again, to see whether the holders are back. */
const BRAKE_CHECK_MS = 10_000;

interface Lease {
  readonly requestId: RequestId;
  readonly token: number | null;
  readonly group: Group;
  renewedAtMs: number;
}

interface Group {
  readonly name: string;
  leaseMs: number;
  patienceMs: number;
  readonly leases: Map<RequestId, Lease>;
  brake: Brake | null;
  /** Silence that began up to here was looked at long enough: it does not put the brake on again. */
  excusedUntilMs: number;
}

export function createLeases(now: () => number): Leases {
  const all = new Map<RequestId, Lease>();
  const groups = new Map<string, Group>();

  function groupFor({ group: name, leaseMs, patienceMs }: LeaseTerms): Group {
    const group = groups.get(name) ?? {
      ...{ name, leaseMs, patienceMs, leases: new Map(), brake: null },
      excusedUntilMs: Number.NEGATIVE_INFINITY,
    };
    group.leaseMs = leaseMs;
    group.patienceMs = patienceMs;
    groups.set(name, group);
    return group;
  }

  function end(lease: Lease): void {
    all.delete(lease.requestId);
    lease.group.leases.delete(lease.requestId);
    if (lease.group.leases.size === 0) groups.delete(lease.group.name);
  }

  function touch(lease: Lease): void {
    lease.renewedAtMs = now();
    lease.group.leases.delete(lease.requestId);
    lease.group.leases.set(lease.requestId, lease);
  }

  /** The brake goes on when silence is suspiciously common, and off when it is not or has lasted long enough. */
  function updateBrake(group: Group, nowMs: number): void {
    if (group.brake !== null && nowMs >= group.brake.untilMs) {
      group.excusedUntilMs = nowMs;
      group.brake = null;
      return;
    }
    const silent = massSilence(group, nowMs);
    if (silent === 0) group.brake = null;
    else {
      const untilMs = group.brake?.untilMs ?? nowMs + BRAKE_MS_MAX;
      group.brake = { group: group.name, silent, holders: group.leases.size, untilMs };
    }
  }

  return {
    keep(requestId, wanted) {
      const lease = all.get(requestId);
      if (lease !== undefined) {
        const isRight = lease.token === wanted?.token && lease.group.name === wanted.terms.group;
        if (isRight) return void groupFor(wanted.terms);
        end(lease);
      }
      if (wanted === null) return;
      const created = { requestId, token: wanted.token, group: groupFor(wanted.terms), renewedAtMs: 0 };
      all.set(requestId, created);
      touch(created);
    },
    renew(requestId, token) {
      const lease = all.get(requestId);
      if (lease === undefined || lease.token !== token) return false;
      touch(lease);
      return true;
    },
    expiresAtMs(requestId, token) {
      const lease = all.get(requestId);
      return lease?.token === token ? lease.renewedAtMs + lease.group.leaseMs : undefined;
    },
    expired() {
      const nowMs = now();
      const lost: LostHolder[] = [];
      const alerts: Brake[] = [];
      for (const group of groups.values()) {
        const overdue = silentFor(group, group.patienceMs, nowMs);
        if (overdue.length === 0 && group.brake === null) continue;
        const wasBraking = group.brake !== null;
        updateBrake(group, nowMs);
        if (group.brake === null) lost.push(...overdue);
        else if (!wasBraking) alerts.push(group.brake);
      }
      return { lost, alerts };
    },
    nextCheckMs() {
      let soonestMs = Number.POSITIVE_INFINITY;
      for (const group of groups.values()) {
        if (group.brake !== null) {
          soonestMs = Math.min(soonestMs, group.brake.untilMs, now() + BRAKE_CHECK_MS);
          continue;
        }
        for (const { renewedAtMs } of group.leases.values()) {
          soonestMs = Math.min(soonestMs, renewedAtMs + group.patienceMs);
          break; // The first of a group is its oldest.
        }
      }
      return soonestMs === Number.POSITIVE_INFINITY ? null : soonestMs;
    },
    amnesty() {
      const nowMs = now();
      for (const lease of all.values()) lease.renewedAtMs = nowMs;
      for (const group of groups.values()) group.brake = null;
    },
    brakes: () => [...groups.values()].flatMap(({ brake }) => brake ?? []),
    get count() {
      return all.size;
    },
  };
}

/** Those of a group that have been silent at least this long, longest first. */
function silentFor(group: Group, ms: number, nowMs: number): Lease[] {
  const silent: Lease[] = [];
  for (const lease of group.leases.values()) {
    if (lease.renewedAtMs + ms > nowMs) break;
    silent.push(lease);
  }
  return silent;
}

/** How many fell silent within one window, if that is too many to be their own doing; otherwise 0. */
function massSilence(group: Group, nowMs: number): number {
  const silentSince = silentFor(group, group.leaseMs, nowMs)
    .map(({ renewedAtMs }) => renewedAtMs + group.leaseMs)
    .filter((sinceMs) => sinceMs > group.excusedUntilMs);
  let most = 0;
  let start = 0;
  for (const [end, sinceMs] of silentSince.entries()) {
    while (sinceMs - (silentSince[start] as number) > SILENCE_WINDOW_MS) start++;
    most = Math.max(most, end - start + 1);
  }
  const isMass = most >= SILENT_HOLDERS_MIN && most > SILENT_FRACTION * group.leases.size;
  return isMass ? most : 0;
}
