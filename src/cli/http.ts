// `fetch` as far as the client needs it, made of Node's own modules: the global one takes longer to load than most
// commands take to run.

import { type IncomingMessage, request as requestHttp } from "node:http";
import { Readable } from "node:stream";
import type { Answer, Fetch } from "../sdk/index.ts";

export const fetchLightly: Fetch = async (url, { body, signal, ...options }) => {
  const request = url.startsWith("https:") ? (await import("node:https")).request : requestHttp;
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { ...options, signal }, (incoming) => resolve(answerOf(incoming, signal)));
    outgoing.on("error", (error) => reject(failure(error, signal)));
    outgoing.end(body); // In one piece, so that its length is known to the server.
  });
};

function answerOf(incoming: IncomingMessage, signal: AbortSignal): Answer {
  const { statusCode: status = 0, headers } = incoming;
  return {
    status,
    ok: status >= 200 && status < 300,
    headers: { get: (name) => headers[name.toLowerCase()]?.toString() ?? null },
    get body() {
      return Readable.toWeb(incoming) as ReadableStream<Uint8Array<ArrayBuffer>>;
    },
    async text() {
      let text = "";
      incoming.setEncoding("utf8");
      try {
        for await (const chunk of incoming) text += chunk;
      } catch (error) {
        throw failure(error, signal);
      }
      return text;
    },
  };
}

/** As `fetch` would say it. */
function failure(cause: unknown, signal: AbortSignal): unknown {
  return signal.aborted ? signal.reason : new TypeError("fetch failed", { cause });
}
