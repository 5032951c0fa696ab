// The facts of an explanation on the wire (14): unions that words are made from, and the short code of why a request waits.

import { z } from "zod";
import { amounts, timestamp } from "./common.ts";
import { whyCode } from "./dashboard.ts";

/** Why a request waits in one word; the last three: it is not in the queue yet. */
export const waitCode = z.enum([...whyCode.options, "delayed", "after", "array"]);
export type WireWaitCode = z.infer<typeof waitCode>;

/** In a few words. */
export const WAIT_WORDS: Readonly<Record<WireWaitCode, string>> = {
  units: "too few units",
  behind: "others come first",
  limit: "its own limit",
  group_limit: "the limit of its group",
  reserved: "its own reserve",
  held: "promised, others are stopping",
  held_elsewhere: "promised in another pool",
  delayed: "pauses before it is tried again",
  after: "others have to end first",
  array: "its turn in its array",
};

/** A request in the story of another one; null: the caller may know that it exists, but not which one it is. */
export const party = z.object({
  id: z.string().nullable(),
  number: z.int().optional(),
  name: z.string().optional(),
  component: z.string().optional(),
});
export type WireParty = z.infer<typeof party>;

const comparedPart = z.object({
  /** Null: not to be known. */
  element: z.string().nullable(),
  kind: z.enum(["group", "policy", "operation"]),
  satisfaction: z.number().nullable(),
});

/** Which part of the order puts one request before another, with what each has there (Y7). */
export const orderDifference = z.discriminatedUnion("part", [
  z.object({
    /** 1 yes, 0 no for `sensitive` and `reserve` (fits its reserve); scores in millionths. */
    part: z.enum(["sensitive", "reserve", "priority", "class", "band", "score"]),
    rule: z.string(),
    theirs: z.number(),
    mine: z.number(),
  }),
  z.object({
    part: z.literal("submission"),
    rule: z.string(),
    theirs_at: timestamp,
    mine_at: timestamp,
  }),
  z.object({
    part: z.enum(["satisfaction", "age"]),
    rule: z.string(),
    theirs: comparedPart,
    mine: comparedPart,
  }),
]);
export type WireOrderDifference = z.infer<typeof orderDifference>;

export const orderFact = z.object({ request: party, difference: orderDifference });
export type WireOrderFact = z.infer<typeof orderFact>;

/** By which rule a run may be taken. */
export const permit = z.enum([
  "priority",
  "reclaim",
  "gap",
  "class",
  "sensitive_claim",
  "beyond_share",
  "within_share",
]);
export type WirePermit = z.infer<typeof permit>;

/** The one rule that forbids to take a run. */
export const bar = z.enum([
  "not_preemptible",
  "sensitive",
  "too_young",
  "shielded",
  "guarded",
  "priority_not_lower",
  "uses_own_reserve",
  "top_class",
  "class_not_lower",
  "in_share",
  "no_checkpoint",
  "service",
  "near_completion",
  "costs_too_much",
  "same_operation",
  "starving",
  "protected_share",
  "left_too_poor",
]);
export type WireBar = z.infer<typeof bar>;

export const PERMIT_RULES: Readonly<Record<WirePermit, string>> = {
  priority: "8.1",
  reclaim: "8.2",
  gap: "G4",
  class: "10.2",
  sensitive_claim: "10.2",
  beyond_share: "9.8",
  within_share: "9.8",
};

export const BAR_RULES: Readonly<Record<WireBar, string>> = {
  not_preemptible: "V2",
  sensitive: "V2",
  too_young: "V2",
  shielded: "V6",
  guarded: "V6",
  priority_not_lower: "8.1",
  uses_own_reserve: "8.1",
  top_class: "10.2",
  class_not_lower: "10.1",
  in_share: "10.1",
  no_checkpoint: "10.3",
  service: "10.3",
  near_completion: "10.3",
  costs_too_much: "10.5",
  same_operation: "9.8",
  starving: "9.8",
  protected_share: "9.5",
  left_too_poor: "9.8",
};

/** Runs that differ in nothing that matters, and the one rule by which they may or may not be taken. */
export const consideredKind = z.object({
  component: z.string().nullable(),
  priority: z.number(),
  preemption_class: z.number(),
  resources: amounts,
  count: z.int(),
  permitted: z.int(),
  permit: permit.nullable(),
  bar: bar.nullable(),
  rule: z.string(),
  /** When the bar ends by itself for the first of them; null: it does not, or nobody knows. */
  until: timestamp.nullable(),
  /** What it would cost to stop the cheapest of them; in pools of discipline class. */
  cost_minutes: z.number().nullable(),
});
export type WireConsidered = z.infer<typeof consideredKind>;

/** Why nobody is preempted for a request (Y4). */
export const preemptionFact = z.discriminatedUnion("why", [
  z.object({ why: z.literal("not_first"), rule: z.literal("V1"), head: party }),
  z.object({ why: z.literal("own_quota"), rule: z.literal("V1") }),
  z.object({ why: z.literal("promised"), rule: z.literal("V5") }),
  z.object({ why: z.literal("not_short"), rule: z.literal("V1") }),
  z.object({
    why: z.literal("too_little"),
    rule: z.literal("V3"),
    keys: z.array(z.object({ key: z.string(), lacking: z.number(), permitted: z.number() })),
  }),
  z.object({ why: z.literal("too_few_nodes"), rule: z.literal("N2"), fitting: z.int(), asked: z.int() }),
  z.object({
    why: z.literal("too_dear"),
    rule: z.literal("10.5"),
    victims: z.int(),
    victims_max: z.int(),
    cost_minutes: z.number(),
    value_minutes: z.number(),
  }),
  z.object({ why: z.literal("not_starving"), rule: z.literal("9.4"), starves_at: timestamp.nullable() }),
  z.object({ why: z.literal("back_off"), rule: z.literal("9.7"), until: timestamp }),
  z.object({ why: z.literal("left_too_poor"), rule: z.literal("9.8") }),
  z.object({ why: z.literal("unsettled"), rule: z.literal("6") }),
]);
export type WirePreemptionFact = z.infer<typeof preemptionFact>;

/** When it starts if nothing new arrives and every run ends at its walltime, from a forward run (Y3, X6). */
export const startsFact = z.discriminatedUnion("basis", [
  z.object({ basis: z.literal("by_walltimes"), at: timestamp }),
  /** Runs without a walltime hold what it needs; the first of them are named. */
  z.object({ basis: z.literal("unknown"), without_walltime: z.array(party) }),
  /** Not before this moment, which is as far as was looked. */
  z.object({ basis: z.literal("later"), than: timestamp }),
]);
export type WireStartsFact = z.infer<typeof startsFact>;

export const protection = z.object({
  by: z.enum([
    "not_preemptible",
    "sensitive",
    "top_class",
    "no_checkpoint",
    "service",
    "own_reserve",
    "min_runtime",
    "shield",
    "near_completion",
    "fair_share",
  ]),
  until: timestamp.nullable(),
  /** With `fair_share`: how far into it (9.5). */
  group: z.enum(["non_preemptible", "aggressively_preemptible"]).nullable(),
});
export type WireProtection = z.infer<typeof protection>;

/** How a run stands (Y5). */
export const runFacts = z.object({
  pool: z.string(),
  started_at: timestamp,
  ends_at: timestamp.nullable(),
  units: z.array(z.object({ key: z.string(), amount: z.number(), borrowed: z.number() })),
  /** Requests that wait and could take it if they were first in line; the first of them. */
  takers: z.array(z.object({ request: party, permit, rule: z.string() })),
  taker_count: z.int(),
  protection: z.array(protection),
});
export type WireRunFacts = z.infer<typeof runFacts>;

/** A run that went on when a victim was chosen, and the rule that spared it, with what each of the two has there. */
export const spared = z.discriminatedUnion("why", [
  z.object({
    why: z.literal("barred"),
    rule: z.string(),
    request: party,
    bar: z.enum(["not_preemptible", "sensitive", "too_young", "top_class"]),
  }),
  z.object({
    /** Costs are in minutes. */
    why: z.enum(["higher_priority", "higher_class", "higher_cost"]),
    rule: z.string(),
    request: party,
    theirs: z.number(),
    victims: z.number(),
  }),
  z.object({
    why: z.literal("started_earlier"),
    rule: z.string(),
    request: party,
    theirs_at: timestamp,
    victims_at: timestamp,
  }),
]);
export type WireSpared = z.infer<typeof spared>;

/** What becomes of a run that stops for another request (Y6). */
export const victimFacts = z.object({
  for: party.nullable(),
  /** Among those that stop for the same request, in the order of victims. */
  place: z.int(),
  count: z.int(),
  /** Runs that have what it gives up, and went on: one per component and rule, the latest of them. */
  spared: z.array(spared),
  /** What its end makes of it; `delayed`: queued after a pause. Null where that was not tried. */
  ends_as: z.string().nullable(),
  comes_back: z.array(z.object({ pool: z.string(), place: z.int() })),
});
export type WireVictimFacts = z.infer<typeof victimFacts>;

/** The explanation in words: a sentence, and at most six lines (Y1). */
export const whyText = z.object({
  sentence: z.string(),
  lines: z.array(z.object({ label: z.string(), text: z.string() })),
});
export type WireWhyText = z.infer<typeof whyText>;
