// berth demo (placeholder until the stories are there)
import type { Command } from "commander";
import type { CliContext } from "./context.ts";
export function define(command: Command, context: CliContext): void {
  command.action(() => context.tell("soon\n"));
}
