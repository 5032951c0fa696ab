// One line in the log for every change: what administrators do at level info, the life of requests at level debug.

import type { Event } from "../engine/index.ts";
import type { Leader, Log } from "../leader/index.ts";

const ADMINISTRATION = /^(pool|group|policy|node|server)[A-Z]/;

/** From here on. Returns the way to stop. */
export function logChanges(leader: Leader, log: Log): () => void {
  return leader.onCommit(({ events }) => {
    for (const { seq, event } of events) {
      const write = ADMINISTRATION.test(event.kind) ? log.info : log.debug;
      write?.({ seq, ...subjectOf(event) }, wordsOf(event.kind));
    }
  });
}

/** The names in an event, without the long parts. */
function subjectOf(event: Event): Record<string, unknown> {
  const { kind: _, ...fields } = event as Event & Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => {
      if (typeof value === "string" || typeof value === "number") return [[name, value]];
      const inner = value as { name?: unknown; pool?: unknown; component?: unknown; id?: unknown } | null;
      if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return [];
      const { name: own, pool, component, id } = inner;
      return Object.entries({ name: own, pool, component, requestId: id }).filter(
        ([, one]) => typeof one === "string",
      );
    }),
  );
}

/** `requestAllocated` as `request allocated`. */
function wordsOf(kind: string): string {
  return kind.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
