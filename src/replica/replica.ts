// One server of several on one database. This file wires its parts; the header of each says what it keeps true.
//
//   roles      leads or follows (src/leader, follower)   → one role at a time, and no stale word from either
//   election   watches the lease                          → tries to lead when the leader has fallen silent
//   keeper     renews the lease while leading             → how long this server may answer
//   members    who else is alive, and where               → where changes are forwarded to

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import {
  checkClock,
  clusterTime,
  createEventStream,
  grantKeysKept,
  LeaderError,
  type LeaderStatus,
  type Log,
  systemClock,
  viewOf,
} from "../leader/index.ts";
import { createElection, type Election } from "./election.ts";
import type { Follower } from "./follower.ts";
import { DEFAULT_REPLICA_TIMES, type Replica, type ReplicaOptions } from "./interface.ts";
import { createMembership } from "./members.ts";
import { createRoles, type Roles } from "./roles.ts";
import { type ReplicaSurroundings, repeat } from "./surroundings.ts";

const silentLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };
/** A follower that is further behind than this is not ready (C8). */
const BEHIND_MS_MAX = 10_000;

/** Resolves when this server leads, or follows with a state of its own. */
export async function startReplica(options: ReplicaOptions): Promise<Replica> {
  const { store, clock: ownClock = systemClock, log = silentLog, observer = {}, onFatal } = options;
  const id = options.settings?.holder ?? `${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`;
  const firstHead = await store.head();
  const isAccepted = options.acceptClock === true;
  await checkClock({ store, clock: ownClock, log }, { head: firstHead, isAccepted });
  // The wall clock is looked at once: what it says when this server begins to lead, nobody has checked.
  const nowMs = clusterTime(ownClock, firstHead.atMs);
  const clock = { ...ownClock, wallMs: nowMs };
  const stream = createEventStream(store, log, firstHead.seq);
  const surroundings: ReplicaSurroundings = {
    ...{ id, store, clock, log, observer, stream, onFatal },
    settings: { ...options.settings, holder: id },
    times: { ...DEFAULT_REPLICA_TIMES, ...options.times },
  };
  const tokens = createTokenBell();
  const roles: Roles = createRoles(surroundings, {
    onLead() {
      tokens.ring();
      void membership.beat();
    },
  });
  const election = createElection(surroundings, roles);
  const membership = createMembership(surroundings, options);

  await roles.follow();
  await election.look(); // A store that nobody leads is led at once.
  await membership.beat();
  const stops = [
    repeat(
      clock,
      () => surroundings.times.tailEveryMs,
      async () => {
        await roles.catchUp();
        if (roles.role.kind === "following") tokens.look(roles.role.follower.head.auditId);
      },
    ),
    repeat(clock, () => surroundings.times.beatEveryMs, membership.beat),
  ];
  election.start();
  const grantKeys = await currentGrantKeys(surroundings);
  const time = { startedAtMs: nowMs(), nowMs };

  return {
    ...leaderSurface(surroundings, { roles, election, ...time }),
    id,
    grantKeys,
    role: () => (roles.role.kind === "leading" ? "leader" : "follower"),
    epoch: () => (roles.role.kind === "leading" ? roles.leader().epoch() : (election.lease?.epoch ?? 0)),
    leaderUrl: () => membership.urlOf(roles.role.kind === "leading" ? id : election.lease?.holder),
    checkMayAnswer() {
      if (roles.role.kind !== "leading" || roles.role.keeper.isFresh) return;
      throw new LeaderError("not_leader", "This server cannot know whether it still leads.");
    },
    reaches: (seq, withinMs) => reaches(surroundings, seq, withinMs),
    onTokensChanged: tokens.listen,
    async cluster() {
      const { epoch, holder } = await store.lease();
      return {
        ...{ epoch, leaderId: holder, members: await membership.list(), head: await store.head() },
        leaderChanges: election.changes,
        behindMs: roles.role.kind === "following" ? roles.role.follower.behindMs : 0,
        isHinted: store.hint?.isHeld === true,
      };
    },
    async handOver() {
      roles.leader(); // Only the leader can.
      election.standBack(surroundings.times.silenceMs);
      await roles.handOver();
      await store.hint?.release();
    },
    async close() {
      for (const stop of stops) stop();
      await roles.close();
      await election.stop();
      stream.close();
    },
  };
}

type LeaderSurface = Omit<
  Replica,
  | ("id" | "grantKeys" | "role" | "epoch" | "leaderUrl" | "checkMayAnswer" | "reaches")
  | ("onTokensChanged" | "cluster" | "handOver" | "close")
>;

/** What a leader offers, by whichever role this server has. A follower changes nothing and reads what it has. */
function leaderSurface(
  { stream, log }: ReplicaSurroundings,
  parts: {
    readonly roles: Roles;
    readonly election: Election;
    readonly startedAtMs: number;
    readonly nowMs: () => number;
  },
): LeaderSurface {
  const { roles, election, startedAtMs, nowMs } = parts;
  const following = (): Follower => {
    if (roles.role.kind === "following") return roles.role.follower;
    throw new LeaderError("unavailable", "This server has no state to answer from yet.");
  };
  const timeOf = ({ head }: Follower) => Math.max(nowMs(), head.atMs);

  return {
    perform: async (command, context) => roles.leader().perform(command, context),
    performMany: async (calls) => roles.leader().performMany(calls),
    renew: async (...call) => roles.leader().renew(...call),
    hear(...call) {
      // A follower keeps no leases; clients that wait also renew, and that reaches the leader.
      if (roles.role.kind === "leading") roles.role.leader.hear(...call);
    },
    async read(look) {
      if (roles.role.kind === "leading") return roles.role.leader.read(look);
      const follower = following();
      return look(viewOf(follower.recovered.memory, timeOf(follower)));
    },
    completed: (command) => (roles.role.kind === "leading" ? roles.role.leader.completed(command) : command),
    async audit(entry) {
      if (roles.role.kind === "leading") return roles.role.leader.audit(entry);
      log.info({ entry }, "a follower writes nothing into the audit log");
    },
    onCommit: stream.onCommit,
    events: stream.events,
    seq: () => stream.seq,
    nowMs: () => (roles.role.kind === "leading" ? roles.role.leader.nowMs() : nowMs()),
    status: () =>
      roles.role.kind === "leading"
        ? roles.role.leader.status()
        : { ...followerStatus(roles), epoch: election.lease?.epoch ?? 0, seq: stream.seq, startedAtMs },
  };
}

function followerStatus({ role }: Roles): Omit<LeaderStatus, "epoch" | "seq" | "startedAtMs"> {
  const isBehind = role.kind !== "following" || role.follower.behindMs > BEHIND_MS_MAX;
  return {
    condition: isBehind ? "read_only" : "following",
    trouble: isBehind ? "This server is behind: the store does not answer." : null,
    waitingCommands: 0,
    holders: 0,
    engineErrors: 0,
    snapshotSeq: 0,
    recovery: { events: 0, ms: 0 },
    commits: 0,
    brakes: [],
  };
}

/** The first leader of a store makes the key that signs grants; until then nobody can be answered. */
async function currentGrantKeys({ store, clock }: ReplicaSurroundings): Promise<Replica["grantKeys"]> {
  for (;;) {
    const keys = await grantKeysKept(store);
    if (keys !== undefined) return keys;
    await new Promise<void>((resolve) => void clock.after(100, resolve));
  }
}

function reaches({ stream, clock }: ReplicaSurroundings, seq: number, withinMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    if (stream.seq >= seq) return resolve(true);
    const settle = (isReached: boolean) => {
      stopListening();
      cancel();
      resolve(isReached);
    };
    const stopListening = stream.onCommit(() => {
      if (stream.seq >= seq) settle(true);
    });
    const cancel = clock.after(withinMs, () => settle(false));
  });
}

/**
 * Rings when another server may have changed tokens (C10): every change of a token leaves an entry in the audit log, so
 * a new entry is a reason to read them again.
 */
function createTokenBell() {
  const listeners = new Set<() => void>();
  let seenAuditId = -1;
  const ring = () => {
    for (const listener of listeners) listener();
  };
  return {
    ring,
    look(auditId: number): void {
      if (auditId === seenAuditId) return;
      seenAuditId = auditId;
      ring();
    },
    listen(listener: () => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
