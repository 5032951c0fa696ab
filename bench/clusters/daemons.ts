// The daemons of a cluster that a proof starts itself, with everything that they keep in one temporary directory. However the
// proof ends, also by SIGKILL, nothing of them is left: a broom waits for its end, and kills whatever names the directory.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, closeSync, existsSync, mkdtempSync, openSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Daemons {
  readonly directory: string;
  /** What it says goes to `<name>.out`. */
  start(name: string, program: string, args: readonly string[], env?: NodeJS.ProcessEnv): void;
  /** SIGKILL to the daemon, and to it alone: what it has started lives in other groups. */
  kill(name: string): Promise<void>;
  /** The last lines of what it has said. */
  tellLog(name: string): void;
  /** Kills everything that is left, jobs included, and removes the directory. */
  close(): Promise<void>;
}

const LOG_LINES = 15;

/**
 * What is left of a cluster has its directory among its arguments or in its environment: daemons, the adapter, jobs. It is looked for
 * until nothing is found, because what dies may have started something meanwhile.
 */
const BROOM = `
while read -r _; do :; done
for round in 1 2 3 4 5 6 7 8 9 10; do
  found=
  for file in $(grep -lsF -e "$1" /proc/[0-9]*/environ /proc/[0-9]*/cmdline); do
    pid=\${file#/proc/}; pid=\${pid%/*}
    [ "$pid" = $$ ] && continue
    kill -9 "-$pid" 2>/dev/null # What it leads: sleepers of a script name nothing.
    kill -9 "$pid" 2>/dev/null && found=1
  done
  [ -n "$found" ] || break
  sleep 0.1
done
rm -rf "$1"`;

export function createDaemons(kind: string): Daemons {
  const directory = mkdtempSync(join(tmpdir(), `berth-${kind}-`));
  chmodSync(directory, 0o755);
  // Servers and databases of the proof inherit it, so that the broom finds them, too.
  process.env.BERTH_PROOF = directory;
  const broom = spawn("sh", ["-c", BROOM, "broom", directory], {
    ...{ stdio: ["pipe", "ignore", "inherit"], detached: true },
  });
  const swept = once(broom, "exit");
  const running = new Map<string, ChildProcess>();
  const logOf = (name: string) => join(directory, `${name}.out`);

  async function close(): Promise<void> {
    broom.stdin?.end();
    await swept;
  }
  // A program that is asked to end takes its cluster with it.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.once(signal, () => void close().finally(() => process.exit(130)));

  return {
    directory,
    start(name, program, args, env = process.env) {
      const log = openSync(logOf(name), "a");
      const child = spawn(program, args, {
        ...{ env: { ...env, BERTH_PROOF: directory }, cwd: directory },
        ...{ stdio: ["ignore", log, log], detached: true },
      });
      closeSync(log);
      running.set(name, child);
    },
    async kill(name) {
      const child = running.get(name);
      running.delete(name);
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
    tellLog(name) {
      if (!existsSync(logOf(name))) return;
      const lines = readFileSync(logOf(name), "utf8").split("\n").slice(-LOG_LINES);
      console.error(`--- ${name}\n${lines.join("\n")}`);
    },
    close,
  };
}
