// Operations as things: all requests with one `operation`, of one component.

import {
  type ComponentName,
  capacityOf,
  type ElementView,
  type PoolName,
  type RequestId,
  requestOf,
  shareViewOf,
} from "../../engine/index.ts";
import type { RequestBody, View } from "../../leader/index.ts";
import { PAGE_ITEMS_DEFAULT, type WireOperation } from "../../protocol/index.ts";
import type { RequestRecord } from "../../store/index.ts";
import { toRequestId, toTimestamp } from "../../translation/index.ts";
import { afterOf, pageOf } from "../administration.ts";
import { type Call, type CallOf, type Change, contextOf, type Handler, ok, type Services } from "../call.ts";
import { presentLive } from "../presentation.ts";
import { notFound, problemError } from "../problems.ts";
import { largest } from "../shares.ts";
import { mayEnd, type Owned, ownedOf, ownedOfRecord, type Sight, sightOf } from "../sight.ts";

/** What is summed up about one request. */
interface Member extends Pick<RequestBody, "spec" | "progress" | "attempts"> {
  readonly id: RequestId;
  readonly owned: Owned;
}

/** Those in memory: with something that waits or runs, or that has just ended. */
export const listOperations: Handler<"listOperations"> = async (call, { leader }) => {
  const { limit = PAGE_ITEMS_DEFAULT } = call.query;
  const operations = await leader.read((view) => {
    const sight = sightOf(call.identity, view);
    const standings = standingsIn(view);
    // One more than is shown, so that it is known whether more follow.
    return firstNames(view, call, limit + 1).flatMap(
      (members) => summaryOf(members, sight, { view, standings }) ?? [],
    );
  });
  return pageOf(operations, nameOf, call.query);
};

const nameOf = ({ component, operation }: { component: string; operation: string | null }) =>
  `${component} ${operation}`;

/** The first operations behind the cursor, by name: only those are summed up, however many there are. */
function firstNames(
  view: View,
  { identity, query: { component, cursor } }: CallOf<"listOperations">,
  count: number,
): Member[][] {
  const sight = sightOf(identity, view);
  const after = cursor === undefined ? "" : afterOf(cursor);
  const first: { name: string; members: Member[] }[] = [];
  for (const requests of view.state.operations.values()) {
    const spec = requests.first()?.spec;
    if (spec === undefined || spec.operation === null) continue;
    if (component !== undefined && spec.component !== component) continue;
    const name = nameOf(spec);
    if (name <= after || (first.length === count && name > (first.at(-1)?.name ?? ""))) continue;
    if (!sight.mayNameSome(spec.component)) continue;
    const members = [...requests].flatMap(({ spec: { id } }) => memberInMemory(view, id) ?? []);
    if (!members.some(({ owned }) => sight.sees(owned))) continue;
    const place = first.findIndex((other) => other.name > name);
    first.splice(place < 0 ? first.length : place, 0, { name, members });
    if (first.length > count) first.pop();
  }
  return first.map(({ members }) => members);
}

/** All of it that the store still has. */
export const getOperation: Handler<"getOperation"> = async (call, services) => {
  const operation = call.params.operation as string;
  const records = await recordsOf(services, operation, call.query.component);
  const found = await services.leader.read((view) => {
    const sight = sightOf(call.identity, view);
    const members = records.map((record) => memberInMemory(view, toRequestId(record.id)) ?? memberOf(record));
    const seen = members.filter(({ owned }) => sight.sees(owned));
    const standings = standingsIn(view);
    const components = new Set(seen.map(({ spec }) => spec.component));
    return [...components].flatMap((component) => {
      const mine = seen.filter(({ spec }) => spec.component === component);
      const summary = summaryOf(mine, sight, { view, standings });
      return summary === undefined ? [] : [summary];
    });
  });
  return ok(theOne(found, operation));
};

function theOne(found: readonly WireOperation[], operation: string): WireOperation {
  const [one, ...others] = found;
  if (one === undefined) throw notFound("operation", operation);
  if (others.length === 0) return one;
  throw problemError("ambiguous", `Several components have an operation "${operation}".`, {
    hint: `Name one with component: ${found.map(({ component }) => component).join(", ")}.`,
  });
}

const RECORDS_MAX = 10_000;
const RECORDS_PER_PAGE = 1_000;

async function recordsOf(
  { store }: Services,
  operation: string,
  component: string | undefined,
): Promise<RequestRecord[]> {
  const records: RequestRecord[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.listRequests({
      ...{ operation, limit: RECORDS_PER_PAGE },
      ...(component !== undefined && { component }),
      ...(cursor !== undefined && { cursor }),
    });
    records.push(...page.items);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined && records.length < RECORDS_MAX);
  return records;
}

function memberInMemory(view: View, id: RequestId): Member | undefined {
  const request = requestOf(view.state, id);
  const owned = ownedOf(view, id);
  if (request === undefined || owned === undefined) return undefined;
  return { id, owned, spec: request.spec, progress: request.progress, attempts: view.attemptsOf(id) };
}

function memberOf(record: RequestRecord): Member {
  const { spec, progress, attempts } = record.body as RequestBody;
  return { id: toRequestId(record.id), owned: ownedOfRecord(record), spec, progress, attempts };
}

/** How the operations of a pool stand, by component and name; each pool is looked at once, and only if it is asked about. */
type Standings = (pool: string) => ReadonlyMap<string, ElementView>;

function standingsIn({ state }: View): Standings {
  const known = new Map<string, ReadonlyMap<string, ElementView>>();
  return (pool) => {
    const found =
      known.get(pool) ??
      new Map(
        shareViewOf(state, pool as PoolName)
          .elements.filter(({ kind }) => kind === "operation")
          .map((element) => [`${element.parent} ${element.name}`, element]),
      );
    known.set(pool, found);
    return found;
  };
}

type Usage = Record<string, number>;

function sharesOf(
  pools: ReadonlyMap<string, Usage>,
  key: string,
  { view, standings }: { readonly view: View; readonly standings: Standings },
): WireOperation["shares"] {
  const existing = [...pools].filter(([pool]) => view.state.pools.has(pool as PoolName));
  return existing.map(([pool, usage]) => {
    const capacity = capacityOf(view.state, pool as PoolName);
    const parts = Object.entries(usage).map(([name, amount]) => [
      name,
      amount / (capacity[name] || Infinity),
    ]);
    const standing = standings(pool).get(key);
    return {
      pool,
      usage_share: largest(Object.fromEntries(parts)),
      fair_share: standing === undefined ? null : largest(standing.fairShare),
      satisfaction: standing?.satisfaction ?? null,
      status: standing?.status ?? null,
    };
  });
}

function addUsage(usage: Usage, { resources, nodes }: Member["spec"]): void {
  for (const [key, amount] of Object.entries(resources))
    usage[key] = (usage[key] ?? 0) + (key === "step_run" ? amount : amount * nodes);
}

function summaryOf(
  all: readonly Member[],
  sight: Sight,
  sources: { readonly view: View; readonly standings: Standings },
): WireOperation | undefined {
  const members = all.filter(({ owned }) => sight.sees(owned));
  const [first] = members;
  if (first === undefined) return undefined;
  const statuses: Record<string, number> = {};
  const usage: Usage = {};
  const pools = new Map<string, Usage>();
  for (const { spec, progress, owned } of members) {
    const status = progress.blocked === true ? "blocked" : progress.status;
    statuses[status] = (statuses[status] ?? 0) + 1;
    const pool = owned.pool ?? owned.queues[0];
    const inPool = pool !== undefined && sight.seesPool(pool) ? (pools.get(pool) ?? {}) : undefined;
    if (pool !== undefined && inPool !== undefined) pools.set(pool, inPool);
    if (progress.allocation === null) continue;
    addUsage(usage, spec);
    if (inPool !== undefined) addUsage(inPool, spec);
  }
  const isLive = members.some(({ progress }) => progress.endedAtMs === null);
  const submittedAtMs = Math.min(...members.map(({ progress }) => progress.submittedAtMs));
  const endedAtMs = Math.max(...members.map(({ progress }) => progress.endedAtMs ?? 0));
  return {
    operation: first.spec.operation ?? "",
    component: first.spec.component,
    pools: [...pools.keys()].sort(),
    statuses,
    usage,
    shares: sharesOf(pools, `${first.spec.component} ${first.spec.operation}`, sources),
    ...waitsOf(members, sources.view.nowMs),
    submitted_at: toTimestamp(submittedAtMs),
    ended_at: isLive ? null : toTimestamp(endedAtMs),
  };
}

function waitsOf(members: readonly Member[], nowMs: number) {
  const waited = members.flatMap(({ progress, attempts }) => {
    const startedAtMs = attempts[0]?.startedAtMs ?? progress.allocation?.startedAtMs;
    return startedAtMs === undefined ? [] : [startedAtMs - progress.submittedAtMs];
  });
  const waiting = members.flatMap(({ progress }) =>
    progress.status === "queued" && progress.blocked !== true ? [nowMs - progress.queuedAtMs] : [],
  );
  const average = waited.reduce((sum, ms) => sum + ms, 0) / waited.length;
  return {
    waited_seconds: waited.length === 0 ? null : Math.round(average / 100) / 10,
    waiting_seconds_max: waiting.length === 0 ? null : Math.round(Math.max(...waiting) / 100) / 10,
  };
}

/** Whatever of it lives and the caller may end. */
export const cancelOperation: Handler<"cancelOperation"> = async (call, services) => {
  const operation = call.params.operation as string;
  const found = await services.leader.read((view) => liveOf(view, call, operation));
  if (found.length === 0) throw notFound("operation with something to cancel", operation);
  const components = new Set(found.map(({ spec }) => spec.component));
  if (components.size > 1) {
    throw problemError("ambiguous", `Several components have an operation "${operation}".`, {
      hint: `Name one with component: ${[...components].sort().join(", ")}.`,
    });
  }
  const { identity } = call;
  const calls = found.map(({ id, spec }) => {
    const change: Change = {
      command: { kind: "cancelRequest", requestId: id },
      target: id,
      detail: { component: spec.component, operation },
      present: (view) => presentLive(view, id, { identity, grants: services.grants }),
    };
    return { command: change.command, context: contextOf(call, change) };
  });
  const answers = await services.leader.performMany(calls);
  const results = answers.flatMap((answer) => {
    if (answer.outcome === "refused") return [];
    const { id, number } = answer.body as { id: string; number: number };
    return [{ id, number }];
  });
  return ok({ cancelled: results.length, results });
};

function liveOf(view: View, { identity, query }: Call, operation: string): Member[] {
  const { component } = query as { component?: ComponentName };
  const sight = sightOf(identity, view);
  return [...view.state.operations.values()].flatMap((requests) => {
    const spec = requests.first()?.spec;
    if (spec?.operation !== operation || (component !== undefined && spec.component !== component)) return [];
    return [...requests]
      .filter(({ progress }) => progress.endedAtMs === null)
      .flatMap(({ spec: { id } }) => memberInMemory(view, id) ?? [])
      .filter(({ owned }) => sight.reaches(owned) && mayEnd(identity, owned));
  });
}
