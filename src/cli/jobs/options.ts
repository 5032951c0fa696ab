// What `berth submit` and `berth run` say about a job: its command, its environment, arrays and dependencies (J2, J9).

import type { Command } from "commander";
import type { WireJobArray, WireRequestSubmission, WireRun } from "../../protocol/index.ts";
import { checkWords, isJobRefusal } from "../../runner/index.ts";
import type { Client } from "../../sdk/index.ts";
import { CHOICES } from "../choices.ts";
import { CliError } from "../context.ts";
import { collect, given, oneOf, wholeNumber } from "../options.ts";
import { signalNamed } from "../run/plan.ts";
import { findRequest } from "../session.ts";

export interface JobOptions {
  readonly env?: readonly string[];
  readonly secret?: readonly string[];
  readonly cwd?: string;
  readonly user?: string;
  readonly image?: string;
  readonly checkpointSignal?: string;
  readonly checkpointCmd?: string;
  readonly onLost?: string;
  readonly after?: readonly string[];
  readonly array?: string;
}

/** Those that only make sense for what Berth starts itself. */
export function withJobOptions(command: Command): Command {
  return command
    .option(
      "--env <name=value>",
      "a variable for the job, or NAME for its value here; may be repeated",
      collect,
    )
    .option("--secret <name>", "a variable that is filled where it runs; may be repeated", collect)
    .option("--cwd <directory>", "the directory in which it runs, on its node")
    .option("--user <user>", "as whom it runs, where the machine permits it")
    .option("--image <image>", "in which it runs, where Kubernetes runs it")
    .option("--array <indices>", "one job for each, such as 0-99 or 0-99%10 for ten at once")
    .option(
      "--after <request>",
      "not before this one (number or name) has ended well; 42:any: however it ends",
      collect,
    );
}

export function runOf(
  words: readonly string[],
  options: JobOptions,
  { isOwnServer }: { readonly isOwnServer: boolean },
): WireRun {
  // A server of one's own is on this machine. What root starts runs as another user, whose directory this need not be.
  const here = isOwnServer && process.getuid?.() !== 0 ? process.cwd() : undefined;
  const { env, secret, cwd = here, user, image, checkpointSignal, checkpointCmd, onLost } = options;
  const environment = env && environmentOf(env);
  checkText([...words, cwd ?? "", checkpointCmd ?? ""], environment ?? {});
  return {
    command: [...words],
    ...given({
      directory: cwd,
      environment,
      secrets: secret && [...secret],
      user,
      image,
      checkpoint_signal: checkpointSignal === undefined ? undefined : signalNamed(checkpointSignal),
      checkpoint_command: checkpointCmd === undefined ? undefined : ["/bin/sh", "-c", checkpointCmd],
      on_lost: onLost === undefined ? undefined : oneOf("--on-lost", onLost, CHOICES.onLost),
    }),
  };
}

/** What cannot be sent as it was typed is refused here: on its way it would become something else. */
function checkText(words: readonly string[], environment: Record<string, string>): void {
  try {
    checkWords(words, environment);
  } catch (error) {
    if (isJobRefusal(error)) throw new CliError("usage", error.message, error.hint);
    throw error;
  }
}

function environmentOf(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf("=");
      const name = at < 0 ? text : text.slice(0, at);
      const value = at < 0 ? process.env[name] : text.slice(at + 1);
      if (value === undefined) {
        throw new CliError("usage", `The variable ${name} is not set here.`, "Write --env NAME=VALUE.");
      }
      return [name, value];
    }),
  );
}

/** `42`, `42:ok` or `42:any`; also by name. */
export async function afterOf(
  client: Client,
  texts: readonly string[] | undefined,
): Promise<Pick<WireRequestSubmission, "after">> {
  if (texts === undefined) return {};
  const named = texts.map((text) => {
    const [, name = "", when = "ok"] = /^#?([^:]+)(?::(.*))?$/.exec(text) ?? [];
    if (name === "") throw new CliError("usage", `"${text}" does not name a request.`, "Write --after 42.");
    return { name, when: oneOf("--after", when, ["ok", "any"] as const) };
  });
  const after = named.map(async ({ name, when }) => {
    const id = /^\d+$/.test(name) ? name : (await findRequest(client, name)).id;
    return { id, when };
  });
  return { after: await Promise.all(after) };
}

const MEMBERS_MAX = 1_000;

/** `0-99%10`, `1,3,5-7`. */
export function arrayOf(text: string): Pick<WireJobArray, "indices" | "at_once"> {
  const [ranges = "", atOnce] = text.split("%");
  const indices = ranges.split(",").flatMap((range) => {
    const [, first, last = first] = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(range) ?? [];
    const [from, to] = [Number(first), Number(last)];
    if (first === undefined || to < from || to - from >= MEMBERS_MAX) {
      throw new CliError(
        "usage",
        `"${text}" does not say which members the array has.`,
        `Write for example 0-99, 0-99%10 or 1,3,5; at most ${MEMBERS_MAX}.`,
      );
    }
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  });
  return { indices, ...(atOnce !== undefined && { at_once: wholeNumber("--array", atOnce) }) };
}
