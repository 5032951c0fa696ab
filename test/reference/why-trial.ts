// Random worlds in which everything is explained: the engine and the reference scheduler play the same steps, and the
// judge holds what one says against the records of the other. Suggestions are made, and plans applied, on copies.

import {
  type Command,
  type ComponentName,
  decide,
  type EngineState,
  explain,
  policiesOf,
  poolsOf,
  type RequestId,
  requestIds,
  requestOf,
} from "../../src/engine/index.ts";
import { answer } from "../../src/foresight/answer.ts";
import type { Starts } from "../../src/foresight/index.ts";
import type { StoryScenario } from "../../src/protocol/index.ts";
import { loadScenarios } from "../../src/simulator/index.ts";
import { actionOf, perform } from "../../src/simulator/scenario/actions.ts";
import { setUp } from "../../src/simulator/scenario/story.ts";
import { createWorld } from "../../src/simulator/scenario/world.ts";
import { startOnCopy } from "../support/starts.ts";
import { copyOf, startsOnCopy } from "../support/suggested.ts";
import { randomFairWorld } from "./random-fair-world.ts";
import { randomNodeWorld, randomWorld } from "./random-world.ts";
import type { Scenario } from "./scenario.ts";
import { openReference } from "./scheduler.ts";
import { falsehoods } from "./why.ts";
import type { World } from "./world.ts";

export const WORLDS: Readonly<Record<string, (seed: number) => Scenario>> = {
  priority: (seed) => randomWorld(seed, "priority"),
  "priority on nodes": (seed) => randomNodeWorld(seed, "priority", seed % 2 === 0 ? "whole" : "pieces"),
  class: (seed) => randomWorld(seed, "class"),
  "class on nodes": (seed) => randomNodeWorld(seed, "class", seed % 2 === 0 ? "whole" : "pieces"),
  fair_share: (seed) => randomFairWorld(seed, "quota"),
  "fair_share on nodes": (seed) => randomFairWorld(seed, "nodes"),
};

export interface Tally {
  explanations: number;
  waiting: number;
  running: number;
  stopping: number;
  /** What was said and is not so. */
  readonly falsehoods: string[];
  /** Requests that wait without a promise, and those of them for which something was suggested. */
  asked: number;
  helped: number;
  /** Those for which nothing was. */
  readonly helpless: string[];
  suggestions: number;
  minimal: number;
  readonly unsound: string[];
  plans: number;
  readonly inexact: string[];
}

export function newTally(): Tally {
  return {
    ...{ explanations: 0, waiting: 0, running: 0, stopping: 0, falsehoods: [] },
    ...{ asked: 0, helped: 0, helpless: [], suggestions: 0, minimal: 0, unsound: [] },
    ...{ plans: 0, inexact: [] },
  };
}

export interface TrialOptions {
  /** Everything is explained after each so many-th step. */
  readonly explainEvery: number;
  /** For each so many-th that waits suggestions are tried. */
  readonly suggestEvery: number;
  /** After each so many-th step a plan is made. */
  readonly planEvery: number;
}

/** Plays a world to its end. */
export function tryWorld(scenario: Scenario, options: TrialOptions, tally: Tally): void {
  const loaded = loadScenarios("random.json", JSON.stringify(scenario));
  if (!loaded.ok) throw new Error(`${scenario.name} cannot be read`);
  const story = loaded.scenarios[0]?.content as StoryScenario;
  const reference = openReference(scenario);
  const world = createWorld();
  for (const { run } of setUp(world, story)) run();
  for (const [index, step] of story.script.entries()) {
    perform(world, actionOf(step));
    reference.play(scenario.script[index]!);
    const { state, nowMs } = world;
    const where = `${scenario.name}, step ${index + 1}`;
    if (index % options.explainEvery === 0)
      explainAll(state, reference.world, { nowMs, where, suggestEvery: options.suggestEvery }, tally);
    if (index % options.planEvery === 0) planOne(state, { nowMs, where, number: index }, tally);
  }
}

function explainAll(
  state: EngineState,
  reference: World,
  { nowMs, where, suggestEvery }: { nowMs: number; where: string; suggestEvery: number },
  tally: Tally,
): void {
  for (const id of [...requestIds(state)]) {
    const facts = explain(state, id, nowMs);
    if (facts === undefined) continue;
    tally.explanations++;
    if (facts.running !== null) tally.running++;
    if (facts.victim !== null) tally.stopping++;
    for (const falsehood of falsehoods(reference, facts))
      tally.falsehoods.push(`${where}, ${id}: ${falsehood}`);
    if (facts.pools.length === 0) continue;
    tally.waiting++;
    if (requestOf(state, id)?.progress.hold !== null || tally.waiting % suggestEvery !== 0) continue;
    suggestFor(state, id, { nowMs, where }, tally);
  }
}

function suggestFor(
  state: EngineState,
  id: RequestId,
  { nowMs, where }: { nowMs: number; where: string },
  tally: Tally,
): void {
  const question = { kind: "explain", requestId: id, suggestions: true, pools: null } as const;
  const { suggestions, facts, starts } = answer(state, question, nowMs);
  for (const falsehood of judgeStarts(state, id, starts, nowMs))
    tally.falsehoods.push(`${where}, ${id}: ${falsehood}`);
  tally.asked++;
  if (suggestions.all.length > 0) tally.helped++;
  else
    tally.helpless.push(
      `${where}, ${id}: ${suggestions.isTruncated ? "cut, " : ""}${JSON.stringify(facts?.pools)}`,
    );
  for (const suggestion of suggestions.all) {
    tally.suggestions++;
    if (suggestion.minimal) tally.minimal++;
    const starts = startsOnCopy(state, id, suggestion, nowMs);
    if (starts !== suggestion.starts)
      tally.unsound.push(`${where}, ${id}: ${JSON.stringify(suggestion)} gives ${starts}`);
  }
}

/** As far ahead as explanations look (X7). */
const AHEAD_MS = 7 * 86_400_000;
const MOMENTS_MAX = 60;

/** The time that is given is the time at which it starts; a run that is named has no walltime (Y3). */
function judgeStarts(state: EngineState, id: RequestId, said: Starts | null, nowMs: number): string[] {
  if (said === null) return ["nothing is said about its start"];
  const untilMs = said.basis === "later" ? said.thanMs : nowMs + AHEAD_MS;
  const startMs = startOnCopy(state, id, { nowMs, untilMs, momentsMax: MOMENTS_MAX });
  if (startMs === null) return [];
  const wantMs = said.basis === "by_walltimes" ? said.atMs : undefined;
  const found = startMs === wantMs ? [] : [`starts at ${startMs}, and ${JSON.stringify(said)} is said`];
  if (said.basis !== "unknown") return found;
  const endless = said.withoutWalltime.filter((run) => requestOf(state, run)?.spec.walltimeMs === null);
  return endless.length === said.withoutWalltime.length
    ? found
    : [...found, "a run that is named has a walltime"];
}

/** What a plan says happens is what happens when its changes are made (X3). */
function planOne(
  state: EngineState,
  { nowMs, where, number }: { nowMs: number; where: string; number: number },
  tally: Tally,
): void {
  const commands = somePlan(state, number);
  if (commands.length === 0) return;
  const steps = commands.map((command) => ({ commands: [command] }));
  const plan = answer(state, { kind: "plan", steps }, nowMs);
  tally.plans++;
  const copy = copyOf(state, nowMs);
  const events: unknown[] = [];
  for (const command of commands) {
    const decision = decide(copy, command, nowMs);
    if (decision.outcome === "refused") {
      if (plan.outcome !== "refused" || plan.refusal.code !== decision.refusal.code)
        tally.inexact.push(`${where}: ${JSON.stringify(command)} is refused, and the plan does not say so`);
      return;
    }
    events.push(decision.events);
  }
  const planned = plan.outcome === "planned" ? JSON.stringify(plan.events) : "refused";
  if (planned !== JSON.stringify(events)) tally.inexact.push(`${where}: ${JSON.stringify(commands)}`);
}

/** One or two changes, by the number of the step. */
function somePlan(state: EngineState, number: number): Command[] {
  const pools = poolsOf(state);
  const pool = pools[number % Math.max(1, pools.length)];
  if (pool === undefined) return [];
  const policies = policiesOf(state, pool.name);
  const policy = policies[number % Math.max(1, policies.length)];
  const ids = [...requestIds(state)];
  const some = ids[number % Math.max(1, ids.length)];
  const key = Object.keys(pool.capacity)[0];
  const changes: (Command | undefined)[] = [
    policy && {
      kind: "updatePolicy",
      policy: { pool: pool.name, component: policy.component, priority: policy.priority + 3 },
    },
    some && { kind: "cancelRequest", requestId: some },
    key === undefined || pool.nodeBacked
      ? undefined
      : { kind: "updatePool", name: pool.name, capacity: { [key]: (pool.capacity[key] ?? 0) + 2 } },
    policy && {
      kind: "updatePolicy",
      policy: { pool: pool.name, component: policy.component as ComponentName, limit: {} },
    },
    some && { kind: "tick", ends: [{ requestId: some, outcome: "succeeded" }] },
  ];
  const first = changes[number % changes.length];
  const second = number % 3 === 0 ? changes[(number + 2) % changes.length] : undefined;
  return [first, second].filter((command) => command !== undefined);
}
