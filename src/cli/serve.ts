// berth serve: a server for a team. Creates nothing but the first admin token.

import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { type CliContext, CliError } from "./context.ts";
import { oneOf } from "./options.ts";
import { plainIfNeeded } from "./output/print.ts";
import { shownPath } from "./paths.ts";
import { writePrivateFile } from "./private-file.ts";
import { hostingOf, listenForEnd, openHosted } from "./serving/host.ts";
import { LOG_LEVELS } from "./serving/hosting.ts";
import { findRunning, leaveNote, takeNoteAway } from "./serving/running.ts";
import { type ServingFlags, servingSettings, withServing } from "./serving/settings.ts";
import { hostedOptions } from "./up.ts";

interface ServeOptions extends ServingFlags {
  readonly tokenFile?: string;
  readonly logLevel?: string;
}

const HELP = `
The first start on an empty store makes an administrator's token. It is shown once on a terminal; otherwise it is
written to a file that only its owner can read. The log is one JSON object per line, on stderr.

Examples:
  berth serve --data-dir /var/lib/berth
  berth serve --listen 0.0.0.0:7770 --tls-cert cert.pem --tls-key key.pem
  berth serve --database-url postgres://berth@db/berth
  berth serve --config server.yaml
`;

export function define(command: Command, context: CliContext): void {
  withServing(command)
    .option("--token-file <file>", "where the first token is written")
    .option(
      "--log-level <level>",
      "debug: a line for every change; info: for those of pools, groups, policies and nodes; warn; error",
      "info",
    )
    .addHelpText("after", HELP)
    .action((options: ServeOptions) => serve(options, context));
}

async function serve(options: ServeOptions, context: CliContext): Promise<void> {
  const settings = await servingSettings(options);
  const running = settings.databaseUrl === undefined ? findRunning(settings.dataDir) : undefined;
  if (running !== undefined) {
    throw new CliError(
      "in_use",
      `A server runs on this data already: ${running.url} (pid ${running.pid}).`,
      "Stop it with `berth down`, or choose another --data-dir.",
    );
  }
  const ending = listenForEnd();
  const server = await openHosted(await hostingOf(context), {
    ...hostedOptions(settings, context),
    firstTokenName: "admin",
    log: "lines",
    logLevel: oneOf("--log-level", options.logLevel ?? "info", LOG_LEVELS),
  });
  try {
    if (settings.databaseUrl === undefined) leaveNote(settings.dataDir, server.url);
    const lines = [`✓ store      ${shownPath(server.storeName)}`, `✓ listening  ${server.url}`];
    if (server.firstToken !== undefined) {
      lines.push(`✓ token      ${keepToken(server.firstToken.secret, options, settings.dataDir, context)}`);
      lines.push(`Next:  ${context.program ?? "berth"} login ${server.url}`);
    }
    context.write(plainIfNeeded(`${lines.join("\n")}\n`, context));
    process.send?.({ ready: server.url });
    await ending.asked;
  } finally {
    await server.close();
    takeNoteAway(settings.dataDir);
    ending.stop();
  }
}

/** Secrets do not belong into logs: without a terminal they go to a file. */
function keepToken(
  secret: string,
  { tokenFile }: ServeOptions,
  dataDir: string,
  context: CliContext,
): string {
  if (tokenFile === undefined && context.screen !== undefined)
    return `${secret}   (administrator; not shown again)`;
  const file = tokenFile ?? join(dataDir, "admin-token");
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writePrivateFile(file, `${secret}\n`);
  return `${shownPath(file)}   (administrator; mode 0600)`;
}
