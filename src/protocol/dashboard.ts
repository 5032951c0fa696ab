// What the dashboard asks for beside the plain resources (B4, B5), and its sessions (B8–B10). The answers are made for a
// page that loads once and then follows the event stream: each says at which event it was true.

import { z } from "zod";
import { role } from "./access.ts";
import { amounts, moment, name, timestamp } from "./common.ts";
import { LANES_MAX, PAGE_ITEMS_MAX, TIMELINE_PIXELS_MAX } from "./limits.ts";
import { discipline } from "./pools.ts";
import { preemptionReason } from "./requests.ts";

/** The event after which the answer was true: `GET /v1/events?after=` goes on from there (B4). */
const seq = z
  .int()
  .describe("The answer was true after this event; GET /v1/events?after= goes on from there.");

// --- Overview

/** Units of one key by kind of use (G6, V5). Together they are the capacity, unless it was lowered below the use (P7). */
export const keyUse = z
  .object({
    key: z.string(),
    capacity: z.number(),
    own: z.number().describe("In use, within what is reserved for its component."),
    borrowed: z.number().describe("In use, above what is reserved for its component."),
    held: z.number().describe("Free, and set aside for a request that waits for the rest."),
    reserved_idle: z.number().describe("Free, and reserved for a component that does not use it."),
    free: z.number().describe("Free for every component."),
  })
  .meta({ id: "KeyUse" });

export const poolOverview = z
  .object({
    name: z.string(),
    discipline,
    keys: z.array(keyUse),
    running: z.int(),
    waiting: z.int(),
    /** Null: nobody waits. */
    oldest_wait_since: timestamp.nullable(),
    preempted_24h: z.int().describe("Attempts that ended by preemption in the last 24 hours."),
    /** Of the first key, in hours that end now; the share of the capacity that was in use. */
    used_24h: z.array(z.number()).describe("Part of the first key in use, hour by hour, the latest last."),
  })
  .meta({ id: "PoolOverview" });

export const problemCode = z.enum([
  "node_silent",
  "node_down",
  "expiry_paused",
  "guarantees_scaled",
  "runs_shielded",
  "head_blocked",
  "reserve_not_reachable",
  "rejected",
  "server_trouble",
]);

/** Something that a person should look at, in words, with the command that says more. */
export const overviewProblem = z
  .object({
    code: problemCode,
    message: z.string(),
    pool: z.string().nullable(),
    node: z.string().nullable(),
    /** The small number of a request. */
    request: z.int().nullable(),
    since: timestamp.nullable(),
    command: z.string(),
  })
  .meta({ id: "OverviewProblem" });

export const overviewAnswer = z
  .object({
    seq,
    time: timestamp,
    /** Those with a problem first, then by name. */
    pools: z.array(poolOverview),
    problems: z.array(overviewProblem),
  })
  .meta({ id: "Overview" });
export type WireOverview = z.infer<typeof overviewAnswer>;
export type WirePoolOverview = z.infer<typeof poolOverview>;
export type WireKeyUse = z.infer<typeof keyUse>;
export type WireOverviewProblem = z.infer<typeof overviewProblem>;

// --- Queue

/** Why a request waits, in one word; its explanation says more (14). */
export const whyCode = z.enum([
  "units",
  "behind",
  "limit",
  "group_limit",
  "reserved",
  "held",
  "held_elsewhere",
]);
export type WhyCode = z.infer<typeof whyCode>;

/** Slim: what the rest means comes when a row is opened (B4). */
export const queueRow = z
  .object({
    number: z.int(),
    name: z.string(),
    component: z.string(),
    wants: amounts.describe("Of each node where it wants several; without step_run."),
    nodes: z.int().optional().describe("Left out: one."),
    since: timestamp.describe("When it entered the queue last."),
    place: z.int().describe("In the order of its pool, from 1."),
    why: whyCode,
    pool: z.string().optional().describe("Left out where one pool was asked for."),
  })
  .meta({ id: "QueueRow" });
export type WireQueueRow = z.infer<typeof queueRow>;

export const queueSort = z.enum(["place", "waited", "number", "component"]);

export const queueQuery = z.strictObject({
  pool: name.optional(),
  component: name.optional(),
  why: whyCode.optional(),
  /** A part of the name, or the beginning of the number. */
  q: z.string().max(256).optional(),
  sort: queueSort.optional(),
  limit: z.coerce.number().int().min(1).max(PAGE_ITEMS_MAX).optional(),
  cursor: z.string().max(1_024).optional(),
});

export const queueAnswer = z
  .object({
    seq,
    time: timestamp,
    rows: z.array(queueRow),
    next_cursor: z.string().nullable(),
    total: z.int().describe("All that wait in the pools that were asked for."),
    matching: z.int().describe("Those of them that the filters let through."),
    hidden: z.int().describe("Those whose names the token may not know; they are counted and not listed."),
    /** Of all that wait in those pools, whatever the other filters say. */
    counts: z.partialRecord(whyCode, z.int()),
  })
  .meta({ id: "Queue" });
export type WireQueue = z.infer<typeof queueAnswer>;

// --- Timeline

export const timelineLanes = z.enum(["node", "component", "request"]);

export const timelineQuery = z.strictObject({
  pool: name,
  from: moment.optional().describe("Left out: six hours before `to`."),
  to: moment.optional().describe("Left out: now."),
  lanes: timelineLanes.optional().describe("Left out: node where the pool has nodes, else component."),
  component: name.optional(),
  pixels: z.coerce
    .number()
    .int()
    .min(1)
    .max(TIMELINE_PIXELS_MAX)
    .optional()
    .describe("Width of the drawing: bars below one pixel are merged."),
});

export const timelineBar = z
  .object({
    lane: z.int().describe("Index into `lanes`."),
    /** Milliseconds after `from`; bars that began earlier or end later are cut. */
    start: z.int(),
    end: z.int(),
    /** More than one: bars that would be narrower than a pixel, in one. Then the rest is of the first of them. */
    count: z.int(),
    number: z.int().nullable().describe("Null: its name is hidden, or several are merged."),
    name: z.string(),
    component: z.string().nullable(),
    units: amounts,
    attempt: z.int(),
    /** Now, as far as it is known: of what has ended it is not. */
    borrowed: amounts.optional(),
    /** Null: it runs still. */
    outcome: z.enum(["succeeded", "failed", "preempted", "cancelled", "lost", "walltime"]).nullable(),
    /** For whom it was stopped, and why. */
    preempted_for: z.int().nullable(),
    reason: preemptionReason.nullable(),
    told: z.int().nullable().describe("When it was told to stop, in milliseconds after `from`."),
    saved: z
      .int()
      .optional()
      .describe("When its last checkpoint was complete, likewise; left out: it made none."),
  })
  .meta({ id: "TimelineBar" });
export type WireTimelineBar = z.infer<typeof timelineBar>;

export const timelineAnswer = z
  .object({
    seq,
    time: timestamp,
    from: timestamp,
    to: timestamp,
    lanes_by: timelineLanes,
    lanes: z.array(z.object({ name: z.string(), number: z.int().optional() })),
    bars: z.array(timelineBar),
    /** Requests that wait now, in the order of the pool; at most one for each lane of a screen. */
    waiting: z.array(queueRow),
    /** Something is left out: ask for a shorter time. */
    cut: z.boolean(),
  })
  .meta({ id: "Timeline" });
export type WireTimeline = z.infer<typeof timelineAnswer>;

// --- Usage

export const usageBy = z.enum(["team", "user", "pool", "month", "day"]);

export const usageQuery = z.strictObject({
  pool: name.optional(),
  component: name.optional(),
  from: moment.optional().describe("Rounded down to a day in UTC. Left out: the first day of this month."),
  to: moment.optional().describe("Rounded up to a day in UTC. Left out: now."),
  by: z
    .string()
    .max(64)
    .refine((text) => text.split(",").every((one) => usageBy.safeParse(one).success), {
      message: `is one or more of ${usageBy.options.join(", ")}, separated by commas`,
    })
    .optional()
    .describe("What a row is about, one or more, separated by commas. Left out: pool,team."),
  half_life: z.coerce
    .number()
    .min(60)
    .max(366 * 24 * 3_600)
    .optional()
    .describe("Seconds: adds `decayed`, in which use counts half as much for each such time that is over."),
});

/** Unit-seconds. `in_share` and `borrowed` together are what the pool gave. */
export const usageRow = z
  .object({
    pool: z.string().optional(),
    team: z.string().optional().describe("The component."),
    user: z.string().optional().describe("Who submitted it."),
    month: z.string().optional().describe("Such as 2026-10, in UTC."),
    day: z.string().optional().describe("Such as 2026-10-01, in UTC."),
    key: z.string(),
    in_share: z.number(),
    borrowed: z.number(),
    lent: z.number().describe("Reserved, idle, and in use by others."),
    lost: z.number().describe("Used by attempts that were preempted, since their last checkpoint or start."),
    waited: z
      .number()
      .describe("Units asked for × time in the queue, of what has started; on the day of the start."),
    starts: z.int(),
    preempted: z.int(),
    decayed: z.number().optional(),
  })
  .meta({ id: "UsageRow" });
export type WireUsageRow = z.infer<typeof usageRow>;

export const usageAnswer = z
  .object({
    seq,
    time: timestamp,
    from: timestamp,
    to: timestamp,
    /** Before this, nothing was kept; null: nothing is missing. */
    kept_since: timestamp.nullable(),
    rows: z.array(usageRow),
  })
  .meta({ id: "Usage" });
export type WireUsage = z.infer<typeof usageAnswer>;

// --- History

export const historyQuery = z.strictObject({
  from: moment.optional().describe("Left out: 24 hours before `to`."),
  to: moment.optional().describe("Left out: now."),
  points: z.coerce
    .number()
    .int()
    .min(1)
    .max(LANES_MAX)
    .optional()
    .describe("At most so many; left out: 288."),
});

/** Averages between two moments, per component: what it used, what it was owed, how many of it waited. */
export const historyAnswer = z
  .object({
    seq,
    time: timestamp,
    pool: z.string(),
    keys: z.array(z.string()),
    /** Ends of the intervals; the first one begins at `from`. */
    from: timestamp,
    at: z.array(timestamp),
    waiting: z.array(z.number()),
    capacity: z.record(z.string(), z.array(z.number())),
    components: z.array(
      z.object({
        component: z.string(),
        used: z.record(z.string(), z.array(z.number())),
        borrowed: z.record(z.string(), z.array(z.number())),
        /** In fair_share pools: the fair share, in units. */
        owed: z.record(z.string(), z.array(z.number())).optional(),
        waiting: z.array(z.number()),
      }),
    ),
  })
  .meta({ id: "PoolHistory" });
export type WirePoolHistory = z.infer<typeof historyAnswer>;

// --- Sessions

/** Asks for a link that opens the dashboard once, with the rights of the token that asks (B8). */
export const linkAnswer = z
  .object({
    /** 128 random bits; goes behind `#once=` of the dashboard's address. */
    once: z.string(),
    expires_at: timestamp,
  })
  .meta({ id: "SessionLink" });
export type WireLink = z.infer<typeof linkAnswer>;

/** One of the two. */
export const sessionCreation = z
  .strictObject({
    once: z.string().max(64).optional(),
    token: z.string().max(256).optional(),
  })
  .refine(({ once, token }) => (once === undefined) !== (token === undefined), {
    message: "Give either once or token",
  });

export const sessionAnswer = z
  .object({
    name: z.string(),
    role,
    components: z.array(z.string()).nullable(),
    pools: z.array(z.string()).nullable(),
    permissions: z.array(z.string()),
    /** `session`: by cookie; `token`: by the header Authorization. */
    by: z.enum(["session", "token"]),
    expires_at: timestamp
      .nullable()
      .describe("Of a session: one hour after its last use, twelve after its start."),
    time: timestamp,
    seq,
  })
  .meta({ id: "Session" });
export type WireSession = z.infer<typeof sessionAnswer>;
