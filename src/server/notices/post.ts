// Sends one message over HTTP, to the address that was judged and to no other: no second lookup, no redirect, no proxy.

import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { DestinationError, type Destinations } from "./destinations.ts";

export interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

/** Undefined: delivered. Otherwise why not, as a sentence for people. */
export type Send = (post: Post) => Promise<string | undefined>;

const TIMEOUT_MS = 10_000;

export function createSend(destinations: Destinations): Send {
  return async ({ url: text, headers, body, signal }) => {
    const url = new URL(text);
    try {
      const status = await call(url, await destinations.resolve(url), { headers, body, signal });
      return status >= 200 && status < 300 ? undefined : `${url.host} answered ${status}`;
    } catch (error) {
      if (error instanceof DestinationError) return error.message;
      return `${url.host} cannot be reached: ${reasonOf(error)}`;
    }
  };
}

function call(
  url: URL,
  { address, family }: { readonly address: string; readonly family: 4 | 6 },
  { headers, body, signal }: Omit<Post, "url">,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = (url.protocol === "https:" ? requestHttps : requestHttp)(url, {
      method: "POST",
      headers: {
        ...headers,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        "user-agent": "berth",
      },
      agent: false,
      // The name stays that of the certificate; the address is the one that was judged.
      lookup: (_host, options, answer) =>
        options.all === true ? answer(null, [{ address, family }]) : answer(null, address, family),
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    request.on("error", reject);
    request.on("response", (response) => {
      resolve(response.statusCode ?? 0);
      response.destroy(); // What it says beyond that is not read.
    });
    request.end(body);
  });
}

function reasonOf(error: unknown): string {
  const { name, code, message } = error as NodeJS.ErrnoException;
  if (name === "AbortError" || name === "TimeoutError") return `no answer within ${TIMEOUT_MS / 1000} s`;
  return code ?? message;
}
