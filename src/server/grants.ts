// The fencing token as holders see it: a number that grows, and a signature that cannot be guessed. The number is the
// engine's token, and above it, after a restore, the offset of the key that signs since then.

import { hash, timingSafeEqual } from "node:crypto";
import type { GrantKey } from "../leader/index.ts";

export interface Grants {
  sign(requestId: string, engineToken: number): string;
  /** The engine's token, or undefined for anything that we have not signed. */
  verify(requestId: string, token: string): number | undefined;
  /** Signed for a grant that the database has lost (C14). */
  isLost(requestId: string, token: string): boolean;
  /** Another history has begun. */
  use(keys: readonly GrantKey[]): void;
}

const REMEMBERED_MAX = 20_000;

interface Signed {
  readonly requestId: string;
  readonly signed: string;
}

/** Keys are given oldest first. */
export function createGrants(keys: readonly GrantKey[]): Grants {
  let signers = signersOf(keys);
  const signerOf = (engineToken: number) => signers.findLast(({ fromSeq }) => fromSeq <= engineToken);
  // A token is signed when it is granted and again when it comes back, often soon: the last ones are remembered.
  // In two halves, of which the older goes as a whole: the first key of a map from which keys are taken one by one
  // is found behind the places of all that went before.
  let recent = new Map<number, Signed>();
  let older = recent;
  const sign = (requestId: string, engineToken: number) => {
    const known = recent.get(engineToken) ?? older.get(engineToken);
    if (known?.requestId === requestId) return known.signed;
    const signer = signerOf(engineToken);
    if (signer === undefined) throw new Error(`no key signs grant ${engineToken}`);
    const number = engineToken + signer.offset;
    const signed = `${number}.${signer.mac(`${requestId}:${number}`)}`;
    recent.set(engineToken, { requestId, signed });
    if (recent.size >= REMEMBERED_MAX / 2) {
      older = recent;
      recent = new Map();
    }
    return signed;
  };

  return {
    sign,
    use(newKeys) {
      signers = signersOf(newKeys);
      recent = new Map();
      older = recent;
    },
    isLost(requestId, token) {
      return signers.some((signer, index) => {
        const next = signers[index + 1];
        if (next?.isAfterLoss !== true) return false;
        const [number = "", mac] = token.split(".");
        const isGone = Number(number) - signer.offset >= next.fromSeq;
        return isGone && signer.mac(`${requestId}:${number}`) === mac;
      });
    },
    verify(requestId, token) {
      const match = /^(\d{1,16})\.[A-Za-z0-9_-]{43}$/.exec(token);
      if (match === null) return undefined;
      const number = Number(match[1]);
      const engineToken = number - (signers.findLast(({ offset }) => offset <= number)?.offset ?? 0);
      if (signerOf(engineToken) === undefined) return undefined;
      const expected = Buffer.from(sign(requestId, engineToken));
      const given = Buffer.from(token);
      return expected.length === given.length && timingSafeEqual(expected, given) ? engineToken : undefined;
    },
  };
}

function signersOf(keys: readonly GrantKey[]) {
  return keys.map(({ secret, ...key }) => ({ ...key, mac: createMac(secret) }));
}

const BLOCK_BYTES = 64;
const HASH_BYTES = 32;
/** Of the texts that are usual: the id of a request and a number. */
const TEXT_BYTES = 128;

/**
 * HMAC-SHA-256 (RFC 2104) of short ASCII texts by two plain hashes: an `Hmac` object for every grant is a handle
 * that the garbage collector has to finalise. For the same reason both buffers are written into again and again.
 */
function createMac(secretHex: string): (text: string) => string {
  const secret = Buffer.from(secretHex, "hex");
  if (secret.length < 16) throw new Error("the secret for grant tokens is too short");
  const key = Buffer.alloc(BLOCK_BYTES);
  (secret.length > BLOCK_BYTES ? hash("sha256", secret, "buffer") : secret).copy(key);
  const innerKey = key.map((byte) => byte ^ 0x36);
  const roomy = Buffer.concat([innerKey, Buffer.alloc(TEXT_BYTES)]);
  const outer = Buffer.concat([key.map((byte) => byte ^ 0x5c), Buffer.alloc(HASH_BYTES)]);
  return (text) => {
    const length = BLOCK_BYTES + text.length;
    const inner = length <= roomy.length ? roomy : Buffer.concat([innerKey, Buffer.alloc(text.length)]);
    inner.write(text, BLOCK_BYTES, "latin1");
    outer.write(hash("sha256", inner.subarray(0, length), "binary"), BLOCK_BYTES, "latin1");
    return hash("sha256", outer, "base64url");
  };
}
