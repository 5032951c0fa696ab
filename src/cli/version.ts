// berth version

import type { Command } from "commander";
import type { CliContext } from "./context.ts";

export function define(command: Command, context: CliContext): void {
  command.action(() => context.write(`${context.version}\n`));
}
