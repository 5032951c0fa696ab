// The output of a job (J6): passed on from its node while that answers, else the end of it that is kept.

import { requestOf } from "../engine/index.ts";
import { type RequestBody, SUSPECT_AFTER_MS, type View } from "../leader/index.ts";
import { toNodeName, toPoolName } from "../translation/index.ts";
import { type KeptTail, logPartOf } from "./agents/parts.ts";
import type { LogPart, LogSink } from "./agents/readers.ts";
import { reportersFor } from "./agents/reporters.ts";
import type { CallOf, Reply, Services } from "./call.ts";
import { LOG_READERS_PER_TOKEN_MAX, STREAM_HEARTBEAT_MS } from "./limits.ts";
import type { Located } from "./locate.ts";
import { problemError } from "./problems.ts";
import { whenOver } from "./tokens.ts";

type LogCall = CallOf<"getJobLogs">;

/** An agent that has not sent anything by then does not answer. */
const FIRST_PIECE_MS = 5_000;

interface LoggedAttempt {
  readonly attempt: number;
  /** The number of its grant. */
  readonly token: number;
  readonly pool: string | null;
  readonly nodes: readonly string[];
  /** Its end was reported, and with it the end of its output, if there was any. */
  readonly isReported: boolean;
}

export async function readLog(call: LogCall, services: Services, located: Located): Promise<Reply> {
  const { rank = 0 } = call.query;
  const wanted = await services.leader.read((view) => attemptOf(view, located, call.query.attempt));
  if (wanted === undefined) {
    throw problemError(
      "invalid_request",
      `Request "${located.id}" has no such attempt, or has not started yet.`,
      {
        hint: "berth job show says which attempts there are.",
      },
    );
  }
  const reporters = await services.leader.read(({ state }) =>
    reportersFor(state, toPoolName(wanted.pool ?? ""), wanted.nodes),
  );
  const reporter = reporters[rank];
  if (reporters.length > 0 && reporter === undefined) {
    throw problemError(
      "not_found",
      `Attempt ${wanted.attempt} has ${reporters.length} parts, from rank 0 on.`,
    );
  }
  checkRoom(call, services);
  const response = createResponse(call);
  if (reporter !== undefined && (await isHeard(services, reporter))) {
    if (await passOn(call, services, { located, wanted, reporter, response })) return "sent";
  }
  const { from = 0 } = call.query;
  return keptTail(services, { located, wanted, rank, from, response });
}

function checkRoom({ identity }: LogCall, { agents }: Services): void {
  const open = agents.readers.countOf(identity.countsAs);
  if (open < LOG_READERS_PER_TOKEN_MAX) return;
  throw problemError("rate_limited", `${open} logs are being read with this token already.`, {
    hint: `Close one first: a token may read ${LOG_READERS_PER_TOKEN_MAX} at once.`,
    headers: { "retry-after": "5" },
  });
}

function attemptOf(
  view: View,
  { id, record }: Located,
  attempt: number | undefined,
): LoggedAttempt | undefined {
  const progress = requestOf(view.state, id)?.progress;
  const allocation = progress?.allocation ?? null;
  if (progress !== undefined && allocation !== null && (attempt ?? progress.attempt) === progress.attempt) {
    const nodes = allocation.placement.map(({ node }) => node);
    const { token, pool } = allocation;
    return { attempt: progress.attempt, token, pool, nodes, isReported: false };
  }
  const ended = record === undefined ? view.attemptsOf(id) : (record.body as RequestBody).attempts;
  const found = attempt === undefined ? ended.at(-1) : ended.find((one) => one.attempt === attempt);
  if (found === undefined) return undefined;
  const { token, pool, nodes = [], end } = found;
  // Not so if its node was given up, whatever its outcome: its output is there, and may be read when the node is back.
  const isReported = end?.exitCode !== undefined || end?.cause === "start_failed";
  return { attempt: found.attempt, token, pool, nodes, isReported };
}

/** Whether it has synced lately: of a node the leader keeps the time, of an adapter this server. */
async function isHeard({ leader, agents }: Services, reporter: string): Promise<boolean> {
  const heardAtMs = await leader.read((view) => view.nodeHeardAtMs(toNodeName(reporter)));
  if (heardAtMs !== undefined) return leader.nowMs() - heardAtMs < SUSPECT_AFTER_MS;
  return performance.now() - (agents.heardAtMs(reporter) ?? Number.NEGATIVE_INFINITY) < SUSPECT_AFTER_MS;
}

/** False: the node sent nothing, and nothing was answered yet. */
function passOn(
  call: LogCall,
  { agents, grants, tokens, leader }: Services,
  log: { located: Located; wanted: LoggedAttempt; reporter: string; response: Response },
): Promise<boolean> {
  const { located, wanted, reporter, response } = log;
  return new Promise((resolve) => {
    const timer = setTimeout(() => stop(), FIRST_PIECE_MS);
    const sink: LogSink = {
      take(parts, dropped) {
        clearTimeout(timer);
        return response.write(parts, dropped);
      },
      end(why) {
        clearTimeout(timer);
        stopHearing();
        stopWaiting();
        if (!response.hasBegun && why !== "complete") return resolve(false);
        response.end(why === "complete");
        resolve(true);
      },
    };
    const stop = agents.readers.open(
      {
        reporter,
        requestId: located.id,
        token: grants.sign(located.id, wanted.token),
        from: call.query.from ?? 0,
        follow: call.query.follow === "true",
        countsAs: call.identity.countsAs,
      },
      sink,
    );
    const { tokenId } = call.identity;
    const stopHearing = tokens.onRevoked((revoked) => revoked === tokenId && stop());
    const stopWaiting = whenOver(call.identity, () => leader.nowMs(), stop);
    call.outgoing.on("close", stop);
  });
}

async function keptTail(
  { store }: Services,
  log: { located: Located; wanted: LoggedAttempt; rank: number; from: number; response: Response },
): Promise<Reply> {
  const { located, wanted, rank, from, response } = log;
  const kept = await store.getAttachment(located.id, logPartOf(wanted.attempt, rank));
  if (kept === undefined && wanted.isReported) {
    response.end(true); // It has written nothing, such as a job that could not be started.
    return "sent";
  }
  if (kept === undefined) {
    throw problemError(
      "node_silent",
      "The node of this attempt does not answer, and nothing of its output is kept yet.",
      {
        hint: "The end of the output is kept when an attempt has ended. Try again when the node is back.",
        headers: { "retry-after": "5" },
      },
    );
  }
  const { pieces, bytes } = kept.body as KeptTail;
  const tail = Buffer.concat(pieces.map((piece) => Buffer.from(piece, "base64")));
  // In its place: a reader that has read some of it on the node goes on from there.
  const end = bytes ?? tail.length;
  const begin = end - tail.length;
  const first = from < 0 ? Math.max(0, end + from) : from;
  const at = Math.max(begin, first);
  const part: LogPart = { at, stream: "stdout", data: tail.subarray(at - begin) };
  await response.write([part], Math.max(0, begin - first), { "berth-log": "tail" });
  response.end(true);
  return "sent";
}

interface Response {
  readonly hasBegun: boolean;
  /** Resolves when there is room for more, or the reader has gone. */
  write(
    parts: readonly LogPart[],
    dropped: number,
    headers?: Readonly<Record<string, string>>,
  ): Promise<void>;
  end(isComplete: boolean): void;
}

/** Bytes as they were written, or a line of JSON for each piece. */
function createResponse({ outgoing, query }: LogCall): Response {
  const asEvents = query.format === "events";
  let hasBegun = false;
  const begin = (headers: Readonly<Record<string, string>>) => {
    hasBegun = true;
    outgoing.writeHead(200, {
      "content-type": asEvents ? "application/x-ndjson" : "application/octet-stream",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      ...headers,
    });
    outgoing.flushHeaders();
    if (!asEvents) return;
    // An empty line now and then says that the connection lives.
    const heartbeat = setInterval(() => outgoing.write("\n"), STREAM_HEARTBEAT_MS);
    heartbeat.unref();
    outgoing.on("close", () => clearInterval(heartbeat));
  };
  const line = (event: object) => `${JSON.stringify(event)}\n`;

  return {
    get hasBegun() {
      return hasBegun;
    },
    async write(parts, dropped, headers = {}) {
      if (!hasBegun) begin(headers);
      if (dropped > 0) outgoing.write(asEvents ? line({ dropped }) : `[${dropped} bytes are missing]\n`);
      let hasRoom = true;
      for (const { at, stream, data } of parts) {
        if (query.stream !== undefined && query.stream !== stream) continue;
        const text = asEvents ? line({ position: at, stream, data: data.toString("base64") }) : data;
        hasRoom = outgoing.write(text);
      }
      if (hasRoom || outgoing.destroyed) return;
      await new Promise<void>((resolve) => {
        const proceed = () => {
          outgoing.off("drain", proceed);
          outgoing.off("close", proceed);
          resolve();
        };
        outgoing.once("drain", proceed);
        outgoing.once("close", proceed);
      });
    },
    end(isComplete) {
      if (!hasBegun) begin({});
      if (asEvents && isComplete) outgoing.write(line({ end: true }));
      // A reader that was cut off must not take what it has for the whole.
      if (isComplete) outgoing.end();
      else outgoing.destroy();
    },
  };
}
