// Compares what a scenario expects with what was seen.

import type { Expectation } from "./scenario.ts";
import type { Observation } from "./scheduler.ts";

/** One line per difference; only what is named is compared. */
export function differences(expected: Expectation, seen: Observation): string[] {
  const found: string[] = [];
  const check = (what: string, want: unknown, got: unknown) => {
    if (JSON.stringify(want) !== JSON.stringify(got)) {
      found.push(`${what}: expected ${JSON.stringify(want)}, saw ${JSON.stringify(got)}`);
    }
  };
  check("error", expected.error, seen.error);
  for (const field of [
    "status",
    "pool",
    "reason",
    "attempt",
    "preempted_count",
    "resume",
    "placed",
    "starvation",
    "allocation_group",
  ] as const) {
    for (const [id, value] of Object.entries(expected[field] ?? {})) {
      check(`${field} of ${id}`, value, seen[field][id]);
    }
  }
  if (expected.preempted) check("preempted", expected.preempted.toSorted(), seen.preempted.toSorted());
  for (const [pool, queue] of Object.entries(expected.queue ?? {})) {
    check(`queue of ${pool}`, queue, seen.queue[pool] ?? []);
  }
  for (const field of ["usage", "borrowed"] as const) {
    for (const [name, amounts] of Object.entries(expected[field] ?? {})) {
      for (const [key, amount] of Object.entries(amounts)) {
        check(`${field} of ${name}, ${key}`, amount, seen[field][name]?.[key] ?? 0);
      }
    }
  }
  for (const [name, amounts] of Object.entries(expected.shares ?? {})) {
    for (const [key, share] of Object.entries(amounts)) {
      const got = seen.shares[name]?.[key];
      if (got === undefined || Math.abs(got - share) > 1e-6) check(`share of ${name}, ${key}`, share, got);
    }
  }
  for (const [id, want] of Object.entries(expected.rejected ?? {})) {
    const got = seen.rejected[id];
    if (typeof want === "string" && typeof got === "object") {
      for (const [pool, code] of Object.entries(got)) check(`rejected ${id} by ${pool}`, want, code);
    } else check(`rejected ${id}`, sorted(want), sorted(got));
  }
  return found;
}

function sorted(codes: string | Record<string, string> | undefined): unknown {
  return typeof codes === "object" ? Object.entries(codes).sort() : codes;
}
