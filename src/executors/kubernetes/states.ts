// What the conditions of a pod mean (K3). Pure.

import { type Circumstances, outcomeOf } from "../../runner/index.ts";
import type { StoredEnd } from "../journal.ts";
import { CONTAINER, JOB_LABEL } from "./labels.ts";
import type { ContainerStatus, Pod } from "./objects.ts";

/** How a pod ended, in what of it is worth keeping. */
export type PodEnd =
  | {
      readonly kind: "exited";
      readonly exitCode: number;
      readonly isOutOfMemory?: boolean;
      /** What the program left as its last word (11.2). */
      readonly said?: string;
      readonly at?: string;
    }
  /** Ended by the machine or in Kubernetes. */
  | { readonly kind: "lost"; readonly why: string; readonly at?: string }
  /** It was never started. */
  | { readonly kind: "refused"; readonly why: string };

export interface PodFacts {
  readonly uid: string;
  readonly name: string;
  /** The job that it belongs to. */
  readonly job: string;
  /** `ending`: it was asked to end, and still runs. `over`: nothing of it runs any more. */
  readonly stage: "waiting" | "running" | "ending" | "over";
  /** It was deleted. */
  readonly isDeleted: boolean;
  /** Why it waits, by the word of the scheduler or of its node. */
  readonly why: string | undefined;
  /** Of a pod that is over. */
  readonly end: PodEnd | undefined;
}

/** Reasons of a pod that failed through no fault of its program. */
const LOST = new Set([
  "Evicted",
  "NodeLost",
  "Shutdown",
  "NodeShutdown",
  "Terminated",
  "Preempting",
  "Preempted",
]);
/** Reasons of a container that never ran. */
const NOT_STARTED = new Set([
  "StartError",
  "ContainerCannotRun",
  "CreateContainerError",
  "RunContainerError",
]);

export function factsOf(pod: Pod): PodFacts {
  const { metadata = {} } = pod;
  const isDeleted = metadata.deletionTimestamp !== undefined && metadata.deletionTimestamp !== null;
  const isOver = isOverOf(pod, isDeleted);
  const isAtWork = stateOf(pod)?.running != null;
  return {
    uid: metadata.uid ?? "",
    name: metadata.name ?? "",
    job: metadata.labels?.[JOB_LABEL] ?? "",
    stage: isOver ? "over" : isDeleted ? "ending" : isAtWork ? "running" : "waiting",
    isDeleted,
    why: isOver || isAtWork ? undefined : whyWaiting(pod),
    end: isOver ? endOf(pod) : undefined,
  };
}

/** Of the command. */
function stateOf({ status }: Pod): ContainerStatus["state"] {
  const states = status?.containerStatuses ?? [];
  return (states.find(({ name }) => name === CONTAINER) ?? states[0])?.state;
}

/**
 * A pod that has ended holds nothing, though it is still shown; before Kubernetes 1.27 a node that evicts one may call it failed
 * while it still runs. One that was deleted is over when its node says so: by its containers, or by setting its remaining time to
 * zero, as a forced deletion also does. One without a node never ran.
 */
function isOverOf({ metadata, spec, status = {} }: Pod, isDeleted: boolean): boolean {
  const states = (status.containerStatuses ?? []).map(({ state }) => state);
  const hasEnded = status.phase === "Succeeded" || status.phase === "Failed";
  if (hasEnded && states.every((state) => state?.running == null)) return true;
  if (!isDeleted) return false;
  const areEnded = states.length > 0 && states.every((state) => state?.terminated != null);
  return areEnded || metadata?.deletionGracePeriodSeconds === 0 || spec?.nodeName === undefined;
}

function whyWaiting({ status = {} }: Pod): string | undefined {
  const waiting = status.containerStatuses?.find(({ state }) => state?.waiting != null)?.state?.waiting;
  if (
    waiting?.reason !== undefined &&
    waiting.reason !== "ContainerCreating" &&
    waiting.reason !== "PodInitializing"
  )
    return joined(waiting.reason, waiting.message);
  const unscheduled = status.conditions?.find(
    ({ type, status: is }) => type === "PodScheduled" && is === "False",
  );
  if (unscheduled !== undefined) return unscheduled.message ?? unscheduled.reason;
  return status.reason === undefined ? undefined : joined(status.reason, status.message);
}

function endOf(pod: Pod): PodEnd {
  const { metadata, status = {} } = pod;
  const disruption = status.conditions?.find(
    ({ type, status: is }) => type === "DisruptionTarget" && is === "True",
  );
  const { terminated } = stateOf(pod) ?? {};
  const at = terminated?.finishedAt == null ? {} : { at: new Date(terminated.finishedAt).toISOString() };
  if (disruption !== undefined)
    return { kind: "lost", why: joined(disruption.reason ?? "DisruptionTarget", disruption.message), ...at };
  if (LOST.has(status.reason ?? ""))
    return { kind: "lost", why: joined(status.reason ?? "", status.message), ...at };
  if (terminated == null) {
    if (metadata?.deletionTimestamp != null) return { kind: "lost", why: "its pod was deleted" };
    return { kind: "refused", why: joined(status.reason ?? "Failed", status.message) };
  }
  if (NOT_STARTED.has(terminated.reason ?? ""))
    return { kind: "refused", why: joined(terminated.reason ?? "", terminated.message) };
  const { exitCode, signal = 0, reason, message } = terminated;
  return {
    kind: "exited",
    exitCode: signal > 0 ? 128 + signal : exitCode,
    ...(reason === "OOMKilled" && { isOutOfMemory: true }),
    ...(message !== undefined && message !== "" && { said: message }),
    ...at,
  };
}

/** "Try again": so ends a program that has stopped as it was asked to, with its state saved. */
const STOPPED_AS_ASKED = 75;

/** What the program said last about its state (11.2): in its report file, or by its exit code. */
export function wordOf(end: PodEnd, isAsked: boolean): "done" | "finished" | undefined {
  if (end.kind !== "exited") return undefined;
  const words = (end.said ?? "").split(/\s+/);
  if (words.includes("finished")) return "finished";
  return words.includes("done") || (isAsked && end.exitCode === STOPPED_AS_ASKED) ? "done" : undefined;
}

/** How the attempt ended, by how its pod did. */
export function storedEndOf(end: PodEnd, circumstances: Circumstances): StoredEnd["end"] {
  const isAsked = circumstances.told !== undefined;
  const at = end.kind !== "refused" && end.at !== undefined ? { ended_at: end.at } : {};
  switch (end.kind) {
    case "lost":
      return isAsked
        ? { outcome: "stopped", ...at }
        : { outcome: "lost", message: `Kubernetes ended it: ${end.why}.`, ...at };
    case "refused":
      return isAsked
        ? { outcome: "stopped" }
        : { outcome: "failed", cause: "start_failed", message: `Kubernetes did not start it: ${end.why}.` };
    case "exited": {
      const { exitCode } = end;
      if (end.isOutOfMemory === true && !isAsked)
        return { outcome: "failed", cause: "oom", exit_code: exitCode, ...at };
      return { outcome: outcomeOf({ exitCode, signal: null }, circumstances), exit_code: exitCode, ...at };
    }
    default:
      return end satisfies never;
  }
}

function joined(reason: string, message: string | undefined): string {
  const text = message === undefined || message === "" ? reason : `${reason}: ${message}`;
  return text.replace(/\.$/, "");
}
