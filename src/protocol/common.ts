// Building blocks of the schemas. They judge the shape of things: which fields, of which type, within which
// bounds of size. What an amount or a class may be is the engine's to judge, so that the same stable code
// (`invalid_amount`, `invalid_class`) answers wherever the value came from.

import { z } from "zod";
import {
  IDEMPOTENCY_KEY_LENGTH_MAX,
  LABEL_LENGTH_MAX,
  LABELS_MAX,
  NAME_LENGTH_MAX,
  NOTE_LENGTH_MAX,
  SECONDS_MAX,
} from "./limits.ts";

/**
 * Names are compared, looked up and printed: no control characters, no line breaks, nothing that turns the direction of
 * writing, and no half of a surrogate pair, which no store can keep.
 */
const PRINTABLE = /^[^\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]*$/u;
const printable = z.string().regex(PRINTABLE, "has characters that cannot be printed");

export const name = printable.min(1).max(NAME_LENGTH_MAX);
/** Text for people; tabs and line breaks are allowed, other control characters in no text at all (`shapeProblem`). */
export const note = z.string().max(NOTE_LENGTH_MAX);

/** A time that a caller gives: RFC 3339, with Z or an offset. */
export const moment = z.iso.datetime({ offset: true });

/** A time that the server gives: RFC 3339 in UTC. */
export const timestamp = z.string().meta({ format: "date-time" });

export function pageOf<Item extends z.ZodType>(item: Item, id: string) {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() }).meta({ id });
}

/** Units per resource key. */
export const amounts = z.record(z.string(), z.number());

export const labels = z
  .record(printable.min(1).max(LABEL_LENGTH_MAX), printable.max(LABEL_LENGTH_MAX))
  .refine((entries) => Object.keys(entries).length <= LABELS_MAX, `At most ${LABELS_MAX} labels`);

/** Names a call; plain ASCII, as it is sent in a header. */
export const idempotencyKey = z
  .string()
  .min(1)
  .max(IDEMPOTENCY_KEY_LENGTH_MAX)
  .regex(/^[\x20-\x7e]*$/);

/** A length of time in seconds, as everywhere on the wire. */
export const seconds = z.number().min(0).max(SECONDS_MAX);

export const count = z.int().min(0);
