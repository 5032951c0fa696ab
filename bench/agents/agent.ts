// `berth agent` as a program of its own: bundled with its shim, so that a start costs what it costs a user.

import { main } from "../../src/cli/index.ts";

process.exitCode = await main(["agent", ...process.argv.slice(2)], {
  version: "0.1.0",
  write: (text) => void process.stdout.write(text),
  tell: (text) => void process.stderr.write(text),
  hasColor: false,
  exitCode: 0,
});
