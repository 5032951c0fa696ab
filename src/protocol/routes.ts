// Every route of the API with its permission, its schemas and a sentence about it. The server serves exactly
// this table, the documents are generated from it, and the proofs walk through it.

import { z } from "zod";
import type { Permission } from "./access.ts";
import * as answers from "./answers.ts";
import { name } from "./common.ts";
import * as dashboard from "./dashboard.ts";
import {
  enrolment,
  enrolmentAnswer,
  join,
  joinAnswer,
  logPiece,
  logPieceAnswer,
  logStream,
  nodeSync,
  nodeSyncAnswer,
  partCheckpoint,
  poolSync,
  poolSyncAnswer,
} from "./jobs.ts";
import { LABEL_LENGTH_MAX, PAGE_ITEMS_MAX, WAIT_SECONDS_MAX } from "./limits.ts";
import { node } from "./nodes.ts";
import * as notices from "./notices.ts";
import { policy } from "./policies.ts";
import { group, pool } from "./pools.ts";
import { requestChange, requestStatus, requestSubmission } from "./requests.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Parameters in braces, as OpenAPI writes them. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  /** `public`: every caller that reaches the server. */
  readonly permission: Permission | "public";
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** What is parsed instead of `body` where the items stand for themselves. */
  readonly envelope?: z.ZodType;
  /** An empty body is read as `{}`. */
  readonly isBodyOptional?: boolean;
  readonly isBatch?: boolean;
  /** Takes an `Idempotency-Key`. */
  readonly isIdempotent?: boolean;
  /** Takes `If-Match`, and answers with an `ETag`. */
  readonly hasEtag?: boolean;
  /** Can be a change of a plan; so can all that take `dry_run`. */
  readonly isPlannable?: boolean;
  /** How many calls it counts as where calls are counted; left out: one. */
  readonly rateCost?: number;
  readonly status: number;
  /** Absent: no content, or not JSON. */
  readonly answer?: z.ZodType;
  readonly contentType?: string;
}

const flag = z.enum(["true", "false"]).optional();
const page = {
  limit: z.coerce.number().int().min(1).max(PAGE_ITEMS_MAX).optional(),
  cursor: z.string().max(1_024).optional(),
};
const dryRun = { dry_run: flag };
const force = { force: flag };
const change = z.strictObject({ ...dryRun, ...force });

/** What the path already says may be left out of the body, and must agree with it otherwise. */
const poolChange = pool.partial({ name: true });
const poolPatch = poolChange.omit({ discipline: true });
const policyAttachment = policy.partial({ pool: true });
const policyChange = policy.partial({ pool: true, component: true });
const groupChange = group.partial({ name: true });
const nodeChange = node.partial({ name: true, pool: true, capacity: true });

const requestQuery = z.strictObject({
  ...page,
  /** One or more, separated by commas. */
  status: z
    .string()
    .max(256)
    .refine((text) => text.split(",").every((one) => requestStatus.safeParse(one).success), {
      message: `is one or more of ${requestStatus.options.join(", ")}, separated by commas`,
    })
    .optional(),
  pool: name.optional(),
  component: name.optional(),
  operation: name.optional(),
  /** `key=value`. */
  label: z
    .string()
    .max(2 * LABEL_LENGTH_MAX + 1)
    .regex(/^[^=]+=/)
    .optional(),
  /** Beginning of an id. */
  id: z.string().max(64).optional(),
});

const jobs = { tag: "jobs" } as const;
const requests = { tag: "requests" } as const;
const oneRequest = "/v1/resource-requests/{id}";
const pools = { tag: "pools" } as const;
const onePool = "/v1/pools/{pool}";

export const ROUTES = {
  // --- Requests
  submitRequest: {
    ...requests,
    method: "POST",
    path: "/v1/resource-requests",
    summary: "Ask for resources. The answer is queued, allocated or rejected.",
    permission: "requests.submit",
    body: requestSubmission,
    isIdempotent: true,
    isPlannable: true,
    status: 201,
    answer: answers.requestAnswer,
  },
  submitRequests: {
    ...requests,
    method: "POST",
    path: "/v1/resource-requests/bulk",
    summary: "Ask many times at once; each item stands for itself.",
    permission: "requests.submit",
    body: answers.bulkSubmission,
    envelope: answers.bulkEnvelope,
    isBatch: true,
    isIdempotent: true,
    status: 200,
    answer: answers.bulkAnswer,
  },
  renewRequests: {
    ...requests,
    method: "POST",
    path: "/v1/resource-requests/bulk-renew",
    summary: "Keep many allocations alive at once; each item stands for itself.",
    permission: "requests.hold",
    body: answers.bulkRenewal,
    envelope: answers.bulkEnvelope,
    isBatch: true,
    status: 200,
    answer: answers.bulkRenewalAnswer,
  },
  releaseRequests: {
    ...requests,
    method: "POST",
    path: "/v1/resource-requests/bulk-release",
    summary: "Report the end of many runs at once; each item stands for itself.",
    permission: "requests.hold",
    body: answers.bulkRelease,
    envelope: answers.bulkEnvelope,
    isBatch: true,
    status: 200,
    answer: answers.bulkAnswer,
  },
  listRequests: {
    ...requests,
    method: "GET",
    path: "/v1/resource-requests",
    summary: "Requests, newest first.",
    permission: "requests.read",
    query: requestQuery,
    status: 200,
    answer: answers.requestPage,
  },
  getRequest: {
    ...requests,
    method: "GET",
    path: oneRequest,
    summary: "One request, by id, small number or unambiguous beginning of its id. May wait for a status.",
    permission: "requests.read",
    query: z.strictObject({
      wait: z.coerce.number().min(0).max(WAIT_SECONDS_MAX).optional(),
      /** `settled`: allocated or ended. `ended`: ended. Default with `wait`: any change. */
      until: z.enum(["change", "settled", "ended", ...requestStatus.options]).optional(),
    }),
    status: 200,
    answer: answers.requestAnswer,
  },
  renewRequest: {
    ...requests,
    method: "POST",
    path: `${oneRequest}/renew`,
    summary: "Keep an allocation alive, and learn what to do.",
    permission: "requests.hold",
    body: answers.renewal,
    isBodyOptional: true,
    status: 200,
    answer: answers.renewalAnswer,
  },
  releaseRequest: {
    ...requests,
    method: "POST",
    path: `${oneRequest}/release`,
    summary: "Report how a run ended; its units come free.",
    permission: "requests.hold",
    body: answers.release,
    isIdempotent: true,
    status: 200,
    answer: answers.requestAnswer,
  },
  checkpointRequest: {
    ...requests,
    method: "POST",
    path: `${oneRequest}/checkpoint`,
    summary: "Report on a checkpoint that was asked for.",
    permission: "requests.hold",
    body: answers.checkpointReport,
    isIdempotent: true,
    status: 200,
    answer: answers.requestAnswer,
  },
  updateRequest: {
    ...requests,
    method: "PATCH",
    path: oneRequest,
    summary:
      "Change a request. While it waits it keeps its place unless it asks for more; while it runs walltime, class, requeue and retries can be changed; labels and note always.",
    permission: "requests.cancel", // By the same people: its submitter, or an operator of its component.
    body: requestChange,
    query: z.strictObject(dryRun),
    isIdempotent: true,
    status: 200,
    answer: z.union([answers.requestAnswer, answers.plan]),
  },
  cancelRequest: {
    ...requests,
    method: "POST",
    path: `${oneRequest}/cancel`,
    summary:
      "Cancel. What runs is stopped first, and keeps its units until then; with `abandoned` an operator declares its silent holder lost.",
    permission: "requests.cancel",
    query: z.strictObject({ ...dryRun, abandoned: flag }),
    isIdempotent: true,
    status: 200,
    answer: z.union([answers.requestAnswer, answers.plan]),
  },
  deleteRequest: {
    ...requests,
    method: "DELETE",
    path: oneRequest,
    summary:
      "Delete the record of an ended request; `force` cancels a live one first, and its record goes with its end (202 until then).",
    permission: "requests.delete",
    query: z.strictObject(force),
    status: 204,
  },
  explainRequest: {
    ...requests,
    method: "GET",
    path: `${oneRequest}/explanation`,
    summary:
      "Why it waits, runs where it runs, was stopped or was rejected: facts, and the same in words. `suggestions=false` tries nothing; `before` compares its place with that of another request.",
    permission: "requests.read",
    query: z.strictObject({ suggestions: flag, before: name.optional() }),
    rateCost: 5,
    status: 200,
    answer: answers.explanation,
  },
  listDecisions: {
    ...requests,
    method: "GET",
    path: `${oneRequest}/decisions`,
    summary: "The decisions that concerned a request, oldest first, with their numbers.",
    permission: "requests.read",
    status: 200,
    answer: answers.decisionList,
  },

  // --- Plans
  makePlan: {
    tag: "plans",
    method: "POST",
    path: "/v1/plans",
    summary:
      "What several changes would do together; needs the rights to make them. With `apply` they are made, if no pool that they touch has changed since the event that If-Match names.",
    permission: "self.read",
    query: z.strictObject({ apply: flag }),
    body: answers.planRequest,
    isBatch: true,
    hasEtag: true,
    rateCost: 10,
    status: 200,
    answer: answers.planAnswer,
  },

  // --- Pools
  listPools: {
    ...pools,
    method: "GET",
    path: "/v1/pools",
    summary: "All pools.",
    permission: "pools.read",
    query: z.strictObject(page),
    status: 200,
    answer: answers.poolPage,
  },
  createPool: {
    ...pools,
    method: "POST",
    path: "/v1/pools",
    summary: "Create a pool.",
    permission: "pools.change",
    query: z.strictObject(dryRun),
    body: pool,
    isIdempotent: true,
    hasEtag: true,
    status: 201,
    answer: z.union([answers.poolAnswer, answers.plan]),
  },
  getPool: {
    ...pools,
    method: "GET",
    path: onePool,
    summary: "One pool.",
    permission: "pools.read",
    hasEtag: true,
    status: 200,
    answer: answers.poolAnswer,
  },
  putPool: {
    ...pools,
    method: "PUT",
    path: onePool,
    summary: "Create a pool, or change what is given of it.",
    permission: "pools.change",
    query: change,
    body: poolChange,
    hasEtag: true,
    status: 200,
    answer: z.union([answers.poolAnswer, answers.plan]),
  },
  updatePool: {
    ...pools,
    method: "PATCH",
    path: onePool,
    summary: "Change a pool: capacity is merged by key (0 removes one), settings field by field.",
    permission: "pools.change",
    query: change,
    body: poolPatch,
    hasEtag: true,
    status: 200,
    answer: z.union([answers.poolAnswer, answers.plan]),
  },
  deletePool: {
    ...pools,
    method: "DELETE",
    path: onePool,
    summary: "Delete a pool; `force` ends what is queued and running there.",
    permission: "pools.change",
    query: change,
    hasEtag: true,
    status: 204,
  },
  resumeExpiry: {
    ...pools,
    method: "POST",
    path: `${onePool}/resume-expiry`,
    summary: "End a pause of expiry that mass silence brought: who is silent is given up now.",
    permission: "pools.change",
    status: 204,
  },
  listQueue: {
    ...pools,
    method: "GET",
    path: `${onePool}/queue`,
    summary: "What waits in a pool, in order.",
    permission: "pools.read",
    rateCost: 2,
    query: z.strictObject(page),
    status: 200,
    answer: answers.queuePage,
  },
  getShares: {
    ...pools,
    method: "GET",
    path: `${onePool}/shares`,
    summary: "Fair shares of a pool, in numbers.",
    permission: "pools.read",
    rateCost: 5,
    status: 200,
    answer: answers.sharesAnswer,
  },

  // --- Policies
  listPolicies: {
    tag: "policies",
    method: "GET",
    path: `${onePool}/policies`,
    summary: "The policies of a pool.",
    permission: "pools.read",
    query: z.strictObject(page),
    status: 200,
    answer: answers.policyPage,
  },
  attachPolicy: {
    tag: "policies",
    method: "POST",
    path: `${onePool}/policies`,
    summary: "Attach a policy: let a component use the pool.",
    permission: "pools.change",
    query: change,
    body: policyAttachment,
    isIdempotent: true,
    hasEtag: true,
    status: 201,
    answer: z.union([answers.policyAnswer, answers.plan]),
  },
  getPolicy: {
    tag: "policies",
    method: "GET",
    path: `${onePool}/policies/{component}`,
    summary: "One policy.",
    permission: "pools.read",
    hasEtag: true,
    status: 200,
    answer: answers.policyAnswer,
  },
  putPolicy: {
    tag: "policies",
    method: "PUT",
    path: `${onePool}/policies/{component}`,
    summary: "Attach a policy, or change what is given of it.",
    permission: "pools.change",
    query: change,
    body: policyChange,
    hasEtag: true,
    status: 200,
    answer: z.union([answers.policyAnswer, answers.plan]),
  },
  updatePolicy: {
    tag: "policies",
    method: "PATCH",
    path: `${onePool}/policies/{component}`,
    summary: "Change a policy; a given `reserved` or `limit` replaces the old one.",
    permission: "pools.change",
    query: change,
    body: policyChange,
    hasEtag: true,
    status: 200,
    answer: z.union([answers.policyAnswer, answers.plan]),
  },
  detachPolicy: {
    tag: "policies",
    method: "DELETE",
    path: `${onePool}/policies/{component}`,
    summary: "Detach a policy; `force` ends what the component has queued and running there.",
    permission: "pools.change",
    query: change,
    hasEtag: true,
    status: 204,
  },

  // --- Groups
  listGroups: {
    tag: "groups",
    method: "GET",
    path: `${onePool}/groups`,
    summary: "The groups of a pool's share tree.",
    permission: "pools.read",
    query: z.strictObject(page),
    status: 200,
    answer: answers.groupPage,
  },
  createGroup: {
    tag: "groups",
    method: "POST",
    path: `${onePool}/groups`,
    summary: "Create a group.",
    permission: "pools.change",
    query: change,
    body: group,
    isIdempotent: true,
    hasEtag: true,
    status: 201,
    answer: z.union([answers.groupAnswer, answers.plan]),
  },
  getGroup: {
    tag: "groups",
    method: "GET",
    path: `${onePool}/groups/{group}`,
    summary: "One group.",
    permission: "pools.read",
    hasEtag: true,
    status: 200,
    answer: answers.groupAnswer,
  },
  putGroup: {
    tag: "groups",
    method: "PUT",
    path: `${onePool}/groups/{group}`,
    summary: "Create a group, or change what is given of it.",
    permission: "pools.change",
    query: change,
    body: groupChange,
    hasEtag: true,
    status: 200,
    answer: z.union([answers.groupAnswer, answers.plan]),
  },
  updateGroup: {
    tag: "groups",
    method: "PATCH",
    path: `${onePool}/groups/{group}`,
    summary: "Change a group.",
    permission: "pools.change",
    query: change,
    body: groupChange,
    hasEtag: true,
    status: 200,
    answer: z.union([answers.groupAnswer, answers.plan]),
  },
  deleteGroup: {
    tag: "groups",
    method: "DELETE",
    path: `${onePool}/groups/{group}`,
    summary: "Delete a group.",
    permission: "pools.change",
    query: change,
    hasEtag: true,
    status: 204,
  },

  // --- Jobs
  submitJob: {
    ...jobs,
    method: "POST",
    path: "/v1/jobs",
    summary: "Ask for resources, and have a command started there when they are granted.",
    permission: "requests.submit",
    body: answers.jobSubmission,
    isIdempotent: true,
    status: 201,
    answer: answers.jobAnswer,
  },
  submitJobArray: {
    ...jobs,
    method: "POST",
    path: "/v1/jobs/array",
    summary: "The same job once per index, as one operation.",
    permission: "requests.submit",
    body: answers.jobArray,
    isIdempotent: true,
    status: 200,
    answer: answers.bulkAnswer,
  },
  listJobs: {
    ...jobs,
    method: "GET",
    path: "/v1/jobs",
    summary: "Jobs, newest first.",
    permission: "requests.read",
    query: requestQuery,
    status: 200,
    answer: answers.jobPage,
  },
  getJob: {
    ...jobs,
    method: "GET",
    path: "/v1/jobs/{id}",
    summary: "One job, with what it runs, where, and how it ended.",
    permission: "requests.read",
    status: 200,
    answer: answers.jobAnswer,
  },
  getJobLogs: {
    ...jobs,
    method: "GET",
    path: "/v1/jobs/{id}/logs",
    summary: "The output of a job: from its node, or the end of it that is kept.",
    permission: "requests.read",
    query: z.strictObject({
      /** Left out: the latest. */
      attempt: z.coerce.number().int().min(1).optional(),
      /** Of a job on several nodes: which of them; left out: the first. */
      rank: z.coerce.number().int().min(0).optional(),
      /** Left out: both. */
      stream: logStream.optional(),
      /** Position to begin at; below zero: so many bytes before the end. */
      from: z.coerce.number().int().optional(),
      follow: flag,
      /** `events`: a line of JSON for each piece, with its position and stream. */
      format: z.enum(["raw", "events"]).optional(),
    }),
    status: 200,
    contentType: "application/octet-stream",
  },
  signalJob: {
    ...jobs,
    method: "POST",
    path: "/v1/jobs/{id}/signal",
    summary: "Send a signal to a job where it runs.",
    permission: "requests.cancel",
    body: answers.signal,
    status: 200,
    answer: answers.signalAnswer,
  },

  // --- Operations
  listOperations: {
    ...jobs,
    method: "GET",
    path: "/v1/operations",
    summary: "Operations with something that waits or runs, or that ended recently, by component and name.",
    permission: "requests.read",
    rateCost: 5,
    query: z.strictObject({ ...page, component: name.optional() }),
    status: 200,
    answer: answers.operationPage,
  },
  getOperation: {
    ...jobs,
    method: "GET",
    path: "/v1/operations/{operation}",
    summary: "One operation: its requests by status, what it uses, how long it waits.",
    permission: "requests.read",
    rateCost: 5,
    query: z.strictObject({ component: name.optional() }),
    status: 200,
    answer: answers.operationAnswer,
  },
  cancelOperation: {
    ...jobs,
    method: "POST",
    path: "/v1/operations/{operation}/cancel",
    summary: "Cancel everything of an operation that waits or runs.",
    permission: "requests.cancel",
    query: z.strictObject({ component: name.optional() }),
    status: 200,
    answer: answers.cancelledOperation,
  },

  // --- Nodes
  listNodes: {
    tag: "nodes",
    method: "GET",
    path: "/v1/nodes",
    summary: "All nodes, or those of one pool.",
    permission: "pools.read",
    query: z.strictObject({ ...page, pool: name.optional() }),
    status: 200,
    answer: answers.nodePage,
  },
  listPoolNodes: {
    tag: "nodes",
    method: "GET",
    path: `${onePool}/nodes`,
    summary: "The nodes of a pool.",
    permission: "pools.read",
    query: z.strictObject(page),
    status: 200,
    answer: answers.nodePage,
  },
  createNode: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes",
    summary: "Register a node.",
    permission: "nodes.change",
    query: z.strictObject(dryRun),
    body: node,
    isIdempotent: true,
    hasEtag: true,
    status: 201,
    answer: z.union([answers.nodeAnswer, answers.plan]),
  },
  getNode: {
    tag: "nodes",
    method: "GET",
    path: "/v1/nodes/{node}",
    summary: "One node.",
    permission: "pools.read",
    hasEtag: true,
    status: 200,
    answer: answers.nodeAnswer,
  },
  putNode: {
    tag: "nodes",
    method: "PUT",
    path: "/v1/nodes/{node}",
    summary: "Register a node, or report what is given of it; it is ready then.",
    permission: "nodes.change",
    query: z.strictObject(dryRun),
    body: nodeChange,
    hasEtag: true,
    status: 200,
    answer: z.union([answers.nodeAnswer, answers.plan]),
  },
  drainNode: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/drain",
    summary: "Let no new work onto a node; with a deadline, stop what still runs there then.",
    permission: "nodes.change",
    query: z.strictObject(dryRun),
    body: answers.drain,
    isBodyOptional: true,
    status: 200,
    answer: z.union([answers.nodeAnswer, answers.plan]),
  },
  undrainNode: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/undrain",
    summary: "Let work onto a node again.",
    permission: "nodes.change",
    query: z.strictObject(dryRun),
    status: 200,
    answer: z.union([answers.nodeAnswer, answers.plan]),
  },
  confirmNodeLost: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/confirm-lost",
    summary: "Nothing runs on a silent node any more: what it held is lost, and its units are free.",
    permission: "nodes.change",
    query: z.strictObject(dryRun),
    status: 200,
    answer: z.union([answers.nodeAnswer, answers.plan]),
  },
  enrolNode: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/enrol",
    summary: "Make a token with which a machine becomes this node, once.",
    permission: "nodes.change",
    body: enrolment,
    status: 201,
    answer: enrolmentAnswer,
  },
  joinNode: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/join",
    summary: "Become this node, with the token of its enrolment.",
    permission: "nodes.join",
    body: join,
    status: 201,
    answer: joinAnswer,
  },
  syncNode: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/sync",
    summary: "What runs on this node; the answer is what should.",
    permission: "nodes.sync",
    body: nodeSync,
    isBatch: true,
    status: 200,
    answer: nodeSyncAnswer,
  },
  reportPartCheckpoint: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/checkpoint",
    summary: "What a job on this node says about its checkpoint.",
    permission: "nodes.sync",
    body: partCheckpoint,
    isIdempotent: true,
    status: 200,
    answer: z.object({}),
  },
  sendLog: {
    tag: "nodes",
    method: "POST",
    path: "/v1/nodes/{node}/logs/{reader}",
    summary: "A piece of a log for a reader.",
    permission: "nodes.sync",
    body: logPiece,
    isBatch: true,
    status: 200,
    answer: logPieceAnswer,
  },
  syncPool: {
    tag: "nodes",
    method: "POST",
    path: "/v1/pools/{pool}/sync",
    summary: "What the adapter of this pool runs, and its machines; the answer is what should run.",
    permission: "pools.sync",
    body: poolSync,
    isBatch: true,
    status: 200,
    answer: poolSyncAnswer,
  },
  reportPoolCheckpoint: {
    tag: "nodes",
    method: "POST",
    path: "/v1/pools/{pool}/checkpoint",
    summary: "What a job that the adapter of this pool runs says about its checkpoint.",
    permission: "pools.sync",
    body: partCheckpoint,
    isIdempotent: true,
    status: 200,
    answer: z.object({}),
  },
  sendPoolLog: {
    tag: "nodes",
    method: "POST",
    path: "/v1/pools/{pool}/logs/{reader}",
    summary: "A piece of a log for a reader, from the adapter of this pool.",
    permission: "pools.sync",
    body: logPiece,
    isBatch: true,
    status: 200,
    answer: logPieceAnswer,
  },
  removeNode: {
    tag: "nodes",
    method: "DELETE",
    path: "/v1/nodes/{node}",
    summary: "Forget a node.",
    permission: "nodes.change",
    query: change,
    hasEtag: true,
    status: 204,
  },

  // --- What the dashboard asks for
  getOverview: {
    tag: "dashboard",
    method: "GET",
    path: "/v1/overview",
    summary: "All pools by kind of use, and what a person should look at.",
    permission: "pools.read",
    status: 200,
    answer: dashboard.overviewAnswer,
  },
  getQueue: {
    tag: "dashboard",
    method: "GET",
    path: "/v1/queue",
    summary: "What waits, in order, in slim rows with a reason each.",
    permission: "requests.read",
    query: dashboard.queueQuery,
    status: 200,
    answer: dashboard.queueAnswer,
  },
  getTimeline: {
    tag: "dashboard",
    method: "GET",
    path: "/v1/timeline",
    summary: "Who held units of a pool, and when.",
    permission: "requests.read",
    query: dashboard.timelineQuery,
    rateCost: 5,
    status: 200,
    answer: dashboard.timelineAnswer,
  },
  getUsage: {
    tag: "dashboard",
    method: "GET",
    path: "/v1/usage",
    summary: "Unit-seconds per team, pool, user or month, exact to the second.",
    permission: "pools.read",
    query: dashboard.usageQuery,
    rateCost: 5,
    status: 200,
    answer: dashboard.usageAnswer,
  },
  getHistory: {
    tag: "dashboard",
    method: "GET",
    path: `${onePool}/history`,
    summary: "What was used, owed and waited for in a pool over time.",
    permission: "pools.read",
    query: dashboard.historyQuery,
    rateCost: 5,
    status: 200,
    answer: dashboard.historyAnswer,
  },

  // --- Sessions of the dashboard
  createLink: {
    tag: "dashboard",
    method: "POST",
    path: "/v1/sessions/links",
    summary: "Make a link that opens the dashboard once, with the rights of this token.",
    permission: "self.read",
    status: 201,
    answer: dashboard.linkAnswer,
  },
  createSession: {
    tag: "dashboard",
    method: "POST",
    path: "/v1/sessions",
    summary: "Sign in with a link or a token; the answer sets the cookie of the session.",
    permission: "public",
    body: dashboard.sessionCreation,
    status: 201,
    answer: dashboard.sessionAnswer,
  },
  getSession: {
    tag: "dashboard",
    method: "GET",
    path: "/v1/session",
    summary: "Who is signed in, and what they may do.",
    permission: "self.read",
    status: 200,
    answer: dashboard.sessionAnswer,
  },
  renewSession: {
    tag: "dashboard",
    method: "POST",
    path: "/v1/sessions/current/renew",
    summary: "The submitter is alive. Every other call says so, too.",
    permission: "self.read",
    status: 204,
  },
  endSession: {
    tag: "dashboard",
    method: "DELETE",
    path: "/v1/sessions/current",
    summary: "Sign out.",
    permission: "self.read",
    status: 204,
  },

  // --- Events
  streamEvents: {
    tag: "events",
    method: "GET",
    path: "/v1/events",
    summary: "What happens, as server-sent events; `Last-Event-ID` resumes.",
    permission: "events.read",
    query: z.strictObject({
      pool: name.optional(),
      request: name.optional(),
      component: name.optional(),
      /** As `Last-Event-ID`, for clients that cannot send headers. */
      after: z.coerce.number().int().min(0).optional(),
    }),
    status: 200,
    contentType: "text/event-stream",
  },

  // --- Notices
  listTargets: {
    tag: "notices",
    method: "GET",
    path: "/v1/notice-targets",
    summary:
      "Where notices are sent, and how that goes. Operators see those of their components, others their own.",
    permission: "notices.read",
    query: z.strictObject(page),
    status: 200,
    answer: notices.targetPage,
  },
  createTarget: {
    tag: "notices",
    method: "POST",
    path: "/v1/notice-targets",
    summary: "Send notices there from now on. The answer is the only one that shows the secret of a webhook.",
    permission: "notices.change",
    body: notices.targetCreation,
    status: 201,
    answer: notices.targetAnswer,
  },
  getTarget: {
    tag: "notices",
    method: "GET",
    path: "/v1/notice-targets/{target}",
    summary: "One target.",
    permission: "notices.read",
    status: 200,
    answer: notices.targetAnswer,
  },
  testTarget: {
    tag: "notices",
    method: "POST",
    path: "/v1/notice-targets/{target}/test",
    summary: "Send a message that says it is a test, once, and say whether it arrived.",
    permission: "notices.change",
    rateCost: 10,
    status: 200,
    answer: notices.targetTest,
  },
  deleteTarget: {
    tag: "notices",
    method: "DELETE",
    path: "/v1/notice-targets/{target}",
    summary: "Send nothing there any more; what was still to be tried is forgotten.",
    permission: "notices.change",
    status: 204,
  },

  // --- Tokens, audit, settings
  listTokens: {
    tag: "access",
    method: "GET",
    path: "/v1/tokens",
    summary: "All tokens, without their secrets.",
    permission: "tokens.read",
    query: z.strictObject(page),
    status: 200,
    answer: answers.tokenPage,
  },
  createToken: {
    tag: "access",
    method: "POST",
    path: "/v1/tokens",
    summary: "Create a token. The answer is the only one that shows its secret.",
    permission: "tokens.change",
    body: answers.tokenCreation,
    status: 201,
    answer: answers.tokenAnswer,
  },
  getToken: {
    tag: "access",
    method: "GET",
    path: "/v1/tokens/{token}",
    summary: "One token, by id or name.",
    permission: "tokens.read",
    status: 200,
    answer: answers.tokenAnswer,
  },
  revokeToken: {
    tag: "access",
    method: "DELETE",
    path: "/v1/tokens/{token}",
    summary: "Revoke a token at once; its open streams end.",
    permission: "tokens.change",
    status: 204,
  },
  whoami: {
    tag: "access",
    method: "GET",
    path: "/v1/whoami",
    summary: "Who the token says you are, and what you may do.",
    permission: "self.read",
    status: 200,
    answer: answers.identityAnswer,
  },
  listAudit: {
    tag: "access",
    method: "GET",
    path: "/v1/audit",
    summary: "Every change and every denial, newest first.",
    permission: "audit.read",
    query: z.strictObject(page),
    status: 200,
    answer: answers.auditPage,
  },
  getSettings: {
    tag: "server",
    method: "GET",
    path: "/v1/settings",
    summary: "Settings of the server.",
    permission: "pools.read",
    status: 200,
    answer: answers.serverSettings,
  },
  changeSettings: {
    tag: "server",
    method: "PATCH",
    path: "/v1/settings",
    summary: "Change settings of the server.",
    permission: "settings.change",
    body: answers.serverSettings,
    status: 200,
    answer: answers.serverSettings,
  },

  // --- The server itself
  metrics: {
    tag: "server",
    method: "GET",
    path: "/metrics",
    summary: "Metrics for Prometheus.",
    permission: "metrics.read",
    rateCost: 5,
    status: 200,
    contentType: "text/plain",
  },
  healthz: {
    tag: "server",
    method: "GET",
    path: "/healthz",
    summary: "Whether the server works.",
    permission: "public",
    status: 200,
    answer: answers.healthAnswer,
  },
  livez: {
    tag: "server",
    method: "GET",
    path: "/livez",
    summary: "Whether the process lives.",
    permission: "public",
    status: 200,
    answer: answers.healthAnswer,
  },
  getCluster: {
    tag: "server",
    method: "GET",
    path: "/v1/cluster",
    summary: "The servers on this store, and which of them leads.",
    permission: "metrics.read",
    status: 200,
    answer: answers.clusterAnswer,
  },
  handOver: {
    tag: "server",
    method: "POST",
    path: "/v1/cluster/handover",
    summary: "Let another server lead.",
    permission: "settings.change",
    body: z.strictObject({
      to: z
        .string()
        .max(256)
        .optional()
        .describe("Id or address of the server that shall lead; left out: any."),
    }),
    isBodyOptional: true,
    status: 202,
  },
  readyz: {
    tag: "server",
    method: "GET",
    path: "/readyz",
    summary: "Whether calls will be served now.",
    permission: "public",
    status: 200,
    answer: answers.healthAnswer,
  },
  version: {
    tag: "server",
    method: "GET",
    path: "/version",
    summary: "Name and version.",
    permission: "public",
    status: 200,
    answer: answers.versionAnswer,
  },
  openapi: {
    tag: "server",
    method: "GET",
    path: "/openapi.json",
    summary: "This API as an OpenAPI 3.1 document.",
    permission: "public",
    status: 200,
    answer: z.looseObject({ openapi: z.string() }),
  },
  docs: {
    tag: "server",
    method: "GET",
    path: "/docs",
    summary: "This API as a page to read.",
    permission: "public",
    status: 200,
    contentType: "text/html",
  },
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof ROUTES;
