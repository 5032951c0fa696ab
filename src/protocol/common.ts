// Building blocks of the schemas. They judge the shape of things: which fields, of which type, within which
// bounds of size. What an amount or a class may be is the engine's to judge, so that the same stable code
// (`invalid_amount`, `invalid_class`) answers wherever the value came from.

import { z } from "zod";
import { LABEL_LENGTH_MAX, LABELS_MAX, NAME_LENGTH_MAX, NOTE_LENGTH_MAX, SECONDS_MAX } from "./limits.ts";

export const name = z.string().min(1).max(NAME_LENGTH_MAX);
export const note = z.string().max(NOTE_LENGTH_MAX);

/** Units per resource key. */
export const amounts = z.record(z.string(), z.number());

export const labels = z
  .record(z.string().min(1).max(LABEL_LENGTH_MAX), z.string().max(LABEL_LENGTH_MAX))
  .refine((entries) => Object.keys(entries).length <= LABELS_MAX, `At most ${LABELS_MAX} labels`);

/** A length of time in seconds, as everywhere on the wire. */
export const seconds = z.number().min(0).max(SECONDS_MAX);

export const count = z.int().min(0);
