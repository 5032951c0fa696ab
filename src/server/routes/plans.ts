// Plans of several changes (X1): each is a call of the API, which goes as far as the commands that it would send.

import type { Command } from "../../engine/index.ts";
import type { Plan } from "../../foresight/index.ts";
import type { LeaderRefusal, View } from "../../leader/index.ts";
import { ROUTES, type Route, type RouteName } from "../../protocol/index.ts";
import { toMs } from "../../translation/index.ts";
import { type Call, type Handler, type Handlers, ok, type PlannedStep, type Services } from "../call.ts";
import { checkPermission, matchRoute, parseBody, parseParams, parseQuery } from "../parsing.ts";
import { ask, presentPlan, tooLarge } from "../plans.ts";
import { ProblemError, problemError, refusalProblem } from "../problems.ts";
import { pathOf } from "../router.ts";

type Change = { readonly method: string; readonly path: string; readonly body?: unknown };

/** A change, and the commands that would make it. */
interface Step extends PlannedStep {
  readonly route: RouteName;
  readonly target: string;
}

/** `handlers` serve the changes as they serve the calls. */
export function plansOver(handlers: Omit<Handlers, "makePlan">): Handler<"makePlan"> {
  return async (call, services) => {
    const { changes, horizon_seconds: horizon } = call.body;
    const steps: Step[] = [];
    for (const [index, change] of changes.entries()) {
      steps.push(await at(index, () => stepOf(handlers, call, services, change)));
    }
    const horizonMs = horizon === undefined ? {} : { horizonMs: toMs(horizon) };
    const plan = await ask(call, services, {
      steps: steps.map(({ commands }) => ({ commands })),
      ...horizonMs,
    });
    if (plan.outcome === "refused") throw inChange(plan.step, new ProblemError(refusalProblem(plan.refusal)));
    if (plan.outcome === "too_large") throw tooLarge(plan);
    const slips = steps.flatMap((step) => step.slips);
    const shown = await presentPlan(call, services, plan, slips);
    if (call.query.apply !== "true") return ok(shown);
    await apply(call, services, steps, plan);
    return ok({ ...shown, applied: true });
  };
}

type Planned = Extract<Plan, { outcome: "planned" }>;

/** As a number, or as an entity tag. */
const AT_SEQ = /^"?(\d{1,16})"?$/;

/** Makes the changes, unless a pool that they touch has changed since the plan that the caller has seen (X3). */
async function apply(call: Call, services: Services, steps: readonly Step[], plan: Planned): Promise<void> {
  const [, written] = AT_SEQ.exec(call.ifMatch ?? "") ?? [];
  const seenSeq = Number(written);
  if (!Number.isSafeInteger(seenSeq)) {
    throw problemError("invalid_request", "A plan is applied with If-Match, which names its at_seq.", {
      hint: "Plan without apply first, and send the at_seq of the answer.",
    });
  }
  let isOutdated: boolean | undefined;
  const precondition = (view: View): LeaderRefusal | undefined => {
    // Looked at once: the changes themselves change the pools.
    isOutdated ??= plan.accounts.some(({ pool }) => view.poolSeqOf(pool) > seenSeq);
    return isOutdated ? OUTDATED : undefined;
  };
  const { identity, address } = call;
  const answers = await services.leader.performMany(
    steps.map(({ commands, route, target }, index) => ({
      command: commands[plan.chosen[index] as number] as Command,
      context: {
        actor: identity.name,
        audit: { action: route, target, detail: { token: identity.tokenId, from: address, plan: seenSeq } },
        precondition,
      },
    })),
  );
  for (const [index, answer] of answers.entries()) {
    if (answer.outcome === "refused") throw inChange(index, new ProblemError(refusalProblem(answer.refusal)));
  }
}

const OUTDATED: LeaderRefusal = {
  code: "plan_outdated",
  message: "A pool that the plan touches has changed since it was made.",
  hint: "Plan again, and apply the new plan.",
};

async function stepOf(
  handlers: Omit<Handlers, "makePlan">,
  call: Call,
  services: Services,
  { method, path, body }: Change,
): Promise<Step> {
  const target = parseTarget(path);
  const found = target && matchRoute(method, target.path);
  if (target === undefined || found === undefined || !isPlannable(found.route))
    throw notPlannable(method, path);
  const { name, route, params } = found;
  checkPermission(call.identity, route.permission); // Planning a change needs the right to make it (X8).
  const planned: PlannedStep = { commands: [], slips: [] };
  const meant: Call = {
    ...call,
    ...{ route: name, planned, idempotencyKey: undefined, ifMatch: undefined },
    params: parseParams(params),
    query: parseQuery(target.query, route),
    body: parseBody(body, route),
  };
  // The types of the call and of its handler come from the same row of the table.
  const handle = handlers[name as Exclude<RouteName, "makePlan">] as (
    call: Call,
    services: Services,
  ) => Promise<unknown>;
  await handle(meant, services);
  return { ...planned, route: name, target: target.pathname };
}

/** Of this server alone; undefined: not a path, or not UTF-8 behind its percent signs. */
function parseTarget(path: string) {
  if (!path.startsWith("/")) return undefined;
  try {
    const { pathname, searchParams } = new URL(`http://plan.invalid${path}`);
    const query: Record<string, string> = Object.fromEntries(searchParams);
    return { path: pathOf(pathname), pathname: decodeURI(pathname), query };
  } catch {
    return undefined;
  }
}

/** What can be tried alone can be tried with others. */
function isPlannable({ query, isPlannable = false }: Route): boolean {
  return isPlannable || (query !== undefined && "dry_run" in query.shape);
}

function notPlannable(method: string, path: string): ProblemError {
  const known = (Object.values(ROUTES) as Route[]).filter(isPlannable);
  const examples = known.slice(0, 3).map((route) => `${route.method} ${route.path}`);
  return problemError(
    "invalid_request",
    `${method} ${path.slice(0, 200)} is not a change that can be planned.`,
    {
      hint: `Those that take dry_run can be, such as ${examples.join(", ")}.`,
    },
  );
}

async function at<T>(index: number, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw error instanceof ProblemError ? inChange(index, error) : error;
  }
}

/** Says in which of the changes the problem is. */
function inChange(index: number, error: ProblemError): ProblemError {
  const { problem } = error;
  const pointer = `/changes/${index}`;
  const errors = (problem.errors ?? [{ pointer: "", message: problem.detail }]).map((each) => ({
    ...each,
    pointer: `${pointer}${each.pointer === "" ? "" : `/body${each.pointer}`}`,
  }));
  return new ProblemError({ ...problem, errors }, error.headers, error.isDenial);
}
