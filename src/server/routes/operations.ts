// Operations as things: all requests with one `operation`, of one component.

import { type ComponentName, type RequestId, requestOf } from "../../engine/index.ts";
import type { RequestBody, View } from "../../leader/index.ts";
import type { WireOperation } from "../../protocol/index.ts";
import type { RequestRecord } from "../../store/index.ts";
import { toRequestId, toTimestamp } from "../../translation/index.ts";
import { pageOf } from "../administration.ts";
import { type Call, type Change, contextOf, type Handler, ok, type Services } from "../call.ts";
import { presentLive } from "../presentation.ts";
import { notFound, problemError } from "../problems.ts";
import { mayEnd, type Owned, ownedOf, ownedOfRecord, type Sight, sightOf } from "../sight.ts";

/** What is summed up about one request. */
interface Member extends Pick<RequestBody, "spec" | "progress" | "attempts"> {
  readonly id: RequestId;
  readonly owned: Owned;
}

/** Those in memory: with something that waits or runs, or that has just ended. */
export const listOperations: Handler<"listOperations"> = async (call, { leader }) => {
  const { component } = call.query;
  const operations = await leader.read((view) => {
    const sight = sightOf(call.identity, view);
    return [...view.state.operations.values()].flatMap((requests): WireOperation[] => {
      const first = requests.first();
      if (first === undefined || first.spec.operation === null) return [];
      if (component !== undefined && first.spec.component !== component) return [];
      const members = [...requests].flatMap(({ spec }) => memberInMemory(view, spec.id) ?? []);
      const summary = summaryOf(members, sight, view.nowMs);
      return summary === undefined ? [] : [summary];
    });
  });
  const nameOf = ({ component: owner, operation }: WireOperation) => `${owner} ${operation}`;
  operations.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  return pageOf(operations, nameOf, call.query);
};

/** All of it that the store still has. */
export const getOperation: Handler<"getOperation"> = async (call, services) => {
  const operation = call.params.operation as string;
  const records = await recordsOf(services, operation, call.query.component);
  const found = await services.leader.read((view) => {
    const sight = sightOf(call.identity, view);
    const members = records.map((record) => memberInMemory(view, toRequestId(record.id)) ?? memberOf(record));
    const seen = members.filter(({ owned }) => sight.sees(owned));
    const components = new Set(seen.map(({ spec }) => spec.component));
    return [...components].flatMap((component) => {
      const mine = seen.filter(({ spec }) => spec.component === component);
      const summary = summaryOf(mine, sight, view.nowMs);
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

function summaryOf(all: readonly Member[], sight: Sight, nowMs: number): WireOperation | undefined {
  const members = all.filter(({ owned }) => sight.sees(owned));
  const [first] = members;
  if (first === undefined) return undefined;
  const statuses: Record<string, number> = {};
  const usage: Record<string, number> = {};
  const pools = new Set<string>();
  for (const { spec, progress, owned } of members) {
    const status = progress.blocked === true ? "blocked" : progress.status;
    statuses[status] = (statuses[status] ?? 0) + 1;
    const pool = owned.pool ?? owned.queues[0];
    if (pool !== undefined && sight.seesPool(pool)) pools.add(pool);
    if (progress.allocation === null) continue;
    for (const [key, amount] of Object.entries(spec.resources)) {
      const count = key === "step_run" ? amount : amount * spec.nodes;
      usage[key] = (usage[key] ?? 0) + count;
    }
  }
  const isLive = members.some(({ progress }) => progress.endedAtMs === null);
  const submittedAtMs = Math.min(...members.map(({ progress }) => progress.submittedAtMs));
  const endedAtMs = Math.max(...members.map(({ progress }) => progress.endedAtMs ?? 0));
  return {
    operation: first.spec.operation ?? "",
    component: first.spec.component,
    pools: [...pools].sort(),
    statuses,
    usage,
    ...waitsOf(members, nowMs),
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
