// Nodes of a node-backed pool (N1).

import { z } from "zod";
import { amounts, labels, name } from "./common.ts";

export const node = z.strictObject({
  name,
  pool: name,
  capacity: amounts,
  labels: labels.optional(),
  /** Empty: close to no other. */
  topology: z.union([name, z.literal("")]).optional(),
});

/** A node that reports again may leave out what has not changed. */
export const nodeUpdate = node.partial({ pool: true, capacity: true });

export type WireNode = z.infer<typeof node>;
export type WireNodeUpdate = z.infer<typeof nodeUpdate>;
