// Policies: what one component may have of one pool (P3).

import { z } from "zod";
import { amounts, labels, name } from "./common.ts";

export const policyKind = z.enum(["batch", "training", "service", "sensitive", "interactive"]);

export const policy = z.strictObject({
  pool: name,
  component: name,
  component_type: name.optional(),
  priority: z.number().optional(),
  reserved: amounts.optional(),
  limit: amounts.optional(),
  weight: z.number().optional(),
  kind: policyKind.optional(),
  max_class: z.number().optional(),
  group: name.nullable().optional(),
  /** Labels of the nodes that are this policy's home (N3). */
  home: labels.nullable().optional(),
});

export type WirePolicy = z.infer<typeof policy>;
