// Plays worlds of one kind until enough has been explained and planned, and sends what it has seen after each of them.
// A process of its own, so that every core has one. Arguments: kind, explanations, plans, first seed; `first`: ends at
// the first finding.

import { newTally, type Tally, tryWorld, WORLDS } from "../../test/reference/why-trial.ts";

const OPTIONS = { explainEvery: 2, suggestEvery: 4, planEvery: 3 };
const FINDINGS_SENT_MAX = 5;

/** What the parent hears. */
export interface Seen extends Omit<Tally, "falsehoods" | "unsound" | "inexact" | "helpless"> {
  readonly falsehoods: number;
  readonly unsound: number;
  readonly inexact: number;
  /** The first of them. */
  readonly findings: readonly string[];
  readonly isDone: boolean;
}

const [kind = "", explanations, plans, seed, until] = process.argv.slice(2);
const worldOf = WORLDS[kind];
if (worldOf === undefined) throw new Error(`There are no worlds of kind "${kind}".`);
const tally = newTally();

for (let each = Number(seed), isDone = false; !isDone; each++) {
  tryWorld(worldOf(each), OPTIONS, tally);
  const seen = seenOf(tally);
  isDone = isEnough(seen);
  process.send?.({ ...seen, isDone });
}

function isEnough(seen: Omit<Seen, "isDone">): boolean {
  if (until === "first" && seen.findings.length > 0) return true;
  return explainedIn(seen) >= Number(explanations) && seen.plans >= Number(plans);
}

/** What has ended is explained, too, but little is said about it. */
function explainedIn({
  waiting,
  running,
  stopping,
}: Pick<Tally, "waiting" | "running" | "stopping">): number {
  return waiting + running + stopping;
}

function seenOf({ falsehoods, unsound, inexact, helpless: _, ...counts }: Tally): Omit<Seen, "isDone"> {
  return {
    ...counts,
    ...{ falsehoods: falsehoods.length, unsound: unsound.length, inexact: inexact.length },
    findings: [...falsehoods, ...unsound, ...inexact].slice(0, FINDINGS_SENT_MAX),
  };
}
