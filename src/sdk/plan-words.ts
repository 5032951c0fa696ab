// What a plan does to requests, in words.

import type { WirePlan, WirePlanAnswer } from "../protocol/index.ts";
import { amountsText, counted, durationText, printable } from "../words/index.ts";

const SHOWN_MAX = 10;

export type Affected = WirePlan["cancelled"][number];
/** What happens to requests, in a plan of one change or of several. */
type Effects = WirePlanAnswer["now"];

/** In words; empty if nobody is touched. */
export function planLines(plan: Effects): string[] {
  const { granted, preempted, rejected, cancelled, stopped, lost } = plan;
  return [
    ...about(lost, "loses its node", "lose their nodes"),
    ...about(preempted, "is preempted", "are preempted", ({ reason }) => ` (${reason})`),
    ...about(
      stopped.filter(({ at }) => at === undefined),
      "is stopped",
      "are stopped",
    ),
    ...about(
      stopped.filter(({ at }) => at !== undefined),
      "is stopped later",
      "are stopped later",
      ({ at = "" }) => ` (in ${durationText((Date.parse(at) - Date.now()) / 1000)} unless it ends before)`,
    ),
    ...about(cancelled, "is cancelled", "are cancelled"),
    ...about(
      rejected,
      "is rejected",
      "are rejected",
      ({ reasons }) => ` (${[...new Set(reasons.map(({ code }) => code))].join(", ")})`,
    ),
    ...about(granted, "starts", "start"),
  ];
}

/** Whether a request loses something by it. */
export function isHarmful({ preempted, rejected, cancelled, stopped, lost }: Effects): boolean {
  return preempted.length + rejected.length + cancelled.length + stopped.length + lost.length > 0;
}

function about<Item extends Affected>(
  items: readonly Item[],
  one: string,
  many: string,
  detail: (item: Item) => string = () => "",
): string[] {
  if (items.length === 0) return [];
  const shown = items.slice(0, SHOWN_MAX).map((item) => `${titleOfAffected(item)}${detail(item)}`);
  const more = items.length > SHOWN_MAX ? ` and ${items.length - SHOWN_MAX} more` : "";
  return [
    `${counted(items.length, "request")} ${items.length === 1 ? one : many}: ${shown.join(", ")}${more}`,
  ];
}

export function titleOfAffected({ number, name, component }: Affected): string {
  if (number === undefined) return "another team's";
  const title = name ? `#${number} ${printable(name)}` : `#${number}`;
  return component === undefined ? title : `${title} of ${printable(component)}`;
}

/** Who has more or less than before. */
export function accountLines({ accounts }: WirePlanAnswer): string[] {
  return accounts.flatMap(({ pool, kind, name, usage, borrowed, debt }) => {
    const fields = [
      ["has", usage],
      ["borrows", borrowed],
      ["is above its limit by", debt],
    ] as const;
    const changed = fields.flatMap(([verb, { before, after }]) => {
      const [was, is] = [amountsText(nonZero(before)), amountsText(nonZero(after))];
      return was === is ? [] : [`${verb} ${was || "nothing"} → ${is || "nothing"}`];
    });
    const who = kind === "group" ? `group ${name}` : (name ?? "another team");
    return changed.length === 0 ? [] : [`${who} in pool ${pool}: ${changed.join(", ")}`];
  });
}

function nonZero(amounts: Readonly<Record<string, number>> | null): Record<string, number> {
  return Object.fromEntries(Object.entries(amounts ?? {}).filter(([, amount]) => amount > 0));
}

const MOVED_SHOWN_MAX = 10;

/** Who starts earlier or later than without the change. */
export function laterLines({ later }: WirePlanAnswer): string[] {
  if (later === null) return [];
  const moved = later.moved.slice(0, MOVED_SHOWN_MAX).map((item) => {
    const title = titleOfAffected(item);
    const { starts_before: before, starts_after: after } = item;
    if (before === null) return `${title} starts within the horizon, and would not otherwise`;
    if (after === null) return `${title} does not start within the horizon, and would otherwise`;
    const seconds = (Date.parse(after) - Date.parse(before)) / 1000;
    return `${title} starts ${durationText(Math.abs(seconds))} ${seconds < 0 ? "earlier" : "later"}`;
  });
  const more = later.moved.length - moved.length;
  return [
    ...moved,
    ...(more > 0 ? [`${counted(more, "further request")} start at another time`] : []),
    ...(moved.length === 0 ? ["nobody starts earlier or later, by walltimes"] : []),
    ...(later.truncated ? [`looked ahead until ${later.until} only: more would have taken too long`] : []),
  ];
}
