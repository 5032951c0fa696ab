// A copy of what the cluster has of one kind: listed once, and then kept by a watch (bookmarks; 410: listed again).
//
// Invariant: after a break the watch goes on where it was, or everything is listed anew. Nothing is left out in between.

import { type Collection, KubernetesFailure, type WatchEvent } from "./client.ts";
import type { ClusterObject } from "./objects.ts";

export interface Mirror<T> {
  /** Undefined: nothing was listed yet. */
  items(): readonly T[] | undefined;
  close(): void;
}

export interface MirrorEvents {
  onChange(): void;
  /** For people; undefined: the cluster answers again. */
  onTrouble(message: string | undefined): void;
}

const GONE = 410;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5_000;

export function openMirror<T extends ClusterObject>(
  collection: Collection<T>,
  events: MirrorEvents,
): Mirror<T> {
  const objects = new Map<string, T>();
  const ending = new AbortController();
  let version: string | undefined;
  let isListed = false;

  async function list(): Promise<void> {
    const found = await collection.list();
    objects.clear();
    for (const object of found.items) objects.set(keyOf(object), object);
    version = found.version;
    isListed = true;
    events.onTrouble(undefined);
    events.onChange();
  }

  function take({ type, object }: WatchEvent<T>): void {
    events.onTrouble(undefined);
    switch (type) {
      case "ADDED":
      case "MODIFIED":
        objects.set(keyOf(object), object);
        break;
      case "DELETED":
        objects.delete(keyOf(object));
        break;
      case "BOOKMARK":
        version = object.metadata?.resourceVersion ?? version;
        return;
      default:
        version = undefined; // ERROR: the history is gone (410), or cannot be read.
        return;
    }
    version = object.metadata?.resourceVersion ?? version;
    events.onChange();
  }

  async function run(): Promise<void> {
    let retryMs = RETRY_MS_MIN;
    while (!ending.signal.aborted) {
      try {
        if (version === undefined) await list();
        const beganAtMs = performance.now();
        await collection.watch(version ?? "", take, ending.signal);
        events.onTrouble(undefined);
        if (performance.now() - beganAtMs > RETRY_MS_MAX) retryMs = RETRY_MS_MIN;
      } catch (error) {
        if (ending.signal.aborted) return;
        if (error instanceof KubernetesFailure && error.status === GONE) version = undefined;
        else events.onTrouble((error as Error).message);
      }
      await pause(retryMs, ending.signal);
      retryMs = Math.min(retryMs * 2, RETRY_MS_MAX);
    }
  }

  void run();
  return {
    items: () => (isListed ? [...objects.values()] : undefined),
    close: () => ending.abort(),
  };
}

function keyOf({ metadata }: ClusterObject): string {
  return metadata?.uid ?? `${metadata?.namespace}/${metadata?.name}`;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", settle);
      resolve();
    };
    const timer = setTimeout(settle, ms * (0.5 + Math.random() / 2));
    signal.addEventListener("abort", settle, { once: true });
  });
}
