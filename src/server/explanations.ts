// Explanations (14): why a request waits, was stopped or was rejected.

import { queueOf, requestOf } from "../engine/index.ts";
import type { WireExplanation } from "../protocol/index.ts";
import type { Call, Services } from "./call.ts";
import type { Located } from "./locate.ts";
import { presentLive, presentRecord } from "./presentation.ts";
import { notFound } from "./problems.ts";

export async function explain(
  call: Call,
  services: Services,
  { id, record }: Located,
): Promise<WireExplanation> {
  if (record !== undefined) {
    const { status, number, reasons } = presentRecord(record);
    return { request_id: record.id, number, status, reasons };
  }
  const found = await services.leader.read((view): WireExplanation | undefined => {
    const request = requestOf(view.state, id);
    const shown = presentLive(view, id, { identity: call.identity, grants: services.grants });
    if (request === undefined || shown === undefined) return undefined;
    const { status, number, reasons, stop, hold } = shown;
    const positions =
      status !== "queued"
        ? []
        : [...(request.progress.status === "queued" ? view.state.pools.keys() : [])]
            .map((pool) => ({ pool, position: queueOf(view.state, pool, view.nowMs).indexOf(id) + 1 }))
            .filter(({ position }) => position > 0);
    return { request_id: id, number, status, reasons, stop, hold, positions };
  });
  if (found === undefined) throw notFound("request", id);
  return found;
}
