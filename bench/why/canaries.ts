// Faults that `npm run prove:why` must find, each with the worlds in which it shows.

import type { Fault } from "../proving/canaries.ts";

export interface Canary extends Fault {
  readonly kinds: readonly string[];
}

export const CANARIES: readonly Canary[] = [
  {
    what: "a wrong rule: work that borrows is said to use its own reserve",
    file: "src/engine/disciplines/priority/explain.ts",
    text: "borrows(short).every(Boolean)",
    instead: "!borrows(short).every(Boolean)",
    kinds: ["priority"],
  },
  {
    what: "the two values of the order are swapped",
    file: "src/engine/disciplines/queue/explain.ts",
    text: "return { rule, part, theirs: value, mine: other };",
    instead: "return { rule, part, theirs: other, mine: value };",
    kinds: ["priority"],
  },
  {
    what: "the place in the queue is one too high",
    file: "src/engine/disciplines/queue/explain.ts",
    text: "return before + 1;",
    instead: "return before + 2;",
    kinds: ["class"],
  },
  {
    what: "an unsound suggestion: what was refused or granted nothing is suggested all the same",
    file: "src/foresight/suggestions.ts",
    text: "return starts === undefined ? null : { starts, startsByMs, effects };",
    instead: 'return { starts: starts ?? "now", startsByMs, effects };',
    kinds: ["priority"],
  },
  {
    what: "protected runs of a fair share are said to be free",
    file: "src/engine/disciplines/fair_share/verdicts.ts",
    text: 'return barred("protected_share");',
    instead: 'return permitted("beyond_share");',
    kinds: ["fair_share"],
  },
  {
    what: "a plan without the events of its last step",
    file: "src/foresight/plan.ts",
    text: "events.push(decision.events);",
    instead: "events.push(step === 0 ? decision.events : []);",
    kinds: ["priority"],
  },
];
