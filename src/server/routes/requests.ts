// Requests: submit, look, wait, hold, release, cancel, delete, explain.

import type { z } from "zod";
import {
  type Command,
  DEFAULT_POOL_SETTINGS,
  gangWarnings,
  type RequestId,
  requestOf,
  TERMINAL_STATUSES,
} from "../../engine/index.ts";
import type { Answer, DecisionBody, LeaderRefusal, RequestBody, View } from "../../leader/index.ts";
import {
  bulkReleaseItem,
  bulkRenewalItem,
  bulkSubmissionItem,
  PAGE_ITEMS_DEFAULT,
  type WireBulkAnswer,
  type WireBulkRenewalAnswer,
  type WireRelease,
  type WireRenewal,
  type WireRenewalAnswer,
  type WireRequest,
  type WireRequestSubmission,
  type WireRun,
} from "../../protocol/index.ts";
import type { RequestQuery } from "../../store/index.ts";
import { toMs, toRequestChange, toRequestId, toRequestSpec, toTimestamp } from "../../translation/index.ts";
import {
  type Call,
  type CallOf,
  type Change,
  contextOf,
  type Denial,
  denial,
  type Handler,
  idempotencyFor,
  ok,
  perform,
  type QueryOf,
  type Reply,
  refused,
  type Services,
} from "../call.ts";
import { presentDecision } from "../decisions.ts";
import { explain } from "../explanations.ts";
import { abandonedGuard, addSilence, clientOf, toEndFacts } from "../holders.ts";
import { type Identity, mayUse, reachesAll, reachesComponent, reachesPool } from "../identity.ts";
import { newRequestId } from "../ids.ts";
import { idOf, type Located, locate, locateOwn, reachGuard } from "../locate.ts";
import { isPlan, planOf } from "../plans.ts";
import { addStanding, presentLive, presentRecord } from "../presentation.ts";
import {
  forbidden,
  notFound,
  ProblemError,
  problemError,
  refusalProblem,
  schemaProblem,
} from "../problems.ts";
import { mayEnd, type Owned, ownedOf, ownedOfRecord, sightOf } from "../sight.ts";
import { inTurns } from "../turns.ts";
import { warningText } from "../warnings.ts";

// --- Submitting

export const submitRequest: Handler<"submitRequest"> = async (call, services) => {
  const resolved = await resolvedSubmission(call, services, call.body);
  const change = submission(call, services, resolved.wanted, resolved);
  if (isPlan(call)) return ok(await planOf(call, services, change.command as Command));
  services.rates.checkComponent(call.body.component); // Only spent by those who may ask for it.
  const answer = await perform(call, services, change);
  const shown = answer.body as WireRequest;
  const headers = { location: `/v1/resource-requests/${shown.id}` };
  return { status: 201, body: shown, headers: answer.replayed ? { ...headers, ...REPLAYED } : headers };
};

export const REPLAYED = { "idempotency-replayed": "true" };

interface ResolvedSubmission {
  readonly wanted: WireRequestSubmission;
  readonly impossible?: RequestId;
}

/** Those that it waits for, by their ids; such as have ended as they had to are not waited for any more (J9). */
export async function resolvedSubmission(
  call: Call,
  services: Services,
  asked: WireRequestSubmission,
): Promise<ResolvedSubmission> {
  if (asked.after === undefined) return { wanted: asked };
  const { after, ...wanted } = asked;
  const open: typeof after = [];
  let impossible: RequestId | undefined;
  for (const { id: text, when } of after) {
    const { id, record } = await locate(call, services, text);
    if (record === undefined) open.push({ id, when });
    else if (when === "ok" && record.status !== "released") impossible = id;
  }
  return {
    wanted: open.length === 0 ? wanted : { ...wanted, after: open },
    ...(impossible !== undefined && { impossible }),
  };
}

/** With `run` it is a job. */
export function submission(
  call: Call,
  services: Services,
  wanted: WireRequestSubmission,
  { run, impossible }: { readonly run?: WireRun; readonly impossible?: RequestId } = {},
): Change {
  const { identity } = call;
  const { grants } = services;
  checkRights(identity, wanted);
  const pools = poolsWithin(identity, wanted.pools);
  const bounded = pools === undefined ? wanted : { ...wanted, pools };
  const names = { id: newRequestId(), submittedBy: identity.name };
  const result = toRequestSpec(bounded, run === undefined ? names : { ...names, run });
  if (result.outcome === "refused") throw refused(result.refusal);
  const { spec } = result;
  return {
    command: { kind: "submitRequest", spec, ...(impossible !== undefined && { impossible }) },
    target: spec.id,
    detail: { component: spec.component },
    present: (view) => {
      const reaches = (pool: string) => reachesPool(identity, pool);
      const warnings = gangWarnings(view.state, spec, reaches).map(warningText);
      const shown = presentLive(view, spec.id, { identity, grants });
      return shown === undefined || warnings.length === 0 ? shown : { ...shown, warnings };
    },
  };
}

function checkRights(identity: Identity, wanted: WireRequestSubmission): void {
  if (!reachesComponent(identity, wanted.component)) {
    throw forbidden(
      `The token "${identity.name}" does not reach the component "${wanted.component}".`,
      "Ask for a component of yours; GET /v1/whoami lists them.",
    );
  }
  checkClass(identity, wanted.preemption_class);
  if (wanted.sensitive === true && !mayUse(identity, "sensitive")) {
    throw forbidden(
      "Sensitive work needs the permission sensitive.",
      "Leave it out, or ask for the permission.",
    );
  }
}

/** Pools bind what is asked for, too: a request of a bound token goes to these pools alone, or to fewer. */
function poolsWithin<Pools extends string[] | null | undefined>(
  identity: Identity,
  pools: Pools,
): Pools | string[] {
  if (identity.pools === null) return pools;
  const outside = pools?.find((pool) => !reachesPool(identity, pool));
  if (outside === undefined) return pools ?? [...identity.pools];
  throw forbidden(
    `The token "${identity.name}" does not reach the pool "${outside}".`,
    "Name pools of yours, or none; GET /v1/whoami lists them.",
  );
}

function checkClass(identity: Identity, preemptionClass = 0): void {
  if (preemptionClass < 10 || mayUse(identity, "class10")) return;
  throw forbidden(
    "Class 10 needs the permission class10.",
    "Use a class up to 9, or ask for the permission.",
  );
}

export const submitRequests: Handler<"submitRequests"> = async (call, services) => {
  for (const component of componentsOf(call)) services.rates.checkComponent(component);
  const resolved = await resolvedItems(call, services);
  const results = await bulk(call, services, (item, index) => {
    const { idempotency_key: ownKey, ...wanted } = parseItem(bulkSubmissionItem, item);
    const known = resolved.get(index) ?? { wanted };
    if (known instanceof ProblemError) throw known;
    const change = submission(call, services, known.wanted, known);
    if (ownKey !== undefined) return { ...change, idempotency: idempotencyFor(call, ownKey, wanted) };
    if (call.idempotencyKey === undefined) return change;
    return { ...change, idempotency: idempotencyFor(call, `${call.idempotencyKey} ${index}`, call.body) };
  });
  return ok({ results });
};

/** The items that wait for others, by their index. */
async function resolvedItems(
  call: CallOf<"submitRequests">,
  services: Services,
): Promise<ReadonlyMap<number, ResolvedSubmission | ProblemError>> {
  const resolved = new Map<number, ResolvedSubmission | ProblemError>();
  for (const [index, item] of call.body.items.entries()) {
    if ((item as { after?: unknown } | null)?.after === undefined) continue;
    const { data } = bulkSubmissionItem.safeParse(item);
    if (data === undefined) continue; // Refused where all of them are judged.
    const { idempotency_key: _, ...wanted } = data;
    resolved.set(index, await orProblem(resolvedSubmission(call, services, wanted)));
  }
  return resolved;
}

/** A bulk call counts once for each component that the caller may ask for. */
function componentsOf({ identity, body }: CallOf<"submitRequests">): ReadonlySet<string> {
  const named = body.items.map((item) => (item as { component?: unknown } | null)?.component);
  return new Set(
    named.filter(
      (component): component is string =>
        typeof component === "string" && reachesComponent(identity, component),
    ),
  );
}

export const releaseRequests: Handler<"releaseRequests"> = async (call, services) => {
  // Small numbers and tokens that are not ours are looked into first; the rest is judged where it is decided.
  const lookInto = async (wanted: z.infer<typeof bulkReleaseItem>) => {
    const id = await idOf(call, services, wanted.id);
    return { id, token: await verified(call, services, id, wanted.token), wanted };
  };
  const grants: (Awaited<ReturnType<typeof lookInto>> | ProblemError)[] = [];
  const parsed = await inTurns(call.body.items, (item) => {
    const { data: wanted, error } = bulkReleaseItem.safeParse(item);
    if (wanted === undefined) return schemaProblem(error, "body");
    return { wanted, token: services.grants.verify(wanted.id, wanted.token) };
  });
  for (const item of parsed) {
    if (item instanceof ProblemError) grants.push(item);
    else if (item.token === undefined) grants.push(await orProblem(lookInto(item.wanted)));
    else grants.push({ id: toRequestId(item.wanted.id), token: item.token, wanted: item.wanted });
  }
  const results = await bulk(call, services, (_item, index) => {
    const grant = grants[index]!;
    if (grant instanceof ProblemError) throw grant;
    return releaseChange(call, services, grant, grant.wanted);
  });
  for (const [index, result] of results.entries()) {
    const grant = grants[index]!;
    if (!("problem" in result) || grant instanceof ProblemError) continue;
    const repeated = await orProblem(
      repeatedRelease(call, services, { ...grant, code: result.problem.code }),
    );
    if (repeated !== undefined && !(repeated instanceof ProblemError)) {
      results[index] = repeated;
    }
  }
  return ok({ results });
};

/** In a bulk call a problem is the answer to one item, not the end of the call. */
function orProblem<Result>(work: Promise<Result>): Promise<Result | ProblemError> {
  return work.catch((error: unknown) => {
    if (error instanceof ProblemError) return error;
    throw error;
  });
}

function parseItem<Schema extends z.ZodType>(schema: Schema, item: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(item);
  if (!parsed.success) throw schemaProblem(parsed.error, "body");
  return parsed.data;
}

/** Each item stands for itself: what cannot be asked is answered at once, the rest is one batch. */
async function bulk(
  call: CallOf<"submitRequests" | "releaseRequests">,
  services: Services,
  toChange: (item: unknown, index: number) => Change,
): Promise<WireBulkAnswer["results"]> {
  const prepared = await inTurns(call.body.items, (item, index): Change | ProblemError => {
    try {
      return toChange(item, index);
    } catch (error) {
      if (error instanceof ProblemError) return error;
      throw error;
    }
  });
  const changes = prepared.filter((one): one is Change => !(one instanceof ProblemError));
  const denials = prepared.filter((one): one is ProblemError => one instanceof ProblemError && one.isDenial);
  const [denial] = denials;
  const items = denials.length;
  const audited = denial && services.denials.write(denial, { ...call, target: "", items });
  const answers = await services.leader.performMany(
    changes.map((change) => ({ command: change.command, context: contextOf(call, change) })),
  );
  await audited; // With the same commit as the changes.
  let next = 0;
  return prepared.map((one) => {
    return one instanceof ProblemError ? { problem: one.problem } : bulkResult(answers[next++] as Answer);
  });
}

function bulkResult(answer: Answer): WireBulkAnswer["results"][number] {
  if (answer.outcome === "refused") return { problem: refusalProblem(answer.refusal) };
  return answer.body as WireRequest;
}

// --- Looking

export const listRequests: Handler<"listRequests"> = (call, services) =>
  listedRequests(call, services, call.query, () => true);

export async function listedRequests(
  { identity }: Call,
  services: Services,
  asked: QueryOf<"listRequests">,
  isWanted: (shown: WireRequest) => boolean,
): Promise<Reply> {
  const query = toRequestQuery(asked);

  // What the token does not see is left out here; a page may then be short, and an empty one is followed up for a
  // while, so that few calls lead nowhere.
  let cursor = query.cursor;
  for (let looked = 0; ; ) {
    const page = await services.store.listRequests({ ...query, ...(cursor !== undefined && { cursor }) });
    const items = await services.leader.read((view) => {
      const sight = sightOf(identity, view);
      // Labels are private: what is not seen of a request does not find it either.
      const finds = (owned: Owned) =>
        query.label === undefined ? sight.sees(owned) : sight.degreeOf(owned) === "whole";
      return page.items.flatMap((record) => {
        const id = toRequestId(record.id);
        const owned = ownedOf(view, id) ?? ownedOfRecord(record);
        if (!finds(owned)) return [];
        const shown = presentRecord(record, sight, owned);
        addStanding(shown, view, id);
        addSilence(shown, view, id);
        return isWanted(shown) ? [shown] : [];
      });
    });
    looked += page.items.length;
    if (items.length > 0 || page.nextCursor === null || looked >= FOLLOWED_RECORDS_MAX) {
      return ok({ items, next_cursor: page.nextCursor });
    }
    cursor = page.nextCursor;
  }
}

/** A call that finds nothing costs no more than one that shows a large page. */
const FOLLOWED_RECORDS_MAX = 500;

function toRequestQuery(query: QueryOf<"listRequests">): RequestQuery {
  const [key, ...value] = query.label?.split("=") ?? [];
  return {
    limit: query.limit ?? PAGE_ITEMS_DEFAULT,
    ...(query.cursor !== undefined && { cursor: query.cursor }),
    ...(query.status !== undefined && { status: query.status.split(",") }),
    ...(query.pool !== undefined && { pool: query.pool }),
    ...(query.component !== undefined && { component: query.component }),
    ...(query.operation !== undefined && { operation: query.operation }),
    ...(key !== undefined && { label: { key, value: value.join("=") } }),
    ...(query.id !== undefined && { idPrefix: query.id }),
  };
}

export const getRequest: Handler<"getRequest"> = async (call, services) => {
  const located = await locate(call, services);
  const wait = waitOf(call);
  if (wait === undefined || located.record !== undefined)
    return ok(await showRequest(call, services, located));

  const aborted = new AbortController();
  call.outgoing.on("close", () => aborted.abort());
  const deadlineMs = performance.now() + wait.ms;
  // Listening starts before the first look, so that no change falls between the two.
  for (let changes = 0, isOver = wait.ms === 0; ; changes++) {
    const leftMs = Math.max(0, deadlineMs - performance.now());
    const stopListening = new AbortController();
    const signal = AbortSignal.any([aborted.signal, stopListening.signal]);
    const changed = services.waiting.nextChange(located.id, leftMs, signal);
    const shown = await showRequest(call, services, located);
    // The client of an attended request that still waits has just been heard of (L2).
    if (shown.attended && shown.status === "queued" && shown.submitted_by === call.identity.name) {
      services.hear(call, located.id);
    }
    if (isOver || isReached(shown.status, wait.until, changes)) {
      stopListening.abort();
      return ok(shown, wait.headers);
    }
    isOver = !(await changed);
  }
};

interface Wait {
  readonly ms: number;
  readonly until: NonNullable<QueryOf<"getRequest">["until"]>;
  readonly headers: Readonly<Record<string, string>>;
}

/** `?wait=`, or RFC 7240's `Prefer: wait=`. */
function waitOf({ query, incoming }: CallOf<"getRequest">): Wait | undefined {
  const preferred = /(?:^|[,;\s])wait=(\d{1,6})(?:$|[,;\s])/.exec(String(incoming.headers.prefer ?? ""))?.[1];
  const seconds = query.wait ?? (preferred === undefined ? undefined : Math.min(60, Number(preferred)));
  if (seconds === undefined) return undefined;
  const headers: Readonly<Record<string, string>> =
    query.wait === undefined ? { "preference-applied": `wait=${seconds}` } : {};
  return { ms: seconds * 1000, until: query.until ?? "change", headers };
}

function isReached(status: WireRequest["status"], until: Wait["until"], changes: number): boolean {
  // What has ended will never change again, whatever was waited for.
  if (TERMINAL_STATUSES.has(status)) return true;
  if (until === "change") return changes > 0;
  if (until === "settled") return status !== "queued";
  return status === until;
}

export async function showRequest(
  call: Call,
  services: Services,
  { id, record }: Located,
): Promise<WireRequest> {
  const { identity } = call;
  const { leader, grants } = services;
  const live = await leader.read((view) => presentLive(view, id, { identity, grants }));
  if (live !== undefined) return live;
  // It may have left the memory since it was found.
  const stored = record ?? (await services.store.getRequest(id));
  if (stored === undefined) throw notFound("request", id);
  return leader.read((view) => presentRecord(stored, sightOf(identity, view)));
}

export const explainRequest: Handler<"explainRequest"> = async (call, services) => {
  const located = await locate(call, services);
  const { suggestions, before } = call.query;
  const other = before === undefined ? undefined : (await locate(call, services, before)).id;
  return ok(await explain(call, services, located, { suggestions: suggestions !== "false", before: other }));
};

export const listDecisions: Handler<"listDecisions"> = async (call, services) => {
  const { id } = await locate(call, services);
  const decisions = await services.store.listDecisions(id);
  const items = await services.leader.read((view) => {
    const sight = sightOf(call.identity, view);
    return decisions.flatMap(({ seq, atMs, body }) => {
      const decision = presentDecision(body as DecisionBody, sight);
      return decision === undefined ? [] : [{ seq, at: toTimestamp(atMs), decision }];
    });
  });
  return ok({ items });
};

// --- Holding

export const renewRequest: Handler<"renewRequest"> = async (call, services) =>
  ok(await renew(call, services, await idOf(call, services), call.body));

export const renewRequests: Handler<"renewRequests"> = async (call, services) => {
  const results: WireBulkRenewalAnswer["results"] = [];
  for (const item of call.body.items) {
    const answer = await orProblem(renewItem(call, services, item));
    results.push(answer instanceof ProblemError ? { problem: answer.problem } : answer);
  }
  return ok({ results });
};

async function renewItem(call: Call, services: Services, item: unknown): Promise<WireRenewalAnswer> {
  const { id, ...renewal } = parseItem(bulkRenewalItem, item);
  return renew(call, services, await idOf(call, services, id), renewal);
}

async function renew(
  call: Call,
  services: Services,
  id: RequestId,
  body: WireRenewal,
): Promise<WireRenewalAnswer> {
  const { leader } = services;
  if (!reachesAll(call.identity)) {
    const denied = await leader.read(reachGuard(call.identity, id));
    if (denied !== undefined) throw refused(denied);
  }
  if (body.token !== undefined && services.grants.isLost(id, body.token))
    return renewLost(call, services, id);
  const engineToken = body.token === undefined ? null : await verified(call, services, id, body.token);

  const renewal = await leader.renew(id, engineToken, clientOf(call));
  switch (renewal.standing) {
    case "holding":
      if (body.phase === "stuck") {
        await alertStuck(services, id, { actor: call.identity.name, progress: body.progress });
      }
      return presentRenewal(renewal, presentInstruction(renewal.instruction));
    case "waiting":
      return presentRenewal(renewal, { do: "carry_on" });
    case "stale":
      throw staleToken(id);
    case "unknown":
      await locate(call, services, id); // Says so if there is no such request.
      throw staleToken(id);
  }
}

/**
 * The grant is in a part of the history that the database has lost (C14). Its work runs, through no fault of its own, and
 * goes on: as the holder of the request's present grant, or else outside the books until it ends.
 */
async function renewLost(call: Call, services: Services, id: RequestId): Promise<WireRenewalAnswer> {
  const { leader, store } = services;
  const token = await currentToken(services, id);
  const renewal = await leader.renew(id, token ?? null, clientOf(call));
  switch (renewal.standing) {
    case "holding":
      return presentRenewal(renewal, presentInstruction(renewal.instruction));
    case "waiting":
      return presentRenewal(renewal, { do: "carry_on" });
    case "stale":
      if (token === undefined && renewal.status === "queued") break;
      throw staleToken(id);
    case "unknown":
      if ((await store.getRequest(id)) !== undefined) throw staleToken(id); // It has ended since.
  }
  const { leaseMs, renewalMs: renewAfterMs } = DEFAULT_POOL_SETTINGS;
  const terms = { leaseMs, renewAfterMs, expiresAtMs: leader.nowMs() + leaseMs };
  return presentRenewal({ status: "allocated", ...terms }, { do: "carry_on" });
}

function currentToken({ leader }: Services, id: RequestId): Promise<number | undefined> {
  return leader.read(({ state }) => requestOf(state, id)?.progress.allocation?.token);
}

function presentRenewal(
  renewal: {
    status: WireRenewalAnswer["status"];
    expiresAtMs: number;
    leaseMs: number;
    renewAfterMs: number;
  },
  instruction: WireRenewalAnswer["instruction"],
): WireRenewalAnswer {
  return {
    status: renewal.status,
    instruction,
    lease_expires_at: toTimestamp(renewal.expiresAtMs),
    lease_seconds: renewal.leaseMs / 1000,
    renew_after_seconds: renewal.renewAfterMs / 1000,
  };
}

/** A person must look: no rule gives these units back. */
export async function alertStuck(
  { leader, log }: Services,
  requestId: RequestId,
  { actor, progress = "" }: { actor: string; progress: string | number | undefined },
): Promise<void> {
  log.error({ requestId, progress }, "the processes of a job cannot be killed: its units stay in use");
  const target = `request ${requestId}`;
  await leader.audit({ actor, action: "stuck", target, outcome: "alert", body: { progress } });
}

type Holding = Extract<Awaited<ReturnType<Services["leader"]["renew"]>>, { standing: "holding" }>;

function presentInstruction(instruction: Holding["instruction"]): WireRenewalAnswer["instruction"] {
  if (instruction.do === "carry_on") return { do: "carry_on" };
  const { deadlineMs, stop } = instruction;
  return { do: instruction.do, reason: stop.reason ?? stop.cause, deadline: toTimestamp(deadlineMs) };
}

/** A token without our signature is stale; only callers that reach the request learn that it exists. */
async function verified(call: Call, services: Services, id: RequestId, token: string): Promise<number> {
  const engineToken = services.grants.isLost(id, token)
    ? await currentToken(services, id)
    : services.grants.verify(id, token);
  if (engineToken !== undefined) return engineToken;
  await locate(call, services, id);
  throw staleToken(id);
}

function staleToken(id: string): ProblemError {
  return problemError("stale_token", `The token is not the current one of request "${id}".`, {
    hint: "This holder has lost its allocation: stop the work, and do not report on it any more.",
  });
}

export const releaseRequest: Handler<"releaseRequest"> = async (call, services) => {
  const id = await idOf(call, services);
  const token = await verified(call, services, id, call.body.token);
  const change = releaseChange(call, services, { id, token }, call.body);
  try {
    const answer = await perform(call, services, change);
    return ok(answer.body, answer.replayed ? REPLAYED : undefined);
  } catch (error) {
    const code = error instanceof ProblemError ? error.problem.code : "";
    const repeated = await repeatedRelease(call, services, { id, token, wanted: call.body, code });
    if (repeated !== undefined) return ok(repeated);
    throw code === "not_found" ? staleToken(id) : error;
  }
};

function releaseChange(
  call: Call,
  services: Services,
  { id, token }: { id: RequestId; token: number },
  wanted: WireRelease,
): Change {
  const { token: _, ...detail } = wanted;
  const caller = { identity: call.identity, grants: services.grants };
  const guard = reachGuard(call.identity, id);
  let before: WireRequest | undefined;
  return {
    command: { kind: "reportEnd", requestId: id, token, outcome: wanted.outcome, end: toEndFacts(wanted) },
    target: id,
    detail,
    guard(view) {
      const denied = guard(view) ?? executorsOnly(view, id);
      if (denied !== undefined) return denied;
      if (requestOf(view.state, id)?.progress.deletionPlanned === true)
        before = presentLive(view, id, caller);
      return undefined;
    },
    // Deleted by force while it ran, it is gone with its end: this is what it was (Q6).
    present: (view) =>
      presentLive(view, id, caller) ?? (before && { ...before, status: "cancelled", stop: null }),
  };
}

/** How a job ends is reported by the agent that started it (J5). */
function executorsOnly(view: View, id: RequestId): LeaderRefusal | undefined {
  if (requestOf(view.state, id)?.progress.allocation?.phase === undefined) return undefined;
  return {
    code: "invalid_request",
    message: `Request "${id}" is a job: its executor says how it ends.`,
    hint: "Cancel it, or send it a signal.",
  };
}

const REPORTED_AS: Record<string, readonly string[]> = {
  succeeded: ["succeeded"],
  failed: ["failed"],
  stopped: ["preempted", "cancelled", "walltime"],
};

/** The same report sent again has one effect and the same answer (L4); another one about a past grant is stale. */
async function repeatedRelease(
  call: Call,
  services: Services,
  { id, token, wanted, code }: { id: RequestId; token: number; wanted: WireRelease; code: string },
): Promise<WireRequest | undefined> {
  if (code !== "stale_token" && code !== "not_found") return undefined;
  const located = await locate(call, services, id);
  const shown = await showRequest(call, services, located);
  const attempts =
    (located.record?.body as RequestBody | undefined)?.attempts ??
    (await services.leader.read((view) => view.attemptsOf(id)));
  const reported = attempts.find((attempt) => attempt.token === token);
  return reported !== undefined && REPORTED_AS[wanted.outcome]?.includes(reported.outcome)
    ? shown
    : undefined;
}

export const checkpointRequest: Handler<"checkpointRequest"> = async (call, services) => {
  const { report, seconds } = call.body;
  const id = await idOf(call, services);
  const token = await verified(call, services, id, call.body.token);
  if (report === "defer" && seconds === undefined) {
    throw problemError("invalid_request", "A deferral needs seconds.", {
      errors: [{ pointer: "/seconds", message: "is missing" }],
    });
  }
  const checkpoint = report === "defer" ? { report, deferMs: toMs(seconds ?? 0) } : { report };
  const answer = await perform(call, services, {
    command: { kind: "reportCheckpoint", requestId: id, token, checkpoint },
    target: id,
    detail: { report },
    guard: (view) => reachGuard(call.identity, id)(view) ?? executorsOnly(view, id),
    present: (view) => presentLive(view, id, { identity: call.identity, grants: services.grants }),
  });
  return ok(answer.body);
};

// --- Ending

/** Q9. What a running request asks for is its operator's to change; a label or a note is its submitter's, too. */
export const updateRequest: Handler<"updateRequest"> = async (call, services) => {
  const located = await locateOwn(call, services);
  const { id, owned } = located;
  const { identity, body } = call;
  checkMayEnd(call, located);
  checkClass(identity, body.preemption_class);
  const pools = body.pools === undefined ? undefined : poolsWithin(identity, body.pools);
  const change = toRequestChange(pools === undefined ? body : { ...body, pools });
  const command: Command = { kind: "updateRequest", requestId: id, change };
  if (isPlan(call)) return ok(await planOf(call, services, command));
  const { record } = located;
  const isPlain = Object.keys(body).every((field) => field === "labels" || field === "note");
  const answer = await perform(call, services, {
    command,
    target: id,
    detail: { component: owned.component, change: body },
    guard: (view) => {
      if (record !== undefined) return alreadyEnded(id, record.status);
      const isRunning = (requestOf(view.state, id)?.progress.allocation ?? null) !== null;
      return isRunning && !isPlain && !isOperator(identity) ? operatorsOnly(id) : undefined;
    },
    present: (view) => presentLive(view, id, { identity, grants: services.grants }),
  });
  return ok(answer.body);
};

export const cancelRequest: Handler<"cancelRequest"> = async (call, services) => {
  const located = await locateOwn(call, services);
  const { id, owned } = located;
  checkMayEnd(call, located);
  const isAbandoned = call.query.abandoned === "true";
  if (isAbandoned && !isOperator(call.identity)) {
    throw forbidden(
      "Only an operator or an administrator can declare a holder lost.",
      "Cancel it without abandoned, or ask one of them.",
    );
  }
  const declaredLost = isAbandoned ? abandonedGuard(id) : () => undefined;
  const command: Command = {
    kind: "cancelRequest",
    requestId: id,
    ...(isAbandoned && { noHolder: "declared_lost" as const }),
  };
  if (isPlan(call)) return ok(await planOf(call, services, command));
  const { record } = located;
  const answer = await perform(call, services, {
    command,
    target: id,
    detail: { component: owned.component, ...(isAbandoned && { abandoned: true }) },
    // Asked after the key was looked up, so that the same call repeated gets its first answer (Q4).
    guard: (view) => (record ? alreadyEnded(id, record.status) : declaredLost(view)),
    present: (view) => presentLive(view, id, { identity: call.identity, grants: services.grants }),
  });
  return ok(answer.body);
};

export const deleteRequest: Handler<"deleteRequest"> = async (call, services) => {
  const located = await locateOwn(call, services);
  const { id, owned } = located;
  checkMayEnd(call, located);
  const force = call.query.force === "true";
  await perform(call, services, {
    command: { kind: "deleteRequest", requestId: id, force },
    target: id,
    detail: { component: owned.component, force },
  });
  const isGone = await services.leader.read((view) => view.numberOf(id) === undefined);
  return { status: isGone ? 204 : 202 };
};

function isOperator({ role }: Identity): boolean {
  return role === "operator" || role === "admin";
}

export function checkMayEnd(call: Call, { id, owned }: Located): void {
  if (mayEnd(call.identity, owned)) return;
  throw forbidden(
    `The request "${id}" was submitted by "${owned.submittedBy}".`,
    "Its submitter, an operator of its component or an administrator may end it.",
  );
}

function operatorsOnly(id: string): Denial {
  return denial(
    "forbidden",
    `The request "${id}" is running: an operator may change it, its submitter only its labels and its note.`,
    "Ask an operator of its component, or cancel it and ask again.",
  );
}

function alreadyEnded(id: string, status: string): LeaderRefusal {
  return {
    code: "invalid_request",
    message: `Request "${id}" has ended as ${status}.`,
    hint: "There is nothing left to cancel or to change.",
  };
}
