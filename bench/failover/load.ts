// The load of a proof: holders that submit, wait, renew and release at any server, and go on to the next one with the
// same key when it fails, as the clients of Berth do (C11). Beside them clients that stay with one server.

import { setTimeout as delay } from "node:timers/promises";
import type { Answer, Caller, CallOptions, Witness } from "./calls.ts";
import type { Cluster, Replica } from "./cluster.ts";
import { createHistory, type History, type Holding, type Submission, tokenNumber } from "./history.ts";
import { type LoyalClient, type Question, startLoyalClient } from "./loyal.ts";

export const TIGHT_CAPACITY = 4;
/** Holders count as lost after one and a half: less than the minute for which a database is away. */
const LEASE_SECONDS = 30;
const THINK_MS = 120;
const HOLD_MS_MAX = 600;
const LOYAL_EVERY_MS = 250;
/** One submission in so many goes without an idempotency key, once. */
const KEYLESS_PART = 0.15;
/** Servers with a planted fault may need more than one. */
const ATTEMPTS_MAX = 20;
/** Answers that are asked for again at the end. */
const REPEATED = 100;

export interface Load {
  readonly history: History;
  /** Changes that were acknowledged so far. */
  acknowledged(): number;
  /** Submits at this server, once; for measuring. */
  submitAt(replica: Replica, timeoutMs: number): Promise<Answer>;
  /** What is under way is finished; then some of it is asked for again. */
  finish(): Promise<void>;
}

export interface LoadOptions {
  readonly cluster: Cluster;
  readonly call: Caller;
  readonly witness: Witness;
  readonly random: () => number;
  readonly workers: number;
}

export async function preparePools(call: Caller, replica: Replica): Promise<void> {
  const settings = { lease_seconds: LEASE_SECONDS, renewal_seconds: 2 };
  const must = async (path: string, body: object) => {
    for (let attempt = 1; ; attempt++) {
      const { status, body: told } = await call(replica, "PUT", path, { body, timeoutMs: 10_000 });
      if (status < 300) return;
      if (status < 500 || attempt === ATTEMPTS_MAX)
        throw new Error(`${path} was answered with ${status}: ${JSON.stringify(told)}`);
      await delay(500);
    }
  };
  await must("/v1/pools/tight", { capacity: { slot: TIGHT_CAPACITY }, settings });
  await must("/v1/pools/wide", { capacity: { slot: 1_000_000 }, settings: { lease_seconds: 3_600 } });
  await must("/v1/pools/tight/policies/tight", { priority: 0 });
  await must("/v1/pools/wide/policies/wide", { priority: 0 });
}

export function startLoad({ cluster, call, witness, random, workers }: LoadOptions): Load {
  const { replicas } = cluster;
  const history = createHistory();
  let made = 0;
  let isFinishing = false;
  let lastReleased: { readonly id: string; readonly grant: string } | undefined;

  /** Until it is answered, at one server after the other. */
  async function insist(
    start: number,
    method: "GET" | "POST",
    path: string,
    options: CallOptions,
  ): Promise<Answer> {
    for (let turn = start; ; turn++) {
      try {
        const answer = await call(replicas[turn % replicas.length]!, method, path, options);
        if (answer.status < 500) return answer;
      } catch {
        // Broken, or silent: the next server.
      }
      history.retries++;
      await delay(20 + random() * 80);
    }
  }

  function refuse(what: string, { status, body }: Answer): undefined {
    history.refused.push(`${what} was refused with ${status} ${String(body?.code)}`);
  }

  function begin(component: string, isRepeatable: boolean): Submission {
    const submission = { key: `k${++made}`, component, isRepeatable, sentMs: performance.now() };
    history.submissions.push(submission);
    return submission;
  }

  function bodyOf({ component, key }: Submission): object {
    // A request that is lost is not started again: no client would hold it.
    return { component, resources: { slot: 1 }, requeue: "never", labels: { key } };
  }

  function told(submission: Submission, answer: Answer): boolean {
    if (answer.status !== 201) return refuse(submission.key, answer) ?? false;
    const { id, number } = answer.body;
    submission.told = { id, number, receivedMs: answer.receivedMs };
    return true;
  }

  async function submit(home: number, component: string): Promise<{ answer: Answer; askedMs: number }> {
    const submission = begin(component, true);
    const options = { body: bodyOf(submission), key: submission.key };
    const answer = await insist(home, "POST", "/v1/resource-requests", options);
    told(submission, answer);
    return { answer, askedMs: submission.sentMs };
  }

  /** A call without a key is answered or not; no server may repeat it. */
  async function submitKeyless(home: number): Promise<void> {
    const submission = begin("wide", false);
    const body = bodyOf(submission);
    try {
      const answer = await call(replicas[home % replicas.length]!, "POST", "/v1/resource-requests", { body });
      if (answer.status < 500) told(submission, answer);
    } catch {
      // Nobody knows whether it took effect.
    }
  }

  async function untilGranted(home: number, submitted: Answer): Promise<Answer | undefined> {
    let answer = submitted;
    while (answer.body.status === "queued") {
      const path = `/v1/resource-requests/${submitted.body.id}?wait=2&until=allocated`;
      const options = { minSeq: submitted.seq, timeoutMs: 6_000 };
      answer = await insist(home, "GET", path, options);
      if (answer.status !== 200) return refuse(`waiting for ${submitted.body.id}`, answer);
    }
    return answer.body.status === "allocated" ? answer : refuse(`holding ${submitted.body.id}`, answer);
  }

  /** False: the servers have ended it. */
  async function renew(home: number, holding: Holding, grant: string): Promise<boolean> {
    const sentMs = performance.now();
    const path = `/v1/resource-requests/${holding.requestId}/renew`;
    const { status, body } = await insist(home, "POST", path, { body: { token: grant } });
    history.renewals++;
    if (status !== 200 || body.instruction?.do !== "carry_on") {
      const said = `${status} ${String(body?.code ?? body?.instruction?.do)}`;
      history.endedHolders.push(`${holding.requestId}, grant ${holding.token}: its renewal got ${said}`);
      return false;
    }
    holding.untilMs = Math.max(holding.untilMs, sentMs);
    return true;
  }

  async function release(home: number, holding: Holding, grant: string): Promise<void> {
    const { requestId } = holding;
    const key = `${requestId}.end`;
    const sentMs = performance.now();
    const options = { body: { token: grant, outcome: "succeeded" }, key };
    const answer = await insist(home, "POST", `/v1/resource-requests/${requestId}/release`, options);
    if (answer.status !== 200) {
      history.endedHolders.push(
        `${requestId}, grant ${holding.token}: its release got ${answer.status} ${String(answer.body?.code)}`,
      );
      return;
    }
    holding.untilMs = sentMs;
    history.releases.push({ requestId, key, grant, told: shown(answer) });
    lastReleased = { id: requestId, grant };
    if (random() < 0.3) await readAfter(answer, requestId);
  }

  /** A client that has seen an answer reads at least that, at every server (C8). */
  async function readAfter({ seq }: Answer, id: string): Promise<void> {
    const at = Math.floor(random() * replicas.length);
    const answer = await insist(at, "GET", `/v1/resource-requests/${id}`, { minSeq: seq, timeoutMs: 6_000 });
    if (answer.status === 200 && answer.body.status === "released") return;
    history.stale.push(`${id} was released at event ${seq} and is read as ${answer.body?.status} after that`);
  }

  async function live(home: number): Promise<void> {
    while (!isFinishing) {
      await delay(random() * 2 * THINK_MS);
      if (random() < KEYLESS_PART) await submitKeyless(home);
      const { answer, askedMs } = await submit(home, home % 3 === 0 ? "wide" : "tight");
      if (answer.status !== 201) continue;
      const granted = await untilGranted(home, answer);
      if (granted === undefined) continue;
      const { id, pool, token: grant } = granted.body;
      const fromMs = granted.receivedMs;
      const holding: Holding = {
        ...{ requestId: id, pool, token: tokenNumber(grant), askedMs, fromMs, untilMs: fromMs },
      };
      history.holdings.push(holding);
      const turns = Math.floor(random() * 3);
      let isHeld = true;
      for (let turn = 0; isHeld && turn < turns; turn++) {
        isHeld = await renew(home, holding, grant);
        await delay(random() * (HOLD_MS_MAX / 2));
      }
      if (isHeld) await release(home, holding, grant);
    }
  }

  /**
   * Reads, renewals and submissions in turn; the first two of something that was released before they were sent. On one
   * connection answers come in order, so that a change which waits for the database holds up the reads behind it: other
   * clients read nothing but a pool, which servers answer from memory.
   */
  function loyalQuestions(isReader: boolean): () => Question | undefined {
    let turn = 0;
    return () => {
      turn++;
      if (isReader)
        return { what: "reading a pool", method: "GET", path: "/v1/pools/tight", judge: () => undefined };
      if (turn % 4 === 3) return loyalSubmission();
      if (lastReleased === undefined) return undefined;
      const { id, grant } = lastReleased;
      const path = `/v1/resource-requests/${id}`;
      if (turn % 4 === 1) {
        const judge = (answer: Answer) => {
          if (answer.status >= 500) return;
          if (answer.status === 200 && answer.role === "leader")
            history.stale.push(`a renewal of ${id} was granted after its release`);
        };
        const what = `renewal of ${id}`;
        return { what, method: "POST", path: `${path}/renew`, body: { token: grant }, judge };
      }
      return {
        what: `reading ${id}`,
        method: "GET",
        path,
        judge(answer) {
          if (answer.role !== "leader" || answer.status !== 200 || answer.body.status === "released") return;
          history.stale.push(`a leader showed ${id} as ${answer.body.status} after its release`);
        },
      };
    };
  }

  function loyalSubmission(): Question {
    const submission = begin("wide", false);
    return {
      what: `submission ${submission.key}`,
      method: "POST",
      path: "/v1/resource-requests",
      body: bodyOf(submission),
      judge(answer) {
        if (answer.status < 500) told(submission, answer);
      },
    };
  }

  async function repeatSome(): Promise<void> {
    for (let count = Math.min(REPEATED, history.releases.length); count > 0; count--) {
      const chosen = history.releases[Math.floor(random() * history.releases.length)]!;
      const { requestId, key, grant, told: before } = chosen;
      const options = { body: { token: grant, outcome: "succeeded" }, key };
      const answer = await insist(count, "POST", `/v1/resource-requests/${requestId}/release`, options);
      const now = shown(answer);
      if (now !== before) history.contradicted.push(`${key}: "${before}" first, then "${now}"`);
    }
    const acknowledged = history.submissions.filter(({ told, isRepeatable }) => told && isRepeatable);
    for (let count = Math.min(REPEATED, acknowledged.length); count > 0; count--) {
      const submission = acknowledged[Math.floor(random() * acknowledged.length)]!;
      const { key, told: { id } = { id: "" } } = submission;
      const options = { body: bodyOf(submission), key };
      const { body } = await insist(count, "POST", "/v1/resource-requests", options);
      if (body?.id !== id) history.contradicted.push(`${key}: request ${id} first, then ${body?.id}`);
    }
  }

  const running = Array.from({ length: workers }, (_, home) => live(home));
  const loyal: LoyalClient[] = replicas.flatMap((replica) =>
    [false, true].map((isReader) =>
      startLoyalClient(replica, {
        ...{ token: cluster.token, witness, everyMs: LOYAL_EVERY_MS, next: loyalQuestions(isReader) },
      }),
    ),
  );

  return {
    history,
    acknowledged: () =>
      history.submissions.filter(({ told: answer }) => answer !== undefined).length + history.releases.length,
    async submitAt(replica, timeoutMs) {
      const submission = begin("wide", true);
      const options = { body: bodyOf(submission), key: submission.key, timeoutMs };
      const answer = await call(replica, "POST", "/v1/resource-requests", options);
      if (answer.status < 500) told(submission, answer);
      return answer;
    },
    async finish() {
      isFinishing = true;
      await Promise.all(running);
      for (const client of loyal) client.stop();
      await repeatSome();
    },
  };
}

function shown({ status, body }: Answer): string {
  return [status, body?.id, body?.number, body?.status, body?.code].join(" ");
}
