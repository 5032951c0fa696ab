// Overview: a card per pool, problem pools first (view 1).

import { ageOf, counted } from "../../sdk/index.ts";
import { hrefOf } from "../address.ts";
import { useCommand } from "../commands.ts";
import { nowMs } from "../live.ts";
import { overview, type PoolOverview } from "../overview.ts";
import { Data, Empty } from "../parts/states.tsx";
import { UseBar } from "../parts/use-bar.tsx";

export function View() {
  useCommand("berth top");
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Data of={overview.value}>
        {({ pools, problems }) =>
          pools.length === 0 ? (
            <Empty title="No pools yet" command="berth pool create lab --capacity gpu=8">
              A pool is what there is to share: GPUs, CPUs, licences. Each gets a card here.
            </Empty>
          ) : (
            <div class="cards">
              {pools.map((pool) => (
                <PoolCard
                  key={pool.name}
                  pool={pool}
                  hasProblem={problems.some((problem) => problem.pool === pool.name)}
                />
              ))}
            </div>
          )
        }
      </Data>
    </>
  );
}

function PoolCard({ pool, hasProblem }: { pool: PoolOverview; hasProblem: boolean }) {
  const { name, discipline, waiting, running, preempted_24h: preempted, oldest_wait_since: oldest } = pool;
  return (
    <section class="card" aria-labelledby={`pool-${name}`} data-pool={name}>
      <header>
        <h2 id={`pool-${name}`}>
          <a href={hrefOf("/queue", { pool: name })}>{name}</a>
        </h2>
        <span class="soft">{discipline}</span>
        {hasProblem && <span class="badge warn">look here</span>}
      </header>
      <dl class="facts">
        <Fact name="running" value={running} href={hrefOf("/timeline", { pool: name })} />
        <Fact name="waiting" value={waiting} href={hrefOf("/queue", { pool: name })} />
        <Fact
          name="oldest wait"
          value={oldest === null ? "–" : ageOf(oldest, nowMs.value)}
          href={hrefOf("/queue", { pool: name, sort: "waited" })}
        />
        <Fact
          name="preempted in 24 h"
          value={preempted}
          href={hrefOf("/timeline", { pool: name, from: "-24h" })}
        />
      </dl>
      {pool.keys.map((use) => (
        <UseBar key={use.key} pool={name} use={use} />
      ))}
      <Day of={pool.used_24h} keyName={pool.keys[0]?.key ?? ""} pool={name} />
    </section>
  );
}

function Fact({ name, value, href }: { name: string; value: string | number; href: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <a href={href} data-fact={name}>
          {value}
        </a>
      </dd>
    </div>
  );
}

/** How much of the first key was in use, hour by hour. */
function Day({ of: hours, keyName, pool }: { of: readonly number[]; keyName: string; pool: string }) {
  if (hours.length === 0) return null;
  const percent = (part: number) => `${Math.round(part * 100)} %`;
  const mean = hours.reduce((sum, part) => sum + part, 0) / hours.length;
  return (
    <a class="day" href={hrefOf("/shares", { pool })}>
      <span class="soft">{keyName} in 24 h</span>
      <span class="hours" aria-hidden="true">
        {hours.map((part, at) => (
          <span key={at} title={`${counted(hours.length - at, "hour")} ago: ${percent(part)}`}>
            <i style={{ height: `${Math.max(2, Math.min(1, part) * 100)}%` }} />
          </span>
        ))}
      </span>
      <span>
        {percent(mean)} <span class="soft">on average</span>
      </span>
    </a>
  );
}
