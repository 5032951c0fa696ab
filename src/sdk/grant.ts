// A grant in the hands of a program: what it may use, when it must stop, and how it says that it has saved.

import type { WireRelease, WireRequest } from "../protocol/index.ts";
import { BerthError } from "./errors.ts";
import { type Instruction, keepLease } from "./lease.ts";
import type { Transport } from "./transport.ts";
import type { GrantedRequest } from "./waiting.ts";

export interface CheckpointNotice {
  readonly reason: string;
  /** By the clock of this machine. */
  readonly deadline: Date;
}

export type CheckpointCallback = (notice: CheckpointNotice) => void | Promise<void>;

export interface Grant {
  readonly request: WireRequest;
  readonly id: string;
  readonly number: number;
  /** Null: outside all pools. */
  readonly pool: string | null;
  /** The fencing token: grows with every grant, and what is written under an old one can be recognised. */
  readonly token: string;
  readonly attempt: number;
  /** A checkpoint of an earlier attempt is complete. */
  readonly resume: boolean;
  readonly resources: Readonly<Record<string, number>>;
  readonly placement: WireRequest["placement"];
  /** Aborted when the work must stop now. Its reason is a `BerthError` that says why. */
  readonly signal: AbortSignal;
  /** Called when a checkpoint is wanted. When it resolves, the checkpoint is complete, unless it has reported itself. */
  onCheckpoint(callback: CheckpointCallback): void;
  readonly checkpoint: {
    /** It is saved; also between preemptions, so that less is lost with the next one. */
    done(): Promise<void>;
    /** All of the work is done: its end is a success, though it is being stopped (11.4). */
    finished(): void;
    /** Still at it: may earn half the time again (11). */
    progress(): Promise<void>;
    /** Asks for more time; the answer is how much of it was granted. */
    defer(seconds: number): Promise<number>;
  };
  /** Whether the end of the work is the stop that was asked for: it was asked to stop or has saved, and has not said that it is finished (11.4). */
  wasStopped(): boolean;
  /** Shown by the server while the work runs. */
  describe(progress: string | number): void;
  /** Reports the end; the answer says whether there is another attempt. Once, and the first one counts. */
  release(outcome: WireRelease["outcome"], details?: ReleaseDetails): Promise<WireRequest>;
  /** Stops renewing without a report: another process makes it. */
  abandon(): void;
}

export type ReleaseDetails = Omit<WireRelease, "token" | "outcome"> & { readonly retryForMs?: number };

/** The server has freed the units by itself after one and a half of the longest usual lease. */
const RELEASE_FOR_MS = 450_000;

export function holdGrant(transport: Transport, request: GrantedRequest): Grant {
  const { id, token } = request;
  const stopping = new AbortController();
  let callback: CheckpointCallback | undefined;
  let notice: CheckpointNotice | undefined;
  /** Of the checkpoint, by the server's clock. */
  let deadlineMs: number | undefined;
  let isCalled = false;
  let hasReported = false;
  let hasSaved = false;
  let hasFinished = false;
  let isToldToStop = false;
  let released: Promise<WireRequest> | undefined;

  const report = async (body: { report: "done" | "progress" | "defer"; seconds?: number }) => {
    const answer = await transport.send("checkpointRequest", { params: { id }, body: { token, ...body } });
    lease.renew();
    return answer.body;
  };
  const checkpoint: Grant["checkpoint"] = {
    done: async () => {
      hasReported = true;
      if (notice !== undefined) hasSaved = true;
      await report({ report: "done" });
    },
    finished: () => {
      hasFinished = true;
    },
    progress: async () => void (await report({ report: "progress" })),
    defer: async (seconds) => {
      const beforeMs = deadlineMs;
      const { stop } = await report({ report: "defer", seconds });
      deadlineMs = stop === null ? undefined : Date.parse(stop.deadline);
      return beforeMs === undefined || deadlineMs === undefined
        ? 0
        : Math.max(0, deadlineMs - beforeMs) / 1000;
    },
  };

  function askForCheckpoint(): void {
    if (callback === undefined || notice === undefined || isCalled) return;
    isCalled = true;
    const saved = async () => {
      await callback?.(notice as CheckpointNotice);
      if (!hasReported) await checkpoint.done();
    };
    // A checkpoint that fails is one that never completes: the server's deadline ends the work (11.2).
    void saved().catch(() => undefined);
  }

  const lease = keepLease(transport, request, {
    onInstruction: (instruction) => {
      if (instruction.do === "stop") {
        isToldToStop = true;
        stopping.abort(reasonToStop(instruction));
      }
      deadlineMs = instruction.deadlineMs;
      if (instruction.do !== "checkpoint") return;
      notice = { reason: instruction.reason, deadline: new Date(Date.now() + instruction.leftMs) };
      askForCheckpoint();
    },
    onSilence: () => stopping.abort(outOfTouch()),
    onContact: () => undefined,
    onLoss: (error) => {
      // After our own report the token is old, and that is no loss.
      if (released === undefined) stopping.abort(error);
    },
  });

  return {
    request,
    id,
    number: request.number,
    pool: request.pool,
    token,
    attempt: request.attempt,
    resume: request.resume,
    resources: request.resources,
    placement: request.placement,
    signal: stopping.signal,
    onCheckpoint: (given) => {
      callback = given;
      askForCheckpoint();
    },
    checkpoint,
    wasStopped: () => (isToldToStop || hasSaved) && !hasFinished,
    describe: (progress) => lease.describe({ progress }),
    release: (outcome, { retryForMs = RELEASE_FOR_MS, ...details } = {}) => {
      const ended_at = new Date(lease.serverTimeMs()).toISOString();
      released ??= transport
        .send(
          "releaseRequest",
          { params: { id }, body: { token, outcome, ended_at, ...details } },
          { retryForMs },
        )
        .then(({ body }) => body)
        .finally(() => lease.close());
      return released;
    },
    abandon: () => lease.close(),
  };
}

/** What an instruction to stop means, as an error. */
export function reasonToStop({ reason }: Instruction): BerthError {
  if (reason === "cancellation") return new BerthError("cancelled", "The request was cancelled.");
  if (reason === "walltime") return new BerthError("walltime_over", "The work has reached its walltime.");
  return new BerthError("preempted", `The work was preempted (${reason}).`);
}

function outOfTouch(): BerthError {
  return new BerthError(
    "holder_lost",
    "No server has answered for a whole lease; the units may go to others.",
  );
}
