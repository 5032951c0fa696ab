// Nodes in the state: what an event about a node means for its pool (12).

import type { Command } from "./commands.ts";
import type { Event } from "./events.ts";
import { refuse } from "./refusals.ts";
import type { Transaction } from "./scheduling/transaction.ts";
import type { EngineState } from "./state.ts";

type NodeEvent = Extract<Event, { kind: "nodeSet" | "nodeStateChanged" | "nodeRemoved" }>;
type NodeCommand = Extract<
  Command,
  { kind: "putNode" | "drainNode" | "undrainNode" | "suspectNode" | "loseNode" | "removeNode" }
>;

export function decideNode(_transaction: Transaction, command: NodeCommand): void {
  refuse("invalid_request", `${command.kind} is not there yet.`, "Use a pool with a capacity of its own.");
}

export function evolveNode(_state: EngineState, event: NodeEvent): void {
  throw new Error(`nodes are not there yet: ${event.kind}`);
}
