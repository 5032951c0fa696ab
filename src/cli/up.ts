// berth up: everything on this machine, in one command.

import { userInfo } from "node:os";
import { basename } from "node:path";
import type { Command } from "commander";
import type { WirePoolAnswer } from "../protocol/index.ts";
import { type Client, createClient, isBerthError } from "../sdk/index.ts";
import { parseAmounts } from "./amounts.ts";
import { readContexts, type SavedContext, saveContext } from "./connection.ts";
import { type CliContext, CliError } from "./context.ts";
import { linkTo } from "./dashboard.ts";
import { plainIfNeeded } from "./output/print.ts";
import { amountsText } from "./output/text.ts";
import { dataDirectory, shownPath } from "./paths.ts";
import { hostingOf, listenForEnd, openHosted } from "./serving/host.ts";
import type { HostedServer } from "./serving/hosting.ts";
import { findRunning, leaveNote, type RunningNote, takeNoteAway } from "./serving/running.ts";
import { type ServingFlags, type ServingSettings, servingSettings, withServing } from "./serving/settings.ts";
import { joinMachine, type Machine, nodeName, obstacleToJobs, registerMachine } from "./up/machine.ts";

interface UpOptions extends ServingFlags {
  readonly capacity?: string;
  readonly detach?: boolean;
}

const POOL = "local";
const CONTEXT = "local";
const URGENT = { component: "urgent", priority: 100 };

const HELP = `
Makes the pool "local" with two components: you, with priority 0, and "urgent", with priority 100. Saves the
context, so that the other commands know where to go. Stays in the foreground: Ctrl-C stops it.

Examples:
  berth up --capacity gpu=2           pretend to have two GPUs
  berth up                            what this machine has
  berth up --detach                   in the background; \`berth down\` stops it
  berth up --port 7771 --data-dir /tmp/try
`;

export function define(command: Command, context: CliContext): void {
  withServing(
    command
      .option("--capacity <amounts>", "what the pool has, such as gpu=2 or gpu=2,mcpu=16000")
      .option("-d, --detach", "run in the background"),
  )
    .addHelpText("after", HELP)
    .action((options: UpOptions) => up(options, context));
}

async function up(options: UpOptions, context: CliContext): Promise<void> {
  const capacity = options.capacity === undefined ? undefined : await parseAmounts(options.capacity);
  const settings = await servingSettings(options);
  const running = findRunning(settings.dataDir);
  if (running !== undefined) return tellRunning(running, { capacity, store: storeOf(settings) }, context);
  if (options.detach === true) {
    const { startDetached } = await import("./serving/detached.ts");
    return startDetached(context);
  }
  const { program = "berth" } = context;
  const ending = listenForEnd();
  const hosting = await hostingOf(context);
  const server = await openHosted(hosting, {
    ...hostedOptions(settings, context),
    firstTokenName: ownName(),
    log: "people",
  });
  let machine: Machine | undefined;
  try {
    const saved = await saveOwnContext(server, storeOf(settings));
    leaveNote(settings.dataDir, server.url, saved.token);
    const prepared = await prepare({ server, token: saved.token, settings, capacity, context });
    machine = prepared.machine;
    const link = await linkTo(createClient({ url: server.url, token: saved.token }), server.url);
    const text = plainIfNeeded(welcome({ server, ...prepared, saved, capacity, program, link }), context);
    context.write(text);
    process.send?.({ ready: text }); // To the one who started us in the background.
    await ending.asked;
    context.tell("\nStopping. What runs goes on, and is found again at the next start.\n");
  } finally {
    await machine?.close();
    await server.close();
    takeNoteAway(settings.dataDir);
    ending.stop();
  }
}

export function hostedOptions({ dataDir, databaseUrl, ...settings }: ServingSettings, context: CliContext) {
  return {
    ...settings,
    data: databaseUrl === undefined ? { directory: dataDir } : { databaseUrl },
    version: context.version,
    tell: context.tell,
    onFatal: (error: unknown) => {
      // Memory can no longer be trusted; the journal can.
      context.tell(`berth: ${error instanceof Error ? error.message : String(error)} The server ends.\n`);
      process.exit(125);
    },
  };
}

/** Of the user, if it is easy to type; else `me`. */
export function ownName(): string {
  const name = (process.env.USER || nameOfUser()).toLowerCase();
  return /^[a-z0-9][a-z0-9._-]{0,62}$/.test(name) && name !== URGENT.component ? name : "me";
}

/** A container's user may have no name. */
function nameOfUser(): string {
  try {
    return userInfo().username;
  } catch {
    return "";
  }
}

interface OwnContext {
  readonly name: string;
  readonly token: string;
  readonly isCurrent: boolean;
}

/** What tells one server of this machine from another, whatever its port. */
function storeOf({ dataDir, databaseUrl }: ServingSettings): string {
  if (databaseUrl === undefined) return dataDir;
  const { host, pathname } = new URL(databaseUrl);
  return `postgres://${host}${pathname}`;
}

/** With the token that was saved last time, as long as this server knows it; the owner of the data may always have another. */
async function saveOwnContext(server: HostedServer, store: string): Promise<OwnContext> {
  const name = contextNameFor(store);
  const saved = readContexts().contexts[name];
  const known = server.firstToken?.secret ?? (await knownToken(server.url, saved?.token));
  const token = known ?? (await server.makeAdminToken(ownName())).secret;
  return keepContext(name, { url: server.url, token, component: saved?.component ?? ownName(), store });
}

/** A server that is started beside another one does not take over the context in use. */
function keepContext(name: string, saved: SavedContext & { token: string; store: string }): OwnContext {
  const { current, contexts } = readContexts();
  const other = current === undefined ? undefined : contexts[current]?.store;
  const isBeside = other !== undefined && other !== saved.store && findRunning(other) !== undefined;
  saveContext(name, saved, isBeside ? current : name);
  return { name, token: saved.token, isCurrent: !isBeside };
}

/** The name that this server's context has, or gets: each server has one of its own. */
export function contextNameFor(store: string, { contexts } = readContexts()): string {
  const known = Object.entries(contexts).find(([, saved]) => saved.store === store);
  if (known !== undefined) return known[0];
  const isFree = (name: string) => contexts[name] === undefined;
  if (store === dataDirectory(undefined) && (isFree(CONTEXT) || contexts[CONTEXT]?.store === undefined))
    return CONTEXT;
  const base = basename(store).toLowerCase();
  const wanted = /^[a-z0-9][a-z0-9._-]{0,50}$/.test(base) ? base : CONTEXT;
  for (let count = 1; ; count++) {
    const name = count === 1 ? wanted : `${wanted}-${count}`;
    if (isFree(name)) return name;
  }
}

async function knownToken(url: string, token: string | undefined): Promise<string | undefined> {
  if (token === undefined) return undefined;
  try {
    const { role } = await createClient({ url, token, retryForMs: 0 }).whoami();
    return role === "admin" ? token : undefined;
  } catch {
    return undefined;
  }
}

interface Preparation {
  readonly server: HostedServer;
  readonly token: string;
  readonly settings: ServingSettings;
  readonly capacity: Record<string, number> | undefined;
  readonly context: CliContext;
}

interface Prepared {
  readonly pool: WirePoolAnswer;
  /** Absent where jobs are not started here. */
  readonly machine: Machine | undefined;
  readonly obstacle: string | undefined;
}

/** The pool of this machine, made if it is new, and the machine as its node. */
async function prepare({ server, token, settings, capacity, context }: Preparation): Promise<Prepared> {
  const { url } = server;
  const { dataDir } = settings;
  const { version, tell } = context;
  const client = createClient({ url, token });
  const machine = { client, url, pool: POOL, dataDir, pretended: capacity, version, tell };
  const obstacle = obstacleToJobs(dataDir);
  const isNew = await createPool(client, obstacle === undefined ? "agents" : "none");
  if (isNew && obstacle !== undefined) await registerMachine(machine);
  const { node_backed: hasNodes, settings: own } = await client.pools.get(POOL);
  const isStarted = obstacle === undefined && hasNodes && own.executor === "agents";
  const joined = isStarted ? await joinMachine(machine) : undefined;
  return { pool: await client.pools.get(POOL), machine: joined, obstacle };
}

/** Whether it was not there before. */
async function createPool(client: Client, executor: "agents" | "none"): Promise<boolean> {
  try {
    const description = "What this machine has, or pretends to have";
    await client.pools.create({ name: POOL, description, settings: { executor } });
    await client.policies.attach(POOL, { component: ownName(), priority: 0 });
    await client.policies.attach(POOL, URGENT);
    return true;
  } catch (error) {
    if (isBerthError(error, "name_taken")) return false;
    throw error;
  }
}

interface Welcome extends Prepared {
  readonly server: HostedServer;
  readonly saved: OwnContext;
  readonly capacity: Record<string, number> | undefined;
  readonly program: string;
  readonly link: string;
}

function welcome({ server, pool, saved, capacity, program, link, machine, obstacle }: Welcome): string {
  const ask = pool.capacity.gpu === undefined ? "--cpu 1" : "--gpu 1";
  const where = saved.isCurrent ? "" : `--context ${saved.name} `;
  const other =
    capacity === undefined || isSame(capacity, pool.capacity)
      ? ""
      : `\n  unchanged  it was made before; to change it: ${changeCommand(capacity, pool)}`;
  const gpus = (machine?.devices ?? []).map((device) => `\n  GPU ${device.index}      ${device.model ?? ""}`);
  const jobs = obstacle === undefined ? "" : `\n  jobs       are not started here: ${obstacle}`;
  return `✓ store      ${shownPath(server.storeName)}
✓ pool       ${POOL}   ${amountsText(pool.capacity)}${gpus.join("")}${other}${jobs}
✓ context    ${saved.name} → ${server.url}   (token saved, mode 0600)
  dashboard  ${link}
  reference  ${server.url}/docs
Next:  ${program} run ${where}${ask} -- echo hello
`;
}

/** The context may have been changed or deleted since: it is saved again. */
async function tellRunning(
  { url, pid, token }: RunningNote,
  { capacity, store }: { readonly capacity: Record<string, number> | undefined; readonly store: string },
  context: CliContext,
): Promise<void> {
  const name = contextNameFor(store);
  const component = readContexts().contexts[name]?.component ?? ownName();
  if (token !== undefined) keepContext(name, { url, token, component, store });
  context.write(`Berth is running: ${url} (pid ${pid}), context ${name}.\n`);
  if (capacity === undefined) return;
  const client = createClient({ url, ...(token !== undefined && { token }), retryForMs: 2_000 });
  const pool = await client.pools.get(POOL);
  if (isSame(capacity, pool.capacity)) return;
  throw new CliError(
    "name_taken",
    `Pool ${POOL} has ${amountsText(pool.capacity)}.`,
    `To change it: ${changeCommand(capacity, pool)}`,
  );
}

function isSame(a: Record<string, number>, b: Record<string, number>): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => (a[key] ?? 0) === (b[key] ?? 0));
}

/** A pool of this machine as a node has no capacity of its own. */
function changeCommand(wanted: Record<string, number>, pool: WirePoolAnswer): string {
  const gone = Object.keys(pool.capacity).filter((key) => !(key in wanted));
  const amounts = pool.node_backed
    ? Object.entries(wanted)
    : [...Object.entries(wanted), ...gone.map((key) => [key, 0] as const)];
  const what = pool.node_backed ? `node update ${nodeName()}` : `pool update ${POOL}`;
  return `berth ${what} --capacity ${amounts.map(([key, amount]) => `${key}=${amount}`).join(",")}`;
}
