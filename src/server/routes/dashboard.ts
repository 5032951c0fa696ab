// What the dashboard asks for beside the plain resources (B4, B5).

import { poolsOf } from "../../engine/index.ts";
import { DAY_MS } from "../../history/index.ts";
import { PAGE_ITEMS_DEFAULT, type WirePoolHistory, type WireTimeline } from "../../protocol/index.ts";
import { toPoolName, toTimestamp } from "../../translation/index.ts";
import { reachedPool } from "../administration.ts";
import { type Handler, ok } from "../call.ts";
import { reachesPool } from "../identity.ts";
import { presentOverview } from "../overview.ts";
import { presentHistory, stretchesIn, stretchNow } from "../pool-history.ts";
import { hidden, problemError } from "../problems.ts";
import { startOf } from "../queue-rows.ts";
import { sightOf } from "../sight.ts";
import { endedIn, presentTimeline } from "../timeline.ts";
import { usageOf } from "../usage.ts";

export const getOverview: Handler<"getOverview"> = async ({ identity }, { leader, rejections }) =>
  ok(
    await leader.read((view) =>
      presentOverview(view, identity, {
        status: leader.status(),
        rejected: rejections.lately(view, identity),
      }),
    ),
  );

export const getQueue: Handler<"getQueue"> = async (call, services) => {
  const { identity, query } = call;
  const { pool, limit = PAGE_ITEMS_DEFAULT, cursor, sort = "place", component, why, q } = query;
  if (pool !== undefined) await reachedPool(call, services, pool);
  const start = startOf(cursor);
  const isOnePool = pool !== undefined;
  const pools = await services.leader.read(({ state }) =>
    poolsOf(state)
      .map(({ name }) => name)
      .filter((name) => (isOnePool ? name === pool : reachesPool(identity, name))),
  );
  const question = { pools, isOnePool, component, why, q, sort, start, limit };
  return ok(await services.queueRows.answer(services, identity, question));
};

const SIX_HOURS_MS = 6 * 3_600_000;
const PIXELS_DEFAULT = 1_200;
/** Of those that wait now: as many as one looks at. */
const WAITING_SHOWN = 50;

export const getTimeline: Handler<"getTimeline"> = async (call, services) => {
  const { identity, query } = call;
  const { leader, store, queueRows } = services;
  const pool = toPoolName(await reachedPool(call, services, query.pool));
  const toMs = query.to === undefined ? leader.nowMs() : Date.parse(query.to);
  const fromMs = query.from === undefined ? toMs - SIX_HOURS_MS : Date.parse(query.from);
  if (fromMs >= toMs) throw problemError("invalid_request", "The time ends before it begins.");
  const hasNodes = await leader.read(({ state }) => (state.pools.get(pool)?.nodes.size ?? 0) > 0);
  const lanesBy = query.lanes ?? (hasNodes ? "node" : "component");
  const { component, pixels = PIXELS_DEFAULT } = query;
  const question = { pool, fromMs, toMs, lanesBy, component, pixels };
  const ended = await endedIn(store, question);
  const line = { pools: [pool], isOnePool: true, component, sort: "place", start: 0 } as const;
  const waiting = await queueRows.answer(services, identity, { ...line, limit: WAITING_SHOWN });
  return ok(
    await leader.read((view): WireTimeline => {
      return {
        seq: view.seq,
        time: toTimestamp(view.nowMs),
        from: toTimestamp(fromMs),
        to: toTimestamp(toMs),
        lanes_by: lanesBy,
        ...presentTimeline(view, sightOf(identity, view), question, ended),
        waiting: waiting.rows,
      };
    }),
  );
};

const USAGE_BY = ["pool", "team"];

export const getUsage: Handler<"getUsage"> = async (call, services) => {
  const { identity, query } = call;
  const { pool, component } = query;
  if (pool !== undefined && !reachesPool(identity, pool)) throw hidden("pool", pool);
  const nowMs = services.leader.nowMs();
  const monthStart = `${toTimestamp(nowMs).slice(0, 7)}-01T00:00:00Z`;
  const fromMs = Math.floor(Date.parse(query.from ?? monthStart) / DAY_MS) * DAY_MS;
  const toMs = Math.ceil((query.to === undefined ? nowMs + 1 : Date.parse(query.to)) / DAY_MS) * DAY_MS;
  if (fromMs >= toMs) throw problemError("invalid_request", "The time ends before it begins.");
  const by = new Set(query.by?.split(",") ?? USAGE_BY);
  const halfLifeMs = query.half_life === undefined ? undefined : query.half_life * 1000;
  return ok(await usageOf(services, identity, { pool, component, fromMs, toMs, by, halfLifeMs }));
};

const POINTS_DEFAULT = 288;

export const getHistory: Handler<"getHistory"> = async (call, services) => {
  const { leader, store } = services;
  const pool = await reachedPool(call, services);
  const { from, to, points = POINTS_DEFAULT } = call.query;
  const toMs = to === undefined ? leader.nowMs() : Date.parse(to);
  const fromMs = from === undefined ? toMs - DAY_MS : Date.parse(from);
  if (fromMs >= toMs) throw problemError("invalid_request", "The time ends before it begins.");
  const question = { pool, fromMs, toMs, points };
  const kept = await stretchesIn(store, question);
  return ok(
    await leader.read((view): WirePoolHistory => {
      const now = stretchNow(view, pool);
      const stretches =
        now === undefined ? kept : [...kept.filter(({ toMs: endMs }) => endMs <= now.fromMs), now];
      const sight = sightOf(call.identity, view);
      const shown = presentHistory(stretches, question, (component) => sight.namesComponent(pool, component));
      return { seq: view.seq, time: toTimestamp(view.nowMs), pool, ...shown };
    }),
  );
};
