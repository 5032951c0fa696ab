// How requests are named in words, and what permits and protections are called.

import type { WireParty, WirePermit, WireProtection } from "../../protocol/index.ts";

export function titleOf({ number, name }: { readonly number: number; readonly name: string }): string {
  return name === "" ? `#${number}` : `#${number} ${name}`;
}

/** Whose it is goes without saying where it is the caller's own component. */
export function titleOfParty({ number, name, component }: WireParty, own?: string): string {
  if (number === undefined) return "another team's request";
  const title = titleOf({ number, name: name ?? "" });
  return component === undefined || component === own ? title : `${title} of ${component}`;
}

export const PERMITTED: Readonly<Record<WirePermit, string>> = {
  priority: "by priority",
  reclaim: "to take back what is reserved",
  gap: "since it only fills a gap",
  class: "by class",
  sensitive_claim: "as a sensitive claim",
  beyond_share: "since it is beyond its fair share",
  within_share: "since the other starves aggressively",
};

export const PROTECTED: Readonly<Record<WireProtection["by"], string>> = {
  not_preemptible: "it is not preemptible",
  sensitive: "it is sensitive",
  top_class: "it is of class 10",
  no_checkpoint: "from higher classes, by its class without a checkpoint",
  service: "it is a service within its reserve",
  own_reserve: "it uses only what is reserved for it",
  min_runtime: "it has not run long enough",
  shield: "it was stopped too often lately",
  near_completion: "it is nearly done",
  fair_share: "it is within the fair share of its operation",
};
