// What a machine offers now, of what was enrolled (E1), and which of its GPUs may be given out.

import type { NodeRecord, Resources } from "../../engine/index.ts";
import type { WireNodeSync } from "../../protocol/index.ts";
import type { Held } from "./adopted.ts";
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
  { avoidBusy, held = NOTHING }: { readonly avoidBusy: boolean; readonly held?: Held },
): Offer {
  const { enrolled = record.capacity } = record;
  const whole = atMost(offered ?? enrolled, enrolled);
  const { gpu = 0 } = whole;
  const { gpu: gpusLeft = 0, ...others } = without(whole, held.resources);
  const isShown = gpu > 0 && reported.length >= gpu;
  if (!isShown && held.devices.size === 0) return { capacity: without(whole, held.resources), devices: null };
  const usable = isShown
    ? reported.filter(({ strangers = 0 }) => !avoidBusy || strangers === 0).map(({ index }) => index)
    : Array.from({ length: gpu }, (_, index) => index);
  const devices = [...new Set(usable)].filter((index) => !held.devices.has(index)).sort((a, b) => a - b);
  const left = Math.min(gpusLeft, devices.length);
  return { capacity: { ...others, ...(left > 0 && { gpu: left }) }, devices };
}

const NOTHING: Held = { resources: {}, devices: new Set() };

function without(capacity: Resources, held: Resources): Resources {
  return Object.fromEntries(
    Object.entries(capacity).flatMap(([key, amount]) => {
      const left = amount - (held[key] ?? 0);
      return left > 0 ? [[key, left]] : [];
    }),
  );
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
