// The API token that a call brings. Clients send the same header with every call of a connection, so the connection keeps
// the hash of the last one. Only what is in the header is remembered: whether a token with that hash is good, the token
// book is asked with every call.

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { tokenHashOf } from "./tokens.ts";

interface Bearer {
  readonly header: string;
  /** Undefined: no token looks like this. */
  readonly tokenHash: string | undefined;
}

const lastOf = new WeakMap<Socket, Bearer>();

/** Undefined: the call brings none. */
export function bearerOf({
  headers,
  socket,
}: Pick<IncomingMessage, "headers" | "socket">): Bearer | undefined {
  const header = headers.authorization;
  if (header === undefined) return undefined;
  const last = lastOf.get(socket);
  if (last?.header === header) return last;
  const secret = /^Bearer +(\S+) *$/i.exec(header)?.[1];
  if (secret === undefined) return undefined;
  const bearer = { header, tokenHash: tokenHashOf(secret) };
  if (bearer.tokenHash !== undefined) lastOf.set(socket, bearer); // Nothing that is longer than a token is kept.
  return bearer;
}
