// Use over time, drawn by uPlot: a line per component, told apart by colour and by dashes.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { AnswerOf } from "../../sdk/index.ts";
import { clockText, dayText, momentText } from "./time.tsx";

type History = AnswerOf<"getHistory">;

const HEIGHT = 220;
const LINES_MAX = 8;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const COLOURS = ["--own", "--borrowed-2", "--held", "--good"];

export function Chart({ history, keyName }: { history: History; keyName: string }) {
  const box = useRef<HTMLDivElement>(null);
  const { at, components } = history;
  const shown = components
    .map(({ component, used }) => ({ component, values: used[keyName] ?? [] }))
    .filter(({ values }) => values.some((value) => value > 0))
    .toSorted((a, b) => sum(b.values) - sum(a.values))
    .slice(0, LINES_MAX);

  useEffect(() => {
    const element = box.current;
    if (element === null || shown.length === 0) return;
    const style = getComputedStyle(element);
    const colour = (name: string) => style.getPropertyValue(name);
    const axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
    };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        series: [
          { label: "at", value: (_, at) => (at === null ? "" : momentText(at * 1000, true)) },
          ...shown.map(({ component }, index) => ({
            label: component,
            stroke: colour(COLOURS[index % COLOURS.length] as string),
            dash: DASHES[Math.floor(index / COLOURS.length + index) % DASHES.length] as number[],
            width: 2,
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value === null ? "" : String(value)),
          })),
        ],
        axes: [
          { ...axis, space: 72, values: (_, moments) => tickTexts(moments) },
          { ...axis, size: 44 },
        ],
        scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
        cursor: { y: false },
      },
      [at.map((time) => Date.parse(time) / 1000), ...shown.map(({ values }) => values.slice())],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [history, keyName]);

  if (shown.length === 0) return null;
  return (
    <div
      ref={box}
      class="chart"
      role="img"
      aria-label={`${keyName} in use over time, per team; the table below has the sums`}
    />
  );
}

/** In the local clock's own way, like everywhere on the page; a tick at midnight says the day. */
function tickTexts(moments: readonly number[]): string[] {
  const areDays = (moments[1] ?? 0) - (moments[0] ?? 0) >= 86_400;
  return moments.map((at) => {
    const clock = clockText(at * 1000, true);
    return areDays || clock === "00:00" ? dayText(at * 1000) : clock;
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
