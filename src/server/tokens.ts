// The tokens that open the door: 256 random bits, of which only the SHA-256 is kept.

import { hash, randomBytes } from "node:crypto";
import { v7 as uuid } from "uuid";
import type { Leader } from "../leader/index.ts";
import type { Role } from "../protocol/index.ts";
import type { Store, TokenRecord } from "../store/index.ts";
import { type Identity, identityOf, sessionIdentityOf } from "./identity.ts";

const PREFIX = "berth_";
const SECRET_PATTERN = /^berth_[A-Za-z0-9_-]{43}$/;
/** Of a session, which is no token to be sent as one. */
const SESSION_PATTERN = /^[A-Za-z0-9_-]{43}$/;
const LINK_PATTERN = /^[A-Za-z0-9_-]{22}$/;

/** How often the store is asked about sessions that this server does not know. */
const RELOAD_EVERY_MS = 200;

export interface NewToken {
  readonly name: string;
  readonly role: Role;
  readonly components?: readonly string[] | null;
  readonly pools?: readonly string[] | null;
  readonly permissions?: readonly string[];
  readonly runAs?: readonly string[] | undefined;
  readonly expiresAtMs?: number | null;
  readonly session?: TokenRecord["session"];
}

/** A record to store, and the secret that only its owner will ever see. */
export function makeToken(token: NewToken, nowMs: number): { record: TokenRecord; secret: string } {
  const secret = makeSecret(token.session);
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
      ...(token.runAs && token.runAs.length > 0 && { runAs: token.runAs }),
      createdAtMs: nowMs,
      expiresAtMs: token.expiresAtMs ?? null,
      revokedAtMs: null,
      ...(token.session && { session: token.session }),
    },
  };
}

function makeSecret(session: TokenRecord["session"]): string {
  if (session?.kind === "link") return randomBytes(16).toString("base64url");
  const secret = randomBytes(32).toString("base64url");
  return session === undefined ? PREFIX + secret : secret;
}

export function hashOf(secret: string): string {
  return hash("sha256", secret, "hex");
}

/** Undefined for what does not look like the secret of an API token. */
export function tokenHashOf(secret: string): string | undefined {
  return SECRET_PATTERN.test(secret) ? hashOf(secret) : undefined;
}

/** All tokens in memory, so that a call need not ask the store, and a revocation is felt at once. */
export interface TokenBook {
  /** By the hash of its secret. How long a failed look takes says nothing about any token: hashes are 256 random bits. */
  authenticate(tokenHash: string | undefined, nowMs: number): Identity | undefined;
  /** By the secret of a session, which lives as long as the token that it came from (B9). */
  authenticateSession(secret: string, nowMs: number): Identity | undefined;
  /** A link that can still be used (B8). */
  link(secret: string, nowMs: number): TokenRecord | undefined;
  list(): readonly TokenRecord[];
  /** One token by its id, or those in use that have this name; normally one at most. */
  find(idOrName: string): readonly TokenRecord[];
  put(record: TokenRecord): void;
  forget(tokenId: string): void;
  /** Reads them again: another server may have changed some (C10). */
  reload(): Promise<void>;
  /** The same, but not for every caller anew. */
  reloadSoon(): Promise<void>;
  /** Keeps a name for a token that is being made; undefined if another call does. Returns the way to give it up. */
  claim(name: string): (() => void) | undefined;
  /** Told when a token can no longer be used. */
  onRevoked(listener: (tokenId: string) => void): () => void;
}

export async function loadTokenBook(store: Store): Promise<TokenBook> {
  const records = new Map<string, TokenRecord>();
  const identities = new Map<string, Identity>();
  /** Links and sessions, by their hash: whether they count depends on another token. */
  const derived = new Map<string, TokenRecord>();
  const listeners = new Set<(tokenId: string) => void>();
  const claimed = new Set<string>();

  const put = (record: TokenRecord) => {
    records.set(record.id, record);
    if (record.session !== undefined) derived.set(record.hash, record);
    else if (record.revokedAtMs === null) identities.set(record.hash, identityOf(record));
    if (record.revokedAtMs !== null) end(record);
  };
  /** It can no longer be used, nor can what came from it. */
  const end = ({ id, hash }: TokenRecord) => {
    identities.delete(hash);
    for (const listener of listeners) listener(id);
    for (const child of derived.values()) {
      if (child.session?.parentId === id) for (const listener of listeners) listener(child.id);
    }
  };
  const forget = (tokenId: string) => {
    const gone = records.get(tokenId);
    if (gone === undefined) return;
    records.delete(tokenId);
    derived.delete(gone.hash);
    end(gone);
  };
  const usable = (secret: string, kind: "link" | "session", nowMs: number) => {
    const record = derived.get(hashOf(secret));
    const parent = records.get(record?.session?.parentId ?? "");
    if (record?.session?.kind !== kind || record.revokedAtMs !== null) return undefined;
    if (parent === undefined || parent.revokedAtMs !== null) return undefined;
    const identity = sessionIdentityOf(record, parent);
    return isOver(identity, nowMs) ? undefined : { record, identity };
  };
  const reload = async () => {
    const found = await store.listTokens();
    const ids = new Set(found.map(({ id }) => id));
    for (const record of found) {
      if (JSON.stringify(records.get(record.id)) !== JSON.stringify(record)) put(record);
    }
    for (const { id } of [...records.values()].filter(({ id }) => !ids.has(id))) forget(id);
  };
  await reload();
  let soon: Promise<void> | undefined;

  return {
    reloadSoon() {
      soon ??= reload().finally(() => setTimeout(() => (soon = undefined), RELOAD_EVERY_MS).unref());
      return soon;
    },
    authenticate(tokenHash, nowMs) {
      const identity = tokenHash === undefined ? undefined : identities.get(tokenHash);
      return identity === undefined || isOver(identity, nowMs) ? undefined : identity;
    },
    authenticateSession: (secret, nowMs) =>
      SESSION_PATTERN.test(secret) ? usable(secret, "session", nowMs)?.identity : undefined,
    link: (secret, nowMs) => (LINK_PATTERN.test(secret) ? usable(secret, "link", nowMs)?.record : undefined),
    list: () => [...records.values()],
    find(idOrName) {
      const byId = records.get(idOrName);
      if (byId !== undefined) return [byId];
      return [...records.values()].filter(
        ({ name, revokedAtMs, session }) =>
          name === idOrName && revokedAtMs === null && session === undefined,
      );
    },
    put,
    forget,
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

/** Timers do not reach further; who lives longer is looked at again. */
const LOOK_MS_MAX = 24 * 3_600_000;

/** Calls when the token or session is over; returns the way to stop waiting for that. */
export function whenOver(identity: Identity, nowMs: () => number, over: () => void): () => void {
  if (identity.expiresAtMs === null) return () => undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    const leftMs = (identity.expiresAtMs as number) - nowMs();
    if (leftMs <= 0) return over();
    timer = setTimeout(look, Math.min(leftMs, LOOK_MS_MAX));
    timer.unref();
  };
  look();
  return () => clearTimeout(timer);
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
