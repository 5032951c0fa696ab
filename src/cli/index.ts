// The command line. Other folders import from this file only.

export type { CliContext, CommandModule } from "./context.ts";
export { CliError } from "./context.ts";
export { main } from "./main.ts";
