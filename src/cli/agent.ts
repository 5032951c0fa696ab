// berth agent: this machine is a node, and runs what is placed on it (20).

import { homedir, hostname } from "node:os";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import {
  findDevices,
  type Membership,
  machineCapacity,
  readMembership,
  STATE_PATH_BYTES_MAX,
  startAgent,
  takeDirectory,
  writeMembership,
} from "../agent/index.ts";
import { POLICY_FILE, RunAsRefusal, readPolicy } from "../executors/index.ts";
import { bootId, hideVariable } from "../runner/index.ts";
import { createClient } from "../sdk/index.ts";
import { parseAmounts } from "./amounts.ts";
import { resolveConnection } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";
import { amountsText } from "./output/text.ts";
import { shownPath } from "./paths.ts";
import { listenForEnd } from "./serving/host.ts";

interface AgentFlags {
  readonly join?: string;
  readonly name?: string;
  readonly url?: string;
  readonly capacity?: string;
  readonly topology?: string;
  readonly stateDir?: string;
  readonly policy?: string;
  readonly secrets: string;
  readonly checkpoints?: string;
}

const HELP = `
An operator makes the token: berth node enroll NAME --pool POOL. It works once, for ten minutes; the machine then keeps
a token of its own, which reaches nothing but what is placed on this node. From then on \`berth agent\` alone is enough.

The agent can be stopped, upgraded and started again: jobs go on meanwhile, and are found again. As root it runs jobs
only as the users that ${POLICY_FILE} permits; as any other user it runs them as itself.

Examples:
  BERTH_URL=https://berth.example.org berth agent --join berth_… --name gpu-7
  berth agent
  berth agent --capacity gpu=2        pretend to have two GPUs
`;

export function define(command: Command, context: CliContext): void {
  command
    .option("--join <token>", "become the node that this token is for")
    .option("--name <node>", "the name that was enrolled; default: that of this machine")
    .option("--url <urls>", "the servers, separated by commas; default: BERTH_URL, then the context")
    .option("--capacity <amounts>", "offer this instead of what is found, such as gpu=2,mcpu=16000")
    .option("--topology <name>", "which machines are near, such as a rack or a switch")
    .option("--state-dir <directory>", "what the agent keeps; default: /var/lib/berth-agent for root")
    .option(
      "--checkpoints <directory>",
      "where jobs save their state; one that all nodes share lets them resume anywhere",
    )
    .option("--policy <file>", `who may run as whom, for root; default: ${POLICY_FILE}`)
    .option("--secrets <directory>", "a file per secret, or a folder per component", "/etc/berth/secrets")
    .addHelpText("after", HELP)
    .action((flags: AgentFlags) => agent(flags, context));
}

async function agent(flags: AgentFlags, context: CliContext): Promise<void> {
  const directory = stateDirectory(flags.stateDir);
  const ending = listenForEnd();
  const capacity =
    flags.capacity === undefined ? machineCapacity(findDevices()) : await parseAmounts(flags.capacity);
  checkPolicy(flags.policy ?? POLICY_FILE, context);
  const other = takeDirectory(directory);
  if (other !== undefined) {
    throw new CliError(
      "name_taken",
      `An agent works with ${shownPath(directory)} already (pid ${other}).`,
      "Stop that one first. Another node on the same machine needs a directory of its own: --state-dir DIRECTORY.",
    );
  }
  const member =
    flags.join === undefined ? known(directory) : await joinCluster(flags, { directory, capacity });
  hideVariable("BERTH_API_TOKEN"); // Jobs may run as the same user, and could read it in /proc.
  const running = startAgent({
    client: createClient({ urls: member.urls, token: member.token }),
    node: member.node,
    stateDirectory: directory,
    version: context.version,
    bootId: process.env.BERTH_AGENT_BOOT_ID || bootId(),
    capacity,
    devices: findDevices,
    policyFile: flags.policy,
    secrets: flags.secrets,
    ...(flags.checkpoints !== undefined && { checkpoints: resolve(flags.checkpoints) }),
    tell: (text) => context.tell(`berth: ${text}\n`),
  });
  context.write(
    `Node ${member.node} of pool ${member.pool}: ${amountsText(capacity)}. Ctrl-C stops the agent; jobs go on.\n`,
  );
  await (context.signal === undefined
    ? ending.asked
    : Promise.race([
        ending.asked,
        new Promise((settle) => context.signal?.addEventListener("abort", settle)),
      ]));
  await running.close();
  ending.stop();
}

function stateDirectory(flag: string | undefined): string {
  const home = join(process.env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "berth", "agent");
  const directory = resolve(flag ?? (process.getuid?.() === 0 ? "/var/lib/berth-agent" : home));
  if (Buffer.byteLength(directory) > STATE_PATH_BYTES_MAX) {
    const message = `The path ${directory} is longer than ${STATE_PATH_BYTES_MAX} bytes, and sockets must fit into it.`;
    throw new CliError("usage", message, "Name a shorter one with --state-dir.");
  }
  return directory;
}

/** A root without a policy can run nothing: better said now than by the first job. */
function checkPolicy(file: string, context: CliContext): void {
  if (process.getuid?.() !== 0) return;
  try {
    readPolicy(file);
  } catch (error) {
    if (!(error instanceof RunAsRefusal)) throw error;
    context.tell(`berth: ${error.message}\n`);
  }
}

function known(directory: string): Membership {
  const member = readMembership(directory);
  if (member !== undefined) return member;
  throw new CliError(
    "usage",
    `This machine is no node yet: there is nothing in ${shownPath(directory)}.`,
    "Make a token with `berth node enroll NAME --pool POOL`, and give it here with --join.",
  );
}

async function joinCluster(
  { join: token = "", name, url, topology }: AgentFlags,
  { directory, capacity }: { directory: string; capacity: Record<string, number> },
): Promise<Membership> {
  const { urls } = resolveConnection(url === undefined ? {} : { url });
  const node = name ?? hostname();
  const joined = await createClient({ urls, token }).agent.join(node, {
    capacity,
    ...(topology !== undefined && { topology }),
  });
  const member = { node: joined.node, pool: joined.pool, urls, token: joined.node_token };
  writeMembership(directory, member);
  return member;
}
