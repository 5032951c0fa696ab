// berth events: what happens, as it happens.

import type { Command } from "commander";
import type { WireEvent } from "../protocol/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, wholeNumber, withConnection, withOutput } from "./options.ts";
import { formatOf, type OutputOptions, type Shape, textOfRows, toYaml } from "./output/print.ts";
import { connect, findPool, findRequest, titleOf } from "./session.ts";

interface EventsOptions extends ConnectionOptions, OutputOptions {
  readonly pool?: string;
  readonly request?: string;
  readonly after?: string;
  readonly limit?: string;
  readonly watch?: boolean;
}

const HELP = `
Goes on until you stop it. \`--after 0\` begins with everything that is still known.

Examples:
  berth events
  berth events --request 42
  berth events --pool lab -o jsonl
  berth events --after 0 --limit 20
`;

const SHAPE: Shape<WireEvent> = {
  nameOf: ({ seq }) => String(seq),
  columns: [
    { name: "at", value: ({ at }) => at.replace("T", " ").replace(/\.\d+Z$/, "") },
    { name: "event", value: ({ event }) => event.padEnd(20) },
    { name: "what", value: (event) => subjectOf(event).padEnd(24) },
    { name: "detail", value: detailOf },
    { name: "seq", value: ({ seq }) => String(seq), isWide: true },
    { name: "request_id", value: ({ request_id }) => request_id ?? "-", isWide: true },
  ],
};

export function define(command: Command, context: CliContext): void {
  withOutput(withConnection(command))
    .option("--pool <pool>", "only what concerns this pool")
    .option("--request <request>", "only what concerns this request")
    .option("--component <component>", "only what concerns this component")
    .option("--after <seq>", "begin after this event")
    .option("--limit <count>", "end after this many")
    .option("-w, --watch", "as always")
    .addHelpText("after", HELP)
    .action((options: EventsOptions) => events(options, context));
}

async function events({ component, ...options }: EventsOptions, context: CliContext): Promise<void> {
  const format = formatOf(options);
  const { client } = connect(options);
  const filter = {
    ...(options.pool && { pool: (await findPool(client, options.pool)).name }),
    ...(options.request && { request: (await findRequest(client, options.request)).id }),
    ...(component && { component }),
  };
  const after = options.after === undefined ? undefined : wholeNumber("--after", options.after);
  let left = options.limit === undefined ? Number.POSITIVE_INFINITY : wholeNumber("--limit", options.limit);
  let isFirst = true;
  for await (const event of client.events.stream(filter, {
    ...(after !== undefined && { after }),
    signal: context.signal,
    onInterruption: ({ message }) => context.tell(`berth: ${message} Trying again.\n`),
  })) {
    if (event.event === "stream.opened") continue;
    if (event.event === "stream.reset") context.tell("berth: some of the history is gone.\n");
    if (format === "yaml") context.write(`---\n${await toYaml(event)}`);
    else {
      const headers = isFirst && options.headers !== false;
      context.write(textOfRows([event], SHAPE, { ...options, output: format, headers }, context));
    }
    isFirst = false;
    left -= 1;
    if (left <= 0) return;
  }
}

function subjectOf({ number, name = "", component, pool, ...rest }: WireEvent): string {
  if (number !== undefined)
    return `${titleOf({ number, name })}${component === undefined ? "" : ` of ${component}`}`;
  const { group, node } = rest as { group?: string; node?: string };
  return [pool, group ?? node ?? component].filter((part) => part != null).join("/") || "-";
}

function detailOf(event: WireEvent): string {
  const { number, pool, reason, phase, outcome, cause, state, placement, why } = event as Record<
    string,
    unknown
  > &
    WireEvent;
  const placed = Array.isArray(placement)
    ? placement.map(({ node }: { node: string }) => node).join(",")
    : "";
  const parts = [number === undefined ? "" : (pool ?? ""), reason, cause, phase, outcome, state, why, placed];
  return parts.filter((part) => typeof part === "string" && part !== "").join(", ") || "-";
}
