// Plain HTTP to whichever server answers. Shares no code with the product.

import { setTimeout as delay } from "node:timers/promises";

// biome-ignore lint/suspicious/noExplicitAny: whatever the server says; the judge looks at it field by field.
export type Body = any;

export interface Api {
  /** Asks again, with the same key, until a server has answered; throws when none has within a minute, or on a refusal. */
  call(method: string, path: string, body?: unknown): Promise<Body>;
  /** Opens one answer, at the next server in turn. */
  open(path: string, signal: AbortSignal): Promise<Response>;
}

export class Refused extends Error {}

const PATIENCE_MS = 60_000;
const CALL_MS = 8_000;

export function createApi(urls: readonly string[], token: string): Api {
  let turn = 0;
  let keys = 0;
  const authorization = `Bearer ${token}`;

  async function once(method: string, path: string, body: unknown, key: string): Promise<Body | undefined> {
    const answer = await fetch(urls[turn % urls.length] + path, {
      method,
      headers: {
        authorization,
        ...(method !== "GET" && { "idempotency-key": key }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(CALL_MS),
    });
    const text = await answer.text();
    if (answer.status >= 500 || answer.status === 429) return undefined;
    if (!answer.ok) throw new Refused(`${method} ${path} was refused: ${text}`);
    return text === "" ? {} : JSON.parse(text);
  }

  return {
    async call(method, path, body) {
      const key = `proof-${process.pid}-${++keys}`;
      for (const endMs = performance.now() + PATIENCE_MS; performance.now() < endMs; ) {
        try {
          const answer = await once(method, path, body, key);
          if (answer !== undefined) return answer;
        } catch (error) {
          if (error instanceof Refused) throw error;
        }
        turn += 1;
        await delay(150);
      }
      throw new Error(`No server answered ${method} ${path} within ${PATIENCE_MS / 1000} s.`);
    },
    open(path, signal) {
      turn += 1;
      return fetch(urls[turn % urls.length] + path, { headers: { authorization }, signal });
    },
  };
}
