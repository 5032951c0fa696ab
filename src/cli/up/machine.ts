// This machine as a node of its own server: `berth up` registers it, and starts what is placed on it.
//
// The agent is part of the server's process; the shims of the jobs are not. So a server that ends leaves the jobs alone, and the next
// one finds them again. Where no agent can work, the machine is a node all the same: `berth run` then gets its devices, too.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { dirname, join } from "node:path";
import {
  type Agent,
  type Device,
  findDevices,
  machineCapacity,
  readMembership,
  STATE_PATH_BYTES_MAX,
  startAgent,
  takeDirectory,
  writeMembership,
} from "../../agent/index.ts";
import { POLICY_FILE } from "../../executors/index.ts";
import { bootId } from "../../runner/index.ts";
import { type Client, createClient, isBerthError } from "../../sdk/index.ts";

export interface MachineOptions {
  /** With the rights of an administrator. */
  readonly client: Client;
  readonly url: string;
  readonly pool: string;
  readonly dataDir: string;
  /** What it shall pretend to have, if anything. */
  readonly pretended: Readonly<Record<string, number>> | undefined;
  readonly version: string;
  readonly tell: (text: string) => void;
}

export interface Machine {
  readonly node: string;
  readonly devices: readonly Device[];
  /** Leaves the jobs alone. */
  close(): Promise<void>;
}

/** The name under which `berth run` knows it, too. */
export const nodeName = () => hostname() || "localhost";

/** Why this machine cannot start jobs by itself; undefined: it can. */
export function obstacleToJobs(dataDir: string): string | undefined {
  const directory = stateDirectory(dataDir);
  if (process.platform !== "linux") return "agents need Linux";
  if (Buffer.byteLength(directory) > STATE_PATH_BYTES_MAX)
    return `the path ${directory} is longer than ${STATE_PATH_BYTES_MAX} bytes; choose another --data-dir`;
  const other = takeDirectory(directory);
  return other === undefined ? undefined : `an agent works with ${directory} already (pid ${other})`;
}

/** Registers the machine if it is new, with what it has or pretends to have. */
export async function registerMachine({ client, pool, pretended }: MachineOptions): Promise<void> {
  const name = nodeName();
  await client.nodes.create({ name, pool, capacity: pretended ?? machineCapacity(findDevices()) });
}

/** From now on what is placed on this machine is started here. */
export async function joinMachine(options: MachineOptions): Promise<Machine> {
  const { dataDir, url, version, tell } = options;
  const directory = stateDirectory(dataDir);
  const { node, token, isPretended } = await membershipOf(options, directory);
  const runAs = runAsOf(directory);
  const { capacity } = await options.client.nodes.get(node);
  const agent: Agent = startAgent({
    client: createClient({ url, token }),
    ...{ node, version, stateDirectory: directory, bootId: bootId() },
    // What a machine pretends to have is what its record says; what it has may become less.
    ...(!isPretended && { capacity: machineCapacity(findDevices()) }),
    hasGpus: (capacity.gpu ?? 0) > 0,
    devices: isPretended ? () => [] : findDevices,
    policyFile: runAs.policyFile,
    checkpoints: runAs.checkpoints,
    path: runAs.isOther ? undefined : process.env.PATH,
    secrets: join(dataDir, "secrets"),
    tell: (text) => tell(`berth: ${text}\n`),
  });
  await agent.heard; // Nothing is granted before the server knows the devices.
  return {
    node,
    devices: isPretended ? [] : findDevices(),
    close: () => agent.close(),
  };
}

function stateDirectory(dataDir: string): string {
  return join(dataDir, "agent");
}

interface OwnMembership {
  readonly node: string;
  readonly token: string;
  readonly isPretended: boolean;
}

/** The one of the last time, as long as this server knows it; else the machine joins anew. */
async function membershipOf(options: MachineOptions, directory: string): Promise<OwnMembership> {
  const { client, url, pool, pretended } = options;
  const known = readMembership(directory);
  if (known?.pool === pool && known.node === nodeName() && (await isKnown(url, known.token)))
    return { ...known, isPretended: known.isPretended ?? false };
  const node = nodeName();
  const found = machineCapacity(findDevices());
  const capacity = (await declaredBefore(client, node)) ?? pretended ?? found;
  const isPretended = JSON.stringify(capacity) !== JSON.stringify(found);
  const { join_token: token } = await client.nodes.enrol(node, { pool, capacity });
  const joined = await createClient({ url, token }).agent.join(node, { capacity });
  writeMembership(directory, { node, pool, urls: [url], token: joined.node_token, isPretended });
  return { node, token: joined.node_token, isPretended };
}

/** What is known of the machine stays, also when it has to join again. */
async function declaredBefore(client: Client, node: string): Promise<Record<string, number> | undefined> {
  try {
    const { capacity, enrolled } = await client.nodes.get(node);
    return enrolled ?? capacity;
  } catch (error) {
    if (isBerthError(error, "not_found")) return undefined;
    throw error;
  }
}

async function isKnown(url: string, token: string): Promise<boolean> {
  try {
    await createClient({ url, token }).whoami();
    return true;
  } catch (error) {
    return isBerthError(error, "forbidden"); // It is of a node, which may not even ask who it is.
  }
}

interface RunAs {
  /** Jobs run as another user. */
  readonly isOther: boolean;
  readonly policyFile: string | undefined;
  readonly checkpoints: string | undefined;
}

/**
 * No job runs as root (E6). Where root has not written down who may run as whom, jobs run as the one who used sudo, or as nobody;
 * their checkpoints are then where such a user can reach them.
 */
function runAsOf(directory: string): RunAs {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || existsSync(POLICY_FILE))
    return { isOther: isRoot, policyFile: undefined, checkpoints: undefined };
  const sudoUser = process.env.SUDO_USER;
  const user = sudoUser && sudoUser !== userInfo().username ? sudoUser : "nobody";
  mkdirSync(directory, { recursive: true, mode: 0o711 });
  const policyFile = join(directory, "agent.yaml");
  const rule = { users: [user], directories: ["/"] };
  writeFileSync(policyFile, `${JSON.stringify({ components: { "*": rule } })}\n`, { mode: 0o600 });
  const mark = createHash("sha256").update(directory).digest("hex").slice(0, 12);
  const checkpoints = canBeReached(directory) ? undefined : `/var/lib/berth-agent/${mark}`;
  return { isOther: true, policyFile, checkpoints };
}

/** By another user. */
function canBeReached(path: string): boolean {
  return (statSync(path).mode & 0o001) !== 0 && (dirname(path) === path || canBeReached(dirname(path)));
}
