// The clocks of leases (13). They are kept outside the engine and are never written: after a restart all of
// them start afresh, so that an outage of the server ends nobody's work (L3).
//
// Invariants
//   1. Both lists of a group are in the order of the last signs of life, so the first of each is the first to run out.
//   2. Only a lease that was silent for its whole patience is ever given out as lost, and never while
//      the brake of its group is on.
//   3. A grant counts as taken up from the first renewal or report on; after a restart every grant does, because
//      nobody remembers.

import type { RequestId } from "../engine/index.ts";

/** Who must be heard of, and how long their silence is borne. */
export interface LeaseTerms {
  /** Leases with the same terms, which fall silent together when the way to us is broken. */
  readonly group: string;
  readonly leaseMs: number;
  /** When the holder counts as lost; a self-held one has fenced itself by then (L2). */
  readonly patienceMs: number;
  /** When it has missed its renewals, and is shown as silent. */
  readonly silentAfterMs: number;
}

export interface WantedLease {
  /** `null`: of the client of an attended request that still waits. */
  readonly token: number | null;
  /** Who holds it, as long as no client has named itself (L3). */
  readonly client: string;
  /** The client itself runs the work, and starts it before it first renews. */
  readonly attended: boolean;
  readonly terms: LeaseTerms;
}

export interface LostHolder {
  readonly requestId: RequestId;
  readonly token: number | null;
  /** Its grant was never taken up. */
  readonly untaken: boolean;
}

export interface Brake {
  readonly group: string;
  /** Clients that fell silent, and all that there are. */
  readonly silent: number;
  readonly clients: number;
  readonly untilMs: number;
}

export interface LeaseState {
  readonly token: number | null;
  readonly heardAtMs: number;
  /** When silence passes the lease. */
  readonly expiresAtMs: number;
  /** When the holder counts as lost, unless it is heard of (L2, L3). */
  readonly givenUpAtMs: number;
  /** Renewals are overdue. */
  readonly isSilent: boolean;
  /** Nobody holds the grant, so its end needs no confirmation (L2). */
  readonly isFree: boolean;
}

export interface Leases {
  /** Makes the lease of a request what it should be; a new one starts now. `null`: there is none any more. */
  keep(requestId: RequestId, wanted: WantedLease | null): void;
  /** After a restart: as `keep`, but the grant counts as taken up. */
  restore(requestId: RequestId, wanted: WantedLease | null): void;
  /** A sign of life, of this client if it names itself. False if this token does not hold. */
  renew(requestId: RequestId, token: number | null, client?: string): boolean;
  stateOf(requestId: RequestId): LeaseState | undefined;
  /** The holders that are lost by now, and the brakes that were put on at this moment. */
  expired(): { readonly lost: readonly LostHolder[]; readonly alerts: readonly Brake[] };
  /** When `expired` may have something to say. */
  nextCheckMs(): number | null;
  /** All leases start afresh. */
  amnesty(): void;
  /** Takes the brake of a group off, for the silence so far. False if it is not on. */
  lift(group: string): boolean;
  brakes(): readonly Brake[];
  /** The requests that have a lease. */
  requestIds(): Iterable<RequestId>;
  readonly count: number;
}

/** Mass silence (L3): at least so many clients, and more than so many in a hundred. */
const SILENT_CLIENTS_MIN = 5;
const SILENT_PERCENT = 30;
const SILENCE_WINDOW_MS = 60_000;
const BRAKE_MS_MAX = 15 * 60_000;
/** How often a brake is looked at again, to see whether the holders are back. */
const BRAKE_CHECK_MS = 10_000;

interface Lease {
  readonly requestId: RequestId;
  readonly token: number | null;
  readonly group: Group;
  readonly attended: boolean;
  client: string;
  untaken: boolean;
  renewedAtMs: number;
}

interface Group {
  readonly name: string;
  terms: LeaseTerms;
  readonly held: Map<RequestId, Lease>;
  /** Granted, and not taken up yet: given up after one lease (L2). */
  readonly untaken: Map<RequestId, Lease>;
  /** How many of the held leases each client holds. */
  readonly clients: Map<string, number>;
  brake: Brake | null;
  /** Silence that began up to here was looked at long enough: it does not put the brake on again. */
  excusedUntilMs: number;
}

export function createLeases(now: () => number): Leases {
  const all = new Map<RequestId, Lease>();
  const groups = new Map<string, Group>();

  function groupFor(terms: LeaseTerms): Group {
    const name = terms.group;
    const group = groups.get(name) ?? {
      ...{ name, terms, held: new Map(), untaken: new Map(), clients: new Map() },
      ...{ brake: null, excusedUntilMs: Number.NEGATIVE_INFINITY },
    };
    group.terms = terms;
    groups.set(name, group);
    return group;
  }

  function begin(lease: Lease): void {
    all.set(lease.requestId, lease);
    list(lease);
  }

  function end(lease: Lease): void {
    all.delete(lease.requestId);
    unlist(lease);
    const { name, held, untaken } = lease.group;
    if (held.size + untaken.size === 0) groups.delete(name);
  }

  function keep(requestId: RequestId, wanted: WantedLease | null, isRestored: boolean): void {
    const lease = all.get(requestId);
    if (lease !== undefined) {
      const isRight = lease.token === wanted?.token && lease.group.name === wanted.terms.group;
      if (isRight) return void groupFor(wanted.terms);
      end(lease);
    }
    if (wanted === null) return;
    const { token, attended, terms } = wanted;
    begin({
      requestId,
      token,
      attended,
      group: groupFor(terms),
      client: lease?.client ?? wanted.client, // Who has waited for it will hold it.
      untaken: token !== null && !isRestored,
      renewedAtMs: now(),
    });
  }

  /** The brake goes on when silence is suspiciously common, and off when it is not or has lasted long enough. */
  function updateBrake(group: Group, nowMs: number): void {
    if (group.brake !== null && nowMs >= group.brake.untilMs) return release(group, nowMs);
    const silent = massSilence(group, nowMs);
    if (silent === 0) group.brake = null;
    else {
      const untilMs = group.brake?.untilMs ?? nowMs + BRAKE_MS_MAX;
      group.brake = { group: group.name, silent, clients: group.clients.size, untilMs };
    }
  }

  return {
    keep: (requestId, wanted) => keep(requestId, wanted, false),
    restore: (requestId, wanted) => keep(requestId, wanted, true),
    renew(requestId, token, client) {
      const lease = all.get(requestId);
      if (lease === undefined || lease.token !== token) return false;
      unlist(lease);
      lease.renewedAtMs = now();
      lease.untaken = false;
      if (client !== undefined) lease.client = client;
      list(lease);
      return true;
    },
    stateOf(requestId) {
      const lease = all.get(requestId);
      if (lease === undefined) return undefined;
      const { token, renewedAtMs: heardAtMs, untaken, attended, group } = lease;
      const { leaseMs, patienceMs, silentAfterMs } = group.terms;
      const isSilent = now() > heardAtMs + silentAfterMs;
      return {
        token,
        heardAtMs,
        expiresAtMs: heardAtMs + leaseMs,
        givenUpAtMs: Math.max(heardAtMs + (untaken ? leaseMs : patienceMs), group.brake?.untilMs ?? 0),
        isSilent,
        isFree: untaken && (isSilent || !attended),
      };
    },
    expired() {
      const nowMs = now();
      const lost: LostHolder[] = [];
      const alerts: Brake[] = [];
      for (const group of groups.values()) {
        const overdue = [
          ...silentFor(group.held, group.terms.patienceMs, nowMs),
          ...silentFor(group.untaken, group.terms.leaseMs, nowMs),
        ];
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
      for (const { brake, held, untaken, terms } of groups.values()) {
        const checkMs =
          brake === null
            ? Math.min(firstHeardMs(held) + terms.patienceMs, firstHeardMs(untaken) + terms.leaseMs)
            : Math.min(brake.untilMs, now() + BRAKE_CHECK_MS);
        soonestMs = Math.min(soonestMs, checkMs);
      }
      return soonestMs === Number.POSITIVE_INFINITY ? null : soonestMs;
    },
    amnesty() {
      const nowMs = now();
      for (const lease of all.values()) lease.renewedAtMs = nowMs;
      for (const group of groups.values()) group.brake = null;
    },
    lift(name) {
      const group = groups.get(name);
      if (group === undefined || group.brake === null) return false;
      release(group, now());
      return true;
    },
    brakes: () => [...groups.values()].flatMap(({ brake }) => brake ?? []),
    requestIds: () => [...all.keys()],
    get count() {
      return all.size;
    },
  };
}

function list(lease: Lease): void {
  const { requestId, client, untaken, group } = lease;
  if (untaken) return void group.untaken.set(requestId, lease);
  group.held.set(requestId, lease);
  group.clients.set(client, (group.clients.get(client) ?? 0) + 1);
}

function unlist({ requestId, client, untaken, group }: Lease): void {
  if (untaken) return void group.untaken.delete(requestId);
  group.held.delete(requestId);
  const others = (group.clients.get(client) ?? 0) - 1;
  if (others > 0) group.clients.set(client, others);
  else group.clients.delete(client);
}

function release(group: Group, nowMs: number): void {
  group.excusedUntilMs = nowMs;
  group.brake = null;
}

function firstHeardMs(leases: Group["held"]): number {
  for (const { renewedAtMs } of leases.values()) return renewedAtMs;
  return Number.POSITIVE_INFINITY;
}

/** Those that have been silent at least this long, longest first. */
function silentFor(leases: Group["held"], ms: number, nowMs: number): Lease[] {
  const silent: Lease[] = [];
  for (const lease of leases.values()) {
    if (lease.renewedAtMs + ms > nowMs) break;
    silent.push(lease);
  }
  return silent;
}

/** How many clients fell silent within one window, if that is too many to be their own doing; otherwise 0. */
function massSilence(group: Group, nowMs: number): number {
  const silentSince = [...silentClients(group, nowMs)]
    .filter((sinceMs) => sinceMs > group.excusedUntilMs)
    .sort((a, b) => a - b);
  let most = 0;
  let start = 0;
  for (const [end, sinceMs] of silentSince.entries()) {
    while (sinceMs - (silentSince[start] as number) > SILENCE_WINDOW_MS) start++;
    most = Math.max(most, end - start + 1);
  }
  const isMass = most >= SILENT_CLIENTS_MIN && most * 100 > SILENT_PERCENT * group.clients.size;
  return isMass ? most : 0;
}

/** Since when each client has been silent of which nothing is heard at all. */
function* silentClients(group: Group, nowMs: number): Generator<number, void> {
  const { leaseMs } = group.terms;
  const silent = new Map<string, { leases: number; sinceMs: number }>();
  for (const { client, renewedAtMs } of silentFor(group.held, leaseMs, nowMs)) {
    const leases = (silent.get(client)?.leases ?? 0) + 1;
    silent.set(client, { leases, sinceMs: renewedAtMs + leaseMs });
  }
  for (const [client, { leases, sinceMs }] of silent) if (leases === group.clients.get(client)) yield sinceMs;
}
