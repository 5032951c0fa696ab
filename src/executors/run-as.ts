// As whom a job runs on this machine (E6). An agent that is not root runs all as itself. As root it obeys a file that is
// root's alone: which users and directories each component may have. Never uid 0.
//
//   components:
//     vision: { users: [alice, bob], directories: [/data/vision, /home] }
//     "*": { users: [nobody], directories: [/scratch] }

import { spawnSync } from "node:child_process";
import { existsSync, lstatSync, readFileSync, realpathSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { sep } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import type { JobUser } from "../runner/index.ts";

const rule = z.strictObject({
  /** The first one is the user of jobs that name none. */
  users: z.array(z.string().min(1)).min(1),
  directories: z.array(z.string().startsWith("/")).min(1),
});
const policy = z.strictObject({ components: z.record(z.string(), rule) });
export type RunAsPolicy = z.infer<typeof policy>;

export interface Account extends JobUser {
  readonly home: string;
}

/** How a job runs: `user` is absent where it runs as ourselves. */
export interface Identity {
  readonly name: string;
  readonly home: string;
  readonly user?: JobUser;
}

export interface Wish {
  readonly component: string;
  readonly user: string | undefined;
  readonly directory: string | undefined;
}

/** Why a job may not run here, in words for its submitter. */
export class RunAsRefusal extends Error {}

export const POLICY_FILE = "/etc/berth/agent.yaml";

/** Read for every job, so that a change counts at once. */
export function identityFor(wish: Wish, policyFile = POLICY_FILE): Identity & { readonly directory: string } {
  if (process.getuid?.() !== 0) {
    const own = { name: userInfo().username, home: homedir() };
    if (wish.user !== undefined && wish.user !== own.name)
      throw new RunAsRefusal(`This node runs everything as ${own.name}, not as ${wish.user}.`);
    return { ...own, directory: wish.directory ?? own.home };
  }
  const policy = readPolicy(policyFile);
  const { uid, gid, name, home } = choose(policy, wish, accountOf);
  const directory = chooseDirectory(policy, wish, home);
  return { name, home, directory, user: { name, uid, gid } };
}

/** Which user it is; throws a refusal. */
export function choose(
  { components }: RunAsPolicy,
  { component, user: wanted }: Wish,
  find: (name: string) => Account | undefined,
): Account {
  const users = ruleOf(components, component).users;
  const name = wanted ?? (users[0] as string);
  if (!users.includes(name))
    throw new RunAsRefusal(`Jobs of ${component} may not run as ${name} on this node.`);
  const account = find(name);
  if (account === undefined) throw new RunAsRefusal(`There is no user ${name} on this node.`);
  if (account.uid === 0) throw new RunAsRefusal("No job runs as root.");
  return account;
}

function ruleOf(components: RunAsPolicy["components"], component: string): z.infer<typeof rule> {
  const found = Object.hasOwn(components, component) ? components[component] : components["*"];
  if (found === undefined) throw new RunAsRefusal(`Jobs of ${component} may not run on this node.`);
  return found;
}

/** That which is named, else the home of its user where that is permitted, else the first that is; throws a refusal. */
export function chooseDirectory(
  { components }: RunAsPolicy,
  { component, directory: wanted }: Pick<Wish, "component" | "directory">,
  home: string,
): string {
  const { directories } = ruleOf(components, component);
  if (wanted === undefined)
    return existsSync(home) && isBelow(home, directories) ? home : (directories[0] as string);
  if (isBelow(wanted, directories)) return wanted;
  const permitted = directories.join(", ");
  throw new RunAsRefusal(`Jobs of ${component} may not run in ${wanted} on this node, only in ${permitted}.`);
}

/** By its real path: a link must not lead elsewhere. */
function isBelow(directory: string, permitted: readonly string[]): boolean {
  const real = realPath(directory);
  return permitted
    .map(realPath)
    .some((one) => real === one || real.startsWith(one === sep ? sep : one + sep));
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path; // What is not there is refused when the job starts.
  }
}

export function readPolicy(path: string): RunAsPolicy {
  const known = lstatSync(path, { throwIfNoEntry: false });
  if (known === undefined)
    throw new RunAsRefusal(
      `The agent of this node runs as root and has no ${path}: it may run nothing until that says who may run as whom.`,
    );
  if (known.uid !== 0 || (known.mode & 0o022) !== 0 || !known.isFile())
    throw new RunAsRefusal(`${path} is not a file that only root can write: this node runs nothing.`);
  const read = policy.safeParse(parse(readFileSync(path, "utf8")));
  if (!read.success)
    throw new RunAsRefusal(`${path} is not as it should be: ${read.error.issues[0]?.message}.`);
  return read.data;
}

function accountOf(name: string): Account | undefined {
  const { stdout } = spawnSync("getent", ["passwd", "--", name], { encoding: "utf8" });
  const [found, , uid, gid, , home] = stdout.trim().split(":");
  return found === name && home !== undefined
    ? { name, uid: Number(uid), gid: Number(gid), home }
    : undefined;
}
