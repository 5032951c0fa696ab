// Control groups, version 2. A job in one cannot leave it by forking or by setsid, and the kernel ends or
// freezes all of it at once.

import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hasCode } from "./errors.ts";

/** The directory of the control group that this process is in, or undefined without version 2. */
export function ownCgroup(): string | undefined {
  const mount = findCgroupMount(readIfPresent("/proc/self/mountinfo"));
  const path = /^0::(.*)$/m.exec(readIfPresent("/proc/self/cgroup"))?.[1];
  if (mount === undefined || path === undefined) return undefined;
  // In a container the mount may show a part of the hierarchy only.
  const visible = mount.root !== "/" && path.startsWith(mount.root) ? path.slice(mount.root.length) : path;
  return join(mount.point, visible);
}

/** Hybrid systems mount version 2 elsewhere than at /sys/fs/cgroup, so the place is looked up. */
export function findCgroupMount(mountinfo: string): { root: string; point: string } | undefined {
  for (const line of mountinfo.split("\n")) {
    const [mount, filesystem] = line.split(" - ");
    const [, , , root, point] = mount?.split(" ") ?? [];
    if (filesystem?.startsWith("cgroup2 ") && root && point)
      return { root: unescapeOctal(root), point: unescapeOctal(point) };
  }
  return undefined;
}

/** Throws where this user may not create one, or where the kernel cannot kill a group as a whole. */
export function createCgroup(name: string): string {
  const own = ownCgroup();
  if (own === undefined) throw new Error("no control groups of version 2 are mounted");
  const directory = join(own, name);
  mkdirSync(directory);
  try {
    readFileSync(join(directory, "cgroup.events"));
    if (!readdirSync(directory).includes("cgroup.kill")) throw new Error("the kernel is older than 5.14");
  } catch (error) {
    rmdirSync(directory);
    throw error;
  }
  return directory;
}

/**
 * Runs `start` as a member of the group, so that what it spawns is born inside and there is no moment in
 * which it could fork its way out. Nothing may await in between: other work would be born inside, too.
 */
export function insideCgroup<T>(directory: string, start: () => T): T {
  const home = ownCgroup();
  if (home === undefined) throw new Error("the own control group has vanished");
  writeFileSync(join(directory, "cgroup.procs"), String(process.pid));
  try {
    return start();
  } finally {
    writeFileSync(join(home, "cgroup.procs"), String(process.pid));
  }
}

export function isPopulated(directory: string): boolean {
  return readIfPresent(join(directory, "cgroup.events")).includes("populated 1");
}

export function isFrozen(directory: string): boolean {
  return readIfPresent(join(directory, "cgroup.events")).includes("frozen 1");
}

export function cgroupMembers(directory: string): number[] {
  const own = readIfPresent(join(directory, "cgroup.procs")).split("\n").map(Number);
  // 0 stands for a process that our PID namespace cannot name.
  return [...own.filter((pid) => pid > 0), ...subgroups(directory).flatMap(cgroupMembers)];
}

export function killCgroup(directory: string): void {
  writeIfPresent(join(directory, "cgroup.kill"), "1");
}

export function setFrozen(directory: string, frozen: boolean): void {
  writeIfPresent(join(directory, "cgroup.freeze"), frozen ? "1" : "0");
}

/** Removes an empty group with the groups that the job made inside; one still in use is left alone. */
export function removeCgroup(directory: string): void {
  try {
    subgroups(directory).forEach(removeCgroup);
    rmdirSync(directory);
  } catch {
    // Busy or already gone. An empty directory left behind holds nothing.
  }
}

function subgroups(directory: string): string[] {
  try {
    const entries = readdirSync(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => join(directory, entry.name));
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENODEV")) return [];
    throw error;
  }
}

function readIfPresent(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    // A group of threads has no list of processes. Anything else must not look like an empty group.
    if (hasCode(error, "ENOENT", "ENODEV", "ENOTSUP", "EOPNOTSUPP")) return "";
    throw error;
  }
}

function writeIfPresent(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    if (!hasCode(error, "ENOENT", "ENODEV")) throw error;
  }
}

/** mountinfo writes blanks and backslashes in paths as \040 and the like. */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
