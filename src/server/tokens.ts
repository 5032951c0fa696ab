// The tokens that open the door: 256 random bits, of which only the SHA-256 is kept.

import { hash, randomBytes } from "node:crypto";
import { v7 as uuid } from "uuid";
import type { Leader } from "../leader/index.ts";
import type { Role } from "../protocol/index.ts";
import type { Store, TokenRecord } from "../store/index.ts";
import { type Identity, identityOf } from "./identity.ts";

const PREFIX = "berth_";
const SECRET_PATTERN = /^berth_[A-Za-z0-9_-]{43}$/;

export interface NewToken {
  readonly name: string;
  readonly role: Role;
  readonly components?: readonly string[] | null;
  readonly pools?: readonly string[] | null;
  readonly permissions?: readonly string[];
  readonly expiresAtMs?: number | null;
}

/** A record to store, and the secret that only its owner will ever see. */
export function makeToken(token: NewToken, nowMs: number): { record: TokenRecord; secret: string } {
  const secret = PREFIX + randomBytes(32).toString("base64url");
  return {
    secret,
    record: {
      id: uuid(),
      name: token.name,
      hash: hashOf(secret),
      role: token.role,
      components: token.components ?? null,
      pools: token.pools ?? null,
      permissions: token.permissions ?? [],
      createdAtMs: nowMs,
      expiresAtMs: token.expiresAtMs ?? null,
      revokedAtMs: null,
    },
  };
}

export function hashOf(secret: string): string {
  return hash("sha256", secret, "hex");
}

/** All tokens in memory, so that a call need not ask the store, and a revocation is felt at once. */
export interface TokenBook {
  authenticate(secret: string, nowMs: number): Identity | undefined;
  list(): readonly TokenRecord[];
  /** One token by its id, or those in use that have this name; normally one at most. */
  find(idOrName: string): readonly TokenRecord[];
  put(record: TokenRecord): void;
  /** Reads them again: another server may have changed some (C10). */
  reload(): Promise<void>;
  /** Keeps a name for a token that is being made; undefined if another call does. Returns the way to give it up. */
  claim(name: string): (() => void) | undefined;
  /** Told when a token can no longer be used. */
  onRevoked(listener: (tokenId: string) => void): () => void;
}

export async function loadTokenBook(store: Store): Promise<TokenBook> {
  const records = new Map<string, TokenRecord>();
  const identities = new Map<string, Identity>();
  const listeners = new Set<(tokenId: string) => void>();
  const claimed = new Set<string>();

  const put = (record: TokenRecord) => {
    records.set(record.id, record);
    if (record.revokedAtMs === null) {
      identities.set(record.hash, identityOf(record));
      return;
    }
    identities.delete(record.hash);
    for (const listener of listeners) listener(record.id);
  };
  const reload = async () => {
    const found = await store.listTokens();
    const ids = new Set(found.map(({ id }) => id));
    for (const record of found) {
      if (JSON.stringify(records.get(record.id)) !== JSON.stringify(record)) put(record);
    }
    for (const gone of [...records.values()].filter(({ id }) => !ids.has(id))) {
      identities.delete(gone.hash);
      records.delete(gone.id);
      for (const listener of listeners) listener(gone.id);
    }
  };
  await reload();

  return {
    authenticate(secret, nowMs) {
      if (!SECRET_PATTERN.test(secret)) return undefined;
      // Looked up by a hash of 256 random bits: how long a failed look takes says nothing about any token.
      const identity = identities.get(hashOf(secret));
      if (identity === undefined) return undefined;
      return isOver(identity, nowMs) ? undefined : identity;
    },
    list: () => [...records.values()],
    find(idOrName) {
      const byId = records.get(idOrName);
      if (byId !== undefined) return [byId];
      return [...records.values()].filter(
        (record) => record.name === idOrName && record.revokedAtMs === null,
      );
    },
    put,
    reload,
    claim(name) {
      if (claimed.has(name)) return undefined;
      claimed.add(name);
      return () => claimed.delete(name);
    },
    onRevoked(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function isOver(identity: Identity, nowMs: number): boolean {
  return identity.expiresAtMs !== null && identity.expiresAtMs <= nowMs;
}

export interface MadeToken {
  readonly id: string;
  readonly name: string;
  readonly secret: string;
}

export async function makeAdminToken(
  leader: Leader,
  name: string,
): Promise<{ record: TokenRecord; secret: string }> {
  const { record, secret } = makeToken({ name, role: "admin" }, leader.nowMs());
  await putToken(leader, record, "createToken", { role: "admin" });
  return { record, secret };
}

/** Revokes a token that is replaced because its owner no longer has it. */
export async function revokeLostToken(leader: Leader, token: TokenRecord): Promise<TokenRecord> {
  const revoked = { ...token, revokedAtMs: leader.nowMs() };
  await putToken(leader, revoked, "revokeToken", { id: token.id });
  return revoked;
}

/** On behalf of the person who starts the server, not of a caller. */
async function putToken(leader: Leader, token: TokenRecord, action: string, detail: object): Promise<void> {
  const answer = await leader.perform(
    { kind: "putToken", token },
    { actor: "berth", audit: { action, target: `token ${token.name}`, detail } },
  );
  if (answer.outcome === "refused") throw new Error(answer.refusal.message);
}
