// Signing in to the dashboard, and out again (B8–B10).

import type { WireLink, WireSession } from "../../protocol/index.ts";
import type { TokenRecord } from "../../store/index.ts";
import { toTimestamp } from "../../translation/index.ts";
import { type Call, type Handler, ok, type Services } from "../call.ts";
import { originOf } from "../forwarding.ts";
import { type Identity, identityOf, sessionIdentityOf } from "../identity.ts";
import { checkPermission } from "../parsing.ts";
import { ProblemError, problemError } from "../problems.ts";
import { clearCookie, setCookie } from "../sessions.ts";
import { tokenHashOf } from "../tokens.ts";

export const createLink: Handler<"createLink"> = async ({ identity }, { sessions, tokens }) => {
  const [own] = tokens.find(identity.tokenId);
  const { secret, expiresAtMs } = await sessions.makeLink(own?.session?.parentId ?? identity.tokenId);
  return { status: 201, body: { once: secret, expires_at: toTimestamp(expiresAtMs) } satisfies WireLink };
};

export const createSession: Handler<"createSession"> = async (call, services) => {
  const { address, incoming } = call;
  services.rates.checkGuesses(address);
  const parent = await parentOf(call, services);
  if (parent === undefined) {
    services.rates.countGuess(address);
    throw notSignedIn(call.body.once !== undefined);
  }
  checkPermission(identityOf(parent), "self.read");
  services.rates.checkToken(parent.id, 1);
  const { secret, record } = await services.sessions.begin(parent, address);
  const body = presentSession(sessionIdentityOf(record, parent), services);
  return { status: 201, body, headers: { "set-cookie": setCookie(secret, originOf(incoming)) } };
};

function parentOf(
  { body }: Call & { body: { once?: string | undefined; token?: string | undefined } },
  services: Services,
) {
  const { sessions, tokens, leader } = services;
  if (body.once !== undefined) return sessions.takeLink(body.once);
  const identity = tokens.authenticate(tokenHashOf(body.token ?? ""), leader.nowMs());
  return identity && (tokens.find(identity.tokenId)[0] as TokenRecord);
}

function notSignedIn(byLink: boolean): ProblemError {
  const { problem } = byLink
    ? problemError(
        "unauthenticated",
        "The link is not known, was used already, or its ten minutes are over.",
        {
          hint: "Type berth dashboard for a new one.",
        },
      )
    : problemError("unauthenticated", "The token is not known, expired or revoked.", {
        hint: "An administrator makes tokens.",
      });
  return new ProblemError(problem, {}, true);
}

export const getSession: Handler<"getSession"> = ({ identity }, services) =>
  ok(presentSession(identity, services));

function presentSession(identity: Identity, { leader }: Services): WireSession {
  return {
    name: identity.name,
    role: identity.role,
    components: identity.components && [...identity.components],
    pools: identity.pools && [...identity.pools],
    permissions: [...identity.permissions, ...identity.extra],
    by: identity.isSession === true ? "session" : "token",
    expires_at: identity.expiresAtMs === null ? null : toTimestamp(identity.expiresAtMs),
    time: toTimestamp(leader.nowMs()),
    seq: leader.seq(),
  };
}

export const renewSession: Handler<"renewSession"> = async ({ identity }, { sessions }) => {
  if (identity.isSession === true) await sessions.touch(identity);
  return { status: 204 };
};

export const endSession: Handler<"endSession"> = async ({ identity, incoming }, { sessions }) => {
  if (identity.isSession !== true) {
    throw problemError("invalid_request", "This call was made with a token, which has no session to end.", {
      hint: "DELETE /v1/tokens/{token} revokes a token.",
    });
  }
  await sessions.end(identity.tokenId);
  return { status: 204, headers: { "set-cookie": clearCookie(originOf(incoming)) } };
};
