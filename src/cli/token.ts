// berth token create|list|show|revoke|whoami

import { existsSync, writeFileSync } from "node:fs";
import type { Command } from "commander";
import type { WireToken } from "../protocol/index.ts";
import { CHOICES } from "./choices.ts";
import { type CliContext, CliError } from "./context.ts";
import {
  type ConnectionOptions,
  collect,
  given,
  oneOf,
  type PlanOptions,
  withConnection,
  withOutput,
} from "./options.ts";
import {
  formatOf,
  type OutputOptions,
  printOne,
  printRows,
  textOfLines,
  toJson,
  toYaml,
} from "./output/print.ts";
import { ageOf, printable } from "./output/text.ts";
import { confirm } from "./plans.ts";
import { connect } from "./session.ts";
import { TOKEN } from "./shapes.ts";

interface TokenOptions extends Omit<ConnectionOptions, "component">, OutputOptions {
  readonly role: string;
  readonly component?: never;
  readonly for?: readonly string[];
  readonly pool?: readonly string[];
  readonly permission?: readonly string[];
  readonly runAs?: readonly string[];
  readonly expires?: string;
  readonly out?: string;
}

const HELP = `
A token says who calls and how far that reaches. Its secret is shown once, when it is made.

Examples:
  berth token create vision --role user --for vision
  berth token create watcher --role viewer --expires 30d
  berth token list
  berth token revoke vision
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);

  const create = command.command("create").description("make a token").argument("<name>", "what to call it");
  create
    .requiredOption("--role <role>", CHOICES.role.join(", "))
    .option("--for <component>", "a component that is its own; may be repeated", collect)
    .option("--pool <pool>", "a pool that it reaches; may be repeated; by default all", collect)
    .option("--permission <name>", "class10 or sensitive; may be repeated", collect)
    .option("--run-as <user>", "as whom its jobs may run, the first by default; may be repeated", collect)
    .option("--expires <duration>", "such as 90d, or never; by default 90d")
    .option("--out <file>", "write the secret to a new file that only you can read");
  withOutput(withConnection(create)).addHelpText(
    "after",
    `
Without --out, stdout is the secret and nothing else, so that it can be piped into \`berth login\`.

Examples:
  berth token create vision --role user --for vision --out vision.token
  berth token create ci --role user --for ci --expires never -o json
`,
  );
  create.action((name: string, options: TokenOptions) => createToken(name, options, context));

  const list = command.command("list").alias("ls").description("all tokens, without their secrets");
  withOutput(withConnection(list)).addHelpText("after", "\nExamples:\n  berth token list -o wide\n");
  list.action(async (options: ConnectionOptions & OutputOptions) => {
    const { client } = connect(options);
    const rows: WireToken[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await client.tokens.list({ limit: 1000, ...(cursor && { cursor }) });
      rows.push(...page.items);
      if (page.next_cursor === null) break;
      cursor = page.next_cursor;
    }
    await printRows(rows, TOKEN, options, context);
  });

  const show = command.command("show").description("one token").argument("<token>", "its name or id");
  withOutput(withConnection(show)).addHelpText("after", "\nExamples:\n  berth token show vision -o json\n");
  show.action(async (name: string, options: ConnectionOptions & OutputOptions) => {
    await printOne(await connect(options).client.tokens.get(name), TOKEN, options, context);
  });

  const revoke = command.command("revoke").alias("delete").description("make a token useless at once");
  withConnection(revoke.argument("<token>", "its name or id"))
    .option("-y, --yes", "do not ask")
    .addHelpText("after", "\nExamples:\n  berth token revoke vision\n");
  revoke.action(async (name: string, options: ConnectionOptions & PlanOptions) => {
    const { client } = connect(options);
    const token = await client.tokens.get(name);
    const lines = [`Programs that use it are refused at once, and their open streams end`];
    await confirm(`Revoke the token ${printable(token.name)} (${token.role})?`, lines, options, context);
    await client.tokens.revoke(token.id);
    context.tell(`${printable(`Token ${token.name} revoked.`)}\n`);
  });

  const whoami = command.command("whoami").description("who your token says you are");
  withOutput(withConnection(whoami)).addHelpText("after", "\nExamples:\n  berth token whoami\n");
  whoami.action(async (options: ConnectionOptions & OutputOptions) => {
    const identity = await connect(options).client.whoami();
    const format = formatOf(options);
    if (format === "json" || format === "jsonl")
      return context.write(`${toJson(identity, format === "json" ? 2 : undefined)}\n`);
    if (format === "yaml") return context.write(await toYaml(identity));
    const { name, role, components, pools, permissions, run_as, expires_at: ends } = identity;
    context.write(
      textOfLines(
        [
          ["name", name],
          ["role", role],
          ["components", components?.join(", ") ?? "all"],
          ["pools", pools?.join(", ") ?? "all"],
          ["may", permissions.join(", ")],
          ...(run_as === null ? [] : [["runs as", run_as.join(", ")] as const]),
          [
            "ends",
            ends === null ? "never" : `${ends} (in ${ageOf(new Date().toISOString(), Date.parse(ends))})`,
          ],
        ],
        context,
      ),
    );
  });
}

async function createToken(name: string, options: TokenOptions, context: CliContext): Promise<void> {
  const { url, context: saved, role, for: components, pool: pools, permission, runAs, expires } = options;
  const { client } = connect(given({ url, context: saved }));
  if (role === "user" && components === undefined) {
    throw new CliError(
      "usage",
      "A token of role user needs the components that are its own.",
      `Add --for COMPONENT, such as --for ${name}.`,
    );
  }
  if (role === "executor" && pools === undefined) {
    throw new CliError("usage", "A token of role executor needs its pools.", "Add --pool POOL.");
  }
  if (options.out !== undefined && existsSync(options.out)) {
    throw new CliError("name_taken", `There is a file ${options.out} already.`, "Choose another name.");
  }
  const permissions = permission?.map((one) => oneOf("--permission", one, CHOICES.permission));
  const token = await client.tokens.create({
    name,
    role: oneOf("--role", role, CHOICES.role),
    ...given({ components: components && [...components], pools: pools && [...pools], permissions }),
    ...given({ run_as: runAs && [...runAs] }),
    ...(expires !== undefined && { expires_in_seconds: await lifeOf(expires) }),
  });
  if (options.output !== undefined || process.env.BERTH_OUTPUT)
    return printOne(token, TOKEN, options, context);
  if (options.out === undefined) context.write(`${token.secret}\n`);
  else writeFileSync(options.out, `${token.secret}\n`, { mode: 0o600, flag: "wx" });
  const where =
    options.out === undefined ? "The secret is not shown again." : `Saved in ${options.out} (mode 0600).`;
  const ends = token.expires_at === null ? "and never ends" : `until ${token.expires_at}`;
  context.tell(`${printable(`Token ${name} (${role}) ${ends}. ${where}`)}\n`);
}

async function lifeOf(text: string): Promise<number | null> {
  return text === "never" ? null : (await import("./parsing.ts")).durationSeconds(text);
}
