// What a server that is one of several does before it answers: it knows that it may, it has seen what the client has seen,
// and it passes changes on to the leader (C6, C8, C9).

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Log } from "../leader/index.ts";
import type { RouteName } from "../protocol/index.ts";
import type { Replica } from "../replica/index.ts";
import { createForwarding, type Forwarding, NOT_TAKEN } from "./forwarding.ts";
import type { Positions } from "./positions.ts";
import { problemError } from "./problems.ts";
import { createProofs } from "./proofs.ts";

export interface Replicated extends Pick<Forwarding, "clientAddress" | "tellLeader"> {
  readonly forwarding: Forwarding;
  /** True if the leader has answered the call. Throws where this server must not answer it. */
  isServedElsewhere(
    exchange: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse },
    call: { readonly address: string; readonly method: string; readonly name: RouteName | undefined },
  ): Promise<boolean>;
  /** Adds what an answer reflects to its headers. */
  addPosition(headers: string[]): void;
}

/** How long a call waits until this server has seen what it asks for. */
const CATCH_UP_MS = 5_000;

/** Routes that change something, but where a repetition does no harm. */
const REPEATABLE: ReadonlySet<RouteName | undefined> = new Set<RouteName>([
  ...(["renewRequest", "syncNode", "syncPool", "sendLog", "sendPoolLog", "getJobLogs"] as const),
]);

/** Logs are passed on by the server that agents speak to. */
const LEADER_READS: ReadonlySet<RouteName | undefined> = new Set<RouteName>(["getJobLogs"]);

/** What a client has seen at one server, it must not miss at another. */
export async function reachOrRefuse(replica: Replica, seq: number): Promise<void> {
  if (await replica.reaches(seq, CATCH_UP_MS)) return;
  throw problemError("behind", `This server has seen the events up to ${replica.seq()}, not ${seq}.`, {
    hint: "Try again soon, or ask another server.",
    headers: { "retry-after": "1" },
  });
}

function isRead(method: string, url: string): boolean {
  return method === "GET" || method === "HEAD" || /[?&]dry_run=true(&|$)/.test(url);
}

function seconds(ms: number): string {
  return (Math.round(ms) / 1_000).toFixed(1);
}

export function createReplicated(
  replica: Replica,
  { positions, log }: { readonly positions: Positions; readonly log: Log },
): Replicated {
  const forwarding = createForwarding(replica);
  const proofs = createProofs(replica, positions);

  /** Only the leader has everything that was acknowledged; a follower may be behind. */
  async function compareWithKnown(text: unknown): Promise<void> {
    if (replica.role() !== "leader") return;
    const known = proofs.parse(text);
    if (known === undefined || known.seq <= replica.seq()) return;
    log.error({ ...known, seqHere: replica.seq() }, "history_lost: a client knows more than the journal has");
    await replica.loseHistory(known, `A client has seen event ${known.seq}.`);
    throw problemError(
      "not_leader",
      "The database has lost a part of the history; this server reads it anew.",
      NOT_TAKEN,
    );
  }

  return {
    forwarding,
    clientAddress: forwarding.clientAddress,
    tellLeader: forwarding.tellLeader,
    async isServedElsewhere({ incoming, outgoing }, { address, method, name }) {
      const { url = "", headers } = incoming;
      if (replica.role() === "follower" && (LEADER_READS.has(name) || !isRead(method, url))) {
        const isRepeatable = headers["idempotency-key"] !== undefined || REPEATABLE.has(name);
        if (await forwarding.forward(incoming, outgoing, { address, isRepeatable })) return true;
      }
      await replica.untilSure();
      const { "berth-known": known, "berth-min-seq": minSeq } = headers;
      if (known !== undefined) await compareWithKnown(known);
      if (Number.isSafeInteger(Number(minSeq))) await reachOrRefuse(replica, Number(minSeq));
      return false;
    },
    addPosition(headers) {
      const role = replica.role();
      headers.push(
        "berth-seq",
        String(replica.seq()),
        "berth-epoch",
        String(replica.epoch()),
        "berth-role",
        role,
      );
      if (role === "follower") headers.push("berth-behind-seconds", seconds(replica.behindMs()));
      headers.push("berth-position", proofs.current());
    },
  };
}
