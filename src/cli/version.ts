// berth version

import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection } from "./options.ts";

const HELP = `
Examples:
  berth version
  berth version --server
`;

export function define(command: Command, context: CliContext): void {
  withConnection(command.option("--server", "that of the server, too")).addHelpText("after", HELP);
  command.action(async ({ server, ...options }: ConnectionOptions & { server?: boolean }) => {
    context.write(`${context.version}\n`);
    if (server !== true) return;
    const { connect } = await import("./session.ts");
    const { client, urls } = connect(options);
    const { version } = await client.server.version();
    context.write(`${version} at ${urls.join(",")}\n`);
  });
}
