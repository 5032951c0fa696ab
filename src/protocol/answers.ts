// What the API answers, and the bodies of the calls that are not plain resources.

import { z } from "zod";
import { extraPermission, givenRole, role } from "./access.ts";
import { amounts, idempotencyKey, labels, moment, name, pageOf, seconds, timestamp } from "./common.ts";
import { whyCode } from "./dashboard.ts";
import { problem } from "./errors.ts";
import { deviceReport, exitAnswer, jobPhase, run } from "./jobs.ts";
import { BATCH_ITEMS_MAX, GRANT_TOKEN_LENGTH_MAX, NOTE_LENGTH_MAX } from "./limits.ts";
import { policyKind } from "./policies.ts";
import { discipline, groupSettings, poolSettings } from "./pools.ts";
import {
  allocationGroup,
  preemptionReason,
  rejectionCode,
  requestOrigin,
  requestStatus,
  requestSubmission,
  starvationStatus,
} from "./requests.ts";
import {
  consideredKind,
  orderFact,
  party,
  preemptionFact,
  runFacts,
  startsFact,
  victimFacts,
  waitCode,
  whyText,
} from "./why.ts";

const grantToken = z.string().min(1).max(GRANT_TOKEN_LENGTH_MAX);

// --- Requests

export const rejectionReason = z.object({
  pool: z.string().nullable(),
  code: rejectionCode,
  key: z.string().nullable(),
  asked: z.number(),
  allowed: z.number(),
});

export const stopAnswer = z.object({
  /** `failure`: another part of a job on several nodes failed (E7). */
  cause: z.enum(["preemption", "cancellation", "walltime", "failure"]),
  phase: z.enum(["checkpoint", "terminate", "kill"]),
  reason: preemptionReason.nullable(),
  for_request: z.string().nullable(),
  told_at: timestamp,
  deadline: timestamp,
});

/** What a holder says about an end that its exit code does not tell. */
const reportedCause = z.enum(["oom", "interrupted", "wrapper_killed", "start_failed"]);
export const endCause = z.enum([
  ...reportedCause.options,
  /** A limit of the cluster on which it ran; that of the request is an outcome. */
  "walltime",
  ...(["not_taken_up", "holder_silent", "declared_lost"] as const),
]);

export const attemptAnswer = z.object({
  attempt: z.int(),
  pool: z.string().nullable(),
  /** Where it ran, in a pool with nodes; absent from attempts of a time before this was kept. */
  nodes: z.array(z.string()).optional(),
  started_at: timestamp,
  ended_at: timestamp,
  outcome: z.enum(["succeeded", "failed", "preempted", "cancelled", "lost", "walltime"]),
  preempted_for: z.string().nullable(),
  reason: preemptionReason.nullable(),
  /** What the holder reported of its end, where it did. */
  exit_code: z.int().nullable(),
  /** The signal that ended it, such as SIGSEGV. */
  signal: z.string().nullable(),
  /** Why it ended, where neither its exit code nor the stopping sequence says so. */
  cause: endCause.nullable(),
  message: z.string().nullable(),
});

export const requestAnswer = z
  .object({
    id: z.string(),
    /** The small number that people type; accepted wherever an id is. */
    number: z.int(),
    name: z.string(),
    component: z.string(),
    status: requestStatus,
    resources: amounts,
    preemptible: z.boolean(),
    preemption_class: z.number(),
    sensitive: z.boolean(),
    checkpoint: z.enum(["none", "auto", "manual"]),
    checkpoint_seconds: z.number().nullable(),
    walltime_seconds: z.number().nullable(),
    operation: z.string().nullable(),
    gang: z.boolean(),
    nodes: z.number(),
    constraints: labels,
    /** Only these pools may admit it; null: all in which its component has a policy. */
    pools: z.array(z.string()).nullable(),
    retries: z.object({ max: z.number().nullable(), delay: z.number() }),
    requeue: z.enum(["never", "on_preemption", "on_failure"]),
    wait_timeout_seconds: z.number().nullable(),
    attended: z.boolean(),
    labels,
    note: z.string(),
    submitted_by: z.string(),
    /** Where it was started, by whom, and with which command; null also for those who may not see it. */
    origin: requestOrigin.nullable(),
    submitted_at: timestamp,
    queued_at: timestamp,
    started_at: timestamp.nullable(),
    ended_at: timestamp.nullable(),
    attempt: z.int(),
    preempted_count: z.int(),
    resume: z.boolean(),
    pool: z.string().nullable(),
    opportunistic: z.boolean(),
    placement: z.array(z.object({ node: z.string(), devices: z.array(z.int()) })),
    hold: z.object({ pool: z.string() }).nullable(),
    stop: stopAnswer.nullable(),
    reasons: z.array(rejectionReason).nullable(),
    /** Attempts that have ended, oldest first. */
    attempts: z.array(attemptAnswer),
    /** Berth starts it itself (J1). */
    is_job: z.boolean(),
    /** Of a job that was granted and has not ended: how far it is (J4). */
    phase: jobPhase.nullable(),
    /** Those that must end before it enters the queue, and how (J9). */
    after: z.array(z.object({ id: z.string(), when: z.enum(["ok", "any"]) })),
    array: z.object({ index: z.int(), at_once: z.int().nullable() }).nullable(),
    /** Not in the queue yet: it waits for others to end, or for its turn in its array. */
    blocked: z.boolean(),
    /** Cancelled, because this request has not ended as it had to. */
    cancelled_because: z.string().nullable(),
    /** The fencing token of the grant, for those who may hold it. */
    token: z.string().optional(),
    lease_expires_at: timestamp.optional(),
    /** Only while renewals are overdue: when the holder was last heard of, and when it is given up (L2). */
    holder_silent_since: timestamp.optional(),
    given_up_at: timestamp.optional(),
    /** Only right after it was submitted: what was accepted but has no effect. */
    warnings: z.array(z.string()).optional(),
  })
  .meta({ id: "Request" });
export type WireRequest = z.infer<typeof requestAnswer>;

export const requestPage = pageOf(requestAnswer, "RequestPage");

export const jobSubmission = requestSubmission.extend({ run }).meta({ id: "JobSubmission" });
export type WireJobSubmission = z.infer<typeof jobSubmission>;

/** One request per index, all of one operation (J9). */
export const jobArray = z
  .strictObject({
    job: jobSubmission.omit({ array: true }),
    indices: z.array(z.int().min(0).max(1_000_000)).min(1).max(BATCH_ITEMS_MAX),
    /** How many may be in the queue or running; left out: all of them. */
    at_once: z.int().min(1).optional(),
  })
  .meta({ id: "JobArray" });
export type WireJobArray = z.infer<typeof jobArray>;

export const jobAnswer = requestAnswer
  .extend({
    /** What it runs, for its submitter and its operators; values of the environment for its submitter only. */
    run: z
      .object({ ...run.shape, environment: z.record(z.string(), z.string().nullable()).optional() })
      .nullable(),
    /** Its nodes, and what their agents say about it. */
    where: z.array(
      z.object({
        node: z.string(),
        devices: z.array(z.int()),
        /** As the agent last said; null before it has said anything. */
        phase: z.string().nullable(),
        progress: z.string().nullable(),
      }),
    ),
    /** How its last attempt ended; null before that. */
    exit: exitAnswer.nullable(),
  })
  .meta({ id: "Job" });
export type WireJob = z.infer<typeof jobAnswer>;

export const jobPage = pageOf(requestAnswer, "JobPage");

export const signal = z.strictObject({
  /** Such as SIGUSR1. */
  signal: z.string().regex(/^SIG[A-Z0-9+-]{2,12}$/, "is not the name of a signal"),
});
export const signalAnswer = z.object({ delivered: z.boolean() }).meta({ id: "Signalled" });

export const queueItem = requestAnswer
  .extend({
    /** Place in the queue of this pool, from 1. */
    position: z.int(),
    /** Of its component's policy in this pool. */
    priority: z.number(),
  })
  .meta({ id: "QueueItem" });
export type WireQueueItem = z.infer<typeof queueItem>;
export const queuePage = pageOf(queueItem, "QueuePage");

/** What a bulk call is parsed as first: one bad item must not spoil the others. */
export const bulkEnvelope = z.strictObject({ items: z.array(z.unknown()).min(1).max(BATCH_ITEMS_MAX) });

export const bulkSubmissionItem = requestSubmission.extend({
  idempotency_key: idempotencyKey.optional(),
});

export const bulkSubmission = z.strictObject({
  /** Each stands for itself; an item may carry its own idempotency key. */
  items: z.array(bulkSubmissionItem).min(1).max(BATCH_ITEMS_MAX),
});

export const bulkAnswer = z
  .object({
    /** In the order of the items: what the single call would have answered, or why the item was refused. */
    results: z.array(z.union([requestAnswer, z.object({ problem })])),
  })
  .meta({ id: "BulkAnswer" });
export type WireBulkAnswer = z.infer<typeof bulkAnswer>;

/** `stuck`: its processes cannot be killed. That is an alert, and its units stay in use. */
export const holderPhase = z.enum(["starting", "running", "checkpointing", "stopping", "stuck"]);

export const renewal = z.strictObject({
  /** Left out only by the client of an attended request that still waits (L2). */
  token: grantToken.optional(),
  phase: holderPhase.optional(),
  /** Anything the holder wants to be seen; kept in memory only. */
  progress: z.union([z.number(), z.string().max(NOTE_LENGTH_MAX)]).optional(),
});
export type WireRenewal = z.infer<typeof renewal>;

export const instruction = z.object({
  do: z.enum(["carry_on", "checkpoint", "stop"]),
  reason: z.string().optional(),
  deadline: timestamp.optional(),
});

export const renewalAnswer = z
  .object({
    status: requestStatus,
    instruction,
    lease_expires_at: timestamp,
    lease_seconds: z.number(),
    renew_after_seconds: z.number(),
  })
  .meta({ id: "RenewalAnswer" });
export type WireRenewalAnswer = z.infer<typeof renewalAnswer>;

export const bulkRenewalItem = renewal.extend({ id: name });

export const bulkRenewal = z.strictObject({
  items: z.array(bulkRenewalItem).min(1).max(BATCH_ITEMS_MAX),
});

export const bulkRenewalAnswer = z
  .object({
    /** In the order of the items: what to do, or why the item was refused. */
    results: z.array(z.union([renewalAnswer, z.object({ problem })])),
  })
  .meta({ id: "BulkRenewalAnswer" });
export type WireBulkRenewalAnswer = z.infer<typeof bulkRenewalAnswer>;

export const release = z.strictObject({
  token: grantToken,
  outcome: z.enum(["succeeded", "failed", "stopped"]),
  exit_code: z.int().min(-1).max(255).optional(),
  /** The signal that ended it. */
  signal: z
    .string()
    .regex(/^SIG[A-Z0-9+]{1,12}$/)
    .optional(),
  cause: reportedCause.optional(),
  message: z.string().max(NOTE_LENGTH_MAX).optional(),
  /** When it ended, by the server's clock; left out: now. */
  ended_at: moment.optional(),
});
export type WireRelease = z.infer<typeof release>;

export const bulkReleaseItem = release.extend({ id: name });

export const bulkRelease = z.strictObject({
  items: z.array(bulkReleaseItem).min(1).max(BATCH_ITEMS_MAX),
});

export const checkpointReport = z.strictObject({
  token: grantToken,
  report: z.enum(["done", "progress", "defer"]),
  /** With `defer`: how much more time is asked for. */
  seconds: seconds.optional(),
});

/** What keeps a request from starting in one pool. Ids of requests that the caller does not see are null. */
export const blocker = z.discriminatedUnion("rule", [
  z.object({
    rule: z.enum(["limit", "group_limit", "reserved"]),
    key: z.string(),
    asked: z.number(),
    used: z.number(),
    allowed: z.number(),
    group: z.string().nullable(),
  }),
  z.object({ rule: z.literal("holds"), waits_for: z.array(z.string().nullable()) }),
  z.object({ rule: z.literal("holds_elsewhere"), pool: z.string().nullable() }),
  z.object({
    rule: z.literal("units"),
    short: z.array(
      z.object({
        key: z.string(),
        asked: z.number(),
        free: z.number(),
        promised: z.number(),
        coming_free: z.number(),
      }),
    ),
    head: z.string().nullable(),
  }),
  z.object({ rule: z.literal("behind_head"), head: z.string().nullable() }),
]);

export const holderAnswer = z.object({
  request_id: z.string().nullable(),
  number: z.int().nullable(),
  name: z.string().nullable(),
  component: z.string().nullable(),
  units: amounts,
  preemptible: z.boolean(),
  stopping: z.boolean(),
  started_at: timestamp,
  ends_at: timestamp.nullable(),
  /** Only while renewals are overdue: when the holder was last heard of, and when it is given up (L2). */
  silent_since: timestamp.nullable(),
  given_up_at: timestamp.nullable(),
});

const fractions = z.record(z.string(), z.number());

/** How a group, a policy or an operation of a fair-share pool stands (9.10). */
const elementAnswer = z.object({
  element: z.string(),
  kind: z.enum(["group", "policy", "operation"]),
  parent: z.string().nullable(),
  fair_share: fractions,
  usage_share: fractions,
  demand_share: fractions,
  /** What is reserved, its usage above that, and what of it others use; null for operations, which reserve nothing. */
  guarantee: fractions.nullable(),
  borrowed: fractions.nullable(),
  lent: fractions.nullable(),
  /** Null: without a fair share nothing compares with it. */
  satisfaction: z.number().nullable(),
  status: starvationStatus,
  below_since: timestamp.nullable(),
  /** When it will starve if it stays below its fair share, and since when it does. */
  starves_at: timestamp.nullable(),
  starving_since: timestamp.nullable(),
  waiting: z.int(),
  /** A request of it asks for more than its fair share, and can never be served within that. */
  exceeds_fair_share: z.boolean(),
});
export type WireShareElement = z.infer<typeof elementAnswer>;

/** All requests with one `operation`, of one component. */
export const operationAnswer = z
  .object({
    operation: z.string(),
    component: z.string(),
    pools: z.array(z.string()),
    /** How many there are, by status; those that are not in the queue yet count as `blocked`. */
    statuses: z.record(z.string(), z.int()),
    /** Units in use now. */
    usage: amounts,
    /**
     * In each of its pools: the largest part of the capacity of a key that it uses, and in a pool of fair shares what it is owed
     * and how it stands.
     */
    shares: z.array(
      z.object({
        pool: z.string(),
        usage_share: z.number(),
        fair_share: z.number().nullable(),
        satisfaction: z.number().nullable(),
        status: starvationStatus.nullable(),
      }),
    ),
    /** How long those that were granted have waited on average, and those that still wait at most. */
    waited_seconds: z.number().nullable(),
    waiting_seconds_max: z.number().nullable(),
    submitted_at: timestamp,
    /** Null while one of them lives. */
    ended_at: timestamp.nullable(),
  })
  .meta({ id: "Operation" });
export type WireOperation = z.infer<typeof operationAnswer>;
export const operationPage = pageOf(operationAnswer, "OperationPage");
export const cancelledOperation = z
  .object({ cancelled: z.int(), results: z.array(z.object({ id: z.string(), number: z.int() })) })
  .meta({ id: "CancelledOperation" });

const comparedElement = z.object({
  /** Null: not to be known. */
  element: z.string().nullable(),
  kind: z.enum(["group", "policy", "operation"]),
  satisfaction: z.number().nullable(),
});

/** How the operation of a waiting request stands in a fair-share pool, and whose turn comes first. */
const shareExplanation = z.object({
  operation: elementAnswer,
  /** Its policy and the groups above it, the nearest first. */
  above: z.array(elementAnswer),
  /** The first of two is first on the level where their paths part. */
  ahead: z.array(z.object({ theirs: comparedElement, mine: comparedElement })),
  /** How many operations come first. */
  ahead_count: z.int(),
  may_preempt: z.enum(["no", "preemptible", "aggressively"]),
  backoff_until: timestamp.nullable(),
  exceeds_fair_share: z.boolean(),
  /** Its operation is a gang that is owed less than all that it asks for, and so nothing (9.2). */
  gang_without_share: z.boolean(),
});
export type WireShareExplanation = z.infer<typeof shareExplanation>;

/** What keeps a node from serving a request: the first of these. */
const nodeObstacle = z.enum([
  "labels",
  "too_small",
  "draining",
  "drained",
  "suspect",
  "down",
  "taken",
  "promised",
]);

export const poolExplanation = z.object({
  pool: z.string(),
  /** Place in the queue, from 1. */
  position: z.int(),
  queue_length: z.int(),
  fits_reserve: z.boolean(),
  code: whyCode,
  blocked_by: blocker,
  /** All that stands in its way at once, `code` first. */
  blockers: z.array(whyCode),
  /** What is left of its component's reserve on the keys that are short. */
  reserve_left: amounts,
  /** Runs that hold what it, or the first in line, lacks, or that fill its quota; the latest first. */
  holders: z.array(holderAnswer),
  holder_count: z.int(),
  /** Whose turn comes first, and by which part of the order; null: nobody's. */
  first: orderFact.nullable(),
  considered: z.array(consideredKind),
  preemption: preemptionFact,
  preemption_needs: amounts.nullable(),
  could_start_at: timestamp.nullable(),
  /** What it would be worth to start it; what is taken by class costs less. In pools of discipline class. */
  value_minutes: z.number().nullable(),
  /** In pools with nodes, where fewer serve the request than it asks for: how many there are, and what keeps the others. */
  nodes: z
    .object({
      asked: z.int(),
      fitting: z.int(),
      total: z.int(),
      obstacles: z.partialRecord(nodeObstacle, z.int()),
    })
    .nullable(),
  /** In fair-share pools only. */
  share: shareExplanation.nullable(),
});

/** Who can make the change, when the request starts after it, and whom else it concerns; each was tried on the state (Y8–Y11). */
const suggested = {
  pool: z.string(),
  by: z.enum(["you", "operator", "time"]),
  /** `after`: its victims have to stop first, by `starts_by` at the latest unless they ask for more time. */
  starts: z.enum(["now", "after"]),
  starts_by: timestamp.nullable(),
  /** A step less would not do. */
  minimal: z.boolean(),
  /** In words, with what comes with it. */
  text: z.string(),
  effects: z.object({
    granted: z.array(party),
    preempted: z.array(party),
    rejected: z.array(party),
  }),
};

export const suggestion = z.discriminatedUnion("change", [
  z.object({ change: z.literal("fewer_units"), ...suggested, resources: amounts }),
  z.object({ change: z.literal("fewer_nodes"), ...suggested, nodes: z.int() }),
  z.object({ change: z.literal("walltime"), ...suggested, walltime_seconds: z.number() }),
  z.object({ change: z.literal("preemptible"), ...suggested }),
  z.object({ change: z.literal("higher_class"), ...suggested, preemption_class: z.int() }),
  /** One in which the component has no policy, or which the request does not name. */
  z.object({ change: z.literal("another_pool"), ...suggested }),
  /** With the keys that change, here and below. */
  z.object({ change: z.literal("higher_limit"), ...suggested, limit: amounts }),
  z.object({
    change: z.literal("higher_group_limit"),
    ...suggested,
    group: z.string(),
    limit: amounts,
  }),
  z.object({ change: z.literal("more_reserved"), ...suggested, reserved: amounts }),
  z.object({ change: z.literal("higher_priority"), ...suggested, priority: z.int() }),
  z.object({
    change: z.literal("more_capacity"),
    ...suggested,
    capacity: amounts,
    /** In a pool with nodes: so many more, like one that the pool has. */
    nodes: z.object({ count: z.int(), like: z.string() }).nullable(),
  }),
  z.object({ change: z.literal("node_back"), ...suggested, node: z.string() }),
  z.object({ change: z.literal("run_ends"), ...suggested, request: party }),
  z.object({ change: z.literal("ahead_withdrawn"), ...suggested, request: party }),
]);
export type WireSuggestion = z.infer<typeof suggestion>;

/** Section 14: why a request waits, was stopped or was rejected. */
export const explanation = z
  .looseObject({
    request_id: z.string(),
    number: z.int(),
    status: requestStatus,
    reasons: z.array(rejectionReason).nullable(),
    stop: stopAnswer.nullable(),
    delayed_until: timestamp.nullable(),
    /** Not in the queue yet: whose end it waits for, or none and its turn among so many of its array (J9). */
    blocked: z.object({ after: z.array(z.string()), at_once: z.int().nullable() }).nullable(),
    /** In the order in which the request prefers them. */
    pools: z.array(poolExplanation),
    not_admitted: z.array(rejectionReason),
    /** Why it waits, as short as a table needs it; null: it does not wait. */
    code: waitCode.nullable(),
    /** How it runs; null: it does not. */
    running: runFacts.nullable(),
    /** What becomes of it when it has stopped; null: nobody has asked it to. */
    victim: victimFacts.nullable(),
    /** When it starts by walltimes alone; null: it does not wait, or nobody has tried. */
    starts: startsFact.nullable(),
    /** With `before`: which of the two comes first in each pool in which both wait (Y7). */
    before: z.array(z.object({ pool: z.string(), order: orderFact })).nullable(),
    /** In words: for each pool in which it waits, or once. */
    text: z.array(whyText),
    /** The most useful first. */
    suggestions: z.array(suggestion),
    /** Not everything could be tried in the time allowed. */
    truncated: z.boolean(),
  })
  .meta({ id: "Explanation" });
export type WireExplanation = z.infer<typeof explanation>;
export type WirePoolExplanation = z.infer<typeof poolExplanation>;

export const decisionAnswer = z
  .object({ seq: z.int(), at: timestamp, decision: z.looseObject({}) })
  .meta({ id: "Decision" });
export const decisionList = z.object({ items: z.array(decisionAnswer) });

// --- Pools, groups, policies, nodes

/** What pools and policies have beside what people set. Calls take names. */
const lifetime = {
  /** Of this one alone: a later one of the same name has another. */
  id: z.string(),
  /** Null: created, or last changed, before these times were kept. */
  created_at: timestamp.nullable(),
  updated_at: timestamp.nullable(),
};

export const poolAnswer = z
  .object({
    name: z.string(),
    description: z.string(),
    labels,
    discipline,
    capacity: amounts,
    usage: amounts,
    node_backed: z.boolean(),
    closing: z.boolean(),
    settings: poolSettings,
    queued: z.int(),
    running: z.int(),
    ...lifetime,
    /** Only while nothing expires here, because many clients fell silent at once (L3). */
    expiry_paused: z.object({ silent: z.int(), clients: z.int(), until: timestamp }).optional(),
    /** Groups, and "" for the pool as a whole, whose members are guaranteed more than there is, so that all were scaled down (9.1). */
    guarantees_scaled: z.array(z.string()).optional(),
    /** Runs that were preempted too often lately to be preempted again (V6); absent: none. */
    shielded_runs: z.int().optional(),
    /** Only right after a change: what was accepted but looks like a slip (R5). */
    warnings: z.array(z.string()).optional(),
  })
  .meta({ id: "Pool" });
export type WirePoolAnswer = z.infer<typeof poolAnswer>;

export const groupAnswer = z
  .object({
    pool: z.string(),
    name: z.string(),
    parent: z.string().nullable(),
    weight: z.number(),
    reserved: amounts.nullable(),
    limit: amounts,
    mode: z.enum(["fair_share", "fifo"]),
    settings: groupSettings,
  })
  .meta({ id: "Group" });
export type WireGroupAnswer = z.infer<typeof groupAnswer>;

export const policyAnswer = z
  .object({
    pool: z.string(),
    component: z.string(),
    component_type: z.string(),
    priority: z.number(),
    reserved: amounts,
    limit: amounts,
    weight: z.number(),
    kind: policyKind,
    max_class: z.number(),
    group: z.string().nullable(),
    home: labels.nullable(),
    closing: z.boolean(),
    ...lifetime,
    /** Only right after a change: what was accepted but looks like a slip (10.8). */
    warnings: z.array(z.string()).optional(),
  })
  .meta({ id: "Policy" });
export type WirePolicyAnswer = z.infer<typeof policyAnswer>;

/** As its agent reports it. */
const deviceAnswer = deviceReport.extend({
  /** Given to nobody, because others use it (`avoid_busy_devices`). */
  kept_out: z.boolean(),
});

export const nodeAnswer = z
  .object({
    name: z.string(),
    pool: z.string(),
    capacity: amounts,
    labels,
    topology: z.string(),
    state: z.enum(["ready", "draining", "drained", "suspect", "down"]),
    /** When what still runs on a draining node is stopped. */
    drain_deadline: timestamp.nullable(),
    usage: amounts,
    /** The most that its agent may offer; null: it was registered by hand. */
    enrolled: amounts.nullable(),
    /** When its agent was last heard of; null: it has none, or this server has not heard of it. */
    heard_at: timestamp.nullable(),
    agent_version: z.string().nullable(),
    devices: z.array(deviceAnswer),
    /** What runs there, and on which GPUs. */
    requests: z.array(z.object({ id: z.string(), number: z.int(), devices: z.array(z.int()) })),
  })
  .meta({ id: "Node" });
export type WireNodeAnswer = z.infer<typeof nodeAnswer>;

export const poolPage = pageOf(poolAnswer, "PoolPage");
export const groupPage = pageOf(groupAnswer, "GroupPage");
export const policyPage = pageOf(policyAnswer, "PolicyPage");
export const nodePage = pageOf(nodeAnswer, "NodePage");

export const drain = z.strictObject({
  /** After this time what still runs there is stopped (N4). */
  deadline_seconds: seconds.optional(),
});

/** Section 9.10. Shares are fractions of the pool, per key. */
export const sharesAnswer = z
  .object({
    pool: z.string(),
    /** Groups and policies below what they belong to, then operations by age; components out of reach are left out. */
    elements: z.array(elementAnswer),
    allocations: z.array(z.object({ request_id: z.string(), group: allocationGroup })),
    /** Groups whose members are guaranteed more than there is. */
    overcommitted: z.array(z.string()),
  })
  .meta({ id: "Shares" });
export type WireShares = z.infer<typeof sharesAnswer>;

const effects = {
  granted: z.array(party.extend({ pool: z.string().nullable() })),
  preempted: z.array(
    party.extend({
      pool: z.string(),
      reason: preemptionReason,
      for_request: z.string().nullable(),
    }),
  ),
  rejected: z.array(party.extend({ reasons: z.array(rejectionReason) })),
  cancelled: z.array(party),
  /** `at`: when, unless it ends before; left out: at once. */
  stopped: z.array(party.extend({ at: z.string().optional() })),
  /** Whose attempt ends with its node. */
  lost: z.array(party),
};

/** Units by key, before and after the change; null where the thing does not exist. */
const beforeAndAfter = z.object({
  before: z.record(z.string(), z.number()).nullable(),
  after: z.record(z.string(), z.number()).nullable(),
});

const account = z.object({
  pool: z.string(),
  kind: z.enum(["policy", "group"]),
  /** The component of a policy; null: the caller may not know it. */
  name: z.string().nullable(),
  usage: beforeAndAfter,
  /** Above what is reserved. */
  borrowed: beforeAndAfter,
  /** Above the limit (P7). */
  debt: beforeAndAfter,
  /** Null outside `fair_share`. */
  fair_share: beforeAndAfter,
});

const planned = {
  /** The plan is exact as long as no pool that it touches has changed since this event: `If-Match` takes it (X3). */
  at_seq: z.int(),
  /** Policies and groups of the pools that the change touches. */
  accounts: z.array(account),
  /** What cannot be kept, or looks like a slip, after the change and not before it. */
  warnings: z.array(z.string()),
};

/** What a change would do (P10); nothing has happened. */
export const plan = z.object({ dry_run: z.literal(true), ...effects, ...planned }).meta({ id: "DryRun" });
export type WirePlan = z.infer<typeof plan>;

const HORIZON_SECONDS_MAX = 7 * 86_400;
const PLANNED_CHANGES_MAX = 1_000;

/** Calls of this API that change pools, groups, policies, nodes or requests, in the order in which they would be made. */
export const planRequest = z.strictObject({
  changes: z
    .array(
      z.strictObject({
        method: z.enum(["POST", "PUT", "PATCH", "DELETE"]),
        /** With the query, such as `/v1/pools/lab?force=true`. */
        path: z.string().min(1).max(2_048),
        body: z.unknown().optional(),
      }),
    )
    .min(1)
    .max(PLANNED_CHANGES_MAX),
  /** How far to look ahead, at what starts earlier or later; left out: only at what happens at once. */
  horizon_seconds: z.number().int().min(1).max(HORIZON_SECONDS_MAX).optional(),
  /** Which new requests come meanwhile. */
  arrivals: z.enum(["none"]).optional(),
});
export type WirePlanRequest = z.infer<typeof planRequest>;

export const planAnswer = z
  .object({
    ...planned,
    /** Whether the changes were made. */
    applied: z.boolean(),
    now: z.object(effects),
    /** Null without a horizon. */
    later: z
      .object({
        /** Requests that start at another time; null: not within the horizon. */
        moved: z.array(
          party.extend({ starts_before: z.string().nullable(), starts_after: z.string().nullable() }),
        ),
        /** Unit-seconds of work that preemptions would throw away. */
        lost_unit_seconds: beforeAndAfter,
        /** Runs end at their walltime; how far the comparison goes. */
        basis: z.literal("by_walltimes"),
        until: z.string(),
        truncated: z.boolean(),
      })
      .nullable(),
  })
  .meta({ id: "Plan" });
export type WirePlanAnswer = z.infer<typeof planAnswer>;

export const serverSettings = z.strictObject({
  /** What happens to requests of components without any policy (A4). */
  unmanaged: z.enum(["reject", "allow"]),
});

// --- Tokens, audit, the server itself

export const tokenCreation = z.strictObject({
  name,
  role: givenRole,
  /** Left out or null: all of them. Tokens of role `user` must name theirs. */
  components: z.array(name).max(1_000).nullable().optional(),
  pools: z.array(name).max(1_000).nullable().optional(),
  permissions: z.array(extraPermission).max(10).optional(),
  /** As whom its jobs may run, the first by default; the machine has the last word (E6). Left out: as its role may say. */
  run_as: z.array(name).min(1).max(100).optional(),
  /** Left out: 90 days. Null: never. */
  expires_in_seconds: seconds.nullable().optional(),
});
export type WireTokenCreation = z.infer<typeof tokenCreation>;

export const tokenAnswer = z
  .object({
    id: z.string(),
    name: z.string(),
    role,
    components: z.array(z.string()).nullable(),
    pools: z.array(z.string()).nullable(),
    permissions: z.array(extraPermission),
    /** Null: operators and administrators may name any user, others none. */
    run_as: z.array(z.string()).nullable(),
    created_at: timestamp,
    expires_at: timestamp.nullable(),
    revoked_at: timestamp.nullable(),
    /** Only in the answer that created it; nobody can read it again. */
    secret: z.string().optional(),
  })
  .meta({ id: "Token" });
export type WireToken = z.infer<typeof tokenAnswer>;
export const tokenPage = pageOf(tokenAnswer, "TokenPage");

export const identityAnswer = z
  .object({
    name: z.string(),
    token_id: z.string(),
    role,
    components: z.array(z.string()).nullable(),
    pools: z.array(z.string()).nullable(),
    permissions: z.array(z.string()),
    run_as: z.array(z.string()).nullable(),
    expires_at: timestamp.nullable(),
    time: timestamp.optional().describe("Time in the cluster, which never goes back."),
  })
  .meta({ id: "Identity" });
export type WireIdentity = z.infer<typeof identityAnswer>;

export const auditAnswer = z
  .object({
    id: z.int(),
    seq: z.int(),
    at: timestamp,
    actor: z.string(),
    action: z.string(),
    target: z.string(),
    outcome: z.string(),
    details: z.unknown(),
    hash: z.string(),
  })
  .meta({ id: "AuditEntry" });
export const auditPage = pageOf(auditAnswer, "AuditPage");
export type WireAudit = z.infer<typeof auditAnswer>;

/** The servers on one store, and which of them leads. */
export const clusterAnswer = z
  .object({
    role: z.enum(["leader", "follower"]).describe("Of the server that answers."),
    epoch: z.int(),
    seq: z.int().describe("Of the last event in the journal."),
    leader: z.string().nullable().describe("Id of the server that leads; null while none does."),
    behind_seconds: z.number().describe("How old the answers of this server may be."),
    leader_changes: z.int().describe("Seen by this server since it started."),
    history_lost: z
      .object({ lost_from: z.int(), lost_to: z.int(), epoch: z.int(), why: z.string() })
      .nullable()
      .describe(
        "The last loss of acknowledged events that this server has found and declared: the database was restored, or promoted too early. None is known to be lost if lost_to is below lost_from.",
      ),
    has_hint: z
      .boolean()
      .describe("Whether this server holds the lock by which the death of a leader is noticed at once."),
    database_path: z
      .enum(["direct", "pooler"])
      .nullable()
      .describe(
        "How this server reaches the database. Through a pooler there is no such lock. Null: not known yet, or a store of its own.",
      ),
    members: z.array(
      z.object({
        id: z.string(),
        url: z.string().nullable(),
        version: z.string(),
        seq: z.int(),
        leads: z.boolean(),
      }),
    ),
  })
  .meta({ id: "Cluster" });
export type WireCluster = z.infer<typeof clusterAnswer>;

export const healthAnswer = z.object({ status: z.enum(["ok", "unavailable"]) }).meta({ id: "Health" });
export const versionAnswer = z.object({
  name: z.literal("berth"),
  version: z.string(),
  api: z.literal("v1"),
});
