// Queue: who waits, in order, and why (view 2).

import { useMemo, useRef, useState } from "preact/hooks";
import { type AnswerOf, ageOf, amountsText, counted } from "../../sdk/index.ts";
import { hrefOf, queryOf, setQuery } from "../address.ts";
import { berth, useCommand } from "../commands.ts";
import { useFollowed } from "../follow.ts";
import { useKeys } from "../keys.ts";
import { type LiveEvent, nowMs } from "../live.ts";
import { CancelDialog, Explanation, knownStarts } from "../parts/explanation.tsx";
import { PoolChoice } from "../parts/pool-choice.tsx";
import { Cell, VirtualRows } from "../parts/rows.tsx";
import { Data, Empty } from "../parts/states.tsx";
import { client, may } from "../session.ts";

type Queue = AnswerOf<"getQueue">;
type WhyCode = NonNullable<Queue["rows"][number]["why"]>;

const PAGE = 1_000;

const WHY_TEXT: Readonly<Record<WhyCode, string>> = {
  units: "units are short",
  behind: "behind others who wait",
  limit: "at its limit",
  group_limit: "its group is at its limit",
  reserved: "its reserve is in use",
  held: "its units are coming free",
  held_elsewhere: "its units are coming free in another pool",
};

const SORTS = { place: "place", waited: "longest wait", number: "number", component: "component" } as const;

interface Filters {
  readonly pool: string | undefined;
  readonly component: string | undefined;
  readonly why: string | undefined;
  readonly q: string | undefined;
  readonly sort: string | undefined;
}

export function View() {
  const filters: Filters = {
    pool: queryOf("pool"),
    component: queryOf("component"),
    why: queryOf("why"),
    q: queryOf("q"),
    sort: queryOf("sort"),
  };
  const wanted = useRef(PAGE);
  const followed = useFollowed(JSON.stringify(filters), {
    load: (signal) => loadRows(filters, wanted.current, signal),
    patch: withoutGone,
    concerns: ({ event }) =>
      event.startsWith("request.") || event.startsWith("policy.") || event.startsWith("pool."),
    everyMs: 2_000 * Math.ceil(wanted.current / PAGE),
  });
  useCommand(berth(["ps"], { status: "queued", pool: filters.pool, component: filters.component }));
  const loadUntil = (to: number) => {
    const { data } = followed;
    if (data === undefined || data.next_cursor === null || to <= data.rows.length) return;
    wanted.current = Math.max(wanted.current, Math.ceil(to / PAGE) * PAGE);
    followed.reload();
  };
  return (
    <>
      <h1 class="hidden">Queue</h1>
      <FilterBar filters={filters} queue={followed.data} />
      <Data of={followed}>
        {(queue) =>
          queue.rows.length === 0 ? (
            <NoRows queue={queue} />
          ) : (
            <div class={followed.isCurrent ? "" : "is-old"}>
              <QueueRows queue={queue} hasPools={filters.pool === undefined} onShown={loadUntil} />
            </div>
          )
        }
      </Data>
    </>
  );
}

/** The first so many rows, page by page: cursors lead from one to the next. */
async function loadRows(filters: Filters, count: number, signal: AbortSignal): Promise<Queue> {
  let queue: Queue | undefined;
  do {
    const cursor = queue?.next_cursor ?? undefined;
    const page = await client.call("getQueue", { query: { ...filters, limit: PAGE, cursor } }, { signal });
    queue = { ...page, seq: queue?.seq ?? page.seq, rows: [...(queue?.rows ?? []), ...page.rows] };
  } while (queue.next_cursor !== null && queue.rows.length < count);
  return queue;
}

const GONE = new Set([
  "request.allocated",
  "request.cancelled",
  "request.rejected",
  "request.expired",
  "request.deleted",
]);

/** Who no longer waits leaves the list at once; places and reasons of the others follow with the next load. */
export function withoutGone(queue: Queue, events: readonly LiveEvent[]): Queue {
  const gone = new Set(events.filter(({ event }) => GONE.has(event)).map(({ number }) => number));
  const rows = queue.rows.filter(({ number }) => !gone.has(number));
  const count = queue.rows.length - rows.length;
  if (count === 0) return queue;
  return { ...queue, rows, total: queue.total - count, matching: queue.matching - count };
}

function FilterBar({ filters, queue }: { filters: Filters; queue: Queue | undefined }) {
  const codes = Object.keys(WHY_TEXT) as WhyCode[];
  const counts = queue?.counts ?? {};
  const shown = codes.filter((code) => (counts[code] ?? 0) > 0 || filters.why === code);
  return (
    <fieldset class="filters" aria-label="Filters">
      <PoolChoice value={filters.pool} all="all pools" />
      <label class="choice">
        <span>sort by</span>
        <select
          value={filters.sort ?? "place"}
          onChange={(event) => setQuery({ sort: event.currentTarget.value })}
        >
          {Object.entries(SORTS).map(([sort, name]) => (
            <option key={sort} value={sort}>
              {name}
            </option>
          ))}
        </select>
      </label>
      {shown.map((code) => (
        <button
          key={code}
          type="button"
          class="chip"
          data-why-code={code}
          aria-pressed={filters.why === code}
          title={WHY_TEXT[code]}
          onClick={() => setQuery({ why: filters.why === code ? undefined : code, open: undefined })}
        >
          {code.replaceAll("_", " ")} <b>{counts[code] ?? 0}</b>
        </button>
      ))}
      {filters.q !== undefined && <Removable name="q" text={`“${filters.q}”`} />}
      {filters.component !== undefined && <Removable name="component" text={`of ${filters.component}`} />}
      {queue !== undefined && (
        <span class="count" data-count={queue.matching}>
          <b>{queue.matching.toLocaleString("en").replaceAll(",", " ")}</b> of{" "}
          {queue.total.toLocaleString("en").replaceAll(",", " ")}
          {queue.hidden > 0 && <span class="soft"> ({queue.hidden} of other teams)</span>}
        </span>
      )}
    </fieldset>
  );
}

function Removable({ name, text }: { name: string; text: string }) {
  return (
    <button
      type="button"
      class="chip"
      aria-pressed="true"
      title="Remove this filter"
      onClick={() => setQuery({ [name]: undefined })}
    >
      {text} <span aria-hidden="true">✕</span>
    </button>
  );
}

function NoRows({ queue }: { queue: Queue }) {
  if (queue.total > 0) {
    return (
      <Empty title="Nothing matches">
        {counted(queue.total, "request")} wait, and none of them fits these filters.{" "}
        <a href={hrefOf("/queue")}>Show all</a>
      </Empty>
    );
  }
  return (
    <Empty title="Nobody waits" command="berth run --gpu 1 -- echo hello">
      A request that finds nothing free waits here, with its place in line and the reason.
    </Empty>
  );
}

function QueueRows({
  queue,
  hasPools,
  onShown,
}: {
  queue: Queue;
  hasPools: boolean;
  onShown: (to: number) => void;
}) {
  const [current, setCurrent] = useState(0);
  const [cancelling, setCancelling] = useState<number>();
  const { rows } = queue;
  const open = Number(queryOf("open") ?? Number.NaN);
  const openAt = useMemo(() => {
    const at = rows.findIndex(({ number }) => number === open);
    return at < 0 ? undefined : at;
  }, [rows, open]);
  const at = Math.min(current, rows.length - 1);
  const toggle = (index: number) => {
    setCurrent(index);
    setQuery({ open: index === openAt ? undefined : rows[index]?.number });
  };
  useKeys({
    j: () => setCurrent(Math.min(at + 1, rows.length - 1)),
    k: () => setCurrent(Math.max(at - 1, 0)),
    Enter: () => toggle(at),
    w: () => setQuery({ open: rows[at]?.number }),
    Escape: () => setQuery({ open: undefined }),
    ...(may("requests.cancel") && { x: () => setCancelling(rows[at]?.number) }),
  });
  const columns = [
    { name: "#", isNumber: true },
    { name: "name" },
    { name: "of" },
    ...(hasPools ? [{ name: "pool" }] : []),
    { name: "wants" },
    { name: "waited", isNumber: true },
    { name: "place", isNumber: true },
    { name: "starts" },
    { name: "why" },
  ];
  return (
    <div class={hasPools ? "queue has-pools" : "queue"}>
      <VirtualRows
        count={
          queue.next_cursor === null ? rows.length : Math.max(rows.length, queue.matching - queue.hidden)
        }
        label="Requests that wait, in the order in which they are served"
        columns={columns}
        current={at}
        openAt={openAt}
        onPick={toggle}
        onShown={(_, to) => onShown(to)}
        row={(index) => <QueueCells row={rows[index]} hasPools={hasPools} />}
        opened={() => <Explanation number={open} />}
      />
      {cancelling !== undefined && (
        <CancelDialog number={cancelling} onClose={() => setCancelling(undefined)} />
      )}
    </div>
  );
}

/** Rows are slim: when it starts is known where others stop for it, and once its explanation was looked at. */
function startsOf({ number, why }: Queue["rows"][number]): string {
  return knownStarts.value.get(number) ?? (why === "held" ? "when they have stopped" : "–");
}

function QueueCells({ row, hasPools }: { row: Queue["rows"][number] | undefined; hasPools: boolean }) {
  if (row === undefined) return <Cell>…</Cell>;
  return (
    <>
      <Cell isNumber>{row.number}</Cell>
      <Cell>
        <b>{row.name || "–"}</b>
      </Cell>
      <Cell>{row.component}</Cell>
      {hasPools && <Cell>{row.pool}</Cell>}
      <Cell>{amountsText(row.wants)}</Cell>
      <Cell isNumber>{ageOf(row.since, nowMs.value)}</Cell>
      <Cell isNumber>{row.place}</Cell>
      <Cell>{startsOf(row)}</Cell>
      <Cell>{WHY_TEXT[row.why]}</Cell>
    </>
  );
}
