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
  "pools.sync",
  "events.read",
  "notices.read",
  "notices.change",
  "settings.change",
  "tokens.read",
  "tokens.change",
  "audit.read",
  "metrics.read",
  "self.read",
] as const;
export type Permission = (typeof PERMISSIONS)[number];

export const role = z.enum(["viewer", "user", "operator", "auditor", "admin", "executor", "node", "join"]);
export type Role = z.infer<typeof role>;
/** The last two come with enrolment alone (E1). */
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
  "notices.read",
  "notices.change",
] as const satisfies Permission[];

/** What only a program that runs jobs does, with a token of its own. */
const EXECUTORS: ReadonlySet<Permission> = new Set(["nodes.join", "nodes.sync", "pools.sync"]);

/** Components and pools of the token bound all of this to a part of the world. */
export const ROLE_PERMISSIONS: Readonly<Record<Role, readonly Permission[]>> = {
  viewer: VIEWER,
  user: USER,
  operator: [...USER, "pools.change", "nodes.change", "metrics.read"],
  auditor: [...VIEWER, "notices.read", "audit.read", "tokens.read", "metrics.read"],
  admin: PERMISSIONS.filter((permission) => !EXECUTORS.has(permission)),
  /** The adapter of the pools that it is bound to (21, 22). */
  executor: ["pools.sync"],
  /** Of one node, and only for what is assigned to it (E1). */
  node: ["nodes.sync"],
  /** Once. */
  join: ["nodes.join"],
};
