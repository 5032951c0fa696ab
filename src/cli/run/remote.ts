// `berth run` where Berth starts the command itself (J8): it runs on its node, its output comes back as it is written, signals
// go there, and its exit code returns. Closing the terminal ends it.

import type { WireJobSubmission, WirePoolAnswer, WireRequest } from "../../protocol/index.ts";
import { type Client, hasEnded, isBerthError } from "../../sdk/index.ts";
import type { CliContext } from "../context.ts";
import { exitCodeOf, followJob, waitForEnd } from "../jobs/following.ts";
import { isHere } from "./here.ts";
import type { RunNotices } from "./notices.ts";
import { resourcesOf, type Talk, titleOf } from "./talk.ts";

/**
 * Whether the work of a component is started by Berth: in a pool that was named, or in all that it may use. Where that cannot
 * be found out, the submission will meet the same trouble and report it.
 */
export async function hasExecutor(client: Client, asked: Asked): Promise<boolean> {
  try {
    return await isStartedByBerth(client, asked);
  } catch (error) {
    if (asked.signal.aborted || isBerthError(error)) return false;
    throw error;
  }
}

interface Asked {
  readonly component: string;
  readonly pools: readonly string[] | undefined;
  readonly signal: AbortSignal;
}

async function isStartedByBerth(client: Client, { component, pools, signal }: Asked): Promise<boolean> {
  const { items } = await client.pools.list({ limit: 1000 }, { signal });
  const named = items.filter(({ name }) => pools === undefined || pools.includes(name));
  const starting: string[] = [];
  for (const pool of named) if (await startsElsewhere(client, pool, signal)) starting.push(pool.name);
  if (starting.length === 0) return false;
  if (pools !== undefined) return starting.length === named.length;
  const isMember = async (pool: string) => {
    try {
      await client.policies.get(pool, component, { signal });
      return true;
    } catch (error) {
      if (isBerthError(error, "not_found", "forbidden")) return false;
      throw error;
    }
  };
  for (const { name } of named.filter((pool) => !starting.includes(pool.name)))
    if (await isMember(name)) return false;
  for (const name of starting) if (await isMember(name)) return true;
  return false;
}

/** In a pool whose only node is this machine, as that of `berth up`, a command need not go anywhere: it has its terminal here. */
async function startsElsewhere(
  client: Client,
  { name, settings }: WirePoolAnswer,
  signal: AbortSignal,
): Promise<boolean> {
  if ((settings.executor ?? "none") === "none") return false;
  if (settings.executor !== "agents") return true;
  const { items } = await client.nodes.list({ pool: name, limit: 2 }, { signal });
  return items.length !== 1 || !items.every(({ name: node }) => isHere(node));
}

const RENEWAL_MS = 10_000;
const FORWARDED: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2"];

export async function runRemotely(
  client: Client,
  body: WireJobSubmission,
  { talk, context, notices }: { talk: Talk; context: CliContext; notices: RunNotices | undefined },
): Promise<void> {
  const submitted = await client.jobs.submit({ ...body, attended: true });
  const { id } = submitted;
  let current: WireRequest = submitted;
  const look = async () => {
    current = await client.requests.get(id);
    return current;
  };
  // We are its client: without these calls the server would end it (L2).
  const renewal = setInterval(() => {
    look()
      .then(({ token }) => (token === undefined ? undefined : client.requests.renew(id, { token })))
      .catch(() => undefined);
  }, RENEWAL_MS);
  const forward = (signal: NodeJS.Signals) => {
    const isWaiting = current.status === "queued";
    const sent = isWaiting ? client.requests.cancel(id) : client.jobs.signal(id, signal);
    sent.catch((error: Error) => talk.say(`berth: ${error.message}`));
  };
  const hangUp = () => {
    client.requests.cancel(id).catch(() => undefined);
  };
  for (const signal of FORWARDED) process.on(signal, forward);
  process.on("SIGHUP", hangUp);
  try {
    if (!hasEnded(submitted)) {
      if (submitted.status === "queued") talk.status(`waiting  ${titleOf(submitted)}`);
      await followJob(client, submitted, {
        query: {},
        follow: true,
        onAttempt(request) {
          current = request;
          const nodes = request.placement.map(({ node }) => node).join(", ");
          talk.say(`granted  ${titleOf(request)} · ${resourcesOf(request)} · on ${nodes}`);
          void notices?.tell("started", request);
        },
      });
    }
    const job = await waitForEnd(client, await look());
    talk.clear();
    context.exitCode = await exitCodeOf(job);
    const why =
      job.status === "released" || job.exit?.reason === "exited" ? "" : (job.exit?.reason ?? job.status);
    await notices?.tell(job.status === "rejected" ? "rejected" : "ended", job);
    if (why !== "") context.tell(`berth: ${titleOf(job)} ended: ${why}.\n`);
  } finally {
    clearInterval(renewal);
    for (const signal of FORWARDED) process.off(signal, forward);
    process.off("SIGHUP", hangUp);
  }
}
