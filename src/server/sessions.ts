// Sessions of the dashboard (B8–B10): signed in by a link or a token, held by a cookie, stored as tokens of their own.
//
// Invariants
//   1. A session has the rights of the token that it came from, as long as that one can be used, and no longer.
//   2. A link works once, and for ten minutes. Only the leader takes it, so that no two servers do.
//   3. A cookie counts only where a browser says that one of our own pages sent it; with an Authorization header it is ignored.

import type { IncomingMessage } from "node:http";
import type { Leader, Log } from "../leader/index.ts";
import type { TokenRecord } from "../store/index.ts";
import type { Identity } from "./identity.ts";
import {
  LINK_LIFE_MS,
  SESSION_IDLE_MS,
  SESSION_LIFE_MS,
  SESSION_TOUCH_MS,
  SESSIONS_PER_TOKEN_MAX,
} from "./limits.ts";
import { problemError } from "./problems.ts";
import { makeToken, type TokenBook } from "./tokens.ts";

/** Bound to the host and to TLS by its name; over plain HTTP browsers take no such cookie. */
const SECURE_COOKIE = "__Host-berth";
const PLAIN_COOKIE = "berth";
/** How long the leader may take to write down what a server that follows has told it. */
const ELSEWHERE_MS = 2_000;

/** The secret of the session whose cookie a call carries, if the cookie counts there (B10). */
export function sessionSecretOf(
  { headers, method }: IncomingMessage,
  { isForwarded }: { readonly isForwarded: boolean },
): string | undefined {
  if (headers.authorization !== undefined) return undefined;
  const secret = cookieOf(headers.cookie, SECURE_COOKIE) ?? cookieOf(headers.cookie, PLAIN_COOKIE);
  if (secret === undefined) return undefined;
  const site = headers["sec-fetch-site"];
  if (site !== "same-origin" && site !== "none") return undefined;
  if (method === "GET" || method === "HEAD") return secret;
  // That an Origin is ours was checked with the host; of a call that was passed on, by the server that did it.
  const isOurs = (isForwarded || headers.origin !== undefined) && headers["berth-session"] === "1";
  return isOurs ? secret : undefined;
}

function cookieOf(header: string | undefined, name: string): string | undefined {
  for (const part of header?.split(";") ?? []) {
    const [key, value] = part.trim().split("=", 2);
    if (key === name && value !== undefined) return value;
  }
  return undefined;
}

/** Where TLS is, only over TLS: the page knows, and its origin says so. */
export function setCookie(secret: string, origin: string | undefined): string {
  return `${cookieStart(secret, origin)}; Max-Age=${SESSION_LIFE_MS / 1000}`;
}

export function clearCookie(origin: string | undefined): string {
  return `${cookieStart("", origin)}; Max-Age=0`;
}

function cookieStart(value: string, origin: string | undefined): string {
  const isSecure = origin?.startsWith("https:") === true;
  const named = `${isSecure ? SECURE_COOKIE : PLAIN_COOKIE}=${value}`;
  return `${named}; Path=/; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
}

export interface Sessions {
  /** A link with the rights of this token; its secret goes into the address. */
  makeLink(parentId: string): Promise<{ readonly secret: string; readonly expiresAtMs: number }>;
  /** The token that a link stands for; undefined: there is none, it was used, or its time is over. */
  takeLink(secret: string): Promise<TokenRecord | undefined>;
  begin(
    parent: TokenRecord,
    address: string,
  ): Promise<{ readonly secret: string; readonly record: TokenRecord }>;
  end(sessionId: string): Promise<void>;
  /** It was used: one hour from now, if that is worth writing down; a server that follows has it written `elsewhere`. */
  touch(identity: Identity, elsewhere?: () => void): Promise<void>;
}

export function createSessions({
  leader,
  tokens,
  log,
}: {
  readonly leader: Leader;
  readonly tokens: TokenBook;
  readonly log: Log;
}): Sessions {
  /** Links that are being taken, and sessions that are being written. */
  const busy = new Set<string>();

  async function put(record: TokenRecord, action: string | false, detail: object = {}): Promise<void> {
    const audit = action === false ? action : { action, target: `token ${record.name}`, detail };
    const answer = await leader.perform({ kind: "putToken", token: record }, { actor: record.name, audit });
    if (answer.outcome === "refused") throw new Error(answer.refusal.message);
    tokens.put(record);
  }

  /** Links and sessions that are over are forgotten, and the oldest where one token has too many. */
  async function tidy(parentId: string): Promise<void> {
    const nowMs = leader.nowMs();
    const all = tokens.list().filter(({ session }) => session !== undefined);
    const over = all.filter(
      ({ expiresAtMs, revokedAtMs }) => revokedAtMs !== null || (expiresAtMs as number) <= nowMs,
    );
    const live = all.filter((record) => record.session?.parentId === parentId && !over.includes(record));
    const surplus = live
      .sort((a, b) => a.createdAtMs - b.createdAtMs)
      .slice(0, Math.max(0, live.length - SESSIONS_PER_TOKEN_MAX + 1));
    for (const { id, name } of [...over, ...surplus]) {
      await leader.perform({ kind: "deleteToken", tokenId: id }, { actor: name, audit: false });
      tokens.forget(id);
    }
  }

  function derived(kind: "link" | "session", parent: TokenRecord, lifeMs: number) {
    const nowMs = leader.nowMs();
    const expiresAtMs = Math.min(nowMs + lifeMs, parent.expiresAtMs ?? Number.POSITIVE_INFINITY);
    return makeToken(
      {
        name: `${kind} of ${parent.name}`,
        role: parent.role as never,
        expiresAtMs,
        session: { kind, parentId: parent.id },
      },
      nowMs,
    );
  }

  /** Once, until the answer must be in the store. */
  function askElsewhere(tokenId: string, elsewhere: () => void): void {
    elsewhere();
    const settle = () => {
      busy.delete(tokenId);
      void tokens.reloadSoon().catch(() => undefined);
    };
    setTimeout(settle, ELSEWHERE_MS).unref();
  }

  return {
    async makeLink(parentId) {
      const [parent] = tokens.find(parentId);
      if (parent === undefined) throw problemError("not_found", "The token of this call is gone.");
      await tidy(parent.id);
      const { record, secret } = derived("link", parent, LINK_LIFE_MS);
      await put(record, "createLink", { id: record.id, of: parent.id });
      return { secret, expiresAtMs: record.expiresAtMs as number };
    },
    async takeLink(secret) {
      const link = tokens.link(secret, leader.nowMs());
      if (link === undefined || busy.has(link.id)) return undefined;
      busy.add(link.id);
      try {
        await put({ ...link, revokedAtMs: leader.nowMs() }, "useLink", { id: link.id });
      } finally {
        busy.delete(link.id);
      }
      return tokens.find(link.session?.parentId ?? "").find(({ revokedAtMs }) => revokedAtMs === null);
    },
    async begin(parent, address) {
      await tidy(parent.id);
      const { record, secret } = derived("session", parent, SESSION_IDLE_MS);
      await put(record, "createSession", { id: record.id, of: parent.id, from: address });
      return { secret, record };
    },
    async end(sessionId) {
      const [record] = tokens.find(sessionId);
      if (record?.session === undefined || record.revokedAtMs !== null) return;
      await put({ ...record, revokedAtMs: leader.nowMs() }, "endSession", { id: sessionId });
    },
    async touch({ tokenId }, elsewhere) {
      const [record] = tokens.find(tokenId);
      if (record?.session?.kind !== "session" || record.revokedAtMs !== null || busy.has(tokenId)) return;
      const nowMs = leader.nowMs();
      const expiresAtMs = Math.min(nowMs + SESSION_IDLE_MS, record.createdAtMs + SESSION_LIFE_MS);
      if (expiresAtMs - (record.expiresAtMs as number) < SESSION_TOUCH_MS) return;
      busy.add(tokenId);
      if (elsewhere !== undefined) return askElsewhere(tokenId, elsewhere);
      try {
        await put({ ...record, expiresAtMs }, false);
      } catch (error) {
        log.warn({ err: error }, "the use of a session could not be written down");
      } finally {
        busy.delete(tokenId);
      }
    },
  };
}
