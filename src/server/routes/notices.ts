// Targets of notices: who is sent what (H2). What they hear of is what the token of their owner reaches.

import { noticeKind, type WireTargetCreation } from "../../protocol/index.ts";
import { pageOf } from "../administration.ts";
import { type CallOf, type Handler, ok, perform, type Services } from "../call.ts";
import { type Identity, reachesComponent, reachesPool } from "../identity.ts";
import { TARGETS_MAX, TARGETS_PER_OWNER_MAX } from "../limits.ts";
import { progressFrom } from "../notices/outbox.ts";
import { makeSigningSecret } from "../notices/signature.ts";
import {
  maySeeTarget,
  presentTarget,
  rightsOf,
  type StoredTarget,
  type Target,
  toRecord,
} from "../notices/target.ts";
import { forbidden, hidden, notFound, problemError } from "../problems.ts";

export const listTargets: Handler<"listTargets"> = async (call, services) => {
  const seen = (await services.notices.list()).filter(({ target }) => maySeeTarget(call.identity, target));
  const shown = seen.map((stored) => present(stored, services));
  shown.sort((a, b) => (a.name < b.name ? -1 : 1));
  return pageOf(shown, ({ name }) => name, call.query);
};

export const getTarget: Handler<"getTarget"> = async (call, services) =>
  ok(present(await theOne(call, services), services));

export const createTarget: Handler<"createTarget"> = async (call, services) => {
  const { identity, body: wanted } = call;
  checkReach(identity, wanted, services);
  const fault = services.destinations.fault(wanted.url);
  if (fault !== undefined) {
    throw problemError("target_not_allowed", `Notices cannot be sent there: ${fault}.`, {
      hint: "Use https and a public address; for a network of your own the server needs --notice-network.",
    });
  }
  const giveUp = await claim(wanted.name, identity, services);
  try {
    const target = targetOf(wanted, call, services);
    await perform(call, services, {
      command: {
        kind: "putTargets",
        targets: [toRecord({ target, progress: progressFrom(services.leader.seq()) })],
      },
      target: `notice target ${target.name}`,
      detail: { kind: target.kind, host: new URL(target.url).host, component: target.component },
    });
    services.notices.add(target);
    const shown = presentTarget({ target, progress: progressFrom(0) }, false);
    return { status: 201, body: { ...shown, ...(target.secret !== null && { secret: target.secret }) } };
  } finally {
    giveUp();
  }
};

export const testTarget: Handler<"testTarget"> = async (call, services) => {
  const { target } = await theOne(call, services);
  const problem = await services.notices.test(target);
  return ok({ delivered: problem === undefined, problem: problem ?? null });
};

export const deleteTarget: Handler<"deleteTarget"> = async (call, services) => {
  const { target } = await theOne(call, services);
  services.notices.remove(target.name);
  await perform(call, services, {
    command: { kind: "deleteTarget", name: target.name },
    target: `notice target ${target.name}`,
  });
  return { status: 204 };
};

async function theOne(
  call: CallOf<"getTarget" | "testTarget" | "deleteTarget">,
  services: Services,
): Promise<StoredTarget> {
  const name = call.params.target as string;
  const found = (await services.notices.list()).find(({ target }) => target.name === name);
  if (found === undefined) throw notFound("target", name);
  if (!maySeeTarget(call.identity, found.target)) throw hidden("target", name);
  return found;
}

function present(stored: StoredTarget, { tokens, leader }: Services) {
  return presentTarget(stored, rightsOf(stored.target, tokens, leader.nowMs()) === undefined);
}

function checkReach(identity: Identity, { component, pool }: WireTargetCreation, services: Services): void {
  if (component !== undefined && !reachesComponent(identity, component)) {
    throw forbidden(
      `The component "${component}" is not in the reach of this token.`,
      "Notices are about your own components; an operator can add a target for others.",
    );
  }
  if (pool !== undefined && !reachesPool(identity, pool)) throw hidden("pool", pool);
  const ownsToken = services.tokens.find(parentOf(identity, services)).length > 0;
  if (!ownsToken) throw problemError("unauthenticated", "The token of this call is gone.");
}

/** A session ends within hours: what it adds belongs to the token that it came from (B9). */
function parentOf({ tokenId }: Identity, { tokens }: Services): string {
  return tokens.find(tokenId)[0]?.session?.parentId ?? tokenId;
}

function targetOf(
  { name, kind, url, on, component, pool, asked_only: isAskedOnly }: WireTargetCreation,
  { identity }: CallOf<"createTarget">,
  services: Services,
): Target {
  return {
    ...{ name, kind, url },
    secret: kind === "webhook" ? makeSigningSecret() : null,
    on: on ?? noticeKind.options,
    ...{ component: component ?? null, pool: pool ?? null, isAskedOnly: isAskedOnly ?? false },
    ...{ tokenId: parentOf(identity, services), owner: identity.name },
    createdAtMs: services.leader.nowMs(),
  };
}

const claimed = new WeakMap<Services["notices"], Set<string>>();

/** Keeps the name for the one that is being made; returns the way to give it up. */
async function claim(name: string, identity: Identity, { notices }: Services): Promise<() => void> {
  const existing = await notices.list();
  const names = claimed.get(notices) ?? new Set();
  claimed.set(notices, names);
  if (names.has(name) || existing.some(({ target }) => target.name === name)) {
    throw problemError("name_taken", `There is a target "${name}" already.`, {
      hint: "Choose another name, or remove that one first.",
    });
  }
  const own = existing.filter(({ target }) => target.owner === identity.name).length;
  if (existing.length >= TARGETS_MAX || own >= TARGETS_PER_OWNER_MAX) {
    throw problemError(
      "invalid_request",
      `There are ${existing.length} targets already, ${own} of them yours.`,
      {
        hint: `There may be ${TARGETS_MAX}, ${TARGETS_PER_OWNER_MAX} of one token; remove one first.`,
      },
    );
  }
  names.add(name);
  return () => names.delete(name);
}
