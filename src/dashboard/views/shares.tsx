// Shares: who is owed how much of a pool, and who has it; now and over time (view 4).

import { useState } from "preact/hooks";
import {
  type AnswerOf,
  fairShares,
  hasShares,
  mainKeyOf,
  reservedShares,
  type Share,
  shareNumberText,
  sharePartText,
  shareStatusText,
} from "../../sdk/index.ts";
import { hrefOf, queryOf, setQuery } from "../address.ts";
import { berth, useCommand } from "../commands.ts";
import { useFollowed } from "../follow.ts";
import { Chart } from "../parts/chart.tsx";
import { PoolChoice, PoolView } from "../parts/pool-choice.tsx";
import { Data, Empty } from "../parts/states.tsx";
import { client } from "../session.ts";

type Pool = AnswerOf<"getPool">;

interface Shares {
  readonly pool: Pool;
  readonly keys: readonly string[];
  readonly key: string;
  readonly rows: readonly Share[];
}

const LIVE = "queued,allocated,preempting";

export function View() {
  return (
    <PoolView title="Shares" about="Here is who is owed how much of a pool, and who has it.">
      {(pool) => <PoolShares pool={pool} />}
    </PoolView>
  );
}

function PoolShares({ pool }: { pool: string }) {
  const wantedKey = queryOf("key");
  const followed = useFollowed(`${pool} ${wantedKey}`, {
    load: (signal) => loadShares(pool, wantedKey, signal),
    concerns: ({ event, pool: of }) => of === pool || of == null || event.startsWith("request."),
    everyMs: 5_000,
  });
  useCommand(berth(["share", pool, "--tree"], { key: wantedKey }));
  return (
    <Data of={followed}>
      {(shares) => (
        <>
          <fieldset class="filters" aria-label="Filters">
            <PoolChoice value={pool} />
            <KeyChoice keys={shares.keys} value={shares.key} />
            <SortChoice />
          </fieldset>
          {shares.rows.length === 0 ? (
            <Empty
              title="Nobody has a share"
              command={berth(["policy", "attach", pool, "alice"], { reserved: "gpu=2" })}
            >
              A policy lets a component use pool {pool}, and may reserve a part of it.
            </Empty>
          ) : (
            <ShareTable shares={shares} />
          )}
          <Received pool={pool} keyName={shares.key} />
        </>
      )}
    </Data>
  );
}

async function loadShares(name: string, wantedKey: string | undefined, signal: AbortSignal): Promise<Shares> {
  const pool = await client.pools.get(name, { signal });
  if (hasShares(pool)) {
    const { elements } = await client.pools.shares(name, { signal });
    const keys = Object.keys(elements[0]?.fair_share ?? pool.capacity).toSorted();
    const key = wantedKey ?? mainKeyOf(pool, keys);
    return {
      pool,
      keys,
      key,
      rows: fairShares(pool, elements, key, true).filter(({ kind }) => kind !== "operation"),
    };
  }
  const keys = Object.keys(pool.capacity).toSorted();
  const key = wantedKey ?? mainKeyOf(pool, keys);
  const [policies, live] = await Promise.all([
    gather(client.policies.all(name)),
    gather(client.requests.all({ status: LIVE, limit: 1_000 })),
  ]);
  return { pool, keys, key, rows: reservedShares(pool, policies, live, key) };
}

async function gather<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

function KeyChoice({ keys, value }: { keys: readonly string[]; value: string }) {
  return (
    <label class="choice">
      <span>of</span>
      <select value={value} onChange={(event) => setQuery({ key: event.currentTarget.value })}>
        {keys.map((key) => (
          <option key={key} value={key}>
            {key}
          </option>
        ))}
      </select>
    </label>
  );
}

function SortChoice() {
  return (
    <label class="choice">
      <span>sort by</span>
      <select
        value={queryOf("sort") ?? "tree"}
        onChange={(event) => setQuery({ sort: event.currentTarget.value })}
      >
        <option value="tree">place in the tree</option>
        <option value="owed">owed and not had</option>
      </select>
    </label>
  );
}

/** Words first; the bar is what it has as a part of the pool, the mark is what it is owed. */
function ShareTable({ shares: { pool, key, rows } }: { shares: Shares }) {
  const isFair = hasShares(pool);
  const isTree = queryOf("sort") !== "owed";
  const shown = isTree ? rows : rows.toSorted((a, b) => b.owed - b.got - (a.owed - a.got));
  return (
    <div class="card table-box">
      <table>
        <thead>
          <tr>
            <th>who</th>
            <th class="number">{isFair ? "owed" : "reserved"}</th>
            <th class="number">has</th>
            <th class="number">wants</th>
            <th class="number">borrowed</th>
            <th class="number">lent</th>
            <th>{key} of the pool</th>
            {isFair && <th class="number">satisfied</th>}
            {isFair && <th>status</th>}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={row.path.join("/")} data-share={row.who}>
              <th scope="row">
                <span class={isTree ? `depth-${Math.min(row.path.length - 1, 4)}` : ""}>
                  {row.kind === "group" ? (
                    <b>{row.who}</b>
                  ) : (
                    <a href={hrefOf("/queue", { pool: pool.name, component: row.who })}>{row.who}</a>
                  )}
                </span>
              </th>
              <td class="number">{shareNumberText(row.owed)}</td>
              <td class="number">{shareNumberText(row.got)}</td>
              <td class="number">{shareNumberText(row.demand)}</td>
              <td class="number">{shareNumberText(row.borrowed)}</td>
              <td class="number">{shareNumberText(row.lent)}</td>
              <td>
                <ShareBar row={row} />
              </td>
              {isFair && <td class="number">{sharePartText(row.satisfaction)}</td>}
              {isFair && (
                <td class={row.status === "normal" ? "soft" : "status-word"}>{shareStatusText(row)}</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ShareBar({ row: { capacity, got, borrowed, owed } }: { row: Share }) {
  if (capacity === 0) return null;
  const part = (units: number) => `${Math.min(100, (units / capacity) * 100)}%`;
  const beyond = Math.min(got, borrowed ?? 0);
  return (
    <div class="share-bar" aria-hidden="true">
      <span class="own" style={{ width: part(got - beyond) }} />
      <span class="borrowed" style={{ width: part(beyond) }} />
      <i style={{ left: part(owed) }} title={`owed ${shareNumberText(owed)}`} />
    </div>
  );
}

const SPANS = { "1": "1 d", "7": "7 d", "30": "30 d" } as const;

/** What each team received, from what is kept about days that are over and today. */
function Received({ pool, keyName }: { pool: string; keyName: string }) {
  const days = queryOf("days") ?? "1";
  const [fromMs] = useState(() => Date.now());
  const from = new Date(fromMs - Number(days) * 86_400_000).toISOString();
  const followed = useFollowed(`${pool} ${days}`, {
    load: async (signal) => ({
      usage: await client.call("getUsage", { query: { pool, from, by: "team" } }, { signal }),
      history: await client.call("getHistory", { params: { pool }, query: { from } }, { signal }),
    }),
    concerns: () => true,
    everyMs: 60_000,
  });
  return (
    <section class="card received">
      <header>
        <h2>Received</h2>
        <fieldset class="actions" aria-label="In the last">
          {Object.entries(SPANS).map(([value, name]) => (
            <button
              key={value}
              type="button"
              class="chip"
              aria-pressed={days === value}
              onClick={() => setQuery({ days: value })}
            >
              {name}
            </button>
          ))}
        </fieldset>
      </header>
      <Data of={followed}>
        {({ usage, history }) => (
          <>
            <Chart history={history} keyName={keyName} />
            <UsageTable usage={usage} keyName={keyName} />
          </>
        )}
      </Data>
    </section>
  );
}

function UsageTable({ usage, keyName }: { usage: AnswerOf<"getUsage">; keyName: string }) {
  const rows = usage.rows.filter(({ key }) => key === keyName);
  if (rows.length === 0) return <p class="soft">Nobody has used {keyName} in this time.</p>;
  const hours = (unitSeconds: number) => shareNumberText(unitSeconds / 3_600);
  return (
    <div class="table-box">
      <table>
        <thead>
          <tr>
            <th>team</th>
            <th class="number">{keyName}-hours</th>
            <th class="number">in share</th>
            <th class="number">borrowed</th>
            <th class="number">lent</th>
            <th class="number">lost</th>
            <th class="number">preempted</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.team} data-usage={row.team}>
              <th scope="row">{row.team}</th>
              <td class="number">{hours(row.in_share + row.borrowed)}</td>
              <td class="number">{hours(row.in_share)}</td>
              <td class="number">{hours(row.borrowed)}</td>
              <td class="number">{hours(row.lent)}</td>
              <td class="number">{hours(row.lost)}</td>
              <td class="number">{row.preempted}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
