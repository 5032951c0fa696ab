// Where notices go: what was asked for, and how far it has got. Both are one record of the store.

import type { NoticeKind, TargetKind, WireTarget } from "../../protocol/index.ts";
import type { TargetRecord } from "../../store/index.ts";
import { toTimestamp } from "../../translation/index.ts";
import { type Identity, identityOf, reachesComponent, reachesPool } from "../identity.ts";
import type { TokenBook } from "../tokens.ts";
import type { Progress } from "./outbox.ts";

export interface Target {
  readonly name: string;
  readonly kind: TargetKind;
  readonly url: string;
  /** Of a webhook. */
  readonly secret: string | null;
  readonly on: readonly NoticeKind[];
  readonly component: string | null;
  readonly pool: string | null;
  readonly isAskedOnly: boolean;
  /** What it hears of is what this token reaches at that time. */
  readonly tokenId: string;
  readonly owner: string;
  readonly createdAtMs: number;
}

export interface StoredTarget {
  readonly target: Target;
  readonly progress: Progress;
}

export function toRecord({ target, progress }: StoredTarget): TargetRecord {
  return { name: target.name, body: { target, progress } };
}

export function ofRecord({ body }: TargetRecord): StoredTarget {
  return body as StoredTarget;
}

/** With whose rights it hears of things; undefined: its token has ended, and nothing is sent. */
export function rightsOf({ tokenId }: Target, tokens: TokenBook, nowMs: number): Identity | undefined {
  const [record] = tokens.find(tokenId);
  if (record === undefined || record.revokedAtMs !== null) return undefined;
  return record.expiresAtMs !== null && record.expiresAtMs <= nowMs ? undefined : identityOf(record);
}

/** Its owner, or an operator who reaches what it is about. */
export function maySeeTarget(identity: Identity, { owner, component, pool }: Target): boolean {
  if (owner === identity.name) return true;
  if (identity.role !== "operator" && identity.role !== "admin" && identity.role !== "auditor") return false;
  const reaches = component === null ? identity.components === null : reachesComponent(identity, component);
  return reaches && (pool === null ? identity.pools === null : reachesPool(identity, pool));
}

export function presentTarget({ target, progress }: StoredTarget, isStopped: boolean): WireTarget {
  const { name, kind, on, component, pool, owner } = target;
  const { problem, awaySinceMs, lastSentAtMs, sent, failed, lost, pending } = progress;
  const timeOf = (atMs: number | null) => (atMs === null ? null : toTimestamp(atMs));
  return {
    ...{ name, kind, url: new URL(target.url).origin, on: [...on], component, pool, owner },
    asked_only: target.isAskedOnly,
    created_at: toTimestamp(target.createdAtMs),
    state: isStopped ? "stopped" : awaySinceMs === null ? "good" : "failing",
    problem: isStopped ? "its token was revoked or has expired" : problem,
    failing_since: timeOf(awaySinceMs),
    last_sent_at: timeOf(lastSentAtMs),
    ...{ sent, failed, lost, pending: pending.length },
  };
}
