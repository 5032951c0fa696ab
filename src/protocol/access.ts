// Who may do what: roles and the permissions they bring. The route table names one permission per route.

import { z } from "zod";

export const PERMISSIONS = [
  "requests.read",
  "requests.submit",
  "requests.hold",
  "requests.cancel",
  "requests.delete",
  "pools.read",
  "pools.change",
  "nodes.change",
  "nodes.join",
  "nodes.sync",
  "events.read",
  "settings.change",
  "tokens.read",
  "tokens.change",
  "audit.read",
  "metrics.read",
  "self.read",
] as const;
export type Permission = (typeof PERMISSIONS)[number];

export const role = z.enum(["viewer", "user", "operator", "auditor", "admin", "node", "join"]);
export type Role = z.infer<typeof role>;
/** The other two come with enrolment alone (E1). */
export const givenRole = role.exclude(["node", "join"]);

/** Rights beyond the role that a token may carry: the highest class, and sensitive work (A5). */
export const extraPermission = z.enum(["class10", "sensitive"]);
export type ExtraPermission = z.infer<typeof extraPermission>;

const VIEWER = ["requests.read", "pools.read", "events.read", "self.read"] as const;
const USER = [
  ...VIEWER,
  "requests.submit",
  "requests.hold",
  "requests.cancel",
  "requests.delete",
] as const satisfies Permission[];

/** What only a machine does, with the token of its enrolment. */
const ENROLLED: ReadonlySet<Permission> = new Set(["nodes.join", "nodes.sync"]);

/** Components and pools of the token bound all of this to a part of the world. */
export const ROLE_PERMISSIONS: Readonly<Record<Role, readonly Permission[]>> = {
  viewer: VIEWER,
  user: USER,
  operator: [...USER, "pools.change", "nodes.change", "metrics.read"],
  auditor: [...VIEWER, "audit.read", "tokens.read", "metrics.read"],
  admin: PERMISSIONS.filter((permission) => !ENROLLED.has(permission)),
  /** Of one node, and only for what is assigned to it (E1). */
  node: ["nodes.sync"],
  /** Once. */
  join: ["nodes.join"],
};
