// An explanation in words (Y1): one sentence and at most six lines, made from the facts alone. The only place where they are
// made: the API answers them beside the facts, and clients print them.

import type { WirePoolExplanation, WireRequest, WireWhyText } from "../../protocol/index.ts";
import { amountsText, counted, durationText, endText, listed } from "../../words/index.ts";
import { changesText } from "./changes.ts";
import {
  candidatesText,
  differenceText,
  nodesText,
  preemptionText,
  shareText,
  sparedText,
} from "./reasons.ts";
import { PERMITTED, PROTECTED, titleOf, titleOfParty } from "./titles.ts";
import type { Facts, World } from "./world.ts";

type Line = WireWhyText["lines"][number];
type Quota = Extract<WirePoolExplanation["blocked_by"], { allowed: number }>;
type Shortage = Extract<WirePoolExplanation["blocked_by"], { rule: "units" }>["short"][number];
type Holder = WirePoolExplanation["holders"][number];

const NAMED_MAX = 3;
/** Of one answer (Y1). */
const LINES_MAX = 6;

export function tell(facts: Facts, request: WireRequest, world: World): WireWhyText[] {
  if (facts.before !== null) return tellOrder(facts, request);
  if (facts.pools.length === 0) return [tellOther(facts, request, world)];
  return facts.pools.map((pool) => tellWaiting({ facts, pool, request, world }));
}

/** What a waiting request meets in one pool. */
interface Situation {
  readonly facts: Facts;
  readonly pool: WirePoolExplanation;
  readonly request: WireRequest;
  readonly world: World;
}

// --- Waiting

function tellWaiting(situation: Situation): WireWhyText {
  const { request, pool, world } = situation;
  const title = titleOf(request);
  const where = `in pool ${pool.pool}`;
  const place = pool.position === 1 ? "" : `, place ${pool.position} of ${pool.queue_length}`;
  const { blocked_by: blocker } = pool;
  switch (blocker.rule) {
    case "limit":
    case "group_limit":
    case "reserved": {
      const quota = blocker.rule === "reserved" ? "reserve" : "limit";
      return {
        sentence: `${title} waits ${where} for its own ${quota}, and does not hold up others.`,
        lines: linesOf(
          ["needs", quotaText(request, blocker)],
          ["in use", quotaUsersText(situation)],
          ...lastLines(situation, "when less of that is in use"),
        ),
      };
    }
    case "holds":
      return {
        sentence: `${title} is next ${where}: its units are promised, and others are stopping for it.`,
        lines: linesOf(
          ["in use", stoppingText(situation)],
          ...lastLines(situation, "when they have stopped"),
        ),
      };
    case "holds_elsewhere":
      return {
        sentence: `${title} is promised units in pool ${blocker.pool ?? "another one"}; ${where} it is passed over until then.`,
        lines: [],
      };
    case "behind_head":
      return {
        sentence: `${title} waits for its turn ${where}${place}.`,
        lines: linesOf(
          ["needs", shareText(pool, request, world)],
          ["first", firstText(pool)],
          ["preempts", preemptsText(situation)],
          ...lastLines(situation, turnText(pool)),
        ),
      };
    case "units":
      return {
        sentence: `${title} waits for ${listed(blocker.short.map(({ key, asked }) => `${asked} ${key}`))} ${where}${place}.`,
        lines: linesOf(
          [
            "needs",
            [nodesText(pool), shareText(pool, request, world)].filter((text) => text !== "").join("; "),
          ],
          ["in use", blocker.short.map((shortage) => inUseText(shortage, situation)).join("; ")],
          ["first", firstText(pool)],
          ["preempts", preemptsText(situation)],
          ...lastLines(situation, pool.position > 1 ? "after those before it" : "when enough units are free"),
        ),
      };
  }
}

/** The first of them; the last line says how many there are beside. */
function firstOf(lines: readonly Line[]): Line[] {
  if (lines.length <= LINES_MAX) return [...lines];
  const shown = lines.slice(0, LINES_MAX - 1);
  return [...shown, { label: "and", text: `${lines.length - shown.length} more` }];
}

/** What is said of an attempt now, then the attempts before it: the latest of them, as far as there is room. */
function withAttempts(lines: readonly Line[], { attempts }: WireRequest): Line[] {
  const room = LINES_MAX - lines.length;
  if (attempts.length <= room) return [...lines, ...attempts.map(attemptLine)];
  const earlier = attempts.length - (room - 1);
  return [
    ...lines,
    { label: "attempts", text: `${earlier} earlier` },
    ...attempts.slice(earlier).map(attemptLine),
  ];
}

/** Without those that have nothing to say. */
function linesOf(...lines: readonly (readonly [label: string, text: string])[]): Line[] {
  return lines.filter(([, text]) => text !== "").map(([label, text]) => ({ label, text }));
}

function lastLines(situation: Situation, otherwise: string): (readonly [string, string])[] {
  const { facts, pool, request } = situation;
  return [
    ["starts", startsText(situation, otherwise)],
    ["now if", changesText(facts, pool, request)],
  ];
}

function quotaText({ component }: WireRequest, { rule, key, asked, used, allowed, group }: Quota): string {
  const whose = rule === "group_limit" ? `group ${group ?? "above"}` : component;
  const what = rule === "reserved" ? "has reserved" : "may hold";
  return `${asked} ${key}: ${whose} ${what} ${allowed} and uses ${used}; with ${asked} more it would be ${used + asked} (G3)`;
}

function quotaUsersText({ pool, request, world }: Situation): string {
  if (pool.holders.length === 0) return "";
  return `by ${holdersText(pool.holders, pool.holder_count, request, world)}`;
}

function inUseText({ key, free, promised, coming_free: coming }: Shortage, situation: Situation): string {
  const { pool, request, world } = situation;
  const { capacity, usage } = world.amountsOf(pool.pool)(key);
  // On nodes, what is free is said of those that may serve the request.
  const used = pool.nodes === null && free <= capacity ? Math.max(usage, capacity - free) : usage;
  const holders = pool.holders.filter(({ units }) => (units[key] ?? 0) > 0);
  const notes = [
    ...(promised > 0 ? [`; ${promised} promised to others`] : []),
    ...(coming > 0 ? [`; ${coming} coming free`] : []),
  ];
  const by = holders.length === 0 ? "" : ` by ${holdersText(holders, pool.holder_count, request, world)}`;
  return `${used} of ${capacity} ${key}${by}${notes.join("")}`;
}

function holdersText(
  holders: readonly Holder[],
  count: number,
  { component }: WireRequest,
  { nowMs }: World,
): string {
  const shown = holders.slice(0, NAMED_MAX).map((holder) => {
    const title =
      holder.number === null
        ? "another team's run"
        : titleOf({ number: holder.number, name: holder.name ?? "" });
    const whose = holder.component === null || holder.component === component ? "" : `${holder.component}, `;
    const how = holder.stopping ? "stopping" : holder.preemptible ? "preemptible" : "not preemptible";
    const silence = silenceText(holder.silent_since, holder.given_up_at, nowMs);
    return `${title} (${whose}${how}, ${sinceText(holder.started_at, nowMs)}${silence === "" ? "" : `; its holder has been ${silence}`})`;
  });
  return `${shown.join(", ")}${count > shown.length ? ` and ${count - shown.length} more` : ""}`;
}

function stoppingText({ pool, world }: Situation): string {
  const stopping = pool.holders.filter((holder) => holder.stopping);
  return stopping
    .slice(0, NAMED_MAX)
    .map((holder) => {
      const title =
        holder.number === null
          ? "another team's run"
          : titleOf({ number: holder.number, name: holder.name ?? "" });
      const silence = silenceText(holder.silent_since, holder.given_up_at, world.nowMs);
      const rest = silence === "" ? "" : `; its holder has been ${silence}`;
      return `${title}${holder.component === null ? "" : ` of ${holder.component}`} is stopping${rest}`;
    })
    .join(", ");
}

/** Who is first, and the part of the order that puts them before this one (Y7). */
function firstText({ first, share }: WirePoolExplanation): string {
  if (first === null) return "";
  const more =
    share === null || share.ahead_count < 2 ? "" : `; ${counted(share.ahead_count, "operation")} in all`;
  return `${titleOfParty(first.request)}: ${differenceText(first.difference)}${more}`;
}

function preemptsText({ pool, world, request }: Situation): string {
  const nobody = preemptionText(pool, world.nowMs);
  const kinds = pool.preemption.why === "not_first" ? "" : candidatesText(pool, request, world.nowMs);
  return [nobody, kinds].filter((text) => text !== "").join(": ");
}

function turnText({ share }: WirePoolExplanation): string {
  return share === null
    ? "after that one, or before it if that cannot delay it (say --walltime)"
    : "after those that starve before it";
}

/** Only what a forward run has found is said as a time (Y3). */
function startsText({ facts, world, request }: Situation, otherwise: string): string {
  const { starts } = facts;
  if (starts === null) return otherwise;
  const secondsTo = (time: string) => durationText((Date.parse(time) - world.nowMs) / 1000);
  switch (starts.basis) {
    case "by_walltimes":
      return `in ${secondsTo(starts.at)} by walltimes, if nothing else arrives`;
    case "unknown": {
      const runs = listed(starts.without_walltime.map((one) => titleOfParty(one, request.component)));
      const has = starts.without_walltime.length === 1 ? "has" : "have";
      return `${otherwise}; no time can be given: ${runs} ${has} no walltime`;
    }
    case "later":
      return `${otherwise}; by walltimes, not within ${secondsTo(starts.than)}`;
  }
}

// --- The order of two (Y7)

function tellOrder({ before }: Facts, request: WireRequest): WireWhyText[] {
  const title = titleOf(request);
  if (before === null || before.length === 0)
    return [{ sentence: `${title} and the other one do not wait in the same pool.`, lines: [] }];
  return before.map(({ pool, order }) => {
    const isOwn = order.request.id === request.id;
    const [first, second] = isOwn ? [title, "the other one"] : [titleOfParty(order.request), title];
    return {
      sentence: `${first} comes before ${second} in pool ${pool}: ${differenceText(order.difference)}.`,
      lines: [],
    };
  });
}

// --- Requests that do not wait, or not now

function tellOther(facts: Facts, request: WireRequest, world: World): WireWhyText {
  const { delayed_until: until, blocked, reasons, stop, running } = facts;
  const title = titleOf(request);
  const attempts = withAttempts([], request);
  if (until !== null) {
    const left = durationText((Date.parse(until) - world.nowMs) / 1000);
    return { sentence: `${title} pauses before its next attempt, for another ${left}.`, lines: attempts };
  }
  const after = (id: string) => {
    const party = world.partyOf(id);
    const isForgotten = party.id !== null && party.number === undefined;
    return { label: "after" as const, text: isForgotten ? id : titleOfParty(party, request.component) };
  };
  if (blocked != null) return tellBlocked(title, blocked.at_once, blocked.after.map(after));
  if (request.cancelled_because != null) {
    return {
      sentence: `${title} was cancelled: it waited for a request that has not ended well.`,
      lines: withAttempts([after(request.cancelled_because)], request),
    };
  }
  if (request.status === "rejected") {
    return {
      sentence: `${title} was rejected: it could never start.`,
      lines: firstOf((reasons ?? []).map(rejectionLine)),
    };
  }
  if (stop !== null) return tellVictim(facts, request, world);
  if (running !== null && world.said.length > 0) return tellGranted(running.pool, request, world.said);
  if (running !== null) return tellRunning(running, request, world);
  if (request.status === "allocated")
    return {
      sentence: `${title} does not wait: it has run outside all pools for ${sinceText(request.started_at ?? "", world.nowMs)}.`,
      lines: attempts,
    };
  return { sentence: `${title} does not wait: it is ${request.status}.`, lines: attempts };
}

function tellBlocked(title: string, atOnce: number | null, after: WireWhyText["lines"]): WireWhyText {
  const what =
    after.length > 0
      ? `until ${after.length === 1 ? "another request has" : "other requests have"} ended`
      : `for its turn: at most ${atOnce} of its array at once`;
  return { sentence: `${title} is not in the queue yet: it waits ${what}.`, lines: firstOf(after) };
}

/** Granted, but whoever is to start it has not done so (S3, K3). */
function tellGranted(pool: string, request: WireRequest, said: readonly string[]): WireWhyText {
  return {
    sentence: `${titleOf(request)} was granted in pool ${pool}, and has not started yet.`,
    lines: firstOf(said.map((text) => ({ label: "starting", text }))),
  };
}

/** What of it is borrowed, who could take it, what protects it (Y5). */
function tellRunning(
  { pool, units, takers, taker_count: count, protection, ends_at: ends }: NonNullable<Facts["running"]>,
  request: WireRequest,
  { nowMs }: World,
): WireWhyText {
  const shown = units.filter(({ key }) => key !== "step_run");
  const borrowed = shown.filter((unit) => unit.borrowed > 0);
  const holds = `${amountsText(Object.fromEntries(shown.map(({ key, amount }) => [key, amount])))}; ${
    borrowed.length === 0
      ? "all of it within its share"
      : `borrowed ${amountsText(Object.fromEntries(borrowed.map((unit) => [unit.key, unit.borrowed])))}`
  }`;
  const more = count > NAMED_MAX ? ` and ${count - NAMED_MAX} more` : "";
  const names = takers
    .slice(0, NAMED_MAX)
    .map((taker) => `${titleOfParty(taker.request)} ${PERMITTED[taker.permit]} (${taker.rule})`);
  const secondsTo = (time: string) => durationText((Date.parse(time) - nowMs) / 1000);
  const silence = silenceText(request.holder_silent_since ?? null, request.given_up_at ?? null, nowMs);
  return {
    sentence: `${titleOf(request)} does not wait: it has run in pool ${pool} for ${sinceText(request.started_at ?? "", nowMs)}.`,
    lines: withAttempts(
      linesOf(
        ["holder", silence],
        ["holds", shown.length === 0 ? "" : holds],
        ["taken by", count === 0 ? "nobody who waits now" : `${names.join(", ")}${more}, if first in line`],
        [
          "protected",
          protection
            .map(
              ({ by, until }) =>
                `${PROTECTED[by]}${until === null ? "" : ` for another ${secondsTo(until)}`}`,
            )
            .join("; "),
        ],
        ["ends", ends === null ? "" : `in ${secondsTo(ends)} at the latest, by its walltime`],
      ),
      request,
    ),
  };
}

/** For whom, when it ends, who was spared, what comes next (Y6). */
function tellVictim({ stop, victim }: Facts, request: WireRequest, { nowMs }: World): WireWhyText {
  const who = victim?.for == null || victim.for.id === null ? "" : ` for ${titleOfParty(victim.for)}`;
  const left = durationText((Date.parse(stop?.deadline ?? "") - nowMs) / 1000);
  const silence = silenceText(request.holder_silent_since ?? null, request.given_up_at ?? null, nowMs);
  return {
    sentence: `${titleOf(request)} is being stopped${who} (${stop?.reason ?? stop?.cause}).`,
    lines: withAttempts(
      linesOf(
        [
          "stopping",
          `${stop?.phase}, ${silence === "" ? `at the latest in ${left}` : `its holder has been ${silence}`}`,
        ],
        [
          "place",
          victim == null || victim.count < 2
            ? ""
            : `${victim.place} of ${victim.count} in the order of victims`,
        ],
        ["spared", (victim?.spared ?? []).map((one) => sparedText(one, request)).join("; ")],
        ["next", victim == null ? "" : nextText(victim)],
      ),
      request,
    ),
  };
}

function nextText({ ends_as, comes_back }: NonNullable<Facts["victim"]>): string {
  if (ends_as === null) return "";
  if (ends_as === "delayed") return "tried again after a pause";
  if (ends_as === "allocated") return "started again at once";
  if (ends_as !== "queued") return `it ends as ${ends_as}`;
  const places = comes_back.map(({ pool, place }) => `place ${place} of pool ${pool}`);
  return places.length === 0 ? "back in line" : `back in line, at ${listed(places)}`;
}

function sinceText(since: string, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(since)) / 1000));
  return seconds < 60 ? `${seconds} s` : durationText(seconds);
}

/** Units of a silent holder come free when it is given up, whatever the stopping sequence says (L2). */
function silenceText(since: string | null, until: string | null, nowMs: number): string {
  if (since === null || until === null) return "";
  const silent = durationText((nowMs - Date.parse(since)) / 1000);
  const left = durationText(Math.max(0, Date.parse(until) - nowMs) / 1000);
  return `silent for ${silent}, given up in ${left} at the latest`;
}

function attemptLine(attempt: WireRequest["attempts"][number]): Line {
  const why = attempt.reason === null ? "" : ` (${attempt.reason})`;
  const ran = durationText((Date.parse(attempt.ended_at) - Date.parse(attempt.started_at)) / 1000);
  return { label: `attempt ${attempt.attempt}`, text: `${endText(attempt)} after ${ran}${why}` };
}

function rejectionLine(reason: NonNullable<WireRequest["reasons"]>[number]): Line {
  const { pool, code, key, asked, allowed } = reason;
  const label = pool === null ? "every pool" : `pool ${pool}`;
  switch (code) {
    case "no_policy":
      return { label, text: "the component has no policy (berth policy attach)" };
    case "no_executor":
      return { label, text: "starts no jobs (berth pool update --set executor=agents)" };
    case "unknown_key":
      return { label, text: `has no ${key ?? "such key"}` };
    case "over_capacity":
      if (key === "nodes") return { label, text: `${asked} nodes asked, ${allowed} could hold a part of it` };
      return { label, text: `${asked} ${key} asked, ${allowed} is all there is, or all that one node has` };
    case "over_limit":
      return { label, text: `${asked} ${key} asked, ${allowed} is the limit` };
    case "over_reserved":
      return { label, text: `${asked} ${key} asked without preemption, ${allowed} reserved` };
  }
}
