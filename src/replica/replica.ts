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
  type Leader,
  LeaderError,
  type LeaderStatus,
  type Log,
  type ReplicatedLeader,
  systemClock,
  viewOf,
} from "../leader/index.ts";
import { type Comparison, createComparison } from "./comparison.ts";
import { createElection, type Election } from "./election.ts";
import type { Follower } from "./follower.ts";
import { createHistoryKeeper } from "./history.ts";
import { DEFAULT_REPLICA_TIMES, type Replica, type ReplicaOptions } from "./interface.ts";
import { createMembership, type Membership } from "./members.ts";
import { createRoles, isAway, type Role, type Roles } from "./roles.ts";
import { type ReplicaSurroundings, repeat } from "./surroundings.ts";
import { startTail } from "./tail.ts";

const silentLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };
/** A follower that is further behind than this is not ready (C8). */
const BEHIND_MS_MAX = 10_000;
/** How long a read waits while this server changes its role. */
const STEADY_MS_MAX = 5_000;
/** Even if it has waited for so long before: reading the state anew takes a moment. */
const STEADY_MS_MIN = 500;

/** Resolves when this server leads, or follows with a state of its own. */
export async function startReplica(options: ReplicaOptions): Promise<Replica> {
  const surroundings = await surroundingsOf(options);
  const { clock, times, store, stream } = surroundings;
  const parts = wire(surroundings, options);
  const { roles, election, membership, tail, keys } = parts;
  await membership.beat(); // Before it reads: the leader writes what all of them can read (C12).
  await roles.follow();
  await election.look(); // A store that nobody leads is led at once.
  const comparison = comparisonOf(surroundings, roles, membership);
  const stopRepeating = [
    repeat(clock, () => times.beatEveryMs, membership.beat),
    repeat(clock, () => times.compareEveryMs, comparison.look),
  ];
  election.start();
  keys.use(await currentGrantKeys(surroundings));

  return {
    ...leaderSurface(surroundings, { roles, election, startedAtMs: clock.wallMs() }),
    ...clusterSurface(surroundings, parts),
    get grantKeys() {
      return keys.current;
    },
    async handOver(to) {
      election.standBack(roles.leader().epoch(), times.silenceMs); // Only the leader can.
      await store.hint?.release();
      await roles.handOver(to);
    },
    async close() {
      for (const stop of stopRepeating) stop();
      tail.stop();
      parts.stopListening();
      await roles.close();
      await election.stop();
      await membership.leave();
      stream.close();
    },
  };
}

type Parts = ReturnType<typeof wire>;

/** The parts, each of which calls others. Nothing happens yet. */
function wire(surroundings: ReplicaSurroundings, options: ReplicaOptions) {
  const { store, clock, stream, times, onFatal } = surroundings;
  const tokens = createTokenBell(surroundings);
  const keys = createKeyRing();
  let stopListening: (() => void) | undefined;
  const history = createHistoryKeeper(surroundings, {
    onHistory() {
      // The leader of the new history makes its key before it answers anybody.
      currentGrantKeys(surroundings).then(keys.use, (error: unknown) => onFatal(error));
    },
  });
  const roles: Roles = createRoles(surroundings, {
    history,
    knownSeq: async () => {
      await membership.announced();
      return Math.max(0, ...(await membership.list()).map(({ seq }) => seq));
    },
    onLead() {
      stopListening?.();
      stopListening = undefined;
      election.noteEpoch(roles.leader().epoch());
      keys.use(roles.leader().grantKeys);
      tokens.ring();
      void membership.beat();
    },
    eventForm: () => membership.eventForm(),
    onFollow() {
      stopListening ??= store.onNews?.((news) => (news === "lease" ? void election.look() : tail.ring()));
    },
  });
  const election = createElection(surroundings, roles, history);
  const membership = createMembership(surroundings, {
    ...options,
    seq: () => Math.max(stream.seq, history.loss?.toSeq ?? 0),
  });
  const tail = startTail({ clock, times }, async () => {
    await roles.catchUp();
    if (roles.role.kind === "following") tokens.look(roles.role.follower.head.auditId);
  });
  return {
    ...{ tokens, keys, history, roles, election, membership, tail },
    stopListening: () => stopListening?.(),
  };
}

type ClusterSurface = Omit<Replica, keyof Leader | "handOver">;

/** Where this server stands among the others. */
function clusterSurface(
  surroundings: ReplicaSurroundings,
  { roles, election, membership, keys, history, tokens }: Parts,
): ClusterSurface {
  const { id, store } = surroundings;
  return {
    id,
    onHistory: keys.onNew,
    loseHistory: roles.loseHistory,
    historyLost: () => history.declared,
    historyLosses: () => history.losses,
    role: () => (roles.role.kind === "leading" ? "leader" : "follower"),
    epoch: () => (roles.role.kind === "leading" ? roles.leader().epoch() : (election.lease?.epoch ?? 0)),
    leaderUrl: () => membership.urlOf(roles.role.kind === "leading" ? id : election.lease?.holder),
    async untilSure() {
      if (roles.role.kind !== "leading" || (await roles.role.keeper.sure())) return;
      throw new LeaderError("not_leader", "This server cannot know whether it still leads.");
    },
    reaches: (seq, withinMs) => reaches(surroundings, seq, withinMs),
    onTokensChanged: tokens.listen,
    async cluster() {
      const [lease, members, head] = await Promise.all([store.lease(), membership.list(), store.head()]);
      return {
        ...{ epoch: lease.epoch, leaderId: lease.holder, members, head },
        isHinted: store.hint?.isHeld === true,
        databasePath: store.hint?.path,
      };
    },
    behindMs: () => (roles.role.kind === "following" ? roles.role.follower.behindMs : 0),
    leaderChanges: () => election.changes,
  };
}

async function surroundingsOf(options: ReplicaOptions): Promise<ReplicaSurroundings> {
  const { store, clock: ownClock = systemClock, log = silentLog, observer = {}, onFatal } = options;
  const id = options.settings?.holder ?? `${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`;
  const head = await store.head();
  const isAccepted = options.acceptClock === true;
  await checkClock({ store, clock: ownClock, log }, { head, isAccepted });
  // The wall clock is looked at once: what it says when this server begins to lead, nobody has checked.
  const clock = { ...ownClock, wallMs: clusterTime(ownClock, head.atMs) };
  return {
    ...{ id, store, clock, log, observer, stream: createEventStream(store, log, head.seq), onFatal },
    settings: { ...options.settings, holder: id },
    times: { ...DEFAULT_REPLICA_TIMES, ...options.times },
  };
}

/** The keys that sign grants; a further one means that another history has begun (C14). */
function createKeyRing() {
  const listeners = new Set<() => void>();
  let current: Replica["grantKeys"] = [];
  return {
    get current() {
      return current;
    },
    use(keys: Replica["grantKeys"]): void {
      if (keys.length === current.length) return;
      current = keys;
      for (const listener of listeners) listener();
    },
    onNew(listener: () => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function comparisonOf(
  { store, log, onFatal }: ReplicaSurroundings,
  roles: Roles,
  { isOneVersion }: Pick<Membership, "isOneVersion">,
): Comparison {
  return createComparison(store, {
    follower: () => (roles.role.kind === "following" ? roles.role.follower : undefined),
    isOneVersion,
    onDifference(error) {
      log.error({ err: error }, "alert: the states of two servers differ");
      onFatal(error);
    },
  });
}

type LeaderSurface = Omit<Leader, "grantKeys" | "close">;

/** What a leader offers, by whichever role this server has. A follower changes nothing and reads what it has. */
function leaderSurface(
  { stream, log, clock }: ReplicaSurroundings,
  parts: {
    readonly roles: Roles;
    readonly election: Election;
    readonly startedAtMs: number;
  },
): LeaderSurface {
  const { roles, election, startedAtMs } = parts;
  const nowMs = clock.wallMs;
  const following = (): Follower => {
    if (roles.role.kind === "following") return roles.role.follower;
    throw new LeaderError("unavailable", "This server has no state to answer from yet.");
  };
  const timeOf = ({ head }: Follower) => Math.max(nowMs(), head.atMs);

  /** By whichever role this server has. One that steps down meanwhile answers as a follower. */
  async function answered<T>(
    asLeader: (leader: ReplicatedLeader) => Promise<T>,
    asFollower: (follower: Follower) => T,
  ): Promise<T> {
    const untilMs = clock.monotonicMs() + STEADY_MS_MAX;
    await roles.steady(STEADY_MS_MAX);
    if (roles.role.kind !== "leading") return asFollower(following());
    return asLeader(roles.role.leader).catch(async (error: unknown) => {
      if (!(error instanceof LeaderError && error.code === "not_leader")) throw error;
      // The caller may have waited for long already, and must not wait twice.
      await roles.steady(Math.max(STEADY_MS_MIN, untilMs - clock.monotonicMs()));
      return asFollower(following());
    });
  }

  return {
    perform: async (command, context) => roles.leader().perform(command, context),
    performMany: async (calls) => roles.leader().performMany(calls),
    renew: async (...call) => roles.leader().renew(...call),
    hear(...call) {
      // A follower keeps no leases: the server passes signs of life on to the leader.
      if (roles.role.kind === "leading") roles.role.leader.hear(...call);
    },
    hearNode(name) {
      if (roles.role.kind === "leading") roles.role.leader.hearNode(name);
    },
    read: (look) =>
      answered(
        (leader) => leader.read(look),
        (follower) => look(viewOf(follower.recovered.memory, timeOf(follower))),
      ),
    async giveWay() {
      if (roles.role.kind === "leading") await roles.role.leader.giveWay();
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
        ? leaderStatus(roles.role)
        : { ...followerStatus(roles), epoch: election.lease?.epoch ?? 0, seq: stream.seq, startedAtMs },
  };
}

/** A leader that cannot know whether it still leads is not ready, and says so before it has stepped down (C6). */
function leaderStatus({ leader, keeper }: Extract<Role, { kind: "leading" }>): LeaderStatus {
  const status = leader.status();
  if (keeper.isSure || status.condition !== "leading") return status;
  return { ...status, condition: "read_only", trouble: "This server cannot know whether it still leads." };
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
    const keys = await grantKeysKept(store).catch((error: unknown) => {
      if (!isAway(error)) throw error;
      return undefined;
    });
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
 * a new entry is a reason to read them again. Most entries are about something else, so that is not done for each.
 */
function createTokenBell({ clock, times, log }: ReplicaSurroundings) {
  const listeners = new Set<() => Promise<void>>();
  let seenAuditId = -1;
  let rungMs = Number.NEGATIVE_INFINITY;
  const ring = () => {
    rungMs = clock.monotonicMs();
    Promise.all([...listeners].map((listener) => listener())).catch((error: unknown) => {
      log.error({ err: error }, "the tokens could not be read again");
      seenAuditId = -1;
    });
  };
  return {
    ring,
    /** Called at every turn of the tail. */
    look(auditId: number): void {
      if (auditId === seenAuditId || clock.monotonicMs() - rungMs < times.tokensEveryMs) return;
      seenAuditId = auditId;
      ring();
    },
    listen(listener: () => Promise<void>): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
