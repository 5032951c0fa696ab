// berth login URL: saves a server and a token as a context.

import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { createClient } from "../sdk/index.ts";
import { saveContext } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";

interface LoginOptions {
  readonly name?: string;
  readonly component?: string;
  readonly tokenFile?: string;
}

const HELP = `
The token is taken from --token-file, from BERTH_API_TOKEN, from stdin, or asked for. It is tried before it is saved,
in a file that only you can read.

Examples:
  berth login https://berth.example.com
  berth login http://127.0.0.1:7770 --name lab --component vision < token
`;

export function define(command: Command, context: CliContext): void {
  command
    .argument("<url>", "address of the server; several are separated by commas")
    .option("--name <name>", "what to call the context; by default the server's host name")
    .option("--component <component>", "who asks, unless a command says otherwise")
    .option("--token-file <file>", "a file with the token")
    .addHelpText("after", HELP)
    .action((url: string, options: LoginOptions) => login(url, options, context));
}

async function login(url: string, options: LoginOptions, context: CliContext): Promise<void> {
  const urls = url.split(",").map((one) => one.trim());
  const host = hostOf(urls[0] as string);
  const token = await readToken(options, context);
  const { name: who, role, components } = await createClient({ urls, token, retryForMs: 2_000 }).whoami();
  const component = options.component ?? (components?.length === 1 ? components[0] : undefined);
  const name = options.name ?? host;
  saveContext(name, { url: urls.join(","), token, ...(component !== undefined && { component }) });
  const as = component === undefined ? "" : `, component ${component}`;
  context.write(`Context ${name} saved and in use: ${who} (${role}${as}).\n`);
}

function hostOf(url: string): string {
  try {
    const { protocol, hostname } = new URL(url);
    if (/^https?:$/.test(protocol) && hostname !== "") return hostname;
  } catch {
    // Told below.
  }
  throw new CliError(
    "usage",
    `"${url.slice(0, 80)}" is not the address of a server.`,
    "Write it like http://127.0.0.1:7770.",
  );
}

async function readToken({ tokenFile }: LoginOptions, context: CliContext): Promise<string> {
  const given = tokenFile === undefined ? process.env.BERTH_API_TOKEN : readTokenFile(tokenFile);
  const token =
    given ||
    (context.ask === undefined
      ? await context.readStdin?.()
      : await context.ask("Token (not shown): ", { isSecret: true }));
  if (token !== undefined && token.trim() !== "") return token.trim();
  throw new CliError("usage", "There is no token.", "Set BERTH_API_TOKEN, give --token-file, or pipe it in.");
}

function readTokenFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    throw new CliError("file_unreadable", `The token in ${file} cannot be read.`);
  }
}
