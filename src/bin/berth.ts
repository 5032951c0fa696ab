// The command line's entry point: the only place where a command meets the real process.

import { readFileSync } from "node:fs";
import { main, programName, toAscii } from "../cli/index.ts";

// A reader that has seen enough, such as `head`, is no reason to complain.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 125));
process.stderr.on("error", () => undefined);

const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

// No locale at all says nothing; one that names another character set means it.
const locale = process.env.LC_ALL || process.env.LC_CTYPE || process.env.LANG || "";
const isAscii = locale !== "" && !/utf-?8/i.test(locale);
const { stdin, stdout, stderr } = process;

process.exitCode = await main(process.argv.slice(2), {
  version: manifest.version,
  program: programName(process.argv[1] ?? "", process.env.PATH ?? "", process.cwd()),
  write: (text) => void stdout.write(text),
  tell: (text) => void stderr.write(isAscii ? toAscii(text) : text),
  hasColor: stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== "dumb",
  isAscii,
  ...(stdout.isTTY === true && { screen: { columns: () => stdout.columns || 80 } }),
  ...(stdin.isTTY === true && stderr.isTTY === true
    ? { ask: async (question, options) => (await import("./keyboard.ts")).ask(question, options) }
    : { readStdin: async () => (await import("./keyboard.ts")).readAll() }),
  hosting: async () => (await import("./hosting.ts")).hosting,
  exitCode: 0,
});
