// The command line inside the test's own process, against a real server: quick, and its exit code is an answer.

import { mkdirSync } from "node:fs";
import { hosting } from "../../src/bin/hosting.ts";
import { type CliContext, main } from "../../src/cli/index.ts";
import { temporaryDirectory } from "./runner-support.ts";

export interface Said {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type Surroundings = Partial<
  Pick<CliContext, "ask" | "screen" | "isAscii" | "hasColor" | "readStdin" | "signal" | "write">
> & { readonly env?: Readonly<Record<string, string | undefined>> };

const CLEAN = /^(BERTH_|XDG_|NO_COLOR$|HOME$|USER$)/;

/** A person at a machine of their own. */
export function createUser(env: Readonly<Record<string, string>> = {}) {
  const home = temporaryDirectory();
  mkdirSync(`${home}/work`);
  return {
    home,
    berth: (args: readonly string[], around: Surroundings = {}) => type(args, home, env, around),
  };
}

async function type(
  args: readonly string[],
  home: string,
  env: Readonly<Record<string, string>>,
  { env: more = {}, ...around }: Surroundings,
): Promise<Said> {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (CLEAN.test(name)) delete process.env[name];
  Object.assign(process.env, { HOME: home, USER: "alice", ...env });
  for (const [name, value] of Object.entries(more)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  let stdout = "";
  let stderr = "";
  try {
    const exitCode = await main(args, {
      version: "1.2.3",
      write: (text) => {
        stdout += text;
      },
      tell: (text) => {
        stderr += text;
      },
      hasColor: false,
      hosting: async () => hosting,
      exitCode: 0,
      ...around,
    });
    return { exitCode, stdout, stderr };
  } finally {
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
  }
}
