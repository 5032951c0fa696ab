// Plans: what changes would do (P10, X2), read off the events that the engine would emit.

import {
  type Account,
  type Command,
  type Event,
  nodeViewsOf,
  type RequestId,
  type RequestSpec,
  requestOf,
  type Warning,
} from "../engine/index.ts";
import type { Plan, PlanStep } from "../foresight/index.ts";
import type { View } from "../leader/index.ts";
import type { WirePlan, WirePlanAnswer } from "../protocol/index.ts";
import { toTimestamp } from "../translation/index.ts";
import { type Call, refused, type Services } from "./call.ts";
import { type ProblemError, problemError } from "./problems.ts";
import { ownedOf, type Sight, sightOf } from "./sight.ts";
import { warningText } from "./warnings.ts";

/** Whether the call only asks what it would do. */
export function isPlan({ query, planned }: Call): boolean {
  return planned !== undefined || (query as { dry_run?: string } | undefined)?.dry_run === "true";
}

/** What one command would do. Throws the refusal where it would be refused. */
export async function planOf(
  call: Call,
  services: Services,
  command: Command,
  slips: readonly string[] = [],
): Promise<WirePlan> {
  const completed = services.leader.completed(command);
  if (call.planned !== undefined) {
    call.planned.commands.push(completed);
    call.planned.slips.push(...slips);
    return NOTHING_YET;
  }
  const plan = await ask(call, services, { steps: [{ commands: [completed] }] });
  if (plan.outcome === "refused") throw refused(plan.refusal);
  if (plan.outcome === "too_large") throw tooLarge(plan);
  const { now, later: _, applied: __, ...rest } = await presentPlan(call, services, plan, slips);
  return { dry_run: true, ...now, ...rest };
}

/** The answer for one of several changes, which nobody sees: they are planned together. */
const NOTHING_YET: WirePlan = {
  ...{ dry_run: true, at_seq: 0, accounts: [], warnings: [] },
  ...{ granted: [], preempted: [], rejected: [], cancelled: [], stopped: [], lost: [] },
};

export function ask(
  { identity }: Call,
  { foresight }: Services,
  question: { readonly steps: readonly PlanStep[]; readonly horizonMs?: number },
): Promise<Plan> {
  return foresight.ask({ kind: "plan", ...question }, identity.countsAs);
}

/** A part of what it would do is not shown: it might be taken for the whole. */
export function tooLarge({ step, steps }: Extract<Plan, { outcome: "too_large" }>): ProblemError {
  return problemError(
    "plan_too_large",
    `The plan was given up in change ${step + 1} of ${steps}: it takes more than 2 s of processor time.`,
    { hint: "Plan fewer changes at once." },
  );
}

type Planned = Extract<Plan, { outcome: "planned" }>;

export async function presentPlan(
  { identity }: Call,
  { leader }: Services,
  { atSeq, events, accounts, warnings, later }: Planned,
  slips: readonly string[],
): Promise<WirePlanAnswer> {
  const happening = events.flat();
  const submitted = new Map(
    happening.flatMap((event) =>
      event.kind === "requestSubmitted" ? [[event.spec.id, event.spec] as const] : [],
    ),
  );
  return leader.read((view) => {
    const sight = sightOf(identity, view);
    const affected = affectedIn(view, sight, submitted);
    const runsOn = (node: NodeName) =>
      nodeViewsOf(view.state, [node]).flatMap(({ runs }) => runs.map(({ requestId }) => requestId));
    return {
      at_seq: atSeq,
      applied: false,
      now: effectsOf(happening, affected, sight, runsOn),
      accounts: accounts
        .filter(({ pool }) => sight.seesPool(pool))
        .flatMap((pool) => presentAccounts(pool, sight)),
      warnings: [
        ...new Set([...slips, ...warnings.filter((warning) => isSeen(warning, sight)).map(warningText)]),
      ],
      later: later && presentLater(later, affected),
    };
  });
}

/** Nothing is said of pools and components that the caller may not know (X8). */
function isSeen(warning: Warning, sight: Sight): boolean {
  switch (warning.code) {
    case "gang_without_effect":
      return warning.pools.every(({ name }) => sight.seesPool(name));
    case "sensitive_unreserved":
      return sight.namesComponent(warning.pool, warning.component);
    default:
      return sight.seesPool(warning.pool);
  }
}

function presentAccounts(
  { pool, before, after }: Planned["accounts"][number],
  sight: Sight,
): WirePlanAnswer["accounts"] {
  const keyOf = ({ kind, name }: Account) => `${kind} ${name}`;
  const [earlier, afterwards] = [before ?? [], after ?? []].map(
    (accounts) => new Map(accounts.map((account) => [keyOf(account), account])),
  ) as [Map<string, Account>, Map<string, Account>];
  return [...new Map([...earlier, ...afterwards])].map(([key, { kind, name }]) => {
    const both = (field: "usage" | "borrowed" | "debt" | "fairShare") => ({
      before: earlier.get(key)?.[field] ?? null,
      after: afterwards.get(key)?.[field] ?? null,
    });
    const isNamed = kind === "group" || sight.namesComponent(pool, name);
    return {
      ...{ pool, kind, name: isNamed ? name : null },
      ...{
        usage: both("usage"),
        borrowed: both("borrowed"),
        debt: both("debt"),
        fair_share: both("fairShare"),
      },
    };
  });
}

function presentLater(
  { moved, lost, reachedMs, isCut }: NonNullable<Planned["later"]>,
  affected: (id: RequestId) => Affected | undefined,
): WirePlanAnswer["later"] {
  const timeOf = (ms: number | null) => (ms === null ? null : toTimestamp(ms));
  return {
    moved: moved.flatMap(({ requestId, beforeMs, afterMs }) => {
      const item = affected(requestId);
      return item === undefined
        ? []
        : [{ ...item, starts_before: timeOf(beforeMs), starts_after: timeOf(afterMs) }];
    }),
    lost_unit_seconds: lost,
    basis: "by_walltimes",
    until: toTimestamp(reachedMs),
    truncated: isCut,
  };
}

/** A request as the caller may know it; undefined: it does not exist for the caller. */
export function affectedIn(
  view: View,
  sight: Sight,
  submitted: ReadonlyMap<RequestId, RequestSpec> = new Map(),
): (id: RequestId) => Affected | undefined {
  return (id) => {
    const own = submitted.get(id); // Of the plan itself; it has no number yet.
    if (own !== undefined) return { id, name: own.name, component: own.component };
    const spec = requestOf(view.state, id)?.spec;
    const owned = ownedOf(view, id);
    if (spec === undefined || owned === undefined) return { id };
    switch (sight.degreeOf(owned)) {
      case "none":
        return undefined;
      case "counted":
        return { id: null };
      default:
        return { id, ...numberOf(view, id), name: spec.name, component: spec.component };
    }
  };
}

function numberOf(view: View, id: RequestId): { number?: number } {
  const number = view.numberOf(id);
  return number === undefined ? {} : { number };
}

type NodeName = Extract<Event, { kind: "nodeStateChanged" }>["name"];
export type Affected = WirePlan["cancelled"][number];

type Effects = WirePlanAnswer["now"];

function effectsOf(
  events: readonly Event[],
  affected: (id: RequestId) => Affected | undefined,
  sight: Sight,
  runsOn: (node: NodeName) => readonly RequestId[],
): Effects {
  const plan: Effects = {
    granted: [],
    preempted: [],
    rejected: [],
    cancelled: [],
    stopped: [],
    lost: [],
  };
  /** Pools out of reach, and what only concerns them, do not exist in a plan either. */
  const add = <Item extends Affected>(list: Item[], id: RequestId, rest: Omit<Item, keyof Affected>) => {
    const item = affected(id);
    if (item !== undefined) list.push({ ...item, ...rest } as Item);
  };
  for (const event of events) {
    if ("pool" in event && typeof event.pool === "string" && !sight.seesPool(event.pool)) continue;
    switch (event.kind) {
      case "requestAllocated":
        add(plan.granted, event.requestId, { pool: event.pool });
        break;
      case "preemptionDecided":
        for (const { requestId, reason } of event.victims) {
          add(plan.preempted, requestId, {
            pool: event.pool,
            reason,
            for_request: sight.idOrNull(event.waiter),
          });
        }
        break;
      case "requestRejected":
        add(plan.rejected, event.requestId, { reasons: sight.reasons(event.reasons) });
        break;
      case "requestCancelled":
        add(plan.cancelled, event.requestId, {});
        break;
      case "attemptEnded":
        if (event.outcome === "lost") add(plan.lost, event.requestId, {});
        break;
      case "stopChanged":
        add(plan.stopped, event.requestId, {});
        break;
      case "nodeStateChanged": {
        const { drainDeadlineMs: deadlineMs = null } = event;
        if (deadlineMs === null) break;
        const at = toTimestamp(deadlineMs);
        for (const id of runsOn(event.name)) add(plan.stopped, id, { at });
        break;
      }
    }
  }
  return plan;
}
