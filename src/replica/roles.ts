// Leads or follows, and moves from one to the other without ending the process (C5, C6). The only place that does.
//
// Invariants
//   1. Safety comes from the compare-and-swap of the commit alone (C2): whatever this file does wrong, two servers never
//      both have a commit acknowledged at one position of the journal.
//   2. One role at a time: a server that leads has no follower, and the other way round.
//   3. Before it leads, it has folded everything that was committed, and has written something itself.

import { LeaderError, type ReplicatedLeader, startLeader } from "../leader/index.ts";
import {
  type AuditEntry,
  type Head,
  isStoreError,
  type JournalPosition,
  type Lease,
  StoreError,
} from "../store/index.ts";
import { type Follower, startFollower } from "./follower.ts";
import type { HistoryKeeper, Loss } from "./history.ts";
import { createLeaseKeeper, type LeaseKeeper } from "./keeper.ts";
import type { ReplicaSurroundings } from "./surroundings.ts";

export type Role =
  | { readonly kind: "leading"; readonly leader: ReplicatedLeader; readonly keeper: LeaseKeeper }
  | { readonly kind: "following"; readonly follower: Follower }
  /** On the way from one to the other, or the database is away and nothing could be read yet. */
  | { readonly kind: "changing" };

export interface Roles {
  readonly role: Role;
  /** The leader, on the server that leads; else throws `not_leader`. */
  leader(): ReplicatedLeader;
  follow(): Promise<void>;
  /** Resolves when there is something to answer from, or when the time is over. */
  steady(withinMs: number): Promise<void>;
  /** Tries to lead, if the lease is still as it was observed and nobody is faster. */
  tryToLead(observed: Lease): Promise<void>;
  /** Folds what the leader has committed. */
  catchUp(): Promise<void>;
  /** A client or another server knows of more than the journal has: reads it anew, and declares the loss. */
  loseHistory(known: Pick<Head, "seq" | "epoch">, why: string): Promise<void>;
  /** Lets another server lead: this one, or whichever is first. */
  handOver(to?: string): Promise<void>;
  close(): Promise<void>;
}

const RETRY_MS = 500;

export function createRoles(
  surroundings: ReplicaSurroundings,
  parts: {
    readonly onLead: () => void;
    readonly onFollow: () => void;
    /** The newest form of events that all servers can read. */
    readonly eventForm: () => number;
    readonly history: HistoryKeeper;
    /** The last event that any server knows of. */
    readonly knownSeq: () => Promise<number>;
  },
): Roles {
  const { onLead, onFollow, eventForm, history, knownSeq } = parts;
  const { store, clock, log, observer, settings, times, stream, id, onFatal } = surroundings;
  let role: Role = { kind: "changing" };
  let isClosed = false;
  let checked = { epoch: -1, commitId: "", isFinal: false };
  const waiting = new Set<() => void>();

  const isChanging = () => role.kind === "changing";

  function become(next: Role): void {
    role = next;
    if (next.kind === "changing") return;
    for (const proceed of waiting) proceed();
    waiting.clear();
  }

  async function follow(): Promise<void> {
    while (!isClosed) {
      try {
        await history.check();
        const follower = await startFollower(surroundings, stream, checkHistory);
        become({ kind: "following", follower });
        onFollow();
        return log.info({ seq: follower.head.seq }, "following");
      } catch (error) {
        if (!isAway(error)) return onFatal(error);
        log.warn({ err: error }, "the store does not answer: there is nothing to follow yet");
        await new Promise<void>((resolve) => void clock.after(RETRY_MS, resolve));
      }
    }
  }

  /**
   * A server may begin another history between its take-over and its first commit. So each leadership is checked twice:
   * when it is first seen, and when it has committed something more.
   */
  async function checkHistory({ epoch, commitId }: Head): Promise<void> {
    const isSameLead = epoch === checked.epoch;
    if (isSameLead && (checked.isFinal || commitId === checked.commitId)) return;
    await history.check();
    checked = { epoch, commitId, isFinal: isSameLead };
  }

  async function tryToLead(observed: Lease): Promise<void> {
    if (role.kind !== "following") return;
    const { follower } = role;
    store.warmUp();
    try {
      await follower.catchUp();
      const epochFloor = history.loss?.epoch ?? 0;
      const { epoch } = await store.takeOver({ holder: id, observed, epochFloor });
      become({ kind: "changing" });
      const known = knownSeq();
      known.catch(() => undefined); // Awaited below, unless something else fails before.
      await follower.catchUp(); // What the leader before us still committed.
      const lost = await history.begin(follower.head, known);
      become(await lead(follower, epoch, lost));
      onLead();
    } catch (error) {
      if (isStoreError(error, "history_lost")) return readAnew(follower.position);
      if (isChanging()) await follow();
      if (isStoreError(error, "fenced")) return; // Another candidate was faster, or the leader lives.
      if (isAway(error)) return log.warn({ err: error }, "the attempt to lead failed");
      onFatal(error);
    }
  }

  /** Memory is of a history that the store does not have any more. */
  async function readAnew(known: JournalPosition): Promise<void> {
    history.remember(known);
    become({ kind: "changing" });
    await follow();
  }

  async function lead({ recovered, head }: Follower, epoch: number, lost: Loss | undefined): Promise<Role> {
    if (head.epoch !== epoch) throw new StoreError("fenced", "Another server has taken over already.");
    let leader: ReplicatedLeader | undefined;
    const keeper = createLeaseKeeper(surroundings, {
      ...{ epoch, times },
      onRenewed: () => leader?.leaseRenewed(),
      onLost: (why) => void stepDown(why),
    });
    try {
      leader = await startLeader({
        ...{ store, clock, log, observer, settings },
        onFatal: (error) => void stepDown("it could not write", error),
        replica: {
          taken: { head, recovered, isAfterLoss: lost !== undefined },
          mayAnswer: () => keeper.isSure,
          eventForm,
          stream,
        },
      });
      // The barrier: when it is committed, nobody else leads at this epoch.
      const barrier = { actor: "berth", action: "lead", target: id, outcome: "accepted", body: { epoch } };
      await leader.audit(barrier);
      if (lost !== undefined) await leader.audit(alertOf(lost));
      if (leader.status().condition === "leading" && (await keeper.sure()))
        return { kind: "leading", leader, keeper };
      leader.stepDown("it could not begin");
      throw new StoreError("unavailable", "The store went away while this server began to lead.");
    } catch (error) {
      keeper.stop(); // A lease that is kept by a server that does not lead would keep all from leading.
      throw error;
    }
  }

  async function stepDown(why: string, error?: unknown): Promise<void> {
    if (error !== undefined && !isAway(error) && !isStoreError(error, "fenced")) return onFatal(error);
    if (role.kind !== "leading") return;
    const { leader, keeper } = role;
    become({ kind: "changing" });
    log.warn({ why, err: error }, "this server leads no longer");
    keeper.stop();
    leader.stepDown(why);
    history.remember(leader.position());
    await follow();
  }

  async function retire(to?: string): Promise<void> {
    if (role.kind !== "leading") return;
    const { leader, keeper } = role;
    const beganMs = clock.monotonicMs();
    become({ kind: "changing" });
    try {
      await leader.retire(to);
      log.info({ ms: clock.monotonicMs() - beganMs }, "the lease is released");
      history.remember(leader.position());
    } catch (error) {
      if (!isAway(error)) throw error;
      log.warn({ err: error }, "the lease could not be released: the others wait until it is old");
    } finally {
      keeper.stop();
    }
  }

  return {
    get role() {
      return role;
    },
    leader() {
      if (role.kind === "leading") return role.leader;
      throw new LeaderError("not_leader", "This server does not lead.");
    },
    follow,
    steady(withinMs) {
      return new Promise((resolve) => {
        if (role.kind !== "changing") return resolve();
        const proceed = () => {
          cancel();
          waiting.delete(proceed);
          resolve();
        };
        const cancel = clock.after(withinMs, proceed);
        waiting.add(proceed);
      });
    },
    tryToLead,
    async catchUp() {
      if (role.kind !== "following") return;
      const { follower } = role;
      try {
        await follower.catchUp();
      } catch (error) {
        if (isStoreError(error, "history_lost") && role.kind === "following") {
          await readAnew(follower.position);
        } else if (!isAway(error)) onFatal(error);
      }
    },
    async loseHistory(known, why) {
      await history.report(known, why);
      if (history.loss !== undefined) await stepDown("the database has lost a part of the history");
    },
    async handOver(to) {
      await retire(to);
      await follow();
    },
    async close() {
      isClosed = true;
      await retire();
    },
  };
}

function alertOf({ fromSeq, toSeq, epoch, why }: Loss): AuditEntry {
  const body = { lost_from: fromSeq, lost_to: toSeq, epoch, why };
  return { actor: "berth", action: "history_lost", target: "journal", outcome: "alert", body };
}

export function isAway(error: unknown): boolean {
  return isStoreError(error, "unavailable") || isStoreError(error, "disk_full");
}
