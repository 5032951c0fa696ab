// The batch script of an attempt. It is sent on standard input, because arguments and comments can be read by everybody (S2);
// Slurm keeps it where only its own user and the job's can read it.
//
// The script stays between Slurm and the command, so that a notice does not end a program that does not expect one:
//   USR1    asks for a checkpoint, after the file BERTH_PREEMPT_FILE has appeared: the command gets the signal that it wants,
//           and the checkpoint command runs, whose success counts as a completed checkpoint
//   others  reach the command by Slurm itself; the script waits for its end
//
// It leaves two marks beside the output (`traces.ts`): that it has begun, and how the command ended.

import { startedMarkOf, TOLD } from "./traces.ts";

export interface ScriptFacts {
  readonly command: readonly string[];
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Where reports about checkpoints are made, by files (11.2). */
  readonly checkpointDir: string;
  readonly preemptFile: string;
  /** Where it is written how the command ended. */
  readonly exitFile: string;
  /** Such as SIGUSR1. */
  readonly checkpointSignal?: string | undefined;
  readonly checkpointCommand?: readonly string[] | undefined;
  readonly nodeCount: number;
}

/**
 * What runs once must not run again under the same grant (J5): neither a job that was requeued, nor one whose start a
 * controller that crashed had not written down. It says nothing of the command. Slurm shows codes from 128 on as others.
 */
export const REFUSED_RESTART = 99;

/** As a shell says that a command is there and cannot be run. */
const CANNOT_START = 126;

export function scriptOf(facts: ScriptFacts): string {
  const { command, directory, environment, checkpointDir, preemptFile, exitFile, nodeCount } = facts;
  const variables = Object.entries({
    ...environment,
    BERTH_CHECKPOINT_DIR: checkpointDir,
    BERTH_PREEMPT_FILE: preemptFile,
  });
  const words = command.map(quoted).join(" ");
  return [
    "#!/bin/sh",
    // Slurm shows it as running before its first line is read: a question that comes so soon must neither end it nor be lost.
    // These names are not the job's own: they are set before its command starts.
    "_berth_asked=; trap '_berth_asked=1' USR1",
    // Whether the command ended by itself, or because Slurm ends the job.
    `_berth_told=; trap '_berth_told=${TOLD}' TERM`,
    "trap : INT HUP QUIT USR2",
    `[ "\${SLURM_RESTART_COUNT:-0}" = 0 ] || exit ${REFUSED_RESTART}`,
    // A user without a login shell has none.
    `PATH="\${PATH:-/usr/local/bin:/usr/bin:/bin}"; export PATH`,
    ...variables.map(([name, value]) => `export ${name}=${quoted(value)}`),
    `mkdir ${quoted(startedMarkOf(exitFile))} 2>/dev/null || exit ${REFUSED_RESTART}`,
    // Slurm shows 137 as 9: the whole number is kept beside the output.
    `_berth_end() { echo "$1$_berth_told" > ${quoted(`${exitFile}.new`)} && mv ${quoted(`${exitFile}.new`)} ${quoted(exitFile)}; exit "$1"; }`,
    `mkdir -p ${quoted(checkpointDir)} || _berth_end ${CANNOT_START}`,
    `rm -f ${["done", "finished", "progress", "defer"].map((name) => quoted(`${checkpointDir}/${name}`)).join(" ")}`,
    `cd ${quoted(directory)} || _berth_end ${CANNOT_START}`,
    ...["notice() {", ...noticeOf(facts), "}"],
    `${nodeCount > 1 ? `${ON_EACH_NODE} ` : ""}${words} &`,
    "child=$!",
    "trap notice USR1",
    '[ -z "$_berth_asked" ] || notice',
    // A trap interrupts the wait; the status is that of the command only when it is gone.
    "while :; do",
    '  wait "$child"; status=$?',
    '  kill -0 "$child" 2>/dev/null || break',
    "done",
    "trap '' USR1 TERM INT HUP QUIT USR2",
    '_berth_end "$status"',
    "",
  ].join("\n");
}

/** `srun` starts it on each node, and ends all if one fails (E7). */
const ON_EACH_NODE = `srun --export=ALL --kill-on-bad-exit=1 --ntasks-per-node=1 /bin/sh -c 'BERTH_NODE_RANK=$SLURM_NODEID; export BERTH_NODE_RANK; exec "$@"' sh`;

function noticeOf({ checkpointSignal, checkpointCommand, checkpointDir }: ScriptFacts): string[] {
  return [
    "  :",
    ...(checkpointSignal === undefined
      ? []
      : [`  kill -s ${checkpointSignal.replace(/^SIG/, "")} "$child" 2>/dev/null`]),
    ...(checkpointCommand === undefined
      ? []
      : [`  { ${checkpointCommand.map(quoted).join(" ")} && : > ${quoted(`${checkpointDir}/done`)}; } &`]),
  ];
}

/** As one word of a shell, whatever is in it. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
