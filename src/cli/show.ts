// berth show: one request, pool or node at length.

import type { Command } from "commander";
import { isBerthError } from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { type ConnectionOptions, withConnection, withOutput, withWatch } from "./options.ts";
import { printOne } from "./output/print.ts";
import { showRows, type WatchOptions } from "./output/watch.ts";
import { connect, findNode, findPool, findRequest } from "./session.ts";
import { NODE, POOL, REQUEST } from "./shapes.ts";

const HELP = `
Numbers and ids are requests. A name is looked for among requests, then pools, then nodes.

Examples:
  berth show 42
  berth show train -o json
  berth show lab
  berth show 42 --watch
`;

export function define(command: Command, context: CliContext): void {
  withWatch(
    withOutput(
      withConnection(command.argument("<request>", "number, name or id of a request; or a pool or node")),
    ),
  ).addHelpText("after", HELP);
  command.action((text: string, options: ConnectionOptions & WatchOptions) => show(text, options, context));
}

export async function show(
  text: string,
  options: ConnectionOptions & WatchOptions,
  context: CliContext,
): Promise<void> {
  const session = connect(options);
  const { client } = session;
  try {
    const request = await findRequest(client, text);
    if (options.watch !== true) return await printOne(request, REQUEST, options, context);
    const load = async () => [await client.requests.get(request.id)];
    return await showRows(
      session,
      { load, shape: REQUEST, events: { request: request.id } },
      options,
      context,
    );
  } catch (error) {
    if (!isNotFound(error) || /^#?\d+$/.test(text)) throw error;
    const pool = await found(findPool(client, text));
    if (!(pool instanceof CliError)) return printOne(pool, POOL, options, context);
    const node = await found(findNode(client, text));
    if (!(node instanceof CliError)) return printOne(node, NODE, options, context);
    throw (
      [error, pool, node].find((one) => one instanceof CliError && one.hint.startsWith("Did you mean")) ??
      error
    );
  }
}

/** What is not there is an answer like any other. */
async function found<T>(looked: Promise<T>): Promise<T | CliError> {
  try {
    return await looked;
  } catch (error) {
    if (error instanceof CliError && error.code === "not_found") return error;
    throw error;
  }
}

function isNotFound(error: unknown): boolean {
  return isBerthError(error, "not_found") || (error instanceof CliError && error.code === "not_found");
}
