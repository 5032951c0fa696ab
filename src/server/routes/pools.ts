// Pools, their queues and shares, and the settings of the server.

import { likelyMeantKey, queueLengthOf, queuePageOf } from "../../engine/index.ts";
import type { View } from "../../leader/index.ts";
import type { WirePool, WirePoolUpdate, WireQueueItem } from "../../protocol/index.ts";
import { toComponentName, toCreatePool, toPoolName, toUpdatePool } from "../../translation/index.ts";
import {
  agreed,
  alter,
  createOrChange,
  hasPool,
  memberDenial,
  pageOf,
  poolNames,
  reachedPool,
  showPool,
} from "../administration.ts";
import { type Call, type Handler, ok, perform, type Services } from "../call.ts";
import { pauseOf } from "../holders.ts";
import { reachesPool } from "../identity.ts";
import { presentLive } from "../presentation.ts";
import { forbidden, notFound, problemError } from "../problems.ts";
import { presentShares } from "../shares.ts";
import { ownedOf, sightOf } from "../sight.ts";

export const listPools: Handler<"listPools"> = async (call, { leader }) => {
  const pools = await leader.read((view) =>
    poolNames(view)
      .filter((name) => reachesPool(call.identity, name))
      .map((name) => ({ ...(showPool(view, name)!.body as { name: string }), ...pauseOf(leader, name) })),
  );
  return pageOf(pools, ({ name }) => name, call.query);
};

export const getPool: Handler<"getPool"> = async (call, services) => {
  const name = await reachedPool(call, services);
  const pool = await services.leader.read((view) => showPool(view, name));
  if (pool === undefined) throw notFound("pool", name);
  const body = { ...(pool.body as object), ...pauseOf(services.leader, name) };
  return ok(body, { etag: pool.etag });
};

export const resumeExpiry: Handler<"resumeExpiry"> = async (call, services) => {
  const name = await reachedPool(call, services);
  const command = { kind: "resumeExpiry", name: toPoolName(name) } as const;
  const guard = (view: View) => memberDenial(view, call, { pools: [name] });
  await perform(call, services, { command, target: `pool ${name}`, guard });
  return { status: 204 };
};

export const createPool: Handler<"createPool"> = (call, services) => create(call, services, call.body, 201);

function create(call: Call, services: Services, pool: WirePool, status: number) {
  checkReach(call, pool.name);
  return alter(call, services, {
    command: toCreatePool(pool),
    target: `pool ${pool.name}`,
    pools: [],
    status,
    detail: { pool },
    show: (view) => showPool(view, pool.name),
    slips: slipsIn(pool.capacity),
  });
}

/** What does not exist yet cannot be hidden: a name outside the reach of the token is refused openly. */
function checkReach({ identity }: Call, pool: string): void {
  if (reachesPool(identity, pool)) return;
  throw forbidden(`The token "${identity.name}" does not reach the pool "${pool}".`, "Use a pool of yours.");
}

/** R5: accepted, but probably another key was meant. */
function slipsIn(capacity: Readonly<Record<string, number>> | undefined): string[] {
  return Object.entries(capacity ?? {}).flatMap(([key, amount]) => {
    const meant = likelyMeantKey(key);
    return meant === undefined || amount === 0
      ? []
      : [`The key "${key}" is a custom one; "${meant}" was probably meant.`];
  });
}

export const putPool: Handler<"putPool"> = async (call, services) => {
  const name = call.params.pool as string;
  checkReach(call, name);
  const body = agreed(call.body, { name }) as WirePool;
  const exists = () => services.leader.read((view) => hasPool(view, name));
  return createOrChange(call, exists, async (isThere) => {
    if (!isThere) return create(call, services, body, 201);
    const { discipline, ...update } = body;
    if (discipline !== undefined) await checkDiscipline(services, name, discipline);
    return change(call, services, update, call.query.force === "true");
  });
};

async function checkDiscipline({ leader }: Services, name: string, discipline: string): Promise<void> {
  const current = await leader.read((view) => view.state.pools.get(toPoolName(name))?.record.discipline);
  if (current === undefined || current === discipline) return;
  throw problemError(
    "invalid_request",
    `The discipline of pool "${name}" is ${current}, and cannot be changed.`,
    {
      errors: [{ pointer: "/discipline", message: "cannot be changed" }],
      hint: "Make another pool, and move the policies there.",
    },
  );
}

export const updatePool: Handler<"updatePool"> = async (call, services) => {
  const name = await reachedPool(call, services);
  const update = agreed(call.body, { name }) as WirePoolUpdate;
  return change(call, services, update, call.query.force === "true");
};

function change(call: Call, services: Services, pool: WirePoolUpdate, force: boolean) {
  return alter(call, services, {
    command: toUpdatePool({ ...pool, force }),
    target: `pool ${pool.name}`,
    pools: [pool.name],
    detail: { pool, force },
    show: (view) => showPool(view, pool.name),
    slips: slipsIn(pool.capacity),
  });
}

export const deletePool: Handler<"deletePool"> = async (call, services) => {
  const name = await reachedPool(call, services);
  const force = call.query.force === "true";
  return alter(call, services, {
    command: { kind: "deletePool", name: toPoolName(name), force },
    target: `pool ${name}`,
    pools: [name],
    status: 204,
    detail: { force },
    show: (view) => showPool(view, name),
  });
};

export const listQueue: Handler<"listQueue"> = async (call, services) => {
  const name = await reachedPool(call, services);
  const { identity } = call;
  const { limit = 100, cursor } = call.query;
  const start = Number(cursor ?? 0);
  if (!Number.isSafeInteger(start) || start < 0) {
    throw problemError("invalid_request", "The cursor is not one of this list.");
  }
  const { items, total } = await services.leader.read((view) => {
    const pool = view.state.pools.get(toPoolName(name));
    if (pool === undefined) return { items: [], total: 0 };
    const sight = sightOf(identity, view);
    const shown = queuePageOf(view.state, toPoolName(name), view.nowMs, { start, limit }).flatMap(
      (id, index): WireQueueItem[] => {
        const owned = ownedOf(view, id);
        const request = presentLive(view, id, { identity, grants: services.grants });
        if (owned === undefined || request === undefined || !sight.sees(owned)) return [];
        const priority = pool.policies.get(toComponentName(request.component))?.record.priority ?? 0;
        return [{ ...request, position: start + index + 1, priority }];
      },
    );
    return { items: shown, total: queueLengthOf(pool) };
  });
  return ok({ items, next_cursor: start + limit < total ? String(start + limit) : null });
};

export const getShares: Handler<"getShares"> = async (call, services) => {
  const name = await reachedPool(call, services);
  return ok(await services.leader.read((view) => presentShares(view, name, call.identity)));
};

export const getSettings: Handler<"getSettings"> = async (_call, { leader }) =>
  ok(await leader.read((view) => ({ unmanaged: view.state.unmanaged })));

export const changeSettings: Handler<"changeSettings"> = async (call, services) => {
  const { unmanaged } = call.body;
  const answer = await perform(call, services, {
    command: { kind: "changeServerSettings", unmanaged },
    target: "settings",
    detail: { unmanaged },
    present: (view) => ({ unmanaged: view.state.unmanaged }),
  });
  return ok(answer.body);
};
