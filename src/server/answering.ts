// Answers, written at once: status, headers and content.

import type { IncomingMessage, ServerResponse } from "node:http";

export interface WrittenAnswer {
  readonly status: number;
  /** Names and values in turn, which Node writes without looking names up. */
  readonly headers: readonly string[];
  /** Undefined: there is none. */
  readonly content: string | Uint8Array | undefined;
}

/** How long a body may go on that nobody waits for: a client that is still sending it would otherwise miss the answer. */
const REST_OF_BODY_MS = 500;

export function writeAnswer(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { status, headers, content }: WrittenAnswer,
): void {
  // The route had taken the connection over: whoever listens there must not take this for a part of it.
  if (outgoing.headersSent) {
    outgoing.destroy();
    return;
  }
  if (!incoming.complete) {
    setTimeout(() => {
      if (!incoming.complete) incoming.socket.destroySoon();
    }, REST_OF_BODY_MS).unref();
  }
  if (content === undefined) {
    outgoing.writeHead(status, headers as string[]).end();
    return;
  }
  const length = typeof content === "string" ? Buffer.byteLength(content) : content.length;
  outgoing.writeHead(status, [...headers, "content-length", String(length)]);
  // Where every character is one byte it is ASCII, which is written faster under a name that says so.
  outgoing.end(content, length === content.length ? "latin1" : "utf8");
}

export function flat(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).flat();
}

/** In place of another value, if there is one. */
export function setHeader(headers: string[], name: string, value: string): void {
  const at = headers.indexOf(name);
  if (at < 0) headers.push(name, value);
  else headers[at + 1] = value;
}
