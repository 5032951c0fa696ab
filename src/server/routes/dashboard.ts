// What the dashboard asks for beside the plain resources (B4, B5).

import { poolsOf } from "../../engine/index.ts";
import {
  PAGE_ITEMS_DEFAULT,
  type WirePoolHistory,
  type WireTimeline,
  type WireUsage,
} from "../../protocol/index.ts";
import { toPoolName, toTimestamp } from "../../translation/index.ts";
import { reachedPool } from "../administration.ts";
import { type Handler, ok } from "../call.ts";
import { reachesPool } from "../identity.ts";
import { presentOverview } from "../overview.ts";
import { problemError } from "../problems.ts";
import { startOf } from "../queue-rows.ts";
import { sightOf } from "../sight.ts";
import { endedIn, presentTimeline } from "../timeline.ts";

export const getOverview: Handler<"getOverview"> = async ({ identity }, { leader }) =>
  ok(await leader.read((view) => presentOverview(view, identity, leader.status())));

export const getQueue: Handler<"getQueue"> = async (call, services) => {
  const { identity, query } = call;
  const { pool, limit = PAGE_ITEMS_DEFAULT, cursor, sort = "place", component, why, q } = query;
  if (pool !== undefined) await reachedPool(call, services, pool);
  const start = startOf(cursor);
  const isOnePool = pool !== undefined;
  return ok(
    await services.leader.read((view) => {
      const reached = poolsOf(view.state)
        .map(({ name }) => name)
        .filter((name) => (isOnePool ? name === pool : reachesPool(identity, name)));
      const question = { pools: reached, isOnePool, component, why, q, sort, start, limit };
      return services.queueRows.answer(view, identity, question);
    }),
  );
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
  return ok(
    await leader.read((view): WireTimeline => {
      const line = { pools: [pool], isOnePool: true, component, sort: "place", start: 0 } as const;
      const isThere = view.state.pools.has(pool);
      return {
        seq: view.seq,
        time: toTimestamp(view.nowMs),
        from: toTimestamp(fromMs),
        to: toTimestamp(toMs),
        lanes_by: lanesBy,
        ...presentTimeline(view, sightOf(identity, view), question, ended),
        waiting: isThere ? queueRows.answer(view, identity, { ...line, limit: WAITING_SHOWN }).rows : [],
      };
    }),
  );
};

export const getUsage: Handler<"getUsage"> = async (_call, { leader }) => {
  const time = toTimestamp(leader.nowMs());
  const answer: WireUsage = { seq: leader.seq(), time, from: time, to: time, kept_since: time, rows: [] };
  return ok(answer);
};

export const getHistory: Handler<"getHistory"> = async (call, services) => {
  const pool = await reachedPool(call, services);
  const time = toTimestamp(services.leader.nowMs());
  const empty = { keys: [], from: time, at: [], waiting: [], capacity: {}, components: [] };
  return ok({ seq: services.leader.seq(), time, pool, ...empty } satisfies WirePoolHistory);
};
