// Signatures of Standard Webhooks: HMAC-SHA256 over the id, the time and the body, in base64.

import { createHmac, randomBytes } from "node:crypto";

const PREFIX = "whsec_";
/** 192 bits; the standard asks for 24 to 64 bytes. */
const SECRET_BYTES = 24;

export function makeSigningSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

export interface Signed {
  readonly id: string;
  /** Of this try. */
  readonly atMs: number;
  readonly body: string;
}

export function signatureHeaders({ id, atMs, body }: Signed, secret: string): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const key = Buffer.from(secret.slice(PREFIX.length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
}
