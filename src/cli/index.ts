// The command line. Other folders import from this file only.

export type { CliContext, CommandModule } from "./context.ts";
export { CliError } from "./context.ts";
export { commandNames, createProgram, main } from "./main.ts";
export { toAscii } from "./output/text.ts";
export { programName } from "./program.ts";
export type { HostedOptions, HostedServer, Hosting, Inspection } from "./serving/hosting.ts";
