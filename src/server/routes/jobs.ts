// Jobs (19): requests that Berth starts itself, with what they run, their output, and signals to them.

import { type RequestId, requestOf } from "../../engine/index.ts";
import type { Answer, View } from "../../leader/index.ts";
import {
  NAME_LENGTH_MAX,
  type WireBulkAnswer,
  type WireJob,
  type WireJobSubmission,
  type WireRequest,
  type WireRequestSubmission,
  type WireRun,
} from "../../protocol/index.ts";
import { reportersOf } from "../agents/reporters.ts";
import {
  type Call,
  type Change,
  contextOf,
  type Handler,
  idempotencyFor,
  ok,
  perform,
  type Services,
} from "../call.ts";
import { presentExit } from "../holders.ts";
import type { Identity } from "../identity.ts";
import { newRequestId } from "../ids.ts";
import { type Located, locate, locateOwn } from "../locate.ts";
import { readLog } from "../logs.ts";
import { forbidden, notFound, problemError, refusalProblem } from "../problems.ts";
import { type Owned, sightOf } from "../sight.ts";
import {
  checkMayEnd,
  listedRequests,
  REPLAYED,
  resolvedSubmission,
  showRequest,
  submission,
} from "./requests.ts";

export const submitJob: Handler<"submitJob"> = async (call, services) => {
  const { run, ...wanted } = call.body;
  const resolved = await resolvedSubmission(call, services, wanted);
  const change = jobChange(call, services, { ...resolved, run });
  services.rates.checkComponent(wanted.component);
  const answer = await perform(call, services, change);
  const shown = await showJob(call, services, (answer.body as WireRequest).id as RequestId);
  const headers = { location: `/v1/jobs/${shown.id}` };
  return { status: 201, body: shown, headers: answer.replayed ? { ...headers, ...REPLAYED } : headers };
};

/** What it runs is written with it, and nowhere else (J2). */
function jobChange(
  call: Call,
  services: Services,
  job: { wanted: WireRequestSubmission; run: WireRun; impossible?: RequestId },
): Change {
  const run = runAs(call.identity, job.run);
  const change = submission(call, services, job.wanted, job);
  return { ...change, attachments: [{ requestId: change.target, part: "run", body: run }] };
}

/** The token says as whom its jobs may run; without `run_as`, operators and administrators may name any user (E6). */
function runAs({ name, role, runAs: users }: Identity, run: WireRun): WireRun {
  const { user = users?.[0] } = run;
  const mayNameAny = users === undefined && (role === "admin" || role === "operator");
  if (user !== undefined && !mayNameAny && !users?.includes(user)) {
    throw forbidden(
      `The token "${name}" may not run jobs as "${user}".`,
      users === undefined ? "Leave user out, or ask for a token with run_as." : `Use ${users.join(" or ")}.`,
    );
  }
  return user === undefined ? run : { ...run, user };
}

/** One request per index, all of one operation (J9). Each stands for itself. */
export const submitJobArray: Handler<"submitJobArray"> = async (call, services) => {
  const { job, indices, at_once } = call.body;
  const { run, ...wanted } = job as Omit<WireJobSubmission, "array">;
  if (new Set(indices).size < indices.length) {
    throw problemError("invalid_request", "An index appears twice.", {
      errors: [{ pointer: "/indices", message: "has an index twice" }],
    });
  }
  const operation = wanted.operation ?? operationNamed(wanted.name);
  const resolved = await resolvedSubmission(call, services, { ...wanted, operation });
  services.rates.checkComponent(wanted.component);
  const { idempotencyKey: key } = call;
  const calls = indices.map((index) => {
    const array = { index, ...(at_once !== undefined && { at_once }) };
    const change = jobChange(call, services, { ...resolved, wanted: { ...resolved.wanted, array }, run });
    const own = key === undefined ? {} : { idempotency: idempotencyFor(call, `${key} ${index}`, call.body) };
    return { command: change.command, context: contextOf(call, { ...change, ...own }) };
  });
  const answers = await services.leader.performMany(calls);
  return ok({ results: answers.map(arrayResult) });
};

/** With what tells one submission from another it stays within the limit for names. */
const OPERATION_NAME_CHARS_MAX = NAME_LENGTH_MAX - 9;

/** Of one submission only: two arrays of one name must not count for each other. */
function operationNamed(name = ""): string {
  const suffix = newRequestId().slice(-8);
  return `${name.slice(0, OPERATION_NAME_CHARS_MAX) || "array"}-${suffix}`;
}

function arrayResult(answer: Answer): WireBulkAnswer["results"][number] {
  if (answer.outcome === "refused") return { problem: refusalProblem(answer.refusal) };
  return answer.body as WireRequest;
}

// --- Looking

export const listJobs: Handler<"listJobs"> = (call, services) =>
  listedRequests(call, services, call.query, ({ is_job }) => is_job);

export const getJob: Handler<"getJob"> = async (call, services) => {
  const { id } = await locateJob(call, services);
  return ok(await showJob(call, services, id));
};

async function locateJob(call: Call, services: Services): Promise<Located> {
  const located = await locate(call, services);
  const shown = await showRequest(call, services, located);
  if (!shown.is_job) throw notFound("job", call.params.id as string);
  return located;
}

async function showJob(call: Call, services: Services, id: RequestId): Promise<WireJob> {
  const located = await locate(call, services, id);
  const shown = await showRequest(call, services, located);
  const stored = await services.store.getAttachment(id, "run");
  const { identity } = call;
  const isWhole = await services.leader.read((view) => seesWhole(view, identity, located.owned));
  const reporters = await services.leader.read((view) => reportersOf(view.state, id));
  return {
    ...shown,
    run: stored === undefined || !isWhole ? null : shownRun(stored.body as WireRun, identity, located.owned),
    where: whereOf(services, { shown, reporters, isWhole }),
    exit: presentExit(shown.attempts.at(-1)),
  };
}

function seesWhole(view: View, identity: Identity, owned: Owned): boolean {
  return sightOf(identity, view).degreeOf(owned) === "whole";
}

/** Values of the environment are the submitter's (J2). */
function shownRun(run: WireRun, { name }: Identity, { submittedBy }: Owned): WireJob["run"] {
  if (name === submittedBy || run.environment === undefined) return run;
  return { ...run, environment: Object.fromEntries(Object.keys(run.environment).map((key) => [key, null])) };
}

/** A part of an adapter is that of all its nodes, and may have none. */
function whereOf(
  { agents }: Services,
  { shown, reporters, isWhole }: { shown: WireRequest; reporters: readonly string[]; isWhole: boolean },
): WireJob["where"] {
  const places =
    shown.placement.length > 0 ? shown.placement : reporters.map(() => ({ node: "", devices: [] }));
  return places.map(({ node, devices }, rank) => {
    const jobs = agents.reportOf(reporters[rank] ?? reporters[0] ?? "")?.jobs;
    const part = jobs?.find((one) => one.request_id === shown.id);
    return { node, devices, phase: part?.phase ?? null, progress: isWhole ? (part?.progress ?? null) : null };
  });
}

// --- Output and signals

export const getJobLogs: Handler<"getJobLogs"> = async (call, services) => {
  const located = await locateJob(call, services);
  const isWhole = await services.leader.read((view) => seesWhole(view, call.identity, located.owned));
  if (!isWhole) {
    throw forbidden(
      "The output of a job is for its submitter and the operators of its component.",
      "Ask one of them.",
    );
  }
  return readLog(call, services, located);
};

/** How long the answer waits for the agent's acknowledgement. */
const SIGNAL_MS = 10_000;

export const signalJob: Handler<"signalJob"> = async (call, services) => {
  const located = await locateOwn(call, services);
  checkMayEnd(call, located);
  const { id } = located;
  const running = await services.leader.read((view) => {
    const allocation = requestOf(view.state, id)?.progress.allocation;
    if (allocation?.phase === undefined) return undefined;
    return { token: allocation.token, reporters: reportersOf(view.state, id) };
  });
  if (running === undefined) {
    throw problemError("invalid_request", `Request "${id}" is not a job that runs now.`, {
      hint: "Only a job that was started by Berth can be sent a signal.",
    });
  }
  const { signal } = call.body;
  await services.leader.audit({
    ...{ actor: call.identity.name, action: "signalJob", target: id, outcome: "accepted" },
    body: { token: call.identity.tokenId, from: call.address, signal },
  });
  const { reporters } = running;
  const order = { requestId: id, token: services.grants.sign(id, running.token), reporters, signal };
  return ok({ delivered: await services.agents.sendSignal(order, SIGNAL_MS) });
};
