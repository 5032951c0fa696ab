// The explanation in words: what is short, who holds it, whose turn it is and by which rule, what preemption would
// need, and when it could start.

import type {
  WireExplanation,
  WirePolicyAnswer,
  WirePoolAnswer,
  WirePoolExplanation,
  WireRequest,
  WireSuggestion,
} from "../../protocol/index.ts";
import type { Line } from "../output/print.ts";
import { ageOf, amountsText, counted, durationText, listed } from "../output/text.ts";
import { type Affected, titleOfAffected } from "../plans.ts";
import { titleOf } from "../session.ts";
import { endText, silenceText } from "../shapes.ts";
import { shareLines } from "./shares.ts";

/** A sentence, and lines under it. */
export interface Told {
  readonly sentence: string;
  readonly lines: readonly Line[];
}

/** What a waiting request meets in one pool, with what else the words need. */
export interface Situation {
  readonly request: WireRequest;
  readonly pool: WirePoolAnswer;
  readonly facts: WirePoolExplanation;
  readonly suggestions: readonly WireSuggestion[];
  /** All changes that would start it, not only the most useful. */
  readonly showsAll?: boolean;
  /** Who is first in line, if that may be known. */
  readonly head: WireRequest | undefined;
  /** Those that stop for it. */
  readonly stopping: readonly WireRequest[];
  /** What the policy of a component in this pool says, as far as it may be seen. */
  readonly policyOf: (component: string) => Pick<WirePolicyAnswer, "priority" | "reserved">;
}

type Blocker = WirePoolExplanation["blocked_by"];
type Holder = WirePoolExplanation["holders"][number];
type Considered = WirePoolExplanation["considered"][number];
type Shortage = Extract<Blocker, { rule: "units" }>["short"][number];
type Quota = Extract<Blocker, { allowed: number }>;

const NAMED_MAX = 3;
/** Of discipline class, where the pool says nothing else. */
const VICTIMS_MAX = 3;

export function tellWaiting(situation: Situation): Told {
  const { request, facts, pool } = situation;
  const title = titleOf(request);
  const where = `in pool ${pool.name}`;
  const place = facts.position === 1 ? "" : `, place ${facts.position} of ${facts.queue_length}`;
  const { blocked_by: blocker } = facts;
  switch (blocker.rule) {
    case "limit":
    case "group_limit":
    case "reserved": {
      const quota = blocker.rule === "reserved" ? "reserve" : "limit";
      return {
        sentence: `${title} waits ${where} for its own ${quota}, and does not hold up others.`,
        lines: [
          [quota, quotaText(request, blocker)],
          ["starts", "when less of that is in use"],
          ...changeLines(situation),
        ],
      };
    }
    case "holds":
      return {
        sentence: `${title} is next ${where}: its units are promised, and others are stopping for it.`,
        lines: stoppingLines(situation),
      };
    case "holds_elsewhere":
      return {
        sentence: `${title} is promised units in pool ${blocker.pool}; ${where} it is passed over until then.`,
        lines: [],
      };
    case "behind_head":
      return {
        sentence: `${title} waits for its turn ${where}${place}.`,
        lines: [...turnLines(situation), ["starts", turnText(facts)], ...changeLines(situation)],
      };
    case "units":
      return {
        sentence: `${title} waits for ${listed(blocker.short.map(({ key, asked }) => `${asked} ${key}`))} ${where}${place}.`,
        lines: [
          ...blocker.short.map((shortage): Line => ["in use", inUseText(shortage, situation)]),
          ...nodeLines(facts),
          ...turnLines(situation),
          ...preemptionLines(situation),
          ["starts", startsText(situation)],
          ...changeLines(situation),
        ],
      };
  }
}

function quotaText({ component }: WireRequest, { rule, key, asked, used, allowed, group }: Quota): string {
  const whose = rule === "group_limit" ? `group ${group ?? "above"}` : component;
  const what = rule === "reserved" ? "has reserved" : "may hold";
  return `${whose} ${what} ${allowed} ${key} and uses ${used}; with ${asked} more it would be ${used + asked}`;
}

function inUseText({ key, free, promised, coming_free: coming }: Shortage, situation: Situation): string {
  const { pool, facts } = situation;
  const total = pool.capacity[key] ?? 0;
  // On nodes, what is free is told of those that may serve the request.
  const used = pool.node_backed ? (pool.usage[key] ?? 0) : total - free;
  const holders = facts.holders.filter(({ units }) => (units[key] ?? 0) > 0);
  const shown = holders.slice(0, NAMED_MAX).map((holder) => holderText(holder, situation));
  const more = facts.holder_count > shown.length ? ` and ${facts.holder_count - shown.length} more` : "";
  const notes = [
    ...(promised > 0 ? [`; ${promised} promised to others`] : []),
    ...(coming > 0 ? [`; ${coming} coming free`] : []),
  ];
  const by = shown.length === 0 ? "" : ` by ${shown.join(", ")}${more}`;
  return `${used} of ${total} ${key}${by}${notes.join("")}`;
}

type Nodes = NonNullable<WirePoolExplanation["nodes"]>;

const OBSTACLES: Readonly<Record<keyof Nodes["obstacles"], string>> = {
  labels: "without the labels",
  too_small: "too small even when empty",
  draining: "draining",
  drained: "drained",
  suspect: "suspect",
  down: "down",
  taken: "taken by others",
  promised: "promised to others",
};

/** Why no node will do, or not enough of them. */
function nodeLines({ nodes }: WirePoolExplanation): Line[] {
  if (nodes === null) return [];
  const { asked, fitting, total, obstacles } = nodes;
  const rest = Object.entries(OBSTACLES).flatMap(([obstacle, words]) => {
    const count = obstacles[obstacle as keyof Nodes["obstacles"]] ?? 0;
    return count === 0 ? [] : [`${count} ${words}`];
  });
  const room = fitting === 0 ? "none" : String(fitting);
  const wanted = asked === 1 ? "" : ` of the ${asked} that it asks for`;
  return [["nodes", `${room} of ${total} has room${wanted}: ${rest.join(", ")}`]];
}

function holderText(holder: Holder, { request }: Situation): string {
  const title =
    holder.number === null
      ? "another team's run"
      : titleOf({ number: holder.number, name: holder.name ?? "" });
  const whose =
    holder.component === null || holder.component === request.component ? "" : `${holder.component}, `;
  const how = holder.stopping ? "stopping" : holder.preemptible ? "preemptible" : "not preemptible";
  const silence = holderSilence(holder.silent_since ?? undefined, holder.given_up_at ?? undefined);
  return `${title} (${whose}${how}, ${secondsText(holder.started_at)}${silence === undefined ? "" : `; ${silence}`})`;
}

function secondsText(since: string): string {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(since)) / 1000));
  return seconds < 60 ? `${seconds} s` : durationText(seconds);
}

function turnText({ share }: WirePoolExplanation): string {
  return share === null
    ? "after that one, or before it if that cannot delay it (say --walltime)"
    : "after those that starve before it";
}

function turnLines(situation: Situation): Line[] {
  const { facts, request, pool } = situation;
  if (facts.share !== null) return shareLines(facts.share, request, pool);
  // Those before it may all have their promises, so that it is the first that has none.
  const isFirst = facts.position === 1 || situation.head?.id === request.id;
  return isFirst ? [] : [["first", firstText(situation)]];
}

/** Who is first, and the rule that puts them before this one. */
function firstText(situation: Situation): string {
  const { head, pool } = situation;
  if (head === undefined) return "another team's request";
  return `${titleOf(head)} of ${head.component}: ${orderRule(situation, head)} (discipline ${pool.discipline})`;
}

function orderRule({ pool, request, policyOf }: Situation, head: WireRequest): string {
  const within = "it fits what is reserved for it";
  if (pool.discipline === "priority") {
    const [theirs, ours] = [policyOf(head.component).priority, policyOf(request.component).priority];
    if (theirs !== ours) return theirs > ours ? `priority ${theirs} before ${ours}` : within;
  } else if (head.sensitive && !request.sensitive) return "sensitive work comes first";
  const [theirs, ours] = [head.preemption_class, request.preemption_class];
  if (theirs !== ours) return theirs > ours ? `class ${theirs} before ${ours}` : within;
  return head.submitted_at <= request.submitted_at ? "it asked earlier" : `${within}, or its score is higher`;
}

/** Only the first in line may preempt; why it does not, by kinds of running work. */
function preemptionLines(situation: Situation): Line[] {
  const { facts, pool } = situation;
  if (pool.discipline !== "fair_share" && facts.preemption_needs === null) {
    return [["preempts", "nobody yet: only the first in line can preempt"]];
  }
  if (facts.considered.length === 0) return [];
  const shown = facts.considered.slice(0, NAMED_MAX).map((kind) => consideredText(kind, situation));
  if (facts.considered.length > NAMED_MAX)
    shown.push(counted(facts.considered.length - NAMED_MAX, "further kind"));
  const permitted = facts.considered.some((kind) => kind.permitted > 0);
  const needs = facts.preemption_needs === null ? "" : ` (${needsText(facts, pool)})`;
  const when = facts.share?.may_preempt === "no" ? "nobody before it starves" : `nobody yet${needs}`;
  return [["preempts", `${permitted ? when : "nobody can be stopped for it"}: ${shown.join("; ")}`]];
}

/** By class, what is taken must cost less than it is worth, and be few (10.5). */
function needsText({ preemption_needs, value_minutes }: WirePoolExplanation, pool: WirePoolAnswer): string {
  const needs = `it needs ${amountsText(preemption_needs ?? {})}`;
  if (value_minutes === null) return needs;
  return `${needs}, from at most ${counted(pool.settings.max_victims ?? VICTIMS_MAX, "run")} that cost less than its value, ${minutesText(value_minutes)}`;
}

function minutesText(minutes: number): string {
  return `${Math.round(minutes * 10) / 10} min`;
}

const FORBIDDEN_BY: Readonly<Record<string, string>> = {
  V2: "cannot be stopped: not preemptible, stopping already, or started too recently",
  V6: "shielded: stopped too often lately",
  "8.1": "uses only what is reserved for it",
  "9.5": "within its fair share",
  "9.8": "of the same operation, or starving itself",
  "10.1": "not of a lower class",
  "10.2": "uses only what is reserved for it",
  "10.3": "protected by its class, its kind or its walltime",
};

const PERMITTED_BY: Readonly<Record<string, string>> = {
  "8.1": "by priority",
  "8.2": "to take back what is reserved",
  G4: "since it only fills a gap",
  "9.8": "since that is beyond its fair share",
  "10.2": "by class",
};

function consideredText(kind: Considered, situation: Situation): string {
  const { component, priority, preemption_class, count, permitted, rule, cost_minutes: cost } = kind;
  if (permitted === 0 && rule === "8.2") return notByPriority(kind, situation);
  const about =
    cost === null ? `priority ${priority}, class ${preemption_class}` : costText(preemption_class, cost);
  const who = `${counted(count, "run")} of ${component ?? "others"} (${about})`;
  if (permitted > 0)
    return `${permitted} of ${who} could be taken ${PERMITTED_BY[rule] ?? `by rule ${rule}`}`;
  return `${who}: ${FORBIDDEN_BY[rule] ?? `rule ${rule}`}`;
}

/** Neither 8.1 nor 8.2 permits it: how the priorities compare, and what is reserved for the one that waits. */
function notByPriority({ component, priority, count }: Considered, situation: Situation): string {
  const { facts, request, policyOf, pool } = situation;
  const own = policyOf(request.component);
  const only = count === 1 && facts.holder_count === 1 ? facts.holders[0] : undefined;
  const who =
    only === undefined || only.number === null
      ? `${counted(count, "run")} of ${component ?? "another team"}`
      : titleOf({ number: only.number, name: only.name ?? "" });
  const has = count === 1 ? "has" : "have";
  const compared =
    priority === own.priority
      ? `${has} the same priority`
      : `${has} priority ${priority}, which is not below ${own.priority}`;
  const short = Object.keys(facts.preemption_needs ?? {}).filter((key) => pool.capacity[key] !== undefined);
  const hasReserve = short.some((key) => (own.reserved[key] ?? 0) > 0);
  const reserve = hasReserve
    ? `what ${request.component} asks for is more than its unused reserve`
    : `${request.component} has nothing reserved`;
  return `${who} ${compared}, and ${reserve}`;
}

function costText(preemptionClass: number, cost: number): string {
  return `class ${preemptionClass}, cost ${minutesText(cost)}`;
}

function startsText(situation: Situation): string {
  const { facts } = situation;
  const numbers = facts.holders.flatMap(({ number }) => (number === null ? [] : [`#${number}`]));
  const shown = numbers.length > NAMED_MAX ? [...numbers.slice(0, NAMED_MAX), "others"] : numbers;
  const [only] = shown;
  const ends =
    only === undefined
      ? "when units come free"
      : shown.length === 1
        ? `when ${only} ends`
        : `when enough of ${listed(shown)} have ended`;
  const turn = facts.position > 1 ? ", after those before it" : "";
  const latest =
    facts.could_start_at === null
      ? ""
      : `, at the latest in ${durationText((Date.parse(facts.could_start_at) - Date.now()) / 1000)} by their walltimes`;
  return `${ends}${turn}${latest}`;
}

/** How many changes are shown unless all are wanted (Y11). */
const CHANGES_SHOWN = 3;

/** Changes that the server has tried; that a run ends is said above. */
function changeLines({ suggestions, pool, request, showsAll = false }: Situation): Line[] {
  const useful = suggestions.filter(
    ({ pool: named, change }) => (named === pool.name || change === "another_pool") && change !== "run_ends",
  );
  const shown = showsAll ? useful : useful.slice(0, CHANGES_SHOWN);
  return shown.map((one) => [
    one.starts === "now" ? "now if" : "next if",
    `${suggestionText(one, request)}${consequenceText(one)}`,
  ]);
}

/** Who can make the change, and whom else it concerns. */
function consequenceText({ by, starts, effects }: WireSuggestion): string {
  const { granted, preempted, rejected } = effects;
  const titles = (all: readonly Affected[]) =>
    listed([
      ...all.slice(0, NAMED_MAX).map((one) => titleOfAffected(one)),
      ...(all.length > NAMED_MAX ? [`${all.length - NAMED_MAX} more`] : []),
    ]);
  const parts = [
    ...(by === "you" ? [] : [by === "operator" ? "operator" : "in time"]),
    ...(preempted.length > 0
      ? [`${titles(preempted)} ${preempted.length === 1 ? "is" : "are"} stopped`]
      : []),
    ...(rejected.length > 0 ? [`${titles(rejected)} ${rejected.length === 1 ? "is" : "are"} rejected`] : []),
    ...(granted.length > 0 ? [`${titles(granted)} ${granted.length === 1 ? "starts" : "start"} too`] : []),
    ...(starts === "after" && preempted.length === 0 ? ["when others have stopped"] : []),
  ];
  return parts.length === 0 ? "" : ` (${parts.join("; ")})`;
}

function suggestionText(suggestion: WireSuggestion, { component }: WireRequest): string {
  switch (suggestion.change) {
    case "fewer_units":
      return `it asked for ${amountsText(suggestion.resources)}`;
    case "fewer_nodes":
      return `it asked for ${suggestion.nodes} ${suggestion.nodes === 1 ? "node" : "nodes"}`;
    case "walltime":
      return `it had a walltime of ${durationText(suggestion.walltime_seconds)}`;
    case "another_pool":
      return `${component} could use pool ${suggestion.pool}`;
    case "preemptible":
      return "it were preemptible";
    case "higher_class":
      return `its class were ${suggestion.preemption_class}`;
    case "higher_limit":
      return `the limit of ${component} were ${suggestion.limit} ${suggestion.key}`;
    case "higher_group_limit":
      return `the limit of group ${suggestion.group} were ${suggestion.limit} ${suggestion.key}`;
    case "more_reserved":
      return `${component} had ${suggestion.reserved} ${suggestion.key} reserved`;
    case "higher_priority":
      return `the priority of ${component} were ${suggestion.priority}`;
    case "more_capacity":
      return `the pool had ${amountsText(suggestion.capacity)}`;
    case "node_back":
      return `node ${suggestion.node} were back`;
    case "run_ends":
      return `${titleOfAffected(suggestion.request)} ended`;
    case "ahead_withdrawn":
      return `${titleOfAffected(suggestion.request)} were withdrawn`;
  }
}

function stoppingLines({ stopping }: Situation): Line[] {
  return stopping.slice(0, NAMED_MAX).flatMap((run): Line[] => {
    if (run.stop === null) return [];
    const left = durationText((Date.parse(run.stop.deadline) - Date.now()) / 1000);
    return [
      [
        "stopping",
        `${titleOf(run)} of ${run.component} (${run.stop.phase}), ${silenceOf(run) ?? `at the latest in ${left}`}`,
      ],
    ];
  });
}

// --- Requests that do not wait, or not now

export function tellOther(
  request: WireRequest,
  { delayed_until: until, blocked, reasons, stop }: WireExplanation,
  forWhom: WireRequest | undefined,
): Told {
  const title = titleOf(request);
  const attempts = request.attempts.map(attemptLine);
  if (until !== null) {
    const left = durationText((Date.parse(until) - Date.now()) / 1000);
    return { sentence: `${title} pauses before its next attempt, for another ${left}.`, lines: attempts };
  }
  if (blocked != null) {
    const what =
      blocked.after.length > 0
        ? `until ${blocked.after.length === 1 ? "another request has" : "other requests have"} ended`
        : `for its turn: at most ${blocked.at_once} of its array at once`;
    return {
      sentence: `${title} is not in the queue yet: it waits ${what}.`,
      lines: blocked.after.map((id): Line => ["after", id]),
    };
  }
  if (request.cancelled_because != null) {
    const { cancelled_because: id } = request;
    return {
      sentence: `${title} was cancelled: it waited for a request that has not ended well.`,
      lines: [["after", id], ...attempts],
    };
  }
  if (request.status === "rejected") {
    return {
      sentence: `${title} was rejected: it could never start.`,
      lines: (reasons ?? []).map(rejectionLine),
    };
  }
  if (stop !== null) {
    const left = durationText((Date.parse(stop.deadline) - Date.now()) / 1000);
    const who = forWhom === undefined ? "" : ` for ${titleOf(forWhom)} of ${forWhom.component}`;
    return {
      sentence: `${title} is being stopped${who} (${stop.reason ?? stop.cause}).`,
      lines: [
        ["stopping", `${stop.phase}, ${silenceOf(request) ?? `at the latest in ${left}`}`],
        ...attempts,
      ],
    };
  }
  if (request.status === "allocated") {
    return {
      sentence: `${title} does not wait: it has run in pool ${request.pool ?? "-"} for ${secondsText(request.started_at ?? "")}.`,
      lines: [...holderLines(request), ...attempts],
    };
  }
  return { sentence: `${title} does not wait: it is ${request.status}.`, lines: attempts };
}

/** Units of a silent holder come free when it is given up, whatever the stopping sequence says (L2). */
function silenceOf({ holder_silent_since: since, given_up_at: until }: WireRequest): string | undefined {
  return holderSilence(since, until);
}

function holderSilence(since: string | undefined, until: string | undefined): string | undefined {
  const silence = silenceText({ holder_silent_since: since, given_up_at: until });
  return silence === undefined ? undefined : `its holder has been ${silence}`;
}

function holderLines(request: WireRequest): Line[] {
  const silence = silenceText(request);
  return silence === undefined ? [] : [["holder", silence]];
}

function attemptLine(attempt: WireRequest["attempts"][number]): Line {
  const why = attempt.reason === null ? "" : ` (${attempt.reason})`;
  const ran = ageOf(attempt.started_at, Date.parse(attempt.ended_at));
  return [`attempt ${attempt.attempt}`, `${endText(attempt)} after ${ran}${why}`];
}

function rejectionLine({
  pool,
  code,
  key,
  asked,
  allowed,
}: NonNullable<WireRequest["reasons"]>[number]): Line {
  const where = pool === null ? "every pool" : `pool ${pool}`;
  switch (code) {
    case "no_policy":
      return [where, "the component has no policy (berth policy attach)"];
    case "no_executor":
      return [where, "starts no jobs (berth pool update --set executor=agents)"];
    case "unknown_key":
      return [where, `has no ${key ?? "such key"}`];
    case "over_capacity":
      if (key === "nodes") return [where, `${asked} nodes asked, ${allowed} could hold a part of it`];
      return [where, `${asked} ${key} asked, ${allowed} is all there is, or all that one node has`];
    case "over_limit":
      return [where, `${asked} ${key} asked, ${allowed} is the limit`];
    case "over_reserved":
      return [where, `${asked} ${key} asked without preemption, ${allowed} reserved`];
  }
}
