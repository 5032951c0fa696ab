// berth checkpoint done|finished|progress|defer SECONDS: what a job says to its wrapper.

import type { Command } from "commander";
import { type CheckpointReport, sendCheckpointReport } from "../runner/index.ts";
import { type CliContext, CliError } from "./context.ts";

const HELP = `
For programs that \`berth run\` has started. Instead of this command they may create a file of the same name,
done, finished, progress or defer (which holds the seconds), in the directory named by BERTH_CHECKPOINT_DIR.

Examples:
  berth checkpoint done          the state is saved: stop me, and let the next attempt resume
  berth checkpoint finished      all of the work is done: my end is a success, though I am being stopped
  berth checkpoint progress      still saving
  berth checkpoint defer 60      not now, in a minute
`;

export function define(command: Command, context: CliContext): void {
  command.addHelpText("after", HELP);
  command
    .command("done")
    .description("the checkpoint is complete")
    .addHelpText("after", "\nExamples:\n  python save.py && berth checkpoint done\n")
    .action(() => report({ kind: "done" }, context));
  command
    .command("finished")
    .description("all of the work is done")
    .addHelpText("after", "\nExamples:\n  python train.py && berth checkpoint finished\n")
    .action(() => report({ kind: "finished" }, context));
  command
    .command("progress")
    .description("the checkpoint is being made")
    .addHelpText("after", "\nExamples:\n  berth checkpoint progress\n")
    .action(() => report({ kind: "progress" }, context));
  command
    .command("defer")
    .description("ask for more time")
    .argument("<seconds>", "how much, such as 60 or 2m")
    .addHelpText("after", "\nExamples:\n  berth checkpoint defer 60\n")
    .action(async (text: string) => report({ kind: "defer", seconds: await parseSeconds(text) }, context));
}

async function report(said: CheckpointReport, context: CliContext): Promise<void> {
  const path = process.env.BERTH_SOCKET;
  if (path === undefined || path === "") {
    throw new CliError(
      "usage",
      "There is no wrapper to report to.",
      "This is for programs that `berth run` has started.",
    );
  }
  // `done` is followed by the stop of the whole job, this command included, which must not end its own answer.
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => undefined);
  const answer = await sendCheckpointReport(path, said).catch((error: Error) => {
    throw new CliError("unavailable", `The wrapper of this job cannot be reached: ${error.message}`);
  });
  const { accepted, message = "" } = answer;
  if (!accepted) throw new CliError("invalid_request", message === "" ? "The report was refused." : message);
  if (message !== "") context.tell(`${message}\n`);
}

async function parseSeconds(text: string): Promise<number> {
  const isPlain = /^\d{1,9}(\.\d{1,3})?$/.test(text);
  const seconds = isPlain ? Number(text) : (await import("./parsing.ts")).durationSeconds(text);
  if (seconds > 0) return seconds;
  throw new CliError("usage", `"${text.slice(0, 40)}" is no time at all.`, "Write it like 60 or 2m.");
}
