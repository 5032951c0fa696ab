// What an agent and its shims keep beside an order (J5):
//
//   claim.json  the one shim that runs it: made once, by the first that tries
//   plan.json   how to end it if its shim has died
//   log.*       its output
//
// Invariant: at most one process ever gets the claim, however often a shim is started.

import { linkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Order, readJson, writeWhole } from "../executors/index.ts";
import type { EnclosurePlan, JobUser, ProcessIdentity } from "../runner/index.ts";
import type { OnLost } from "./messages.ts";

/** What a shim needs to know, and no server. */
export interface JobOrder {
  readonly command: readonly string[];
  readonly env: Record<string, string>;
  readonly cwd: string;
  readonly checkpointDir: string;
  readonly checkpointSignal?: string;
  readonly checkpointCommand?: readonly string[];
  readonly graceMs: number;
  readonly user?: JobUser;
}

export interface NodeOrder extends Order {
  readonly bootId: string;
  readonly onLost: OnLost;
  /** What it was given on this node. */
  readonly resources?: Readonly<Record<string, number>>;
  readonly devices?: readonly number[];
  /** Until when it may run without another answer of a server, in seconds since the machine was started. */
  readonly leaseUntil: number;
  readonly job?: JobOrder;
}

export function readOrder(directory: string): NodeOrder | undefined {
  return readJson(join(directory, "order.json"));
}

export function readClaim(directory: string): ProcessIdentity | undefined {
  return readJson(join(directory, "claim.json"));
}

/** Whether this process is the one that may run it. */
export function claim(directory: string, identity: ProcessIdentity): boolean {
  const draft = join(directory, `claim.${identity.pid}.${identity.startTime}`);
  writeFileSync(draft, JSON.stringify(identity), { mode: 0o600 });
  try {
    linkSync(draft, join(directory, "claim.json"));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

export function readPlan(directory: string): EnclosurePlan | undefined {
  return readJson(join(directory, "plan.json"));
}

/** Needed until the machine is restarted at most. */
export function writePlan(directory: string, plan: EnclosurePlan): void {
  writeWhole(join(directory, "plan.json"), JSON.stringify(plan), false);
}
