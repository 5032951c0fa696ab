// The servers that share a store (C13).

import type { WireCluster } from "../../protocol/index.ts";
import type { Replica } from "../../replica/index.ts";
import { type Handler, ok, type Services } from "../call.ts";
import { problemError } from "../problems.ts";

export const getCluster: Handler<"getCluster"> = async (_call, services) =>
  ok(services.replica === undefined ? alone(services) : await present(services.replica));

export const handOver: Handler<"handOver"> = async ({ identity, body: { to } }, services) => {
  const { replica, leader, log } = services;
  const others = (await replica?.cluster())?.members.filter(({ id }) => id !== replica?.id) ?? [];
  if (replica === undefined || others.length === 0) {
    throw problemError("invalid_request", "There is no other server that could lead.", {
      hint: "Start another one on the same PostgreSQL database first.",
    });
  }
  const chosen = others.find(({ id, url }) => id === to || url === to);
  if (to !== undefined && chosen === undefined) {
    throw problemError("not_found", `No other server is called "${to}".`, {
      hint: `Give the id or the address of one of them: ${others.map(({ id, url }) => url ?? id).join(", ")}.`,
    });
  }
  const target = chosen?.id ?? "any server";
  await leader.audit({ actor: identity.name, action: "handOver", target, outcome: "accepted", body: null });
  // Answered first: the connection is one of those that the handover waits for.
  replica.handOver(chosen?.id).catch((error: unknown) => log.error({ err: error }, "the handover failed"));
  return { status: 202 };
};

async function present(replica: Replica): Promise<WireCluster> {
  const { epoch, leaderId, members, head, isHinted, databasePath } = await replica.cluster();
  return {
    role: replica.role(),
    epoch,
    seq: head.seq,
    leader: leaderId,
    behind_seconds: Math.round(replica.behindMs()) / 1_000,
    leader_changes: replica.leaderChanges(),
    history_lost: presentLoss(replica.historyLost()),
    has_hint: isHinted,
    database_path: databasePath ?? null,
    members: members.map(({ id, url, version, seq }) => ({ id, url, version, seq, leads: id === leaderId })),
  };
}

function presentLoss(loss: ReturnType<Replica["historyLost"]>): WireCluster["history_lost"] {
  if (loss === undefined) return null;
  return { lost_from: loss.fromSeq, lost_to: loss.toSeq, epoch: loss.epoch, why: loss.why };
}

/** An embedded store has one server. */
function alone({ leader, version }: Services): WireCluster {
  const { epoch, seq } = leader.status();
  return {
    role: "leader",
    epoch,
    seq,
    leader: "this server",
    behind_seconds: 0,
    leader_changes: 0,
    history_lost: null,
    has_hint: false,
    database_path: null,
    members: [{ id: "this server", url: null, version, seq, leads: true }],
  };
}
