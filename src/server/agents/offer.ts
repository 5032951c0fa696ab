// What a machine offers now, of what was enrolled (E1), and which of its GPUs may be given out.

import type { NodeRecord, Resources } from "../../engine/index.ts";
import type { WireNodeSync } from "../../protocol/index.ts";
import { isSame } from "./machines.ts";

export interface Offer {
  readonly capacity: Resources;
  /** `null`: from 0 on, because the machine does not show as many GPUs as it offers. */
  readonly devices: readonly number[] | null;
}

/**
 * An agent may lower what was enrolled, not raise it. A machine whose GPUs are not numbered from 0 on without gaps, or some of
 * which are kept out of use, has indices of its own; one that pretends to have GPUs has none.
 */
export function offerOf(
  record: NodeRecord,
  { capacity: offered, devices: reported = [] }: Pick<WireNodeSync, "capacity" | "devices">,
  { avoidBusy }: { readonly avoidBusy: boolean },
): Offer {
  const { enrolled = record.capacity } = record;
  const capacity = atMost(offered ?? enrolled, enrolled);
  const { gpu = 0, ...others } = capacity;
  if (gpu === 0 || reported.length < gpu) return { capacity, devices: null };
  const usable = reported.filter(({ strangers = 0 }) => !avoidBusy || strangers === 0);
  const devices = [...new Set(usable.map(({ index }) => index))].sort((a, b) => a - b);
  const left = Math.min(gpu, devices.length);
  return { capacity: { ...others, ...(left > 0 && { gpu: left }) }, devices };
}

/** Keys that were not enrolled do not count. */
export function atMost(offered: Resources, enrolled: Resources): Resources {
  return Object.fromEntries(
    Object.entries(enrolled).flatMap(([key, most]) => {
      const amount = Math.min(offered[key] ?? 0, most);
      return amount > 0 ? [[key, amount]] : [];
    }),
  );
}

/** What a node offers is what is recorded of it. */
export function isRecorded({ capacity, devices }: Offer, record: NodeRecord): boolean {
  return isSame(capacity, record.capacity) && (devices?.join() ?? null) === (record.devices?.join() ?? null);
}
