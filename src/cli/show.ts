// berth show: one request, pool or node at length.

import type { Command } from "commander";
import { isBerthError } from "../sdk/index.ts";
import { type CliContext, CliError } from "./context.ts";
import { type ConnectionOptions, withWatch } from "./options.ts";
import { printOne, type Shape } from "./output/print.ts";
import { showRows, type Watched, type WatchOptions } from "./output/watch.ts";
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
  withWatch(command.argument("<request>", "number, name or id of a request; or a pool or node")).addHelpText(
    "after",
    HELP,
  );
  command.action((text: string, options: ConnectionOptions & WatchOptions) => show(text, options, context));
}

export async function show(
  text: string,
  options: ConnectionOptions & WatchOptions,
  context: CliContext,
): Promise<void> {
  const session = connect(options);
  const { client } = session;
  /** Once, or again whenever something happens to it. */
  const present = <Row extends object>(row: Row, shape: Shape<Row>, watched: Omit<Watched<Row>, "shape">) =>
    options.watch === true
      ? showRows(session, { shape, ...watched }, options, context)
      : printOne(row, shape, options, context);
  try {
    const request = await findRequest(client, text);
    const load = async () => [await client.requests.get(request.id)];
    return await present(request, REQUEST, { load, events: { request: request.id } });
  } catch (error) {
    if (!isNotFound(error) || /^#?\d+$/.test(text)) throw error;
    const pool = await found(findPool(client, text));
    if (!(pool instanceof CliError)) {
      const load = async () => [await client.pools.get(pool.name)];
      return present(pool, POOL, { load, events: { pool: pool.name } });
    }
    const node = await found(findNode(client, text));
    if (!(node instanceof CliError)) {
      return present(node, NODE, { load: async () => [await client.nodes.get(node.name)] });
    }
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
