// What changes of pools, policies, groups and nodes have in common: plans, versions, and one way to show them.

import { hash } from "node:crypto";
import {
  type Command,
  capacityOf,
  groupsOf,
  type NodeView,
  nodeViewsOf,
  type PolicyRecord,
  type PoolName,
  policiesOf,
  poolsOf,
  queueLengthOf,
  scaledGroupsOf,
  shieldedRunsOf,
  usageOf,
} from "../engine/index.ts";
import type { LeaderRefusal, View } from "../leader/index.ts";
import {
  PAGE_ITEMS_DEFAULT,
  type WireNodeAnswer,
  type WirePolicyAnswer,
  type WirePoolAnswer,
} from "../protocol/index.ts";
import {
  presentGroup,
  presentLifetime,
  presentNode,
  presentNodeView,
  presentPolicy,
  presentPool,
  toNodeName,
  toPoolName,
  toTimestamp,
} from "../translation/index.ts";
import type { Agents } from "./agents/agents.ts";
import { type Call, type Denial, denial, ok, perform, type Reply, refused, type Services } from "./call.ts";
import { reachesPool } from "./identity.ts";
import { policyIdOf, poolIdOf } from "./ids.ts";
import { planOf } from "./plans.ts";
import { hidden, notFound, ProblemError, problemError } from "./problems.ts";
import { type Sight, sightOf } from "./sight.ts";

/** A thing as it is shown, and its version: a hash of what people set, not of what happens by itself. */
export interface Shown {
  readonly body: object;
  readonly etag: string;
}

export function etagOf(settings: unknown): string {
  return `"${hash("sha1", JSON.stringify(settings), "base64").slice(0, 22)}"`;
}

export function showPool(view: View, name: string): Shown | undefined {
  const pool = view.state.pools.get(toPoolName(name));
  if (pool === undefined) return undefined;
  const { record } = pool;
  const body: WirePoolAnswer = {
    ...presentPool(record, capacityOf(view.state, record.name)),
    id: poolIdOf(record),
    ...presentLifetime(record),
    usage: usageOf(view.state, record.name),
    queued: queueLengthOf(pool),
    running: pool.runCount,
    ...presentAlerts(view, record.name),
  };
  return { body, etag: etagOf(presentPool(record)) };
}

/** What alerts were raised about, as long as it lasts (9.1, V6). */
function presentAlerts(
  { state, nowMs }: View,
  pool: PoolName,
): Pick<WirePoolAnswer, "guarantees_scaled" | "shielded_runs"> {
  const scaled = scaledGroupsOf(state, pool);
  const shielded = shieldedRunsOf(state, pool, nowMs);
  return {
    ...(scaled.length > 0 && { guarantees_scaled: [...scaled] }),
    ...(shielded > 0 && { shielded_runs: shielded }),
  };
}

export function showPolicy(view: View, pool: string, component: string): Shown | undefined {
  const policy = poliesIn(view, pool).find((record) => record.component === component);
  return policy && { body: policyBody(policy), etag: etagOf(presentPolicy(policy)) };
}

export function policyBody(record: PolicyRecord): WirePolicyAnswer {
  return { ...presentPolicy(record), id: policyIdOf(record), ...presentLifetime(record) };
}

export function showGroup(view: View, pool: string, name: string): Shown | undefined {
  const group = hasPool(view, pool)
    ? groupsOf(view.state, toPoolName(pool)).find((record) => record.name === name)
    : undefined;
  return group && shown(presentGroup(group));
}

export function showNode(view: View, name: string, sight: Sight, agents: Agents): Shown | undefined {
  const [node] = nodeViewsOf(view.state, [toNodeName(name)]);
  return node && { body: presentNodeSeen(view, node, sight, agents), etag: etagOf(presentNode(node.record)) };
}

/** Runs that the caller may not know of are left out; their usage stays. */
export function presentNodeSeen(view: View, node: NodeView, sight: Sight, agents: Agents): WireNodeAnswer {
  const runs = node.runs.filter(({ requestId }) => sight.idOrNull(requestId) !== null);
  const { name } = node.record;
  const heardAtMs = view.nodeHeardAtMs(name);
  const report = agents.reportOf(name);
  return {
    ...presentNodeView({ ...node, runs }, view.numberOf),
    heard_at: heardAtMs === undefined ? null : toTimestamp(heardAtMs),
    agent_version: report?.agent_version ?? null,
    devices: (report !== undefined && "devices" in report ? (report.devices ?? []) : []).map((device) => ({
      ...device,
      kept_out: node.record.devices?.includes(device.index) === false,
    })),
  };
}

export function shown(body: object): Shown {
  return { body, etag: etagOf(body) };
}

function poliesIn(view: View, pool: string) {
  return hasPool(view, pool) ? policiesOf(view.state, toPoolName(pool)) : [];
}

export function hasPool(view: View, name: string): boolean {
  return view.state.pools.has(name as PoolName);
}

export function poolNames(view: View): string[] {
  return poolsOf(view.state).map(({ name }) => name);
}

// --- Changing

export interface Alteration {
  readonly command: Command;
  readonly target: string;
  /** The pools that it concerns: the caller must reach everybody who has a policy there. */
  readonly pools: readonly string[];
  readonly status?: number;
  /** What was asked for, for the audit log. */
  readonly detail?: Readonly<Record<string, unknown>>;
  /** The thing before and after the change. Absent: there is nothing to show. */
  readonly show: (view: View) => Shown | undefined;
  /** What looks like a slip in what was asked for, whatever there is. */
  readonly slips?: readonly string[];
  /** What was accepted but cannot be kept, or looks like a slip, as things are after the change; a plan finds it by itself. */
  readonly warnings?: (view: View) => readonly string[];
}

/** Carries a change out, or makes its plan. Deleting answers with nothing. */
export async function alter(call: Call, services: Services, change: Alteration): Promise<Reply> {
  const query = call.query as { dry_run?: string } | undefined;
  if (query?.dry_run === "true" || call.planned !== undefined) {
    const denied = await services.leader.read((view) => memberDenial(view, call, change));
    if (denied !== undefined) throw refused(denied);
    if (call.ifMatch !== undefined) await services.leader.read((view) => checkVersion(view, call, change));
    return ok(await planOf(call, services, change.command, change.slips));
  }
  const { command, target, detail = {}, show, slips = [] } = change;
  const answer = await perform(call, services, {
    command,
    target,
    detail,
    guard: (view) => memberDenial(view, call, change) ?? versionRefusal(view, call, change),
    present: (view) => {
      const after = show(view);
      return after === undefined
        ? null
        : { ...after, warnings: [...slips, ...(change.warnings?.(view) ?? [])] };
    },
  });
  const after = answer.body as (Shown & { warnings: readonly string[] }) | null;
  const status = change.status ?? 200;
  if (status === 204 || after === null) return { status: 204 };
  const { body, etag, warnings } = after;
  return { status, body: warnings.length > 0 ? { ...body, warnings } : body, headers: { etag } };
}

/** A change of a pool, its groups, policies or nodes can end the work of everybody there. */
export function memberDenial(
  view: View,
  { identity }: Call,
  { pools }: Pick<Alteration, "pools">,
): Denial | undefined {
  const sight = sightOf(identity, view);
  const pool = pools.find((one) => !sight.reachesMembers(one));
  if (pool === undefined) return undefined;
  return denial(
    "forbidden",
    `Components that the token "${identity.name}" does not reach have policies in the pool "${pool}".`,
    "Use a token that is not bound to components, or one that reaches all of those that use the pool.",
  );
}

function checkVersion(view: View, call: Call, change: Alteration): void {
  const refusal = versionRefusal(view, call, change);
  if (refusal !== undefined)
    throw problemError("precondition_failed", refusal.message, { hint: refusal.hint });
}

function versionRefusal(
  view: View,
  { ifMatch }: Call,
  { show, target }: Alteration,
): LeaderRefusal | undefined {
  if (ifMatch === undefined) return undefined;
  const current = show(view)?.etag;
  const wanted = ifMatch.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (current !== undefined && (wanted.includes(current) || wanted.includes("*"))) return undefined;
  return {
    code: "precondition_failed",
    message: `${target} is not in the version that If-Match names.`,
    hint: "Read it again, and repeat the change on what it says now.",
  };
}

/** Creates or changes, whichever is needed when the decision is made. */
export async function createOrChange(
  { planned }: Call,
  exists: () => Promise<boolean>,
  run: (exists: boolean) => Promise<Reply>,
): Promise<Reply> {
  if (planned !== undefined) {
    // Which of the two it is depends on the changes before it.
    await run(false);
    return run(true);
  }
  for (let tries = 1; ; tries++) {
    const isThere = await exists();
    try {
      return await run(isThere);
    } catch (error) {
      const expected = isThere ? ["not_found"] : ["name_taken", "policy_exists"];
      const hasJustChanged = error instanceof ProblemError && expected.includes(error.problem.code);
      if (!hasJustChanged || tries >= CREATE_OR_CHANGE_TRIES) throw error;
    }
  }
}

const CREATE_OR_CHANGE_TRIES = 3;

// --- Reach and pages

/** The pool of the path, if it exists and the caller reaches it. */
export async function reachedPool(
  call: Call,
  { leader }: Services,
  pool = call.params.pool as string,
): Promise<string> {
  if (!reachesPool(call.identity, pool)) throw hidden("pool", pool);
  const mayCome = call.planned !== undefined; // A change before it may create the pool.
  if (!mayCome && !(await leader.read((view) => hasPool(view, pool)))) throw notFound("pool", pool);
  return pool;
}

/** What the body says must be what the path says. */
export function agreed<Body extends object>(
  body: Body,
  names: Readonly<Record<string, string>>,
): Body & Record<string, string> {
  for (const [field, name] of Object.entries(names)) {
    const given = (body as Record<string, unknown>)[field];
    if (given !== undefined && given !== name) {
      throw problemError(
        "invalid_request",
        `The body says ${field} "${String(given)}", the path "${name}".`,
        {
          errors: [{ pointer: `/${field}`, message: "is not what the path says" }],
          hint: "Leave it out of the body.",
        },
      );
    }
  }
  return { ...body, ...names } as Body & Record<string, string>;
}

/** The name of the last item before a page. */
export function afterOf(cursor: string): string {
  return Buffer.from(cursor, "base64url").toString("utf8");
}

/** Lists of what is in memory: sorted by name, so that the name of the last one is the cursor. */
export function pageOf<Item>(
  items: readonly Item[],
  nameOf: (item: Item) => string,
  query: { limit?: number | undefined; cursor?: string | undefined } | undefined,
): Reply {
  const limit = query?.limit ?? PAGE_ITEMS_DEFAULT;
  const after = query?.cursor === undefined ? undefined : afterOf(query.cursor);
  const start = after === undefined ? 0 : items.findIndex((item) => nameOf(item) > after);
  const page = start < 0 ? [] : items.slice(start, start + limit);
  const last = page.at(-1);
  const isMore = start >= 0 && start + limit < items.length;
  const next = isMore && last !== undefined ? Buffer.from(nameOf(last)).toString("base64url") : null;
  return ok({ items: page, next_cursor: next });
}
