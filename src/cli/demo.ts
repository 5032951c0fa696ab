// berth demo: see Berth at work in under a minute, without setting anything up.

import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import { onStage } from "./demo/stage.ts";
import { borrowing, urgent } from "./demo/stories.ts";
import { decimalNumber, oneOf } from "./options.ts";

const HELP = `
A real server on a temporary store, on a port that only this machine reaches; nothing is left behind. The jobs only
pretend to compute; the waiting, the saving and the stopping are real.

Examples:
  berth demo
  berth demo --story urgent
  berth demo --pace 2              twice as slow, for showing it to others
`;

const NEXT = {
  "berth up --capacity gpu=2": "your own pool, on this machine",
  "berth run --gpu 1 -- echo hello": "something under a grant",
  "berth why 2": "whenever something waits",
  "berth help": "all there is",
};
const NARROW_COLUMNS = 80;

export function define(command: Command, context: CliContext): void {
  command
    .option("--story <name>", "borrowing, urgent or all", "all")
    .option("--pace <factor>", "how slow: 1 is as meant", "1")
    .addHelpText("after", HELP)
    .action(async (options: { story: string; pace: string }) => {
      const story = oneOf("--story", options.story, ["borrowing", "urgent", "all"]);
      const pace = decimalNumber("--pace", options.pace);
      await onStage(context, pace, async (stage) => {
        if (story !== "urgent") await borrowing(stage);
        if (story !== "borrowing") await urgent(stage);
        await stage.pause(0.5);
      });
      context.write(whatNext(context));
    });
}

function whatNext({ screen }: CliContext): string {
  const isNarrow = (screen?.columns() ?? NARROW_COLUMNS) < NARROW_COLUMNS;
  const lines = Object.entries(NEXT).map(([command, what]) =>
    isNarrow ? `  ${command}\n` : `  ${command.padEnd(36)}${what}\n`,
  );
  return `\nWhat to type next:\n${lines.join("")}`;
}
