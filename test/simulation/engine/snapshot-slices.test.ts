// Random worlds, of which one snapshot after the other is taken in slices while they go on. Each must be what a snapshot
// made from nothing is at its beginning, though most slices are those of the snapshot before.

import { expect, test } from "vitest";
import {
  type Command,
  createSlicer,
  createState,
  type DisciplineName,
  decide,
  type EngineState,
  preview,
  type RequestId,
  type SnapshotRequest,
  snapshotOf,
} from "../../../src/engine/index.ts";
import { someCommand, someWorld } from "./commands.ts";
import { type Random, seededRandom } from "./random.ts";

const { SEED, SEEDS = "6" } = process.env;
const seeds =
  SEED === undefined ? Array.from({ length: Number(SEEDS) }, (_, index) => index + 1) : [Number(SEED)];
const DISCIPLINES = ["priority", "class", "fair_share"] as const;
const SNAPSHOTS = 40;

test.each(seeds)("seed %i: a snapshot in slices is one that was made from nothing", (seed) => {
  for (const discipline of DISCIPLINES) {
    const { wrong, reused, made } = play(seed, discipline, createState());
    expect(wrong, discipline).toEqual([]);
    expect(reused, discipline).toBeGreaterThan(made / 10);
  }
});

const FAULTS: Record<string, (target: object, field: string | undefined) => boolean> = {
  "changes of single fields": (target, field) => isProgress(target) && field !== undefined,
  "changes of several fields": (target, field) => isProgress(target) && field === undefined,
  "grants and ends": (_, field) => field === "allocation" || field === "status",
  "new specifications": (_, field) => field === "spec",
};

test.each(Object.entries(FAULTS))("it would be noticed if %s were not seen", (_, isMissed) => {
  const isNoticed = [1, 2, 3, 4, 5, 6].some((seed) => {
    const state = createState();
    const { undo } = state;
    const watch = undo.watch.bind(undo);
    undo.watch = (watcher) => watch((target, field) => isMissed(target, field) || watcher(target, field));
    return play(seed, "priority", state).wrong.length > 0;
  });
  expect(isNoticed).toBe(true);
});

/** The snapshots that were not what they should have been, and how many slices were made, or used again. */
function play(seed: number, discipline: DisciplineName, state: EngineState) {
  const random = seededRandom(seed);
  let nowMs = 0;
  let step = 0;
  const send = (command: Command) => decide(state, command, nowMs);
  const goOn = (commands: number) => {
    for (let i = 0; i < commands; i++) {
      if (random.chance(20)) nowMs += random.pick([1, 30, 120]) * 1000;
      if (random.chance(10)) preview(state, someCommand(random, state, step++), nowMs);
      send(random.chance(15) ? someUpdate(random, state) : someCommand(random, state, step++));
      if (random.chance(10)) send({ kind: "forgetEnded", endedBeforeMs: nowMs - 60_000 });
    }
  };
  for (const command of someWorld(random, discipline, random.chance(50))) send(command);

  const count = { wrong: [] as number[], reused: 0, made: 0 };
  const slicer = createSlicer<string>(state);
  for (let index = 0; index < SNAPSHOTS; index++) {
    goOn(random.pick([0, 1, 10]));
    const { requests, ...rest } = snapshotOf(state);
    const { frame, slices } = slicer.begin((seq) => seq % 3 === 0);
    const isGivenUp = random.chance(10);
    const texts: string[] = [];
    for (const slice of isGivenUp ? slices.slice(0, random.int(0, slices.length)) : slices) {
      count[slice.made === undefined ? "made" : "reused"]++;
      slice.made ??= textOf(slice.take());
      texts.push(slice.made);
      goOn(random.pick([0, 0, 0, 1]));
    }
    slicer.end();
    if (isGivenUp) continue;
    const isRight = JSON.stringify(frame) === JSON.stringify(rest) && texts.join("") === textOf(requests);
    if (!isRight) count.wrong.push(index);
  }
  return count;
}

function textOf(requests: readonly SnapshotRequest[]): string {
  return requests.map(({ spec, progress }) => `${JSON.stringify([spec, progress])}\n`).join("");
}

/** It may ask for more, and moves to the end; or only its specification is another. */
function someUpdate(random: Random, state: EngineState): Command {
  const ids = [...state.requests.keys(), "nobody" as RequestId];
  const change = random.pick([
    { resources: { gpu: random.int(1, 3) } },
    { labels: { at: String(random.int(1, 9)) } },
  ]);
  return { kind: "updateRequest", requestId: random.pick(ids), change };
}

function isProgress(target: object): boolean {
  return "lastCheckpointSeq" in target;
}
