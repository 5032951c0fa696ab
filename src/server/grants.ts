// The fencing token as holders see it: the engine's token, and a signature that cannot be guessed.

import { createHmac, timingSafeEqual } from "node:crypto";

export interface Grants {
  sign(requestId: string, engineToken: number): string;
  /** The engine's token, or undefined for anything that we have not signed. */
  verify(requestId: string, token: string): number | undefined;
}

const REMEMBERED_MAX = 10_000;

export function createGrants(secretHex: string): Grants {
  const secret = Buffer.from(secretHex, "hex");
  if (secret.length < 16) throw new Error("the secret for grant tokens is too short");

  // A token is signed when it is granted and again when it comes back, often soon: the last ones are remembered.
  const remembered = new Map<string, string>();
  const sign = (requestId: string, engineToken: number) => {
    const text = `${requestId}:${engineToken}`;
    const known = remembered.get(text);
    if (known !== undefined) return known;
    const signed = `${engineToken}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
    remembered.set(text, signed);
    if (remembered.size > REMEMBERED_MAX) remembered.delete(remembered.keys().next().value as string);
    return signed;
  };

  return {
    sign,
    verify(requestId, token) {
      const match = /^(\d{1,16})\.[A-Za-z0-9_-]{43}$/.exec(token);
      if (match === null) return undefined;
      const engineToken = Number(match[1]);
      const expected = Buffer.from(sign(requestId, engineToken));
      const given = Buffer.from(token);
      return expected.length === given.length && timingSafeEqual(expected, given) ? engineToken : undefined;
    },
  };
}
