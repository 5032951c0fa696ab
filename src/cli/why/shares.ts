// How a waiting request stands in a fair-share pool, in words: what it is owed, whose share comes first, when it starves.

import type {
  WirePoolAnswer,
  WireRequest,
  WireShareElement,
  WireShareExplanation,
} from "../../protocol/index.ts";
import type { Line } from "../output/print.ts";
import { amountsText, counted, durationText } from "../output/text.ts";

type Compared = WireShareExplanation["ahead"][number]["theirs"];

export function shareLines(
  share: WireShareExplanation,
  { component, operation }: WireRequest,
  pool: WirePoolAnswer,
): Line[] {
  const policy = share.above[0];
  const own = operation === null ? "this request" : `operation ${operation}`;
  const standings = [
    ...(policy === undefined ? [] : [standingText(component, policy, pool)]),
    standingText(own, share.operation, pool),
  ];
  return [
    ["share", standings.join("; ")],
    ...(share.ahead_count > 0 ? [["first", firstText(share)] as const] : []),
    ["starves", starvesText(share)],
    ...(share.exceeds_fair_share
      ? [
          [
            "too large",
            `it asks for more than ${own} is owed: within its fair share it can never start`,
          ] as const,
        ]
      : []),
  ];
}

function standingText(who: string, element: WireShareElement, { capacity }: WirePoolAnswer): string {
  const { fair_share, usage_share, demand_share } = element;
  const wanted = Object.keys(demand_share).filter((key) => (demand_share[key] ?? 0) > 0);
  const units = (shares: Readonly<Record<string, number>>) =>
    amountsText(
      Object.fromEntries(
        wanted.map((key) => [key, Math.round((shares[key] ?? 0) * (capacity[key] ?? 0) * 100) / 100]),
      ),
    );
  return `${who} is owed ${units(fair_share)} and has ${units(usage_share)}`;
}

/** The first of those whose turn comes first, on the level where the two ways part. */
function firstText({ ahead, ahead_count: count }: WireShareExplanation): string {
  const first = ahead[0];
  const all = `${counted(count, "operation")} in all`;
  if (first === undefined) return all;
  const { theirs, mine } = first;
  const has = ({ satisfaction }: Compared) =>
    satisfaction === null
      ? "is owed nothing"
      : `has ${Math.round(satisfaction * 1000) / 10}% of what it is owed`;
  const who = ({ kind, element }: Compared) => (element === null ? `another ${kind}` : `${kind} ${element}`);
  const compared =
    has(theirs) === has(mine) ? `like ${who(mine)}, and has waited longer` : `and ${who(mine)} ${has(mine)}`;
  return `${who(theirs)} ${has(theirs)} ${compared}; ${all}`;
}

/** Its own starvation, or that of what is above it, whichever comes first. */
function starvesText({ operation, above, may_preempt, backoff_until }: WireShareExplanation): string {
  const elements = [operation, ...above];
  if (may_preempt !== "no") {
    const since = earliest(elements.map(({ starving_since }) => starving_since));
    const from =
      may_preempt === "aggressively"
        ? "also what is within others' shares"
        : "what others have beyond theirs";
    const pause = backoff_until === null ? "" : `, once the pause of ${secondsTo(backoff_until)} is over`;
    return `since ${since === undefined ? "now" : secondsSince(since)}: it may take ${from}${pause}`;
  }
  const at = earliest(elements.map(({ starves_at }) => starves_at));
  if (at === undefined) return "not: it is not below its fair share";
  return `in ${secondsTo(at)} if nothing changes; then it may take what others have beyond their shares`;
}

function earliest(times: readonly (string | null)[]): string | undefined {
  return times.filter((time) => time !== null).sort()[0];
}

function secondsTo(time: string): string {
  return durationText((Date.parse(time) - Date.now()) / 1000);
}

function secondsSince(time: string): string {
  return durationText((Date.now() - Date.parse(time)) / 1000);
}
