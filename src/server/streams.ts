// Event streams: server-sent events from the journal, resumable, filtered, and only what the token reaches.

import type { ServerResponse } from "node:http";
import type { RequestId } from "../engine/index.ts";
import type { Leader, Log } from "../leader/index.ts";
import type { WireEvent } from "../protocol/index.ts";
import type { Store } from "../store/index.ts";
import type { QueryOf } from "./call.ts";
import type { Facts, Told } from "./event-facts.ts";
import type { Grants } from "./grants.ts";
import type { Identity } from "./identity.ts";
import {
  STREAM_BUFFER_BYTES_MAX,
  STREAM_HEARTBEAT_MS,
  STREAMS_MAX,
  STREAMS_PER_TOKEN_MAX,
  STREAMS_WITH_SESSIONS_MAX,
} from "./limits.ts";
import { createPositions, type Position, type Positions } from "./positions.ts";
import { problemError } from "./problems.ts";
import { Sight, type World } from "./sight.ts";
import { isOver, type TokenBook } from "./tokens.ts";

export interface Streams {
  readonly positions: Positions;
  /** Takes the connection over until the caller goes, the token ends or the server closes. */
  open(stream: StreamOrder): void;
  count(): number;
  /** Ends all that are open; they go on with their last id, or start afresh if it means nothing any more. */
  endAll(): void;
  close(): void;
}

export interface StreamOrder {
  readonly identity: Identity;
  readonly outgoing: ServerResponse;
  readonly headers: Readonly<Record<string, string>>;
  readonly filter: QueryOf<"streamEvents"> & { readonly requestId?: RequestId };
  /** The last id that the caller has seen; undefined: only what comes. */
  readonly after: Position | undefined;
}

interface OpenStream {
  readonly tokenId: string;
  readonly countsAs: string;
  readonly abort: AbortController;
}

export function createStreams({
  leader,
  store,
  facts,
  tokens,
  grants,
  log,
}: {
  leader: Leader;
  store: Store;
  facts: Facts;
  tokens: TokenBook;
  grants: Grants;
  log: Log;
}): Streams {
  const streams = new Set<OpenStream>();
  const positions = createPositions(() => store.meta.incarnation);
  const stopListening = tokens.onRevoked((tokenId) => {
    for (const stream of streams) if (stream.tokenId === tokenId) stream.abort.abort();
  });

  return {
    positions,
    open(order) {
      const { identity, outgoing } = order;
      checkRoom(streams, identity);
      const { tokenId, countsAs } = identity;
      const stream = { tokenId, countsAs, abort: new AbortController() };
      streams.add(stream);
      const { signal } = stream.abort;
      outgoing.on("close", () => stream.abort.abort());
      const heartbeat = setInterval(() => {
        if (isOver(identity, leader.nowMs())) stream.abort.abort();
        else if (outgoing.writableLength > STREAM_BUFFER_BYTES_MAX) outgoing.destroy();
        else outgoing.write(": still here\n\n");
      }, STREAM_HEARTBEAT_MS);
      heartbeat.unref();

      follow(order, { leader, facts, grants, positions, signal })
        .catch((error: unknown) => {
          if (!signal.aborted) log.warn({ err: error }, "an event stream ended early");
        })
        .finally(() => {
          clearInterval(heartbeat);
          streams.delete(stream);
          // A slow reader would hold up the end of the server; the journal still has what was not read.
          if (outgoing.writableNeedDrain) outgoing.destroy();
          else outgoing.end(": the stream ends here; go on with Last-Event-ID\n\n");
        });
    },
    count: () => streams.size,
    endAll() {
      for (const stream of streams) stream.abort.abort();
    },
    close() {
      stopListening();
      for (const stream of streams) stream.abort.abort();
    },
  };
}

function checkRoom(streams: ReadonlySet<OpenStream>, { tokenId, countsAs }: Identity): void {
  const related = [...streams].filter((stream) => stream.countsAs === countsAs);
  const mine = related.filter((stream) => stream.tokenId === tokenId).length;
  const hasRoom = mine < STREAMS_PER_TOKEN_MAX && related.length < STREAMS_WITH_SESSIONS_MAX;
  if (hasRoom && streams.size < STREAMS_MAX) return;
  throw problemError("rate_limited", `${mine} event streams of this token are open already.`, {
    hint: `Close one first: a token or a session may have ${STREAMS_PER_TOKEN_MAX}, a token with its sessions ${STREAMS_WITH_SESSIONS_MAX}.`,
    headers: { "retry-after": "5" },
  });
}

interface Sources {
  readonly leader: Leader;
  readonly facts: Facts;
  readonly grants: Grants;
  readonly positions: Positions;
}

async function follow(
  { identity, outgoing, headers, filter, after }: StreamOrder,
  { leader, facts, grants, positions, signal }: Sources & { readonly signal: AbortSignal },
): Promise<void> {
  const headSeq = leader.seq();
  // From a history that we do not have, such as that of a store before its backup was restored.
  const isFromElsewhere = after === "of another history" || (after !== undefined && after.seq > headSeq);
  const startSeq = after === undefined || isFromElsewhere ? headSeq : (after as { seq: number }).seq;

  outgoing.writeHead(200, {
    ...headers,
    "content-type": "text/event-stream; charset=utf-8",
    "x-accel-buffering": "no",
  });
  const about = (event: string, seq: number) => message(event, positions.idOf(seq), { event, seq });
  const afresh = (seq: number) => about("stream.reset", seq);
  outgoing.write(`retry: 2000\n${isFromElsewhere ? afresh(startSeq) : about("stream.opened", startSeq)}`);

  for await (const received of leader.events(startSeq + 1, signal)) {
    if (received.kind === "reset") {
      await send(outgoing, afresh(received.seq), signal);
      continue;
    }
    const text = textOf(await facts.tell(received.events), { identity, filter, grants, positions });
    if (text !== "") await send(outgoing, text, signal);
    if (signal.aborted) return;
  }
}

/** Waits for slow readers: what they have not read yet stays in the journal, not in memory. */
async function send(outgoing: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
  if (outgoing.write(text) || signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      outgoing.off("drain", done);
      outgoing.off("close", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    outgoing.on("drain", done);
    outgoing.on("close", done);
    signal.addEventListener("abort", done);
  });
}

/** Data on one line: JSON has no line breaks of its own. */
function message(event: string, id: number, data: unknown): string {
  return `event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
}

function textOf(
  { events, world }: Told,
  {
    identity,
    filter,
    grants,
    positions,
  }: Pick<StreamOrder, "identity" | "filter"> & Pick<Sources, "grants" | "positions">,
): string {
  const concerned = events.filter((event) => matches(event, filter, world));
  if (concerned.length === 0) return "";
  const sight = new Sight(identity, world);
  const shown: WireEvent[] = [];
  for (const event of concerned) {
    const seen = sight.event(event);
    if (seen !== undefined) shown.push(withToken(seen));
  }
  return shown
    .map((event, index) => {
      // A decision is several messages. Only the last of them moves the reader on: one that is cut off before it gets
      // them all again.
      const isWhole = shown[index + 1]?.seq !== event.seq;
      return message(event.event, positions.idOf(isWhole ? event.seq : event.seq - 1), event);
    })
    .join("");

  /** A caller that sees the token can act as the holder; it is the position of the grant (L1). */
  function withToken(event: WireEvent): WireEvent {
    if (event.event !== "request.allocated" || !identity.permissions.has("requests.hold")) return event;
    const id = event.request_id as string;
    const owned = world.request(id);
    const isWhole = owned !== undefined && sight.degreeOf(owned) === "whole";
    return isWhole ? Object.assign({}, event, { token: grants.sign(id, event.seq) }) : event;
  }
}

function matches(event: WireEvent, filter: StreamOrder["filter"], world: World): boolean {
  if (filter.request !== undefined && event.request_id !== filter.requestId) return false;
  if (filter.component !== undefined && event.component !== filter.component) return false;
  return filter.pool === undefined || concernsPool(event, filter.pool, world);
}

export function concernsPool(event: WireEvent, pool: string, world: World): boolean {
  if (event.pool !== undefined && event.pool !== null) return event.pool === pool;
  if (event.request_id === undefined || event.component === undefined) return false;
  // A request that has not run yet belongs to the pools where it waits, or might have waited.
  const queues = world.request(event.request_id)?.queues ?? [];
  return [...(queues.length > 0 ? queues : world.poolsOf(event.component))].includes(pool);
}
