// Freezes a job whose wrapper stands still. A wrapper that was stopped, or that slept with its machine, cannot hold its
// job back when its lease is over, and nobody else would: the guardian notices a death, not a standstill (L2).
//
// The wrapper leaves in a file until when its lease lasts, and moves that on with every renewal. A shell looks at the
// file when the time has come, freezes the job if it has not moved, and thaws it if it moves later. Times are those of
// /proc/uptime, a clock that also goes on while the machine sleeps. Where there is no such clock, there is no watchdog.

import { spawn } from "node:child_process";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { EnclosurePlan } from "./enclosure.ts";
import { programArguments, programEnvironment } from "./programs.ts";

export interface Watchdog {
  /** The job may run for so much longer. The first call starts the watch. */
  extend(leftMs: number): void;
}

const CLOCK = "/proc/uptime";
const FILE = "lease";

/** Three lines: hundredths of a second of uptime, the file that freezes a control group or `-`, and the enclosure. */
const WATCH = `trap '' HUP INT TERM QUIT
file=$1; shift
isFrozen=
turn() {
  if [ "$freezer" = - ]; then printf '%s\n' "$charge" | "$@"; else echo "$value" > "$freezer"; fi
}
while { read -r until && read -r freezer && read -r charge; } < "$file"; do
  read -r up rest < ${CLOCK}
  left=$((until - \${up%.*}\${up#*.}))
  if [ "$left" -le 0 ]; then
    if [ -z "$isFrozen" ]; then isFrozen=1; value=1; turn "$@" freeze; fi
    left=50
  elif [ -n "$isFrozen" ]; then
    isFrozen=; value=0; turn "$@" thaw
  fi
  [ "$left" -lt 500 ] || left=500
  sleep "$((left / 100)).$(printf %02d $((left % 100)))"
done`;

/** The directory is the job's own, and its end is the end of the watch. */
export function prepareWatchdog(directory: string, plan: EnclosurePlan): Watchdog {
  const file = join(directory, FILE);
  const freezer = plan.level === "cgroup" ? join(plan.directory, "cgroup.freeze") : "-";
  let isWatching = false;

  function start(): void {
    const program = [process.execPath, ...programArguments("guardian")];
    const child = spawn("/bin/sh", ["-c", WATCH, "berth-watchdog", file, ...program], {
      cwd: "/",
      detached: true, // Whatever stops our process group must not stop it.
      env: programEnvironment(),
      stdio: "ignore",
    });
    child.on("error", () => undefined); // Out of processes: then only the guardian watches over the job.
    child.unref();
  }

  return {
    extend(leftMs) {
      const uptime = readUptime();
      if (uptime === undefined || /\n/.test(freezer)) return;
      const until = Math.ceil(uptime * 100 + leftMs / 10);
      const draft = `${file}.new`;
      try {
        writeFileSync(draft, `${until}\n${freezer}\n${JSON.stringify({ plan })}\n`, { mode: 0o600 });
        renameSync(draft, file);
      } catch {
        return; // The job is over, and its directory has gone; or the disk is full.
      }
      if (!isWatching) start();
      isWatching = true;
    },
  };
}

function readUptime(): number | undefined {
  try {
    return Number.parseFloat(readFileSync(CLOCK, "utf8"));
  } catch {
    return undefined;
  }
}
