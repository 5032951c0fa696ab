// Bodies: read within their limits, parsed once, and handed on as data that the schemas can trust.

import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { BODY_LIMITS, shapeProblem, toPointer } from "../protocol/index.ts";
import { SMALL_BODY_BYTES } from "./limits.ts";
import { problemError } from "./problems.ts";

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/** The parsed body, or undefined if there is none. */
export async function readJson(incoming: IncomingMessage, bytesMax: number): Promise<unknown> {
  const bytes = await readBytes(incoming, bytesMax);
  if (bytes.length === 0) return undefined;
  if (!JSON_TYPE.test(incoming.headers["content-type"] ?? "")) {
    throw problemError("unsupported_media_type", "The body is not sent as application/json.", {
      hint: "Send the header Content-Type: application/json.",
    });
  }
  if (!isUtf8(bytes)) throw problemError("malformed_body", "The body is not UTF-8.");
  return parseJson(bytes.toString("utf8"));
}

const DANGEROUS = /[\\\u007f-\u009f]|__proto__/;

function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw problemError("malformed_body", `The body is not JSON: ${(error as Error).message}.`.slice(0, 300));
  }
  // A small body without escapes, control characters and the one dangerous name cannot hide anything from its schema.
  const isPlain = text.length <= SMALL_BODY_BYTES && !DANGEROUS.test(text);
  const found = isPlain ? undefined : shapeProblem(value, BODY_LIMITS);
  if (found === undefined) return value;
  const pointer = toPointer(found.path);
  const code = found.isTooLarge ? "body_too_large" : "invalid_request";
  throw problemError(code, `${pointer || "The body"} ${found.message}.`, {
    errors: [{ pointer, message: found.message }],
  });
}

/** Bodies that were read before it was known who serves the call. */
const kept = new WeakMap<IncomingMessage, Buffer>();

export function keepBytes(incoming: IncomingMessage, bytes: Buffer): void {
  kept.set(incoming, bytes);
}

export function readBytes(incoming: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const known = kept.get(incoming);
  if (known !== undefined) return Promise.resolve(known);
  const tooLarge = () =>
    problemError("body_too_large", `The body has more than ${bytesMax} bytes.`, {
      hint: "Send less at once.",
      headers: { connection: "close" },
    });
  return new Promise((resolve, reject) => {
    if (Number(incoming.headers["content-length"] ?? 0) > bytesMax) return reject(tooLarge());
    const chunks: Buffer[] = [];
    let length = 0;
    incoming.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length > bytesMax) {
        incoming.pause();
        incoming.removeAllListeners("data");
        reject(tooLarge());
      } else chunks.push(chunk);
    });
    incoming.on("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    incoming.on("error", () => reject(problemError("malformed_body", "The body ended too early.")));
  });
}
