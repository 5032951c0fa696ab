// berth dashboard: a link that opens the dashboard in a browser, once, with the rights of this context's token (B8).

import type { Command } from "commander";
import type { Client } from "../sdk/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection } from "./options.ts";
import { connect } from "./session.ts";

const HELP = `
The link works once, and for ten minutes. The browser is signed in for twelve hours, or until nobody has used it for one;
\`berth token list\` shows its session, and revoking the token that made the link ends it.

Examples:
  berth dashboard
  berth dashboard --context lab
  xdg-open "$(berth dashboard)"
`;

export function define(command: Command, context: CliContext): void {
  withConnection(command).addHelpText("after", HELP);
  command.action(async (options: ConnectionOptions) => {
    const { client, urls } = connect(options);
    context.write(`${await linkTo(client, urls[0] as string)}\n`);
  });
}

/** What is behind the # never leaves the browser, so that no log has it. */
export async function linkTo(client: Client, url: string): Promise<string> {
  const { once } = await client.call("createLink");
  return `${url.replace(/\/$/, "")}/#once=${once}`;
}
