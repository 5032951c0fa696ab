// The event stream: names in the past tense, and what every message carries.

import { z } from "zod";

export const eventName = z.enum([
  "stream.opened",
  "stream.reset",
  "request.queued",
  "request.changed",
  "request.rejected",
  "request.allocated",
  "request.held",
  "request.hold_ended",
  "request.preempting",
  "request.stopping",
  "request.checkpointed",
  "request.released",
  "request.preempted",
  "request.failed",
  "request.cancelled",
  "request.expired",
  "request.deleted",
  "pool.changed",
  "pool.deleted",
  "pool.starvation_changed",
  "group.changed",
  "group.deleted",
  "policy.changed",
  "policy.detached",
  "node.changed",
  "node.removed",
  "settings.changed",
]);
export type EventName = z.infer<typeof eventName>;

/** The data of a message. What else there is depends on the event; read the object itself for all of it. */
export const streamEvent = z
  .looseObject({
    event: eventName,
    /** Position in the journal. The id of the message says it too, and in which history: send that as `Last-Event-ID`. */
    seq: z.int(),
    at: z.string(),
    request_id: z.string().optional(),
    number: z.int().optional(),
    name: z.string().optional(),
    component: z.string().optional(),
    pool: z.string().nullable().optional(),
    /** Of `request.allocated`, for those who may hold: the fencing token of the grant. */
    token: z.string().optional(),
  })
  .meta({ id: "StreamEvent" });
export type WireEvent = z.infer<typeof streamEvent>;
