// The process table: who is alive, who is whose child, and identities that outlast the reuse of pids.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { hasCode } from "./errors.ts";

/** A pid alone may be another process tomorrow; with the boot and the start time it never is. */
export interface ProcessIdentity {
  bootId: string;
  pid: number;
  startTime: string;
}

export interface ProcessRow {
  pid: number;
  parentPid: number;
  groupId: number;
  sessionId: number;
  /** The process group in the foreground of its terminal; -1 without a terminal. */
  foregroundGroupId: number;
  /** One letter as in `ps`: Z is a zombie, T is stopped. */
  state: string;
  startTime: string;
}

const onLinux = process.platform === "linux";

export function identify(pid: number): ProcessIdentity | undefined {
  const row = readProcess(pid);
  return row && { bootId: bootId(), pid, startTime: row.startTime };
}

/** Zombies do not count: they hold nothing but their exit status. */
export function isRunning(identity: ProcessIdentity): boolean {
  const row = readProcess(identity.pid);
  return row !== undefined && isAlive(row) && isSame(identity, row);
}

export function isSame(identity: ProcessIdentity, row: ProcessRow): boolean {
  return row.pid === identity.pid && row.startTime === identity.startTime && identity.bootId === bootId();
}

export function isAlive(row: ProcessRow): boolean {
  return !/^[ZXx]/.test(row.state);
}

export function readProcess(pid: number): ProcessRow | undefined {
  if (!onLinux) return listProcesses().find((row) => row.pid === pid);
  try {
    const row = parseStat(readFileSync(`/proc/${pid}/stat`, "latin1"));
    return isAlive(row) ? row : { ...row, state: stateOfThreads(row) };
  } catch (error) {
    if (hasCode(error, "ENOENT", "ESRCH")) return undefined; // It ended meanwhile.
    throw error; // Out of file descriptors, say: that must not look like an ended process.
  }
}

export function listProcesses(): ProcessRow[] {
  if (!onLinux) return listWithPs();
  return readdirSync("/proc").flatMap((name) => {
    const row = /^\d+$/.test(name) ? readProcess(Number(name)) : undefined;
    return row === undefined ? [] : [row];
  });
}

/** The rows below these roots, not the roots themselves. */
export function descendants(rows: readonly ProcessRow[], roots: Iterable<number>): ProcessRow[] {
  const children = new Map<number, ProcessRow[]>();
  for (const row of rows) {
    const siblings = children.get(row.parentPid);
    if (siblings) siblings.push(row);
    else children.set(row.parentPid, [row]);
  }
  const found: ProcessRow[] = [];
  const seen = new Set(roots);
  const open = [...seen];
  for (let pid = open.pop(); pid !== undefined; pid = open.pop()) {
    for (const child of children.get(pid) ?? []) {
      if (seen.has(child.pid)) continue;
      seen.add(child.pid);
      found.push(child);
      open.push(child.pid);
    }
  }
  return found;
}

/** The value of a variable that the process was started with. What we may not read is not ours. */
export function environmentValue(pid: number, name: string): string | undefined {
  if (!onLinux) return undefined;
  try {
    const entries = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
    return entries.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ESRCH", "EACCES", "EPERM")) return undefined;
    throw error;
  }
}

/** Whether the process belongs to a job that the runner has started. */
export function isOfJob(pid: number): boolean {
  return environmentValue(pid, MARK_VARIABLE) !== undefined;
}

/** Names the job of a process, and before it the jobs in which that job itself was started. */
export const MARK_VARIABLE = "BERTH_JOB";

/** Sends a signal; a process that has just ended is not an error. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // EPERM: it changed its user. It stays in the table, so a wait for its end will see it.
    if (!hasCode(error, "ESRCH", "EPERM")) throw error;
  }
}

export function parseStat(stat: string): ProcessRow {
  // The name in parentheses may itself hold spaces and parentheses, hence the last one.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return {
    pid: Number.parseInt(stat, 10),
    state: fields[0] ?? "X",
    parentPid: Number(fields[1]),
    groupId: Number(fields[2]),
    sessionId: Number(fields[3]),
    foregroundGroupId: Number(fields[5]),
    startTime: fields[19] ?? "",
  };
}

/** The first thread may be a zombie while others run on: the process is then alive, whatever its row says. */
function stateOfThreads(row: ProcessRow): string {
  const others = readdirSync(`/proc/${row.pid}/task`).filter((thread) => Number(thread) !== row.pid);
  for (const thread of others) {
    try {
      return parseStat(readFileSync(`/proc/${row.pid}/task/${thread}/stat`, "latin1")).state;
    } catch (error) {
      if (!hasCode(error, "ENOENT", "ESRCH")) throw error;
    }
  }
  return row.state;
}

function listWithPs(): ProcessRow[] {
  const columns = "pid=,ppid=,pgid=,tpgid=,stat=,lstart=";
  const { stdout } = spawnSync("/bin/ps", ["-axo", columns], { encoding: "utf8", env: { LC_ALL: "C" } });
  return stdout.split("\n").flatMap((line) => {
    const [pid, parentPid, groupId, foreground, state, ...start] = line.trim().split(/\s+/);
    if (state === undefined) return [];
    // ps has no session on every system; the group is the best we get.
    const group = Number(groupId);
    return [
      {
        pid: Number(pid),
        parentPid: Number(parentPid),
        groupId: group,
        sessionId: group,
        foregroundGroupId: Number(foreground) || -1,
        state,
        startTime: start.join(" "),
      },
    ];
  });
}

let knownBootId: string | undefined;

/** Names the time since the machine was started. */
export function bootId(): string {
  knownBootId ??= onLinux
    ? readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
    : spawnSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], { encoding: "utf8" }).stdout.trim();
  return knownBootId;
}
