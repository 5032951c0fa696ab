// One world of the seeded simulation: random commands, holders that misbehave, restarts from the journal and
// from snapshots, and the full check after every step.

import {
  type Command,
  createState,
  type DisciplineName,
  decide,
  type EngineState,
  type Event,
  evolve,
  fork,
  type RequestId,
  requestIds,
  requestOf,
  restoreState,
  resume,
  type Snapshot,
  snapshotOf,
} from "../../../src/engine/index.ts";
import { reasonViolations, violations } from "../../../src/engine/invariants.fixture.ts";
import { advance, createWorld, loseHolder, send, type World } from "../../../src/simulator/scenario/world.ts";
import { Audit } from "./audit.ts";
import { rulesOf } from "./books.ts";
import { someCommand, someWorld } from "./commands.ts";
import { Ledger } from "./ledger.ts";
import { type Random, seededRandom } from "./random.ts";
import { withShares } from "./share-commands.ts";

export interface SimulationOptions {
  readonly steps: number;
  readonly discipline: DisciplineName;
  /** Pools take their capacity from nodes that come and go (12). */
  readonly onNodes?: boolean;
  /** Restarts are tried every so many steps, on average. */
  readonly restartEvery?: number;
  /** Fixed points are cut into the smallest slices, with restarts between them; nothing else may differ. */
  readonly areSlicesCut?: boolean;
  /** Nothing is checked, tried or recovered on the way; what happens must be the same (D2, D3). */
  readonly isUndisturbed?: boolean;
}

export interface SimulationReport {
  readonly steps: number;
  /** All that happened, in the order in which it did. */
  readonly journal: readonly Event[];
  readonly restarts: number;
  readonly virtualMs: number;
  readonly counts: ReadonlyMap<string, number>;
}

/** A fork is tried every so many steps, on average. */
const FORK_EVERY = 10;

/** Something that must never happen did; the seed repeats it. */
export class SimulationViolation extends Error {
  constructor(seed: number, step: number, problems: readonly string[]) {
    super(`seed ${seed}, step ${step}: ${problems.join("; ")}`);
  }
}

export function simulate(seed: number, options: SimulationOptions): SimulationReport {
  const random = seededRandom(seed);
  const simulation = new Simulation(seed, random, options);
  simulation.run();
  return simulation.report();
}

interface Birth {
  readonly seq: number;
  readonly submittedAtMs: number;
}

class Simulation {
  readonly #seed: number;
  readonly #random: Random;
  /** Of its own, so that what is only tried does not change the course of the world. */
  readonly #tries: Random;
  readonly #options: SimulationOptions;
  readonly #ledger = new Ledger();
  readonly #audit = new Audit((what) => this.#ledger.count(what));
  readonly #journal: Event[] = [];
  readonly #births = new Map<RequestId, Birth>();
  readonly #world: World;
  /** Of its own, so that cutting into slices leaves the commands as they are. */
  readonly #slicing: Random;
  #snapshot: { snapshot: Snapshot; length: number } | null = null;
  #restarts = 0;
  #step = 0;

  constructor(seed: number, random: Random, options: SimulationOptions) {
    this.#seed = seed;
    this.#random = random;
    this.#tries = seededRandom(seed + 1);
    this.#options = options;
    this.#slicing = seededRandom(seed);
    const { areSlicesCut: areCut = false } = options;
    this.#world = { ...createWorld(), slices: { areCut, between: (events) => this.#write(events) } };
  }

  run(): void {
    for (const command of someWorld(this.#random, this.#options.discipline, this.#options.onNodes ?? false))
      this.#take(send(this.#world, this.#fitting(command)));
    for (this.#step = 1; this.#step <= this.#options.steps; this.#step++) {
      this.#take(this.#doSomething());
      if (!this.#options.isUndisturbed) this.#lookClosely();
      if (this.#random.int(1, this.#options.restartEvery ?? 25) === 1) this.#restart();
    }
  }

  #lookClosely(): void {
    this.#check(violations(this.#world.state, this.#world.nowMs));
    this.#check(this.#brokenPromises());
    this.#check(this.#changedBirths());
    this.#check(this.#falseReasons());
    if (this.#tries.int(1, FORK_EVERY) === 1) this.#check(this.#tracesOfFork());
  }

  report(): SimulationReport {
    return {
      steps: this.#options.steps,
      journal: this.#journal,
      restarts: this.#restarts,
      virtualMs: this.#world.nowMs,
      counts: this.#ledger.counts,
    };
  }

  #doSomething() {
    const { state } = this.#world;
    if (this.#random.chance(25))
      return advance(this.#world, this.#random.pick([0, 1, 7, 7, 30, 30, 60, 120, 300, 900]) * 1000);
    if (this.#random.chance(2)) {
      const ids = [...requestIds(state)].sort();
      if (ids.length > 0) return loseHolder(this.#world, this.#random.pick(ids));
    }
    return send(this.#world, this.#fitting(someCommand(this.#random, state, this.#step)));
  }

  #fitting(command: Command, random = this.#random): Command {
    return rulesOf(this.#options).hasShares ? withShares(random, command) : command;
  }

  #take({
    events,
    refusal,
  }: {
    events: readonly Event[];
    refusal: { code: string; message: string } | null;
  }): void {
    if (refusal !== null) {
      this.#ledger.count(`refused: ${refusal.code}`);
      if (refusal.code === "engine_error") this.#check([refusal.message]);
    }
    for (const event of events) {
      this.#check(this.#ledger.enter(event));
      this.#check(this.#audit.enter(event));
    }
    this.#check(this.#audit.atRest());
  }

  /** Sometimes the server ends in the middle of a fixed point. */
  #write(events: readonly Event[]): void {
    for (const event of events) this.#journal.push(event);
    if (events.at(-1)?.kind === "schedulingPaused" && this.#slicing.chance(20)) this.#recover();
  }

  /** A waiter that had victims still holds what it was promised, until an event says otherwise (V5). */
  #brokenPromises(): string[] {
    return [...this.#ledger.openPromises()]
      .filter((id) => requestOf(this.#world.state, id)?.progress.hold == null)
      .map((id) => `work was stopped for ${id}, which holds nothing, and no event says why`);
  }

  /** Whatever happens to a request, it keeps its place and the time of its submission (Q3). */
  #changedBirths(): string[] {
    return [...requestIds(this.#world.state)].flatMap((id) => {
      const { seq, submittedAtMs } = (requestOf(this.#world.state, id) as { progress: Birth }).progress;
      const birth = this.#births.get(id);
      if (birth === undefined) this.#births.set(id, { seq, submittedAtMs });
      const isKept = birth === undefined || (birth.seq === seq && birth.submittedAtMs === submittedAtMs);
      return isKept ? [] : [`${id} was submitted at ${birth.submittedAtMs} and now says ${submittedAtMs}`];
    });
  }

  /** Some of those who wait are asked why, and what they say must be true (14). */
  #falseReasons(): string[] {
    const { state, nowMs } = this.#world;
    const waiting = [...requestIds(state)].filter((id) => requestOf(state, id)?.progress.status === "queued");
    const asked = waiting.filter((_, index) => index % 5 === this.#step % 5);
    return asked.flatMap((id) => reasonViolations(state, id, nowMs));
  }

  /** Decisions on a fork, and on a fork of it, leave nothing behind (X5). */
  #tracesOfFork(): string[] {
    const { state, nowMs } = this.#world;
    const before = textOf(state);
    const trySome = (depth: number): void => {
      for (let i = 0; i < 3; i++) {
        decide(state, this.#fitting(someCommand(this.#tries, state, this.#step), this.#tries), nowMs);
        if (depth > 1) fork(state, () => trySome(depth - 1));
      }
    };
    fork(state, () => trySome(2));
    if (textOf(state) !== before) return ["a fork has changed the state"];
    return violations(state, nowMs);
  }

  #restart(): void {
    const { state } = this.#world;
    if (!this.#options.isUndisturbed) this.#recover();
    if ([...state.requests.values()].some(({ progress }) => progress.status === "preempting")) {
      this.#ledger.count("restart while victims stop");
    }
    this.#restarts++;
    this.#take(send(this.#world, { kind: "tick" })); // What a server does first after a restart.
    this.#snapshot = { snapshot: snapshotOf(this.#world.state), length: this.#journal.length };
  }

  /** The state is the fold of its journal, from the beginning and from a snapshot; the world goes on from there. */
  #recover(): void {
    const { state } = this.#world;
    const live = textOf(state);
    const replayed = createState();
    for (const event of this.#journal) evolve(replayed, event);
    if (textOf(replayed) !== live) this.#check(["a replay of the journal gives another state"]);
    if (this.#snapshot !== null) {
      const restored = restoreState(JSON.parse(JSON.stringify(this.#snapshot.snapshot)) as Snapshot);
      for (const event of this.#journal.slice(this.#snapshot.length)) evolve(restored, event);
      if (textOf(restored) !== live)
        this.#check(["a snapshot and the rest of the journal give another state"]);
      replaceState(this.#world, restored);
    } else replaceState(this.#world, replayed);
  }

  #check(problems: readonly string[]): void {
    if (problems.length > 0) throw new SimulationViolation(this.#seed, this.#step, problems.slice(0, 5));
  }
}

function textOf(state: EngineState): string {
  return JSON.stringify(snapshotOf(state));
}

function replaceState(world: World, state: EngineState): void {
  resume(state, world.nowMs);
  Object.assign(world, { state });
}
