// Keeps a grant alive: renews it in the background, and says what the server wants of its holder (L1).
//
// Invariants
//   1. Silence is measured from the moment at which the last confirmed renewal was sent, so that a holder stops no later
//      than the server counts it as lost (L2): by the monotonic clock, which jumps of the wall clock do not touch, and by
//      the wall clock, which goes on while the machine sleeps. If only the latter says so, the server is asked first.
//   2. The server keeps the timers of the stopping sequence (11): nothing here ends work on its own account.
//   3. An answer that the token is old is final.

import type { WireEvent, WireRenewal, WireRenewalAnswer } from "../protocol/index.ts";
import { type BerthError, isBerthError } from "./errors.ts";
import { monotonicMs, sleep } from "./timing.ts";
import type { Transport } from "./transport.ts";
import type { GrantedRequest } from "./waiting.ts";
import { watchRequest } from "./watch.ts";

export interface Instruction {
  readonly do: "carry_on" | "checkpoint" | "stop";
  /** Why, in a word: `reclaim`, `walltime`, `cancellation`, … */
  readonly reason: string;
  /** How much time is left, from now; measured by the server, so that clocks may differ. */
  readonly leftMs: number;
  /** The same as a point in time, by the server's clock: to tell how far it was moved. */
  readonly deadlineMs: number | undefined;
}

export interface LeaseHandlers {
  /** Called when it has changed; the first time only if it is not `carry_on`. */
  onInstruction(instruction: Instruction): void;
  /** The lease lasts for so much longer. Not called for work that is over at once. */
  onLease?(leftMs: number): void;
  /** A full lease without contact: the server may soon give the units to others. */
  onSilence(): void;
  /** The server has answered again, and the grant is still ours. */
  onContact(): void;
  /** The grant is lost for good. Called once, and nothing after it. */
  onLoss(error: BerthError): void;
}

export interface Lease {
  /** Shown by the server from the next renewal on. */
  describe(state: Pick<WireRenewal, "phase" | "progress">): void;
  /** Asks for instructions now. */
  renew(): void;
  /** What the server's clock shows now, as far as its last answer tells. */
  serverTimeMs(): number;
  close(): void;
}

/** Work that is over sooner needs neither renewals nor ears. */
const QUIET_START_MS = 100;
const LEASE_MS_DEFAULT = 300_000;
const RENEWAL_MS_DEFAULT = 20_000;
/** After a deadline of the stopping sequence the server has decided what comes next. */
const AFTER_DEADLINE_MS = 20;
const RETRY_MS = 1_000;
const EARS_MS_MAX = 1_000;
/** Timers stand still while the machine sleeps, so the clocks are compared this often. */
const SLEEP_CHECK_MS = 5_000;
/** How long a server may take to confirm a lease after the machine has slept. */
const AFTER_SLEEP_MS = 5_000;

export function keepLease(
  transport: Transport,
  request: GrantedRequest,
  handlers: LeaseHandlers,
  /** When the call was sent that brought the grant. */
  grantedAtMs = monotonicMs(),
): Lease {
  const { id, token } = request;
  const closed = new AbortController();
  const { signal } = closed;
  let confirmedAtMs = grantedAtMs;
  /** The server's clock minus our monotonic one. */
  let serverAheadMs = Date.parse(request.started_at ?? "") - grantedAtMs || Date.now() - monotonicMs();
  let leaseMs = firstLeaseMs(request);
  let renewalMs = Math.min(RENEWAL_MS_DEFAULT, leaseMs / 3);
  let confirmedAtWallMs = Date.now();
  let isSilent = false;
  let hasSlept = false;
  let isStopping = false;
  let told = "";
  let state: Pick<WireRenewal, "phase" | "progress"> = { phase: "running" };
  let deadlineAtMs = Number.POSITIVE_INFINITY;
  let wake = new AbortController();
  let isAsked = false;
  let silenceTimer: ReturnType<typeof setTimeout> | undefined;

  function watchSilence(): void {
    const leftMs = confirmedAtMs + leaseMs - monotonicMs();
    const leftWallMs = confirmedAtWallMs + leaseMs - Date.now();
    if (leftMs <= 0 || (leftWallMs <= 0 && hasSlept)) {
      isSilent = true;
      return handlers.onSilence();
    }
    if (leftWallMs <= 0) {
      hasSlept = true;
      renew();
    }
    lookAgain(hasSlept ? AFTER_SLEEP_MS : Math.min(leftWallMs, SLEEP_CHECK_MS));
  }

  function lookAgain(afterMs: number): void {
    clearTimeout(silenceTimer);
    const leftMs = Math.max(0, confirmedAtMs + leaseMs - monotonicMs());
    silenceTimer = setTimeout(watchSilence, Math.min(leftMs, afterMs));
  }

  function accept(answer: WireRenewalAnswer, sentAtMs: number, sentAtWallMs: number): void {
    confirmedAtMs = sentAtMs;
    confirmedAtWallMs = sentAtWallMs;
    hasSlept = false;
    leaseMs = answer.lease_seconds * 1000;
    serverAheadMs = serverTimeOf(answer) - monotonicMs();
    renewalMs = Math.min(answer.renew_after_seconds * 1000, leaseMs / 3);
    lookAgain(SLEEP_CHECK_MS);
    tellLease();
    if (isSilent) {
      isSilent = false;
      handlers.onContact();
    }
    follow(instructionOfAnswer(answer));
  }

  function tellLease(): void {
    handlers.onLease?.(confirmedAtMs + leaseMs - monotonicMs());
  }

  function follow(instruction: Instruction): void {
    isStopping = instruction.do !== "carry_on";
    const isPast = instruction.leftMs <= 0;
    deadlineAtMs = isStopping && !isPast ? monotonicMs() + instruction.leftMs : Number.POSITIVE_INFINITY;
    const news = `${instruction.do} ${instruction.reason} ${instruction.deadlineMs} ${isPast}`;
    if (news === told || (told === "" && !isStopping)) return;
    told = news;
    handlers.onInstruction(instruction);
  }

  /** The event of a preemption has all that its victim must know (11.1); anything else comes with the next renewal. */
  function hear(event?: WireEvent): void {
    if (event?.event === "request.preempting") follow(instructionOfEvent(event));
    renew();
  }

  async function renewOnce(): Promise<void> {
    const body: WireRenewal = { token, ...state };
    // One try per server: the next turn tries again, and the silence is watched meanwhile.
    const options = { signal, retryForMs: 0, timeoutMs: Math.max(500, Math.min(10_000, leaseMs / 3)) };
    const sentAtWallMs = Date.now();
    const received = await transport.send("renewRequest", { params: { id }, body }, options);
    if (!signal.aborted) accept(received.body, received.sentAtMs, sentAtWallMs);
  }

  async function run(): Promise<void> {
    await pause(QUIET_START_MS);
    if (signal.aborted) return;
    tellLease();
    const until = () => (isStopping ? ("change" as const) : ("preempting" as const));
    void watchRequest(transport, id, { signal, onChange: hear, until });
    await pause(Math.min(renewalMs, EARS_MS_MAX)); // Until the ears are open, which ask at once.
    while (!signal.aborted) {
      isAsked = false;
      let pauseMs = renewalMs * (0.8 + 0.4 * transport.random());
      try {
        await renewOnce();
        pauseMs = renewalMs * (0.8 + 0.4 * transport.random());
      } catch (error) {
        if (signal.aborted) return;
        if (isBerthError(error, "stale_token", "not_found")) return lose(error);
        pauseMs = Math.min(pauseMs, RETRY_MS * (0.5 + transport.random()));
      }
      if (!isAsked) await pause(Math.min(pauseMs, deadlineAtMs - monotonicMs() + AFTER_DEADLINE_MS));
    }
  }

  async function pause(ms: number): Promise<void> {
    wake = new AbortController();
    await sleep(ms, AbortSignal.any([wake.signal, signal]));
  }

  function renew(): void {
    isAsked = true;
    wake.abort();
  }

  function lose(error: BerthError): void {
    close();
    handlers.onLoss(error);
  }

  function close(): void {
    clearTimeout(silenceTimer);
    closed.abort();
  }

  lookAgain(SLEEP_CHECK_MS);
  void run();
  return {
    describe: (next) => {
      state = { ...state, ...next };
    },
    renew,
    serverTimeMs: () => Math.round(monotonicMs() + serverAheadMs),
    close,
  };
}

/** When the answer was made: it gives the lease its full length. */
function serverTimeOf({ lease_expires_at, lease_seconds }: WireRenewalAnswer): number {
  return Date.parse(lease_expires_at) - lease_seconds * 1000;
}

/** A grant that was never renewed tells how long its lease is. */
function firstLeaseMs({ lease_expires_at, started_at }: GrantedRequest): number {
  const ms = Date.parse(lease_expires_at ?? "") - Date.parse(started_at ?? "");
  return ms > 0 ? ms : LEASE_MS_DEFAULT;
}

/** Both times are of the server: their difference holds whatever our own clock says. */
function instructionOfAnswer(answer: WireRenewalAnswer): Instruction {
  const { instruction } = answer;
  const serverNowMs = serverTimeOf(answer);
  const { reason = "", deadline } = instruction;
  const deadlineMs = deadline === undefined ? undefined : Date.parse(deadline);
  const leftMs = Math.max(0, (deadlineMs ?? serverNowMs) - serverNowMs);
  return { do: instruction.do, reason, leftMs, deadlineMs };
}

function instructionOfEvent({ at, reason, phase, deadline }: WireEvent): Instruction {
  const deadlineMs = Date.parse(deadline as string);
  return {
    do: phase === "checkpoint" ? "checkpoint" : "stop",
    reason: String(reason),
    leftMs: Math.max(0, deadlineMs - Date.parse(at as string)),
    deadlineMs,
  };
}
