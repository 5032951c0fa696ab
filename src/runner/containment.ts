// Which kinds of containment this machine offers to this user, found out by trying.

import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { createCgroup, insideCgroup, removeCgroup } from "./cgroups.ts";
import { type ContainmentLevel, containmentLevels } from "./enclosure.ts";

export interface Containment {
  /** The strongest level available, which jobs get. */
  level: ContainmentLevel;
  /** All levels, strongest first, each with what it means or why it cannot be had. */
  levels: { level: ContainmentLevel; available: boolean; detail: string }[];
}

/** Tries every level, for `berth doctor`. */
export function detectContainment(): Containment {
  const refusals = { cgroup: cgroupRefusal(), namespace: namespaceRefusal(), sweep: undefined };
  const levels = containmentLevels.map((level) => ({
    level,
    available: refusals[level] === undefined,
    detail: refusals[level] ?? meanings[level],
  }));
  return { level: levels.find(({ available }) => available)?.level ?? "sweep", levels };
}

const meanings: Record<ContainmentLevel, string> = {
  cgroup: "a control group holds every process of a job; the kernel kills or freezes it as a whole",
  namespace: "a PID namespace holds every process of a job; it ends with its first process",
  sweep:
    "processes are found by descent, session and a mark in their environment; one that sheds all three escapes",
};

function cgroupRefusal(): string | undefined {
  try {
    const directory = createCgroup(`berth-probe-${process.pid}`);
    try {
      insideCgroup(directory, () => undefined);
    } finally {
      removeCgroup(directory);
    }
    return undefined;
  } catch (error) {
    return `no control group can be made: ${(error as Error).message}`;
  }
}

export const namespaceRefusal = once(() => {
  if (namespacePrefix().length > 0) return undefined;
  return "no PID namespace can be made: it needs setpriv, unshare and either root or user namespaces";
});

/** The words before a command that make the kernel kill it when the process that started it dies. */
export const parentDeathPrefix = once((): string[] => {
  const setpriv = findTool("setpriv");
  return setpriv === undefined ? [] : firstThatWorks([[setpriv, "--pdeathsig", "KILL", "--"]]);
});

/** The words before a command that make it the first process of a PID namespace that dies with us. */
export const namespacePrefix = once((): string[] => {
  const unshare = findTool("unshare");
  if (unshare === undefined || parentDeathPrefix().length === 0) return [];
  // Its own /proc, so that pids mean the same there; mounts made later on the machine still show up inside.
  const isolate = ["--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "slave", "--"];
  return firstThatWorks([
    [...parentDeathPrefix(), unshare, ...isolate],
    [...parentDeathPrefix(), unshare, "--user", "--map-current-user", ...isolate],
  ]);
});

function firstThatWorks(prefixes: string[][]): string[] {
  const works = ([file = "", ...args]: string[]) =>
    spawnSync(file, [...args, "true"], { stdio: "ignore", timeout: 10_000 }).status === 0;
  return prefixes.find(works) ?? [];
}

/** By its full path: the job's own PATH must not decide which tool confines it. */
export function findTool(name: string): string | undefined {
  const directories = [...(process.env.PATH ?? "").split(":"), "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
  return directories
    .filter((directory) => directory.startsWith("/"))
    .map((directory) => join(directory, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** What the machine offers does not change while we run. */
function once<T>(find: () => T): () => T {
  let found: { value: T } | undefined;
  return () => {
    found ??= { value: find() };
    return found.value;
  };
}
