// berth cluster status|handover

import type { Command } from "commander";
import type { WireCluster } from "../protocol/index.ts";
import type { CliContext } from "./context.ts";
import { type ConnectionOptions, withConnection, withOutput } from "./options.ts";
import { formatOf, type OutputOptions, printOne, printRows, type Shape } from "./output/print.ts";
import { connect } from "./session.ts";

const HELP = `
Several servers may share one PostgreSQL database: one leads, the others follow and take over when it ends.

Examples:
  berth cluster status
  berth cluster handover                              # before the leader's machine is restarted
  berth cluster handover --to http://berth-2:7770
`;

const STATUS_HELP = `
Examples:
  berth cluster status
  berth cluster status -o json
`;

const HANDOVER_HELP = `
The leader finishes what it has begun and releases its lease; another server leads a moment later.

Examples:
  berth cluster handover
  berth cluster handover --to http://berth-2:7770
`;

type Member = WireCluster["members"][number] & { readonly behind: number };

const MEMBER: Shape<Member> = {
  nameOf: ({ id }) => id,
  columns: [
    { name: "server", value: ({ url, id }) => url ?? id },
    { name: "role", value: ({ leads }) => (leads ? "leader" : "follower") },
    { name: "behind", value: ({ behind }) => (behind === 0 ? "-" : `${behind} events`), alignsRight: true },
    { name: "version", value: ({ version }) => version },
    { name: "id", value: ({ id }) => id, isWide: true },
  ],
};

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  const status = command.command("status").description("the servers, and which of them leads");
  withOutput(withConnection(status))
    .addHelpText("after", STATUS_HELP)
    .action((options: ConnectionOptions & OutputOptions) => showStatus(options, context));
  const handover = command.command("handover").description("let another server lead");
  withConnection(handover)
    .option("--to <server>", "the one that shall lead: its address, or its id")
    .addHelpText("after", HANDOVER_HELP)
    .action(async ({ to, ...options }: ConnectionOptions & { readonly to?: string }) => {
      await connect(options).client.server.handOver(to === undefined ? {} : { to });
      context.tell("The leader hands over. `berth cluster status` shows which server leads.\n");
    });
}

async function showStatus(options: ConnectionOptions & OutputOptions, context: CliContext): Promise<void> {
  const cluster = await connect(options).client.server.cluster();
  const format = formatOf(options);
  const whole = { columns: [], nameOf: () => cluster.leader ?? "" } satisfies Shape<WireCluster>;
  if (format === "json" || format === "yaml") return printOne(cluster, whole, options, context);
  const members = cluster.members.map((member) => ({ ...member, behind: cluster.seq - member.seq }));
  await printRows(members, MEMBER, options, context);
}
