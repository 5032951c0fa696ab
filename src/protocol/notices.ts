// Notices about requests: what is sent to whom (H2), as the API shows it.

import { z } from "zod";
import { name, pageOf, timestamp } from "./common.ts";

export const noticeKind = z.enum(["started", "preempted", "rejected", "ended"]);
export type NoticeKind = z.infer<typeof noticeKind>;

/** Typed, put into labels, and listed with commas. */
export const targetName = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._-]{0,62}$/,
    "has small letters, digits, dots, dashes and underscores, 63 at most",
  );

export const targetKind = z.enum(["slack", "webhook"]);
export type TargetKind = z.infer<typeof targetKind>;

export const targetCreation = z.strictObject({
  name: targetName,
  kind: targetKind,
  url: z.string().min(1).max(2_048),
  /** Left out: all of them. */
  on: z.array(noticeKind).min(1).max(4).optional(),
  /** Only requests of this component. Left out: of all that the token reaches. */
  component: name.optional(),
  pool: name.optional(),
  /** Only requests that name it in their label `berth.notify`. */
  asked_only: z.boolean().optional(),
});
export type WireTargetCreation = z.infer<typeof targetCreation>;

export const targetAnswer = z
  .object({
    name: targetName,
    kind: targetKind,
    /** Scheme and host; the rest of the address is a secret of its own. */
    url: z.string(),
    on: z.array(noticeKind),
    component: z.string().nullable(),
    pool: z.string().nullable(),
    asked_only: z.boolean(),
    /** The token with whose rights it hears of things. */
    owner: z.string(),
    created_at: timestamp,
    /** `failing`: the last try failed; `stopped`: its token was revoked or has expired, and nothing is sent. */
    state: z.enum(["good", "failing", "stopped"]),
    /** Why the last try failed. */
    problem: z.string().nullable(),
    failing_since: timestamp.nullable(),
    last_sent_at: timestamp.nullable(),
    /** Messages that arrived, tries that failed, messages that were given up, and messages that are still to be tried. */
    sent: z.int(),
    failed: z.int(),
    lost: z.int(),
    pending: z.int(),
    /** Of a webhook, in the answer that creates it and in no other: with it the receiver checks signatures. */
    secret: z.string().optional(),
  })
  .meta({ id: "NoticeTarget" });
export type WireTarget = z.infer<typeof targetAnswer>;
export const targetPage = pageOf(targetAnswer, "NoticeTargetPage");

export const targetTest = z
  .object({
    delivered: z.boolean(),
    /** Why not. */
    problem: z.string().nullable(),
  })
  .meta({ id: "NoticeTest" });
export type WireTargetTest = z.infer<typeof targetTest>;
