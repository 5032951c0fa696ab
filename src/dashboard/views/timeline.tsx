// Timeline: who held units of a pool, and when (view 3).

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { amountsText, counted, durationText } from "../../sdk/index.ts";
import { hrefOf, queryOf, setQuery } from "../address.ts";
import { berth, useCommand } from "../commands.ts";
import { useFollowed } from "../follow.ts";
import { useKeys } from "../keys.ts";
import { nowMs } from "../live.ts";
import { PoolChoice, PoolView } from "../parts/pool-choice.tsx";
import { Data, Empty } from "../parts/states.tsx";
import { clockText, momentText } from "../parts/time.tsx";
import { client } from "../session.ts";
import { Arrows, packed } from "./timeline-lanes.tsx";
import { csvOf, parseSpan, type Scale, scaleOf, spanText, type Timeline, ticksOf } from "./timeline-time.ts";

type Bar = Timeline["bars"][number];

const SPANS = ["-1h", "-6h", "-24h", "-7d"];
const WAITING_SHOWN_MAX = 12;

export function View() {
  return (
    <PoolView title="Timeline" about="Here is who held units of a pool, and when.">
      {(pool) => <PoolTimeline pool={pool} />}
    </PoolView>
  );
}

function PoolTimeline({ pool }: { pool: string }) {
  const from = queryOf("from") ?? "-6h";
  const to = queryOf("to");
  const lanes = queryOf("lanes");
  const span = parseSpan(from, to, nowMs.peek());
  const followed = useFollowed(JSON.stringify({ pool, from, to, lanes }), {
    load: (signal) => {
      const { fromMs, toMs } = parseSpan(from, to, Date.now());
      const query = {
        pool,
        lanes,
        from: new Date(fromMs).toISOString(),
        ...(to !== undefined && { to: new Date(toMs).toISOString() }),
        pixels: Math.min(4_000, Math.max(300, Math.round(innerWidth))),
      };
      return client.call("getTimeline", { query }, { signal });
    },
    concerns: ({ event, pool: of }) =>
      to === undefined && event.startsWith("request.") && (of === pool || of == null),
    everyMs: 3_000,
  });
  useCommand(berth(["ps", "--all"], { pool }));
  const zoom = (factor: number) => setQuery(spanText(span, factor, to === undefined));
  useKeys({
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    "0": () => setQuery({ from: undefined, to: undefined }),
  });
  return (
    <>
      <fieldset class="filters" aria-label="Filters">
        <PoolChoice value={pool} />
        <LaneChoice value={lanes ?? followed.data?.lanes_by ?? "component"} />
        {SPANS.map((one) => (
          <button
            key={one}
            type="button"
            class="chip"
            aria-pressed={from === one && to === undefined}
            onClick={() => setQuery({ from: one, to: undefined })}
          >
            {one.slice(1)}
          </button>
        ))}
        <button type="button" aria-label="Nearer (+)" onClick={() => zoom(0.5)}>
          +
        </button>
        <button type="button" aria-label="Farther (-)" onClick={() => zoom(2)}>
          −
        </button>
        {followed.data !== undefined && <Export timeline={followed.data} pool={pool} />}
      </fieldset>
      <Data of={followed}>
        {(timeline) =>
          timeline.bars.length === 0 && timeline.waiting.length === 0 ? (
            <Empty
              title="Nothing ran in this time"
              command={berth(["run", "--gpu", 1, "--", "echo", "hello"])}
            >
              Pool {pool} gave nothing between {momentText(Date.parse(timeline.from), true)} and{" "}
              {momentText(Date.parse(timeline.to), true)}.
            </Empty>
          ) : (
            <Drawing timeline={timeline} />
          )
        }
      </Data>
    </>
  );
}

function LaneChoice({ value }: { value: string }) {
  return (
    <label class="choice">
      <span>lanes by</span>
      <select value={value} onChange={(event) => setQuery({ lanes: event.currentTarget.value })}>
        <option value="node">node</option>
        <option value="component">team</option>
        <option value="request">request</option>
      </select>
    </label>
  );
}

function Export({ timeline, pool }: { timeline: Timeline; pool: string }) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([csvOf(timeline)], { type: "text/csv" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = `${pool}.csv`;
    link.click();
    URL.revokeObjectURL(url);
  };
  return (
    <button type="button" class="right" onClick={save}>
      export CSV
    </button>
  );
}

function Drawing({ timeline }: { timeline: Timeline }) {
  const [drag, setDrag] = useState<{ from: number; to: number }>();
  const field = useRef<HTMLDivElement>(null);
  const fromMs = Date.parse(timeline.from);
  const lengthMs = Math.max(1, Date.parse(timeline.to) - fromMs);
  const { lanes, height, placeOf } = useMemo(() => packed(timeline), [timeline]);
  const areFolded = queryOf("idle") !== "shown";
  const scale = useMemo(
    () => scaleOf(areFolded ? timeline.bars : [], lengthMs),
    [timeline, lengthMs, areFolded],
  );
  const ticks = ticksOf(fromMs, lengthMs).filter((atMs) => !isFolded(scale, atMs - fromMs));
  const left = (ms: number) => ({ left: `${scale.at(ms) * 100}%` });
  const partAt = (event: PointerEvent) => {
    const { left, width } = (field.current as HTMLDivElement).getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / width));
  };
  const finish = () => {
    if (drag !== undefined && Math.abs(drag.to - drag.from) > 0.01) {
      const [a, b] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
      setQuery({
        from: new Date(fromMs + scale.momentAt(a)).toISOString(),
        to: new Date(fromMs + scale.momentAt(b)).toISOString(),
      });
    }
    setDrag(undefined);
  };
  return (
    <div class="card timeline">
      <div class="scale" aria-hidden="true">
        {ticks.map((atMs) => (
          <span key={atMs} style={left(atMs - fromMs)}>
            {clockText(atMs, true)}
          </span>
        ))}
      </div>
      <div class="lanes" aria-hidden="true">
        <div class="lane-names">
          {lanes.map((lane) => (
            <span
              key={lane.name}
              style={{ top: `${lane.top}px`, height: `${lane.height}px` }}
              title={lane.name}
            >
              {lane.name}
            </span>
          ))}
        </div>
        <div
          ref={field}
          class="lane-field"
          style={{ height: `${height}px` }}
          onPointerDown={(event) => {
            if ((event.target as Element).closest("a") !== null) return;
            const at = partAt(event);
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrag({ from: at, to: at });
          }}
          onPointerMove={(event) => drag && setDrag({ ...drag, to: partAt(event) })}
          onPointerUp={finish}
        >
          {lanes.map((lane) => (
            <i
              key={lane.name}
              class="lane-line"
              style={{ top: `${lane.top}px`, height: `${lane.height}px` }}
            />
          ))}
          {ticks.map((atMs) => (
            <i key={atMs} class="tick" style={left(atMs - fromMs)} />
          ))}
          {scale.folds.map(({ startMs, endMs }) => (
            <i
              key={startMs}
              class="fold"
              title={`nothing ran for ${durationText((endMs - startMs) / 1000)}`}
              style={{ ...left(startMs), width: `${(scale.at(endMs) - scale.at(startMs)) * 100}%` }}
            />
          ))}
          {timeline.bars.map((bar) => (
            <BarLink
              key={`${bar.lane} ${bar.start} ${bar.number} ${bar.attempt}`}
              bar={bar}
              scale={scale}
              top={placeOf(bar)}
            />
          ))}
          <Arrows timeline={timeline} placeOf={placeOf} scale={scale} height={height} />
          {drag !== undefined && (
            <i
              class="drag"
              style={{
                left: `${Math.min(drag.from, drag.to) * 100}%`,
                width: `${Math.abs(drag.to - drag.from) * 100}%`,
              }}
            />
          )}
        </div>
      </div>
      <Waiting timeline={timeline} fromMs={fromMs} scale={scale} />
      {scale.folds.length > 0 && (
        <p class="soft">
          {foldsText(scale.folds.length)} of time in which nothing ran{" "}
          {scale.folds.length === 1 ? "is" : "are"} folded.{" "}
          <button type="button" class="plain" onClick={() => setQuery({ idle: "shown" })}>
            Show idle time
          </button>
        </p>
      )}
      {timeline.cut && <p class="notice">Not everything is shown: choose a shorter time.</p>}
      <Legend />
      <BarTable timeline={timeline} fromMs={fromMs} />
    </div>
  );
}

function foldsText(count: number): string {
  return count === 1 ? "A stretch" : `${count} stretches`;
}

function isFolded({ folds }: Scale, ms: number): boolean {
  return folds.some(({ startMs, endMs }) => ms > startMs && ms < endMs);
}

const WIDTH_MIN = 1 / 2_000;

function BarLink({ bar, scale, top }: { bar: Bar; scale: Scale; top: number }) {
  const { start, end, number, name, count, outcome, told, saved } = bar;
  const width = Math.max(scale.at(end) - scale.at(start), WIDTH_MIN);
  const place = { left: `${scale.at(start) * 100}%`, width: `${width * 100}%`, top: `${top}px` };
  const within = (ms: number) => ({ left: `${((scale.at(ms) - scale.at(start)) / width) * 100}%` });
  const kind = isBorrowed(bar) ? "borrowed" : "own";
  const mark = outcome === "preempted" ? "✕ " : outcome === "failed" || outcome === "lost" ? "! " : "";
  const text =
    count > 1 ? counted(count, "run") : `${mark}${number === null ? "another team's" : `#${number}`} ${name}`;
  const inner = (
    <>
      <span>{text}</span>
      {told !== null && told > start && <i class="told" title="told to stop" style={within(told)} />}
      {saved !== undefined && saved >= start && (
        <i class="saved" title="last checkpoint" style={within(saved)} />
      )}
    </>
  );
  const shared = {
    class: `lane-bar ${kind}${outcome === null ? " is-running" : ""}`,
    title: barText(bar),
    style: place,
    tabIndex: -1,
  };
  return number === null ? (
    <span {...shared}>{inner}</span>
  ) : (
    <a {...shared} href={hrefOf(`/requests/${number}`)}>
      {inner}
    </a>
  );
}

function isBorrowed({ borrowed }: Bar): boolean {
  return Object.values(borrowed ?? {}).some((units) => units > 0);
}

function barText({
  number,
  name,
  component,
  units,
  start,
  end,
  outcome,
  count,
  reason,
  preempted_for: winner,
}: Bar): string {
  if (count > 1) return counted(count, "run");
  const who = number === null ? "another team's" : `#${number} ${name} of ${component}`;
  const end_ =
    outcome === null
      ? "runs"
      : outcome === "preempted" && winner !== null
        ? `preempted for #${winner} (${reason})`
        : outcome;
  return `${who}: ${amountsText(units)}, ${durationText((end - start) / 1000)}, ${end_}`;
}

/** Who waits now, since when: dotted, because nothing is in use by it. */
function Waiting({ timeline, fromMs, scale }: { timeline: Timeline; fromMs: number; scale: Scale }) {
  const shown = timeline.waiting.slice(0, WAITING_SHOWN_MAX);
  if (shown.length === 0) return null;
  const part = (ms: number) => scale.at(Math.max(0, ms)) * 100;
  return (
    <section class="timeline-waiting">
      <h3>Waiting</h3>
      <ul>
        {shown.map(({ number, name, since, wants }) => (
          <li key={number}>
            <a href={hrefOf(`/requests/${number}`)} title={amountsText(wants)}>
              #{number} {name} <span class="soft">{amountsText(wants)}</span>
            </a>
            <span class="wait-field">
              <i class="held" style={{ left: `${part(Date.parse(since) - fromMs)}%` }} />
            </span>
          </li>
        ))}
      </ul>
      {timeline.waiting.length > shown.length && (
        <p class="soft">and {timeline.waiting.length - shown.length} more</p>
      )}
    </section>
  );
}

function Legend() {
  return (
    <p class="legend">
      <span>
        <i class="swatch own" />
        own
      </span>
      <span>
        <i class="swatch borrowed" />
        borrowed now
      </span>
      <span>
        <i class="swatch held" />
        waits
      </span>
      <span>✕ preempted, with an arrow to the one it made room for</span>
      <span>│ told to stop</span>
      <span>◆ last checkpoint</span>
      <span>╱╱ nothing ran: folded</span>
    </p>
  );
}

/** The same rows for those who listen. */
function BarTable({ timeline, fromMs }: { timeline: Timeline; fromMs: number }) {
  const [isOpen, setOpen] = useState(false);
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const element = details.current as HTMLDetailsElement;
    const onToggle = () => setOpen(element.open);
    element.addEventListener("toggle", onToggle);
    return () => element.removeEventListener("toggle", onToggle);
  }, []);
  return (
    <details ref={details}>
      <summary>The same as a table ({counted(timeline.bars.length, "row")})</summary>
      {isOpen && (
        <div class="table-box">
          <table>
            <thead>
              <tr>
                <th>lane</th>
                <th>request</th>
                <th>from</th>
                <th>to</th>
                <th>units</th>
                <th>end</th>
              </tr>
            </thead>
            <tbody>
              {timeline.bars.map((bar) => (
                <tr key={`${bar.lane} ${bar.start} ${bar.number} ${bar.attempt}`}>
                  <th scope="row">{timeline.lanes[bar.lane]?.name}</th>
                  <td>
                    {bar.count > 1
                      ? counted(bar.count, "run")
                      : bar.number === null
                        ? "another team's"
                        : `#${bar.number} ${bar.name}`}
                  </td>
                  <td>{momentText(fromMs + bar.start)}</td>
                  <td>{bar.outcome === null ? "runs" : momentText(fromMs + bar.end)}</td>
                  <td>{amountsText(bar.units)}</td>
                  <td>{bar.outcome ?? "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
