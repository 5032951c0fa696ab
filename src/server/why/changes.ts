// Changes that would start a request in words (Y8–Y12), with who can make them and whom else they concern.

import {
  WAIT_WORDS,
  type WireParty,
  type WirePoolExplanation,
  type WireRequest,
  type WireSuggestion,
} from "../../protocol/index.ts";
import { amountsText, counted, durationText, listed } from "../../words/index.ts";
import { titleOfParty } from "./titles.ts";
import type { Facts } from "./world.ts";

/** How many changes are shown; the answer has all of them (Y11). */
const CHANGES_SHOWN = 3;
const NAMED_MAX = 3;

/** That nothing alone would do is said, too, with what stands in its way at once (Y12); and that nothing was tried (X4). */
export function changesText(facts: Facts, pool: WirePoolExplanation, request: WireRequest): string {
  const useful = facts.suggestions.filter(
    ({ pool: named, change }) => named === pool.pool || change === "another_pool",
  );
  if (useful.length > 0)
    return useful
      .slice(0, CHANGES_SHOWN)
      .map((one) => changeText(one, request))
      .join("; or ");
  if (pool.code === "held") return "";
  if (facts.starts === null) return facts.truncated ? "not known: nothing can be tried at the moment" : "";
  const blockers = pool.blockers.slice(0, 2).map((code) => WAIT_WORDS[code]);
  const tried = facts.truncated ? "nothing was found in the time allowed" : "no single change was found";
  return `${tried}: ${blockers.join(" and ")}`;
}

/** One change with what comes with it. */
export function changeText(suggestion: WireSuggestion, request: WireRequest): string {
  return `${whatText(suggestion, request)}${consequenceText(suggestion, request)}`;
}

function consequenceText(suggestion: WireSuggestion, { component }: WireRequest): string {
  const { by, starts, effects } = suggestion;
  const { preempted, rejected } = effects;
  // A run that ends because it is stopped goes back in line: that it starts again is no news for the reader.
  const own = suggestion.change === "run_ends" ? suggestion.request.id : undefined;
  const granted = effects.granted.filter(({ id }) => id === null || id !== own);
  const titles = (all: readonly WireParty[]) =>
    listed([
      ...all.slice(0, NAMED_MAX).map((one) => titleOfParty(one, component)),
      ...(all.length > NAMED_MAX ? [`${all.length - NAMED_MAX} more`] : []),
    ]);
  const is = (all: readonly unknown[]) => (all.length === 1 ? "is" : "are");
  const parts = [
    ...(by === "you" ? [] : [by === "operator" ? "ask an operator" : "wait for it"]),
    ...(preempted.length > 0 ? [`${titles(preempted)} ${is(preempted)} stopped`] : []),
    ...(rejected.length > 0 ? [`${titles(rejected)} ${is(rejected)} rejected`] : []),
    ...(granted.length > 0 ? [`${titles(granted)} ${granted.length === 1 ? "starts" : "start"} too`] : []),
    ...(starts === "after" && preempted.length === 0 ? ["when others have stopped"] : []),
  ];
  return parts.length === 0 ? "" : ` (${parts.join("; ")})`;
}

function whatText(suggestion: WireSuggestion, { component }: WireRequest): string {
  switch (suggestion.change) {
    case "fewer_units":
      return `it asked for ${amountsText(suggestion.resources)}`;
    case "fewer_nodes":
      return `it asked for ${suggestion.nodes} ${suggestion.nodes === 1 ? "node" : "nodes"}`;
    case "walltime":
      return `it had a walltime of ${durationText(suggestion.walltime_seconds)}`;
    case "another_pool":
      return `${component} could use pool ${suggestion.pool}`;
    case "preemptible":
      return "it were preemptible";
    case "higher_class":
      return `its class were ${suggestion.preemption_class}`;
    case "higher_limit":
      return `the limit of ${component} were ${amountsText(suggestion.limit)}`;
    case "higher_group_limit":
      return `the limit of group ${suggestion.group} were ${amountsText(suggestion.limit)}`;
    case "more_reserved":
      return `${component} had ${amountsText(suggestion.reserved)} reserved`;
    case "higher_priority":
      return `the priority of ${component} were ${suggestion.priority}`;
    case "more_capacity":
      return suggestion.nodes === null
        ? `the pool had ${amountsText(suggestion.capacity)}`
        : `the pool had ${counted(suggestion.nodes.count, "more node")} like ${suggestion.nodes.like}`;
    case "node_back":
      return `node ${suggestion.node} were back`;
    case "run_ends":
      return `${titleOfParty(suggestion.request, component)} ended`;
    case "ahead_withdrawn":
      return `${titleOfParty(suggestion.request, component)} were withdrawn`;
  }
}
