// Where bars stand: those of one lane that overlap in time stand below each other. And arrows from a victim to the one it made room for.

import type { Scale, Timeline } from "./timeline-time.ts";

type Bar = Timeline["bars"][number];

const BAR_HEIGHT = 24;
const GAP = 4;
const LANE_PADDING = 6;
const ARROWS_MAX = 200;

export interface Lane {
  readonly name: string;
  readonly top: number;
  readonly height: number;
}

export function packed({ lanes, bars }: Timeline): {
  lanes: Lane[];
  height: number;
  placeOf: (bar: Bar) => number;
} {
  const tracks = new Map<Bar, number>();
  const ends = lanes.map((): number[] => []);
  for (const bar of bars.toSorted((a, b) => a.start - b.start)) {
    const laneEnds = ends[bar.lane] as number[];
    const free = laneEnds.findIndex((end) => end <= bar.start);
    const track = free < 0 ? laneEnds.length : free;
    laneEnds[track] = bar.end;
    tracks.set(bar, track);
  }
  let top = 0;
  const placed = lanes.map(({ name }, at) => {
    const count = Math.max(1, ends[at]?.length ?? 1);
    const lane = { name, top, height: count * (BAR_HEIGHT + GAP) - GAP + 2 * LANE_PADDING };
    top += lane.height;
    return lane;
  });
  const placeOf = (bar: Bar) =>
    (placed[bar.lane]?.top ?? 0) + LANE_PADDING + (tracks.get(bar) ?? 0) * (BAR_HEIGHT + GAP);
  return { lanes: placed, height: top, placeOf };
}

/** From the end of the one that was stopped to the start of the one that it was stopped for. */
export function Arrows({
  timeline,
  placeOf,
  scale,
  height,
}: {
  timeline: Timeline;
  placeOf: (bar: Bar) => number;
  scale: Scale;
  height: number;
}) {
  const arrows = timeline.bars
    .filter(({ outcome, preempted_for: winner }) => outcome === "preempted" && winner !== null)
    .slice(0, ARROWS_MAX)
    .flatMap((victim) => {
      const winner = timeline.bars.find(
        ({ number, start }) => number === victim.preempted_for && start >= victim.end - 1_000,
      );
      return winner === undefined ? [] : [{ victim, winner }];
    });
  const x = (ms: number) => scale.at(ms) * 1_000;
  const middle = (bar: Bar) => placeOf(bar) + BAR_HEIGHT / 2;
  return (
    <svg class="arrows" viewBox={`0 0 1000 ${height}`} preserveAspectRatio="none" aria-hidden="true">
      {arrows.map(({ victim, winner }) => (
        <path
          key={`${victim.number} ${victim.attempt}`}
          d={`M${x(victim.end)} ${middle(victim)} L${x(winner.start)} ${middle(winner)}`}
        />
      ))}
      {arrows.map(({ victim, winner }) => (
        <circle key={`${victim.number} ${victim.attempt}`} cx={x(winner.start)} cy={middle(winner)} r="3" />
      ))}
    </svg>
  );
}
