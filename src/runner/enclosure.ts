// What holds a job together: everything it started can be listed, signalled, frozen and killed.
//
// An enclosure is described by plain data, so that the guardian in another process can open the same one.
//
// Invariants
//   1. `isEmpty` is true only if nothing of the job runs any more: units are freed on its word.
//   2. What cannot be read counts as running: errors are thrown, never taken for an empty answer.

import { cgroupMembers, isFrozen, isPopulated, killCgroup, removeCgroup, setFrozen } from "./cgroups.ts";
import {
  descendants,
  environmentValue,
  isAlive,
  isRunning,
  isSame,
  listProcesses,
  MARK_VARIABLE,
  type ProcessIdentity,
  type ProcessRow,
  readProcess,
  sendSignal,
} from "./processes.ts";

export type EnclosurePlan =
  | { level: "cgroup"; directory: string }
  /** `init` is the first process of the namespace as seen from here: with it everything inside ends. */
  | { level: "namespace"; init: ProcessIdentity }
  /** Whatever descends from the root, shares its session, or carries the mark in its environment. */
  | { level: "sweep"; mark: string; root?: ProcessIdentity; ownSession: boolean };

type SweepPlan = Extract<EnclosurePlan, { level: "sweep" }>;

export type ContainmentLevel = EnclosurePlan["level"];

/** Strongest first. */
export const containmentLevels: readonly ContainmentLevel[] = ["cgroup", "namespace", "sweep"];

export interface Enclosure {
  isEmpty(): boolean;
  members(): number[];
  /** To every member. */
  signal(signal: NodeJS.Signals): void;
  /** One round; the caller repeats until the enclosure is empty. */
  kill(): void;
  /** Resolves when everything stands still, or when it has not within the bound. */
  freeze(): Promise<boolean>;
  /** Undoes `freeze`. */
  thaw(): void;
  /** Tidies up behind an empty enclosure. */
  dispose(): void;
}

const FREEZE_ROUNDS_MAX = 200;
const FREEZE_ROUND_MS = 10;

export function openEnclosure(plan: EnclosurePlan): Enclosure {
  switch (plan.level) {
    case "cgroup":
      return openCgroup(plan.directory);
    case "namespace":
      return openNamespace(plan.init);
    case "sweep":
      return openSweep(plan);
    default:
      return plan satisfies never;
  }
}

function openCgroup(directory: string): Enclosure {
  return {
    isEmpty: () => !isPopulated(directory),
    members: () => cgroupMembers(directory),
    signal: (signal) => {
      for (const pid of cgroupMembers(directory)) sendSignal(pid, signal);
    },
    kill: () => {
      killCgroup(directory);
      // The kernel's sweep misses a process whose first thread has ended while others run on.
      for (const pid of cgroupMembers(directory)) sendSignal(pid, "SIGKILL");
    },
    ...freezing({
      freeze: () => {
        setFrozen(directory, true);
        return repeatUntil(() => isFrozen(directory));
      },
      thaw: () => setFrozen(directory, false),
      isFrozen: () => isFrozen(directory), // By the watchdog.
    }),
    dispose: () => removeCgroup(directory),
  };
}

function openNamespace(init: ProcessIdentity): Enclosure {
  // Orphans inside are adopted by init, so its descendants are complete, whatever they forked.
  const rows = () => (isRunning(init) ? descendants(listProcesses(), [init.pid]).filter(isAlive) : []);
  return {
    // The kernel lets init go only after everything else in the namespace has gone.
    isEmpty: () => rows().length === 0,
    members: () => rows().map((row) => row.pid),
    signal: (signal) => signalAll(rows(), signal),
    kill: () => {
      if (isRunning(init)) sendSignal(init.pid, "SIGKILL");
    },
    ...freezing({ freeze: () => stopAll(rows), thaw: () => signalAll(rows(), "SIGCONT") }),
    dispose: () => {
      if (isRunning(init)) sendSignal(init.pid, "SIGKILL");
    },
  };
}

function openSweep(plan: SweepPlan): Enclosure {
  // Once a member, always a member: a child whose parent ended between two looks is still ours.
  const known = new Map<string, ProcessRow>();

  const look = (): ProcessRow[] => {
    const rows = listProcesses().filter(isAlive);
    const sessionId = sessionOf(plan, rows);
    const isOurs = (row: ProcessRow) =>
      known.has(keyOf(row)) ||
      (plan.root !== undefined && isSame(plan.root, row)) ||
      row.sessionId === sessionId ||
      environmentValue(row.pid, MARK_VARIABLE)?.includes(plan.mark);
    const roots = rows.filter((row) => row.pid !== process.pid && isOurs(row));
    const members = [...roots, ...descendants(rows, new Set(roots.map((row) => row.pid)))];
    known.clear();
    for (const row of members) known.set(keyOf(row), row);
    return [...known.values()];
  };
  // A process has no readable environment in the middle of an exec, hence the second look.
  const rows = () => {
    const found = look();
    return found.length > 0 ? found : look();
  };

  return {
    isEmpty: () => rows().length === 0,
    members: () => rows().map((row) => row.pid),
    signal: (signal) => signalAll(rows(), signal),
    kill: () => signalAll(rows(), "SIGKILL"),
    ...freezing({ freeze: () => stopAll(rows), thaw: () => signalAll(rows(), "SIGCONT") }),
    dispose: () => undefined,
  };
}

/** A thaw makes the kernel wait for all processors, so it is left out where nothing was frozen. */
function freezing({
  freeze,
  thaw,
  isFrozen: isFrozenByOthers = () => false,
}: Pick<Enclosure, "freeze" | "thaw"> & { isFrozen?: () => boolean }): Pick<Enclosure, "freeze" | "thaw"> {
  let isFrozen = false;
  return {
    freeze: () => {
      isFrozen = true;
      return freeze();
    },
    thaw: () => {
      if (isFrozen || isFrozenByOthers()) thaw();
      isFrozen = false;
    },
  };
}

/** The job's own session, unless it has ended and a stranger's now bears the number. */
function sessionOf({ root, ownSession }: SweepPlan, rows: readonly ProcessRow[]): number | undefined {
  if (root === undefined || !ownSession) return undefined;
  return rows.some((row) => row.pid === root.pid && !isSame(root, row)) ? undefined : root.pid;
}

/** Stops whatever still moves, again and again: a process may have forked just before it was stopped. */
function stopAll(rows: () => ProcessRow[]): Promise<boolean> {
  return repeatUntil(() => {
    const moving = rows().filter((row) => !row.state.startsWith("T"));
    signalAll(moving, "SIGSTOP");
    return moving.length === 0;
  });
}

/** Looks at each once more before it signals, because the pid may have passed to a stranger. */
export function signalAll(rows: ProcessRow[], signal: NodeJS.Signals): void {
  for (const row of rows) {
    if (readProcess(row.pid)?.startTime === row.startTime) sendSignal(row.pid, signal);
  }
}

async function repeatUntil(condition: () => boolean): Promise<boolean> {
  for (let round = 0; round < FREEZE_ROUNDS_MAX; round++) {
    if (condition()) return true;
    await new Promise((resolve) => setTimeout(resolve, FREEZE_ROUND_MS));
  }
  return false;
}

function keyOf(row: ProcessRow): string {
  return `${row.pid}:${row.startTime}`;
}
