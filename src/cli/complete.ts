// berth __complete -- WORDS…: what could come next, for the shells. Never fails, and never keeps the user waiting.

import type { Command, Option } from "commander";
import { createClient } from "../sdk/index.ts";
import { CHOICES } from "./choices.ts";
import { readContexts, resolveConnection } from "./connection.ts";
import type { CliContext, CommandModule } from "./context.ts";
import { fetchLightly } from "./http.ts";
import { printable } from "./output/text.ts";
import { titleOf } from "./session.ts";

interface Candidate {
  readonly word: string;
  readonly text: string;
}

const PATIENCE_MS = 1_000;
const NAMES_MAX = 200;

/** The program with those commands defined that these words need. */
type CreateProgram = (words: readonly string[], context: CliContext) => Promise<Command>;

export function completing(createProgram: CreateProgram): CommandModule {
  return {
    define(command, context) {
      command.argument("[words...]").allowUnknownOption();
      command.action(async (words: string[]) => {
        const current = words.at(-1) ?? "";
        const before = words.slice(0, -1);
        const load = () => createProgram(before, context);
        const found = await candidates(before, current, load).catch(() => []);
        const matching = found.filter(({ word }) => word.startsWith(current) && !/[\s\p{C}]/u.test(word));
        context.write(matching.map(({ word, text }) => `${word}\t${printable(text)}\n`).join(""));
      });
    },
  };
}

async function candidates(
  before: readonly string[],
  current: string,
  load: () => Promise<Command>,
): Promise<Candidate[]> {
  if (before.includes("--")) return []; // What follows is another program's.
  const program = await load();
  const { command, given, waiting } = walk(program, before);
  if (waiting !== undefined) return valuesOf(waiting.attributeName(), waiting.flags);
  if (current.startsWith("-")) {
    return command.options
      .filter(({ hidden }) => !hidden)
      .flatMap(({ long, short, description }) =>
        [long, short].flatMap((flag) => (flag ? [{ word: flag, text: description }] : [])),
      );
  }
  const subcommands = command.commands
    .filter((one) => !one.name().startsWith("__"))
    .map((one) => ({ word: one.name(), text: one.description() }));
  if (subcommands.length > 0 && given === 0) return subcommands;
  const argument = command.registeredArguments[given] ?? command.registeredArguments.at(-1);
  if (argument === undefined || (given >= command.registeredArguments.length && !argument.variadic))
    return [];
  return valuesOf(argument.name(), argument.description);
}

/** Follows the words into the commands: how many arguments there are so far, and which option waits for its value. */
function walk(program: Command, words: readonly string[]) {
  let command = program;
  let given = 0;
  let waiting: Option | undefined;
  for (const word of words) {
    if (waiting !== undefined) {
      waiting = undefined;
      continue;
    }
    if (word.startsWith("-")) {
      const option = command.options.find((one) => one.short === word || one.long === word);
      waiting =
        option !== undefined && (option.required || option.optional) && !option.isBoolean()
          ? option
          : undefined;
      continue;
    }
    const next =
      given === 0
        ? command.commands.find((one) => one.name() === word || one.aliases().includes(word))
        : undefined;
    if (next === undefined) given += 1;
    else command = next;
  }
  return { command, given, waiting };
}

/** By the name of the option or argument; live ones are asked for. */
async function valuesOf(name: string, hint: string): Promise<Candidate[]> {
  const choices = Object.entries(CHOICES).find(([option]) => option === name)?.[1];
  if (choices !== undefined) return choices.map((word) => ({ word, text: "" }));
  if (name === "context") {
    return Object.entries(readContexts().contexts).map(([word, { url }]) => ({ word, text: url }));
  }
  const kind = name === "for" ? "component" : name === "parent" ? "group" : name;
  return /^(pool|request|component|node|token|group|target)$/.test(kind) ? liveNames(kind, hint) : [];
}

async function liveNames(kind: string, _hint: string): Promise<Candidate[]> {
  const { urls, token } = resolveConnection();
  const call = { fetch: fetchLightly, retryForMs: 0, timeoutMs: PATIENCE_MS };
  const client = createClient({ urls, ...(token && { token }), ...call });
  const limit = NAMES_MAX;
  switch (kind) {
    case "pool":
      return (await client.pools.list({ limit })).items.map(({ name, description }) => ({
        word: name,
        text: description,
      }));
    case "node":
      return (await client.nodes.list({ limit })).items.map(({ name, state }) => ({
        word: name,
        text: state,
      }));
    case "token":
      return (await client.tokens.list({ limit })).items.map(({ name, role }) => ({
        word: name,
        text: role,
      }));
    case "target":
      return (await client.targets.list({ limit })).items.map(({ name, kind }) => ({
        word: name,
        text: kind,
      }));
    case "request": {
      const { items } = await client.requests.list({ limit, status: "queued,allocated,preempting" });
      return items.flatMap((request) => [
        { word: String(request.number), text: `${titleOf(request)} ${request.status}` },
        ...(request.name === ""
          ? []
          : [{ word: request.name, text: `#${request.number} ${request.status}` }]),
      ]);
    }
    default: {
      const { items: pools } = await client.pools.list({ limit });
      const lists = await Promise.all(
        pools.map(async ({ name }) =>
          kind === "group"
            ? (await client.groups.list(name, { limit })).items.map((group) => ({
                word: group.name,
                text: name,
              }))
            : (await client.policies.list(name, { limit })).items.map(({ component }) => ({
                word: component,
                text: name,
              })),
        ),
      );
      return lists.flat();
    }
  }
}
