// Work that runs by a grant which the database has lost (C14, E4): its node reports it with a token that is ours and that no
// history has any more. It is adopted: it goes on and keeps its units until it ends, and its request is started nowhere else.
//
// After a loss it is unknown what still runs. So nothing is started until all nodes have reported, or are down.

import {
  type EngineState,
  type NodeName,
  nodeViewsOf,
  type RequestId,
  requestOf,
} from "../../engine/index.ts";
import type { View } from "../../leader/index.ts";
import type { WireRunningPart, WireWantedPart } from "../../protocol/index.ts";
import type { Grants } from "../grants.ts";
import { keyOf, type Reporter, reportersOf } from "./reporters.ts";

export interface Adopted {
  /** What a reporter says now; returns those parts of it that are seen for the first time. */
  note(reporter: string, parts: readonly WireRunningPart[]): WireRunningPart[];
  /** What it last reported with lost grants. */
  of(reporter: string): readonly WireRunningPart[];
  /** Whether the request still runs at another reporter by a lost grant. */
  runsElsewhere(requestId: string, reporter: string): boolean;
  /** Another history has begun. */
  beginHistory(): void;
  /** Whether some node that may run something has not reported since. */
  isWaiting(state: EngineState): boolean;
}

/** A node that is silent for longer is down, or would be. */
const WAIT_MS_MAX = 300_000;

export function createAdopted(grants: Pick<Grants, "isLost">, nowMs = () => performance.now()): Adopted {
  const byReporter = new Map<string, readonly WireRunningPart[]>();
  const seen = new Set<string>();
  let wait: { readonly untilMs: number; readonly heard: Set<string> } | undefined;
  return {
    note(reporter, parts) {
      wait?.heard.add(reporter);
      const lost = parts.filter(({ request_id, token }) => grants.isLost(request_id, token));
      if (lost.length === 0) byReporter.delete(reporter);
      else byReporter.set(reporter, lost);
      const news = lost.filter(({ token }) => !seen.has(token));
      for (const { token } of news) seen.add(token);
      return news;
    },
    of: (reporter) => byReporter.get(reporter) ?? [],
    runsElsewhere: (requestId, reporter) =>
      [...byReporter].some(
        ([other, parts]) =>
          other !== reporter &&
          parts.some(({ request_id, phase }) => request_id === requestId && phase !== "ended"),
      ),
    beginHistory() {
      wait = { untilMs: nowMs() + WAIT_MS_MAX, heard: new Set() };
    },
    isWaiting(state) {
      if (wait === undefined) return false;
      const { heard, untilMs } = wait;
      const isOpen = [...state.nodes.values()].some(
        ({ record, pool }) =>
          pool.record.settings.executor === "agents" && record.state !== "down" && !heard.has(record.name),
      );
      if (!isOpen || nowMs() > untilMs) wait = undefined;
      return wait !== undefined;
    },
  };
}

/** Of these the grants are lost, and their requests have none here: they are not in the node's books. */
export function outsiders(view: View, reporter: Reporter, adopted: Adopted): WireRunningPart[] {
  const key = keyOf(reporter);
  return adopted
    .of(key)
    .filter(({ request_id }) => !reportersOf(view.state, request_id as RequestId).includes(key));
}

/** What is in use on a node, and in no books. */
export interface Held {
  readonly resources: Readonly<Record<string, number>>;
  readonly devices: ReadonlySet<number>;
}

/**
 * What outsiders have is no one else's. Nor are the devices of work whose request has a grant again, with others: it has not moved.
 * Agents of the version before do not say what their work has.
 */
export function heldIn(view: View, node: NodeName, adopted: Adopted): Held {
  const resources: Record<string, number> = {};
  const living = adopted.of(node).filter(({ phase }) => phase !== "ended");
  const outside = new Set(outsiders(view, { kind: "node", node }, adopted));
  for (const part of living.filter((one) => outside.has(one)))
    for (const [key, amount] of Object.entries(part.resources ?? {}))
      resources[key] = (resources[key] ?? 0) + amount;
  const strayed = living.filter((part) => {
    const placement =
      requestOf(view.state, part.request_id as RequestId)?.progress.allocation?.placement ?? [];
    const granted = placement.find((place) => place.node === node)?.devices.join();
    return granted !== part.devices?.join();
  });
  return { resources, devices: new Set(strayed.flatMap(({ devices = [] }) => devices)) };
}

/**
 * Whether an outsider stays: not if its request has ended, or runs where it was granted since. One that has ended stays until
 * its request can take the end.
 */
export function stays(
  view: View,
  part: WireRunningPart,
  hasStarted: (requestId: RequestId) => boolean,
): boolean {
  const id = part.request_id as RequestId;
  const progress = requestOf(view.state, id)?.progress;
  if (progress === undefined) return part.phase !== "ended"; // Only its node knows of it.
  if (progress.endedAtMs !== null) return false;
  return progress.allocation === null || !hasStarted(id);
}

/** It goes on; nothing else is known about it. */
export function wantedOutsider(view: View, part: WireRunningPart, nodes: string[]): WireWantedPart {
  const { request_id, token, resources = {}, devices = [] } = part;
  const number = view.numberOf(request_id as RequestId) ?? 0;
  return {
    ...{ request_id, token, number, nodes, resources, devices: [...devices] },
    ...{ name: "", component: "", submitted_by: "", operation: null, attempt: 0, rank: 0, array_index: null },
    ...{ checkpoint: "none", resume: false, grace_seconds: 0, checkpoint_seconds: 0, signals: [] },
    instruction: { do: "carry_on" },
  };
}

/** Whether what is granted on the node would meet what is held there. */
export function meets(view: View, node: NodeName, devices: readonly number[], held: Held): boolean {
  if (devices.some((index) => held.devices.has(index))) return true;
  const [shown] = nodeViewsOf(view.state, [node]);
  const granted = (shown?.runs ?? []).map(
    ({ requestId }) => requestOf(view.state, requestId)?.spec.resources,
  );
  return Object.keys(held.resources).some((key) => {
    const used = granted.reduce((sum, resources) => sum + (resources?.[key] ?? 0), 0);
    return used > (shown?.record.capacity[key] ?? 0);
  });
}
