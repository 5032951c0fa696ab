// The highest epoch and the newest grant that an executor has ever seen. Every sync has them: a server whose history
// has less knows then that its database has lost something (C14).

import { join } from "node:path";
import type { WireNodeSync } from "../protocol/index.ts";
import type { SyncAnswer } from "./executor.ts";
import { readJson, writeDurably } from "./journal.ts";

export type Highest = NonNullable<WireNodeSync["highest"]>;

export interface HighestKeeper {
  /** Undefined before the first answer. */
  known(): Highest | undefined;
  /** Counts at once, and is durable on return; if that fails, it is tried again with the next answer. */
  note(answer: Pick<SyncAnswer, "epoch" | "jobs">): void;
}

export function keepHighest(stateDirectory: string): HighestKeeper {
  const file = join(stateDirectory, "highest.json");
  let highest = readJson<Highest>(file);
  let isKept = true;
  return {
    known: () => highest,
    note({ epoch, jobs }) {
      const next = { ...highest, epoch: Math.max(epoch, highest?.epoch ?? 0) };
      for (const { token, request_id } of jobs)
        if (numberOf(token) > numberOf(next.token)) Object.assign(next, { token, request_id });
      if (isKept && next.epoch === highest?.epoch && next.token === highest.token) return;
      highest = next;
      isKept = false;
      writeDurably(file, highest);
      isKept = true;
    },
  };
}

/** Grant tokens begin with a number that grows. */
function numberOf(token = "0"): number {
  return Number.parseInt(token, 10) || 0;
}
