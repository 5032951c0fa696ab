// The command line's entry point: the only place where a command meets the real process.

import { readFileSync } from "node:fs";
import { main } from "../cli/index.ts";

// A reader that has seen enough, such as `head`, is no reason to complain.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 125));

const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

process.exitCode = await main(process.argv.slice(2), {
  version: manifest.version,
  write: (text) => void process.stdout.write(text),
  tell: (text) => void process.stderr.write(text),
  hasColor: process.stdout.isTTY === true && !process.env.NO_COLOR,
  exitCode: 0,
});
