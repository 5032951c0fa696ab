// What the stories of the demonstration share: a real server on a temporary store, workers that only pretend to
// compute, and a narrator that says what happens while it happens.

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { WireEvent, WireRequestSubmission } from "../../protocol/index.ts";
import { type Client, createClient } from "../../sdk/index.ts";
import type { CliContext } from "../context.ts";
import { plainIfNeeded } from "../output/print.ts";
import { styleOf, wrapped } from "../output/text.ts";
import { hostingOf, openHosted } from "../serving/host.ts";
import { findRequest } from "../session.ts";
import { tell, textOf } from "../why.ts";

export interface Job extends WireRequestSubmission {
  readonly name: string;
}

/** What happens on it waits for the story and never for a clock, so that it is the same story on every machine. */
export interface Stage {
  readonly client: Client;
  /** Prose. */
  say(text: string): void;
  /** Submits a job, which computes whenever it is granted. Resolves when it is in the queue. */
  start(job: Job): Promise<void>;
  /** Resolves when a job has got its units, now or before. */
  runs(name: string): Promise<void>;
  /** Resolves when a job has got its units for the second time. */
  goesOn(name: string): Promise<void>;
  /** Resolves when a job is promised what comes free. */
  isPromised(name: string): Promise<void>;
  /** Lets a job complete the checkpoint that it was asked for. Resolves when it has stopped. */
  save(name: string): Promise<void>;
  /** Lets a job compute to its end. */
  finish(name: string): Promise<void>;
  /** `berth why`, as a user would see it. */
  why(name: string): Promise<void>;
  pause(seconds: number): Promise<void>;
}

/** Renewed often, so that nobody waits for the news: in a pool of people these are minutes. */
export const QUICK = {
  renewal_seconds: 1,
  lease_seconds: 60,
  grace_seconds: 60,
  checkpoint_timeout_seconds: 60,
};

export async function onStage(
  context: CliContext,
  pace: number,
  play: (stage: Stage) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "berth-demo-"));
  const clean = () => rmSync(directory, { recursive: true, force: true });
  const leave = () => process.exit(130);
  process.once("exit", clean); // Also when nobody reads on.
  for (const signal of SIGNALS) process.once(signal, leave);
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
      await server.close();
    }
  } finally {
    for (const signal of SIGNALS) process.off(signal, leave);
    process.off("exit", clean);
    clean();
  }
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

interface Setting {
  readonly client: Client;
  readonly context: CliContext;
  readonly pace: number;
  readonly signal: AbortSignal;
}

function createStage({ client, context, pace, signal }: Setting): Stage {
  const style = styleOf(context);
  const startedAtMs = performance.now();
  const columns = context.screen?.columns() ?? 120;
  const facts = createFacts();
  const write = (text: string) => context.write(plainIfNeeded(text, context));

  const follow = async () => {
    for await (const event of client.events.stream({}, { signal, after: 0 })) {
      const sentence = sentenceAbout(event, facts.has(`${event.name} request.checkpointed`));
      if (sentence !== undefined) {
        const at = `${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`.padStart(8);
        const [first = "", ...more] = wrapped(sentence, columns - 10);
        write(
          [`${style.faint(at)}  ${first}`, ...more.map((line) => `${" ".repeat(12)}${line}`), ""].join("\n"),
        );
      }
      facts.note(`${event.name} ${event.event}`);
    }
  };

  /** What a program under a grant does: computes, saves and stops when it is asked to. */
  const compute = (job: Job) =>
    client.withGrant({ ...job, signal }, async (grant) => {
      grant.onCheckpoint(() => facts.until(`${job.name} may save`));
      await Promise.race([facts.until(`${job.name} may end`), once(grant.signal, "abort")]);
      grant.signal.throwIfAborted();
    });

  const orFail = (work: Promise<void>) =>
    void work.catch((error: unknown) => {
      if (!signal.aborted) facts.fail(error);
    });

  orFail(follow());
  return {
    client,
    say: (text) =>
      write(
        `\n${wrapped(text, columns - 2)
          .map((line, at) => `${at === 0 ? "▸" : " "} ${line}\n`)
          .join("")}`,
      ),
    async start(job) {
      orFail(compute(job));
      await facts.until(`${job.name} request.queued`);
    },
    runs: (name) => facts.until(`${name} request.allocated`),
    goesOn: (name) => facts.until(`${name} request.allocated again`),
    isPromised: (name) => facts.until(`${name} request.held`),
    async save(name) {
      facts.note(`${name} may save`);
      await facts.until(`${name} request.queued again`);
    },
    async finish(name) {
      facts.note(`${name} may end`);
      await facts.until(`${name} request.released`);
    },
    async why(name) {
      const told = await tell(client, await findRequest(client, name));
      const narrower = { ...context, screen: { columns: () => columns - 2 } };
      const text = told.map((one) => textOf(one, narrower)).join("");
      write(`\n  $ berth why ${name}\n${text.replaceAll(/^(?=.)/gm, "  ")}`);
    },
    pause: (seconds) => sleep(seconds * pace * 1000),
  };
}

/** What has happened so far, for those who wait for it. What happens twice is noted as `… again`. */
function createFacts() {
  const noted = new Set<string>();
  const waiting = new Map<string, () => void>();
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  failed.catch(() => undefined); // The next wait reports it.
  return {
    fail,
    has: (fact: string) => noted.has(fact),
    note(fact: string): void {
      const noticed = noted.has(fact) ? `${fact} again` : fact;
      noted.add(noticed);
      waiting.get(noticed)?.();
    },
    until(fact: string): Promise<void> {
      if (noted.has(fact)) return Promise.resolve();
      return Promise.race([failed, new Promise<void>((resolve) => waiting.set(fact, resolve))]);
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
      return `${who} is asked to stop`;
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
