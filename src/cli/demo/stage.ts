// What the stories of the demonstration share: a real server on a temporary store, workers that only pretend to
// compute, and somebody who tells what happens while it happens.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { WireEvent, WireRequestSubmission } from "../../protocol/index.ts";
import { type Client, createClient, isBerthError } from "../../sdk/index.ts";
import type { CliContext } from "../context.ts";
import { plainIfNeeded } from "../output/print.ts";
import { styleOf } from "../output/text.ts";
import { hostingOf, openHosted } from "../serving/host.ts";
import { findRequest } from "../session.ts";
import { tell, textOf } from "../why.ts";

export interface Job extends WireRequestSubmission {
  readonly name: string;
  /** How long it computes in all; what was saved need not be computed again. */
  readonly seconds: number;
  /** How long a checkpoint takes. */
  readonly savingSeconds?: number;
}

export interface Stage {
  readonly client: Client;
  /** Prose. */
  say(text: string): void;
  /** Submits a job and runs it whenever it is granted. Resolves when it is in the queue or runs. */
  start(job: Job): Promise<void>;
  /** Resolves when a job has ended. */
  ended(name: string): Promise<void>;
  /** Resolves when such an event about this job has happened, now or before. */
  happened(name: string, event: WireEvent["event"]): Promise<void>;
  /** `berth why`, as a user would see it. */
  why(name: string): Promise<void>;
  pause(seconds: number): Promise<void>;
}

/** Quick, so that nobody waits: in a pool of people these are minutes. */
export const QUICK = {
  renewal_seconds: 1,
  lease_seconds: 30,
  grace_seconds: 5,
  checkpoint_timeout_seconds: 30,
};

export async function onStage(
  context: CliContext,
  pace: number,
  play: (stage: Stage) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "berth-demo-"));
  const leave = () => {
    rmSync(directory, { recursive: true, force: true });
    process.exit(130);
  };
  process.once("SIGINT", leave);
  const hosting = await hostingOf(context);
  try {
    const server = await openHosted(hosting, {
      data: { directory },
      listen: "127.0.0.1:0",
      firstTokenName: "demo",
      version: context.version,
      log: "silent",
      isUnlimited: true,
      tell: context.tell,
      onFatal: (error) => {
        throw error;
      },
    });
    const over = new AbortController();
    try {
      const client = createClient({ url: server.url, token: server.firstToken?.secret ?? "" });
      await play(createStage({ client, context, pace, signal: over.signal }));
    } finally {
      over.abort();
      await sleep(CONNECTIONS_END_MS);
      await server.close();
    }
  } finally {
    process.off("SIGINT", leave);
    rmSync(directory, { recursive: true, force: true });
  }
}

/** So that the server does not wait for connections that nobody uses any more. */
const CONNECTIONS_END_MS = 100;

interface Setting {
  readonly client: Client;
  readonly context: CliContext;
  readonly pace: number;
  readonly signal: AbortSignal;
}

function createStage({ client, context, pace, signal }: Setting): Stage {
  const style = styleOf(context);
  const startedAtMs = performance.now();
  const jobs = new Map<string, Promise<void>>();
  const seen = new Set<string>();
  const watchers = new Set<() => void>();
  const write = (text: string) => context.write(plainIfNeeded(text, context));
  const pause = (seconds: number, until: AbortSignal = signal) => sleep(seconds * pace * 1000, until);

  const follow = async () => {
    for await (const event of client.events.stream({}, { signal })) {
      const hasSaved = seen.has(`${event.name} request.checkpointed`);
      const sentence = sentenceAbout(event, hasSaved);
      if (sentence !== undefined) {
        const at = `${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`;
        write(`  ${style.faint(at.padStart(6))}  ${sentence}\n`);
      }
      seen.add(`${event.name} ${event.event}`);
      for (const look of watchers) look();
    }
  };
  void follow().catch(() => undefined);
  signal.addEventListener("abort", () => watchers.forEach((look) => look()));

  /** What a program under a grant does: computes, saves when it is asked to, stops when it is told. */
  async function work({ seconds, savingSeconds, ...job }: Job): Promise<void> {
    let left = seconds;
    await client.withGrant({ ...job, signal }, async (grant) => {
      const beganAtMs = performance.now();
      const computed = () => (performance.now() - beganAtMs) / 1000 / (pace || 1);
      if (savingSeconds !== undefined) {
        grant.onCheckpoint(async () => {
          await pause(savingSeconds, grant.signal);
          left = Math.max(0.5, left - computed());
        });
      }
      await pause(left, grant.signal);
      grant.signal.throwIfAborted();
    });
  }

  const happened = (name: string, event: string) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!seen.has(`${name} ${event}`) && !signal.aborted) return;
        watchers.delete(look);
        resolve();
      };
      watchers.add(look);
      look();
    });

  return {
    client,
    say: (text) => write(`\n${text.replaceAll(/^/gm, "▸ ")}\n`),
    pause,
    happened,
    async start(job) {
      const running = work(job).catch((error: unknown) => {
        if (!signal.aborted && !isBerthError(error, "preempted", "cancelled")) throw error;
      });
      jobs.set(job.name, running);
      await Promise.race([happened(job.name, "request.queued"), running]);
    },
    ended: async (name) => jobs.get(name),
    async why(name) {
      const told = await tell(client, await findRequest(client, name));
      const text = told.map((one) => textOf(one, context)).join("");
      write(`\n  $ berth why ${name}\n${text.replaceAll(/^(?=.)/gm, "  ")}\n`);
    },
  };
}

function sentenceAbout(event: WireEvent, hasSaved: boolean): string | undefined {
  const { name = "", component = "", reason, phase, outcome } = event as WireEvent & Record<string, unknown>;
  const who = `${name} (${component})`.padEnd(24);
  switch (event.event) {
    case "request.allocated":
      return `${who} ${hasSaved ? "goes on from where it had saved" : "starts"}`;
    case "request.preempting":
      return `${who} is asked to ${phase === "checkpoint" ? "save and make room" : "make room"}: ${reasonText(String(reason))}`;
    case "request.stopping":
      return `${who} is told to stop`;
    case "request.checkpointed":
      return `${who} has saved its state`;
    case "request.released":
      return `${who} is done`;
    case "request.queued":
      return outcome === "preempted" ? `${who} has stopped, and waits to go on` : `${who} asks`;
    case "request.held":
      return `${who} is promised what comes free`;
    default:
      return undefined;
  }
}

function reasonText(reason: string): string {
  switch (reason) {
    case "reclaim":
      return "the owner wants back what it has borrowed (reclaim)";
    case "class":
      return "work of a higher class needs it (class)";
    case "priority":
      return "work of a higher priority needs it (priority)";
    default:
      return reason;
  }
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}
