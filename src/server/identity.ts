// Who calls, and how far the token reaches: role, components, pools and extra permissions.

import { type ExtraPermission, type Permission, ROLE_PERMISSIONS, type Role } from "../protocol/index.ts";
import type { TokenRecord } from "../store/index.ts";

export interface Identity {
  readonly tokenId: string;
  /** The token whose calls, streams and questions its own count as: a session's are those of the token that it came from. */
  readonly countsAs: string;
  /** Also who a request was submitted by: a token that replaces another of the same name owns its work. */
  readonly name: string;
  readonly role: Role;
  /** Null: all of them. */
  readonly components: ReadonlySet<string> | null;
  readonly pools: ReadonlySet<string> | null;
  readonly permissions: ReadonlySet<Permission>;
  readonly extra: ReadonlySet<ExtraPermission>;
  /** As whom its jobs may run (E6); absent: as its role may say. */
  readonly runAs?: readonly string[];
  readonly expiresAtMs: number | null;
  /** Signed in with a cookie (B9). */
  readonly isSession?: true;
}

export function identityOf(token: TokenRecord): Identity {
  const role = token.role as Role;
  return {
    tokenId: token.id,
    countsAs: token.id,
    name: token.name,
    role,
    components: token.components && new Set(token.components),
    pools: token.pools && new Set(token.pools),
    permissions: new Set(ROLE_PERMISSIONS[role] ?? []),
    extra: new Set(token.permissions as ExtraPermission[]),
    ...(token.runAs && { runAs: token.runAs }),
    expiresAtMs: token.expiresAtMs,
  };
}

/** A session has the rights and the name of the token that it came from, and ends with it at the latest (B9). */
export function sessionIdentityOf(session: TokenRecord, parent: TokenRecord): Identity {
  const ends = [session.expiresAtMs, parent.expiresAtMs].filter((atMs) => atMs !== null);
  return { ...identityOf(parent), tokenId: session.id, expiresAtMs: Math.min(...ends), isSession: true };
}

export function mayUse(identity: Identity, extra: ExtraPermission): boolean {
  return identity.role === "admin" || identity.extra.has(extra);
}

export function reachesComponent(identity: Identity, component: string): boolean {
  return identity.components === null || identity.components.has(component);
}

export function reachesPool(identity: Identity, pool: string): boolean {
  return identity.pools === null || identity.pools.has(pool);
}

export function reachesAll(identity: Identity): boolean {
  return identity.components === null && identity.pools === null;
}
