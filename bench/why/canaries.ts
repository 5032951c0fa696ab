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
  {
    what: "units on nodes that are promised to others are said to be free for it",
    file: "src/engine/disciplines/queue/queue-walk.ts",
    text: "const promised = free - sum((node) => now.leftOn(node), i);",
    instead: "const promised = 0 * now.leftOn([...this.pool.nodes.values()][0] as Node).length;",
    kinds: ["class on nodes", "priority on nodes"],
  },
  {
    what: "what stops is not said to come free in a fair-share pool",
    file: "src/engine/disciplines/fair_share/explain.ts",
    text: "return [{ key: pool.keys[i] as string, asked, free, promised, comingFree: pool.stopping[i]! }];",
    instead: "return [{ key: pool.keys[i] as string, asked, free, promised, comingFree: 0 }];",
    kinds: ["fair_share"],
  },
  {
    what: "a run that precedes the victim in the order is said to have been spared by its priority",
    file: "src/engine/disciplines/priority/explain.ts",
    text: 'theirs < victims ? null : { why: "higher_priority"',
    instead: 'theirs > victims ? null : { why: "higher_priority"',
    kinds: ["priority"],
  },
  {
    what: "a run of a fair share is said to be taken by those who do not starve",
    file: "src/engine/disciplines/fair_share/explain.ts",
    text: "if (right === 0 || looked++ >= TAKERS_LOOKED_AT_MAX) continue;",
    instead: "if (looked++ >= TAKERS_LOOKED_AT_MAX) continue;",
    kinds: ["fair_share"],
  },
  {
    what: "a forward run in which runs end after half of their walltime",
    file: "src/foresight/forward.ts",
    text: "Math.max(nowMs, startedAtMs + walltimeMs)",
    instead: "Math.max(nowMs, startedAtMs + walltimeMs / 2)",
    kinds: ["priority", "class"],
  },
];
