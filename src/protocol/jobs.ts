// Jobs: requests that Berth starts itself (J1–J9), and what a node's agent and the server say to each other (E1–E3).
//
// The server owns what should run where; the agent owns what does run there, and how it ended. Each tells the other
// the whole of it in every sync, so that a lost, late or repeated one does no harm.

import { z } from "zod";
import { amounts, labels, moment, name, note, seconds, timestamp } from "./common.ts";
import {
  LOG_PIECE_CHARS_MAX,
  RUN_BYTES_MAX,
  RUN_WORDS_MAX,
  SYNC_JOBS_MAX,
  SYNC_NODES_MAX,
} from "./limits.ts";

const grantToken = z.string().min(1).max(128);

// --- What to run (J2)

/** A word of a command or a value of the environment: anything that a process can be given. */
const word = z.string();

export const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,254}$/, "is not the name of a variable");

export const onLost = z.enum(["suspend", "kill", "run-on"]);

/** Where nothing of it is input to a decision: it is never in events, in the audit log or in logs. */
export const run = z
  .strictObject({
    /** Words, no shell. */
    command: z.array(word).min(1).max(RUN_WORDS_MAX),
    /** Where it runs; left out: the home of the user that it runs as. */
    directory: z.string().min(1).max(4_096).optional(),
    /** All that it gets beside `BERTH_…`, `HOME`, `USER`, `PATH` and its devices. Values are shown to the submitter only. */
    environment: z.record(variableName, word).optional(),
    /** Names of variables that are filled where it runs. */
    secrets: z.array(variableName).max(64).optional(),
    /** As whom; the machine has the last word (E6). */
    user: name.optional(),
    /** For Kubernetes. */
    image: z.string().min(1).max(1_024).optional(),
    /** Sent to the command when a checkpoint is asked for, such as SIGUSR1. */
    checkpoint_signal: z
      .string()
      .regex(/^SIG[A-Z0-9+-]{2,12}$/, "is not the name of a signal")
      .optional(),
    /** Run beside the command when a checkpoint is asked for; its success counts as a completed checkpoint. */
    checkpoint_command: z.array(word).min(1).max(RUN_WORDS_MAX).optional(),
    /** What its node does with it after two thirds of `node_lost_seconds` without any server (E3). */
    on_lost: onLost.optional(),
  })
  .refine((wanted) => JSON.stringify(wanted).length <= RUN_BYTES_MAX, `is larger than ${RUN_BYTES_MAX} bytes`)
  .meta({ id: "Run" });
export type WireRun = z.infer<typeof run>;

/** J4. What has ended has no phase. */
export const jobPhase = z.enum(["assigned", "starting", "running", "checkpointing", "stopping", "silent"]);
export type WireJobPhase = z.infer<typeof jobPhase>;

export const exitReason = z.enum([
  "exited",
  "oom",
  "walltime",
  "preempted",
  "cancelled",
  "lost",
  "start_failed",
]);

export const exitAnswer = z.object({
  reason: exitReason,
  exit_code: z.int().nullable(),
  /** Such as SIGSEGV. */
  signal: z.string().nullable(),
  message: z.string().nullable(),
});

// --- Dependencies and arrays (J9)

/** `ok`: it ended well; `any`: it ended. */
export const dependency = z.strictObject({
  /** An id, or the small number. */
  id: z.string().min(1).max(64),
  when: z.enum(["ok", "any"]).default("ok"),
});

/** A member of an array: its number, and how many of the operation may be in the queue or running at once. */
export const arrayMember = z.strictObject({
  index: z.int().min(0).max(1_000_000),
  /** Left out: all of them. */
  at_once: z.int().min(1).optional(),
});

// --- Enrolment (E1)

export const enrolment = z.strictObject({
  pool: name,
  /** The most that the machine may offer; left out: what its agent finds when it joins. */
  capacity: amounts.optional(),
});

export const enrolmentAnswer = z
  .object({
    node: z.string(),
    pool: z.string(),
    /** For `berth agent --join`: works once, until it expires, for this node only. */
    join_token: z.string(),
    expires_at: timestamp,
  })
  .meta({ id: "Enrolment" });
export type WireEnrolmentAnswer = z.infer<typeof enrolmentAnswer>;

/** The caller shows the join token as its API token. */
export const join = z.strictObject({
  /** What the machine has; bounded by what was enrolled. */
  capacity: amounts,
  labels: labels.optional(),
  topology: name.optional(),
});

export const joinAnswer = z
  .object({
    node: z.string(),
    pool: z.string(),
    /** The API token of this node from now on. */
    node_token: z.string(),
    capacity: amounts,
  })
  .meta({ id: "Joined" });
export type WireJoinAnswer = z.infer<typeof joinAnswer>;

// --- Sync (E2): what an agent says

/** How the part of an attempt on this node ended, in the words of 11.4. Sent only when nothing of it runs any more. */
export const partEnd = z.strictObject({
  outcome: z.enum(["succeeded", "failed", "stopped", "lost"]),
  exit_code: z.int().optional(),
  signal: z.string().max(32).optional(),
  cause: z.enum(["start_failed", "oom", "interrupted", "walltime"]).optional(),
  message: note.optional(),
  ended_at: moment.optional(),
  /** The last of its output, at most 64 KiB in all, in base64. */
  log_tail: z.array(z.base64().max(LOG_PIECE_CHARS_MAX)).max(2).optional(),
  /** How many bytes of output there were in all: the tail is the last of them. */
  log_bytes: z.int().min(0).optional(),
});

/** One attempt, as far as it is on this node. Listed until the server no longer lists its grant. */
export const runningPart = z.strictObject({
  request_id: z.string().max(64),
  token: grantToken,
  phase: z.enum(["starting", "running", "checkpointing", "stopping", "suspended", "ended"]),
  /** With `ended`, and only then. */
  end: partEnd.optional(),
  /** What it was given on this node: if the server has lost its grant, it keeps them until it ends (C14). */
  resources: amounts.optional(),
  devices: z.array(z.int().min(0)).max(256).optional(),
  /** For `berth job show`, such as what it says about its checkpoint. */
  progress: z.string().max(256).optional(),
  /** The ids of the signals that were delivered. */
  signals: z.array(z.int()).max(64).optional(),
  /** SIGKILL did not end it: its units stay in use, and an operator must look. */
  stuck: z.boolean().optional(),
});
export type WireRunningPart = z.infer<typeof runningPart>;

/** A GPU or the like, as the machine shows it. */
export const deviceReport = z.strictObject({
  index: z.int().min(0),
  model: z.string().max(128).optional(),
  uuid: z.string().max(128).optional(),
  /** Processes on it that Berth did not start. */
  strangers: z.int().min(0).optional(),
});

/** What the agent of a node and the adapter of a pool both say. */
const sync = z.strictObject({
  /** Names this process of the agent. */
  session: z.string().min(1).max(64),
  agent_version: z.string().max(64),
  /** The highest epoch and grant that the agent has seen (C14). */
  highest: z
    .strictObject({ epoch: z.int(), token: grantToken.optional(), request_id: z.string().max(64).optional() })
    .optional(),
  /** The `version` of the answer that the agent acts on; the server holds the call while it has no other. */
  seen: z.string().max(64).optional(),
  /** How long the server may hold the call. */
  wait_seconds: z.number().min(0).max(5).optional(),
  jobs: z.array(runningPart).max(SYNC_JOBS_MAX),
});

export const nodeSync = sync.extend({
  /** Of the machine: another one means that nothing runs any more of what was running. */
  boot_id: z.string().min(1).max(64),
  /** What the machine offers now: at most what was enrolled. */
  capacity: amounts.optional(),
  devices: z.array(deviceReport).max(256).optional(),
});
export type WireNodeSync = z.infer<typeof nodeSync>;

/** A machine of a cluster that an adapter looks after (21, 22). */
export const reportedNode = z.strictObject({
  name,
  /** What the cluster lets jobs use there. */
  capacity: amounts,
  /** `draining`: nothing new may start there, by the word of the cluster. */
  state: z.enum(["ready", "draining", "down"]),
  labels: labels.optional(),
  topology: name.optional(),
});
export type WireReportedNode = z.infer<typeof reportedNode>;

/** One adapter speaks for all of a pool. An attempt is one part there, however many nodes it has. */
export const poolSync = sync.extend({
  /** All machines of the cluster; left out: the pool's capacity is not the adapter's to say. */
  nodes: z.array(reportedNode).max(SYNC_NODES_MAX).optional(),
});
export type WirePoolSync = z.infer<typeof poolSync>;

// --- Sync: what the server answers

export const partInstruction = z.object({
  /** `stop` is SIGTERM, and SIGKILL when the time is over. */
  do: z.enum(["carry_on", "checkpoint", "stop"]),
  reason: z.string().optional(),
  deadline: timestamp.optional(),
  /** Until the deadline, by the clock of the server: that of the node may be wrong. */
  left_seconds: z.number().optional(),
});

/** One attempt that should be on this node. */
export const wantedPart = z.object({
  request_id: z.string(),
  number: z.int(),
  name: z.string(),
  component: z.string(),
  submitted_by: z.string(),
  operation: z.string().nullable(),
  attempt: z.int(),
  token: grantToken,
  /** Only if the sync did not list the grant. */
  run: run.optional(),
  resources: amounts,
  devices: z.array(z.int()),
  /** Which of the nodes this one is, and all of them in their order (E7). */
  rank: z.int(),
  nodes: z.array(z.string()),
  array_index: z.int().nullable(),
  checkpoint: z.enum(["none", "auto", "manual"]),
  /** A complete checkpoint of an earlier attempt exists. */
  resume: z.boolean(),
  grace_seconds: z.number(),
  /** How long it is given to save, when it is asked to. */
  checkpoint_seconds: z.number(),
  instruction: partInstruction,
  /** To be delivered once each; acknowledged by listing their ids. */
  signals: z.array(z.object({ id: z.int(), signal: z.string() })),
});
export type WireWantedPart = z.infer<typeof wantedPart>;

/** A log has a reader: the agent sends it piece by piece to `POST /v1/nodes/{node}/logs/{reader}`. */
export const wantedLog = z.object({
  reader: z.string(),
  request_id: z.string(),
  /** Of the attempt. */
  token: grantToken,
  /** Position from which on; below zero: that many bytes before the end. */
  from: z.int(),
  /** Go on while it grows. */
  follow: z.boolean(),
});

export const nodeSyncAnswer = z
  .object({
    /** Answers of an older epoch than one has seen are ignored. */
    epoch: z.int(),
    /** Names what follows; the same as long as nothing changes but the time that is left. */
    version: z.string(),
    state: z.enum(["ready", "draining", "drained", "suspect", "down"]),
    sync_after_seconds: z.number(),
    /** Silent for so long, the node is down, and all on it counts as lost (E3). */
    lost_after_seconds: z.number(),
    /** Whether `on_lost: run-on` is permitted. */
    may_run_on: z.boolean(),
    jobs: z.array(wantedPart),
    logs: z.array(wantedLog),
  })
  .meta({ id: "NodeSync" });
export type WireNodeSyncAnswer = z.infer<typeof nodeSyncAnswer>;

export const poolSyncAnswer = nodeSyncAnswer.omit({ state: true }).meta({ id: "PoolSync" });
export type WirePoolSyncAnswer = z.infer<typeof poolSyncAnswer>;

/** What a job says about its checkpoint, passed on by its agent at once (11.2). */
export const partCheckpoint = z.strictObject({
  request_id: z.string().max(64),
  token: grantToken,
  report: z.enum(["done", "progress", "defer"]),
  seconds: seconds.optional(),
});
export type WirePartCheckpoint = z.infer<typeof partCheckpoint>;

// --- Logs (J6)

export const logStream = z.enum(["stdout", "stderr"]);

/** A piece of the log of an attempt. Positions count the bytes of both streams together, in the order of their arrival. */
export const logPiece = z.strictObject({
  from: z.int().min(0),
  /** Bytes before `from` that are no longer there. */
  dropped: z.int().min(0).optional(),
  parts: z.array(z.strictObject({ stream: logStream, data: z.base64().max(LOG_PIECE_CHARS_MAX) })).max(256),
  /** Nothing follows. */
  is_end: z.boolean(),
  /** The agent has no log of this attempt. */
  is_missing: z.boolean().optional(),
});
export type WireLogPiece = z.infer<typeof logPiece>;

export const logPieceAnswer = z.object({
  /** Whether the reader still reads. */
  go_on: z.boolean(),
  /** The position that the reader has got to: the next piece begins here. */
  position: z.int(),
});
export type WireLogPieceAnswer = z.infer<typeof logPieceAnswer>;
