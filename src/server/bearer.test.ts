import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { openMemoryStore } from "../store/index.ts";
import { bearerOf } from "./bearer.ts";
import { hashOf, loadTokenBook, makeToken } from "./tokens.ts";

type Socket = IncomingMessage["socket"];

const NOW_MS = 1_700_000_000_000;

const newSocket = () => ({}) as Socket;

/** A call on a connection. */
function bearer(socket: Socket, authorization?: string) {
  return bearerOf({ socket, headers: authorization === undefined ? {} : { authorization } });
}

test("a connection may bring one token after the other, and each counts for its own call", () => {
  const socket = newSocket();
  const [first, second] = ["a", "b"].map((letter) => `berth_${letter.repeat(43)}`) as [string, string];
  for (const secret of [first, first, second, first]) {
    expect(bearer(socket, `Bearer ${secret}`)?.tokenHash).toBe(hashOf(secret));
  }
  expect(bearer(socket)).toBeUndefined();
  expect(bearer(socket, "Basic eDp5")).toBeUndefined();
  expect(bearer(socket, "Bearer berth_short")).toEqual({
    header: "Bearer berth_short",
    tokenHash: undefined,
  });
  expect(bearer(newSocket(), `bearer  ${first} `)?.tokenHash).toBe(hashOf(first));
});

test("a token that is revoked, forgotten or over does not count on a connection that has used it", async () => {
  const tokens = await loadTokenBook(await openMemoryStore());
  const socket = newSocket();
  const whoCalls = (secret: string, nowMs = NOW_MS) =>
    tokens.authenticate(bearer(socket, `Bearer ${secret}`)?.tokenHash, nowMs)?.name;
  const make = (name: string, expiresAtMs: number | null = null) => {
    const made = makeToken({ name, role: "viewer", expiresAtMs }, NOW_MS);
    tokens.put(made.record);
    expect(whoCalls(made.secret)).toBe(name);
    return made;
  };

  const revoked = make("revoked");
  tokens.put({ ...revoked.record, revokedAtMs: NOW_MS });
  expect(whoCalls(revoked.secret)).toBeUndefined();

  const forgotten = make("forgotten");
  tokens.forget(forgotten.record.id);
  expect(whoCalls(forgotten.secret)).toBeUndefined();

  const over = make("over", NOW_MS + 1);
  expect(whoCalls(over.secret, NOW_MS + 1)).toBeUndefined();
});
