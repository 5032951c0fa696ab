// Tokens, the audit log, and who the caller is.

import {
  PAGE_ITEMS_DEFAULT,
  type WireAudit,
  type WireIdentity,
  type WireToken,
  type WireTokenCreation,
} from "../../protocol/index.ts";
import type { AuditRecord, TokenRecord } from "../../store/index.ts";
import { toMs, toTimestamp } from "../../translation/index.ts";
import { pageOf } from "../administration.ts";
import { type Handler, ok, perform, type Services } from "../call.ts";
import { TOKEN_LIFE_MS_DEFAULT, TOKENS_MAX } from "../limits.ts";
import { notFound, problemError } from "../problems.ts";
import { makeToken } from "../tokens.ts";

export const listTokens: Handler<"listTokens"> = (call, { tokens }) => {
  const shown = tokens.list().map(presentToken);
  shown.sort((a, b) => (a.id < b.id ? -1 : 1));
  return pageOf(shown, ({ id }) => id, call.query);
};

export const getToken: Handler<"getToken"> = (call, { tokens }) => {
  return ok(presentToken(theOne(tokens, call.params.token as string)));
};

function theOne(tokens: Services["tokens"], idOrName: string): TokenRecord {
  const [record, ...others] = tokens.find(idOrName);
  if (record === undefined) throw notFound("token", idOrName);
  if (others.length === 0) return record;
  const ids = [record, ...others].map(({ id }) => id).join(", ");
  throw problemError("ambiguous", `Several tokens in use are called "${idOrName}": ${ids}.`, {
    hint: "Name the one you mean by its id.",
  });
}

export const createToken: Handler<"createToken"> = async (call, services) => {
  const wanted = call.body;
  checkCreation(wanted, services);
  const nowMs = services.leader.nowMs();
  const { record, secret } = makeToken(
    {
      name: wanted.name,
      role: wanted.role,
      components: wanted.components ?? null,
      pools: wanted.pools ?? null,
      permissions: wanted.permissions ?? [],
      runAs: wanted.run_as,
      expiresAtMs: expiryOf(wanted, nowMs),
    },
    nowMs,
  );
  const giveUp = services.tokens.claim(wanted.name);
  if (giveUp === undefined) throw nameTaken(wanted.name);
  try {
    await perform(call, services, {
      command: { kind: "putToken", token: record },
      target: `token ${record.name}`,
      detail: {
        ...{ id: record.id, role: record.role, components: record.components, pools: record.pools },
        ...(record.runAs && { run_as: record.runAs }),
      },
    });
    services.tokens.put(record);
  } finally {
    giveUp();
  }
  return { status: 201, body: { ...presentToken(record), secret } };
};

function checkCreation({ name, role, components, pools }: WireTokenCreation, { tokens }: Services): void {
  // A token that makes tokens can make one without bounds, and the audit log knows none.
  if ((role === "admin" || role === "auditor") && (components ?? pools ?? null) !== null) {
    throw problemError("invalid_request", `The role ${role} reaches everything and cannot be bound.`, {
      errors: [{ pointer: components ? "/components" : "/pools", message: "cannot be used with this role" }],
      hint: "Leave components and pools out, or use the role operator or viewer.",
    });
  }
  if (role === "executor" && (pools ?? []).length === 0) {
    throw problemError("invalid_request", "A token of role executor must say whose jobs it starts.", {
      errors: [{ pointer: "/pools", message: "is missing" }],
      hint: "Name its pools.",
    });
  }
  if (role === "user" && (components ?? []).length === 0) {
    throw problemError("invalid_request", "A token of role user must say which components are its own.", {
      errors: [{ pointer: "/components", message: "is missing" }],
      hint: "Name its components, or use the role operator or viewer.",
    });
  }
  if (tokens.list().filter(({ session }) => session === undefined).length >= TOKENS_MAX) {
    throw problemError("invalid_request", `There are ${TOKENS_MAX} tokens already.`, {
      hint: "Revoked ones count until they are forgotten.",
    });
  }
  if (tokens.list().some((token) => token.name === name && token.revokedAtMs === null)) throw nameTaken(name);
}

function nameTaken(name: string) {
  return problemError("name_taken", `There is a token "${name}" already.`, {
    hint: "Revoke it first, or choose another name.",
  });
}

function expiryOf({ expires_in_seconds: seconds }: WireTokenCreation, nowMs: number): number | null {
  if (seconds === null) return null;
  return nowMs + (seconds === undefined ? TOKEN_LIFE_MS_DEFAULT : toMs(seconds));
}

export const revokeToken: Handler<"revokeToken"> = async (call, services) => {
  const record = theOne(services.tokens, call.params.token as string);
  if (record.revokedAtMs !== null) return { status: 204 };
  const revoked = { ...record, revokedAtMs: services.leader.nowMs() };
  await perform(call, services, {
    command: { kind: "putToken", token: revoked },
    target: `token ${record.name}`,
    detail: { id: record.id },
  });
  services.tokens.put(revoked);
  return { status: 204 };
};

function presentToken(record: TokenRecord): WireToken {
  return {
    id: record.id,
    name: record.name,
    role: record.role as WireToken["role"],
    components: record.components && [...record.components],
    pools: record.pools && [...record.pools],
    permissions: [...record.permissions] as WireToken["permissions"],
    run_as: record.runAs ? [...record.runAs] : null,
    created_at: toTimestamp(record.createdAtMs),
    expires_at: record.expiresAtMs === null ? null : toTimestamp(record.expiresAtMs),
    revoked_at: record.revokedAtMs === null ? null : toTimestamp(record.revokedAtMs),
  };
}

export const whoami: Handler<"whoami"> = ({ identity }, { leader }) =>
  ok({
    name: identity.name,
    token_id: identity.tokenId,
    role: identity.role,
    components: identity.components && [...identity.components],
    pools: identity.pools && [...identity.pools],
    permissions: [...identity.permissions, ...identity.extra],
    run_as: identity.runAs ? [...identity.runAs] : null,
    expires_at: identity.expiresAtMs === null ? null : toTimestamp(identity.expiresAtMs),
    time: toTimestamp(leader.nowMs()),
  } satisfies WireIdentity);

export const listAudit: Handler<"listAudit"> = async (call, { store }) => {
  const { limit = PAGE_ITEMS_DEFAULT, cursor } = call.query;
  const page = await store.listAudit({ limit, ...(cursor !== undefined && { cursor }) });
  return ok({ items: page.items.map(presentAudit), next_cursor: page.nextCursor });
};

function presentAudit(record: AuditRecord): WireAudit {
  const { id, seq, actor, action, target, outcome, hash } = record;
  return {
    id,
    seq,
    at: toTimestamp(record.atMs),
    actor,
    action,
    target,
    outcome,
    details: record.body,
    hash,
  };
}
