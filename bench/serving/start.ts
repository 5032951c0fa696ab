// Starts the programs of this folder as processes of their own, bundled once, so that what is measured is what runs.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../../", import.meta.url));

export async function bundle(name: string): Promise<string> {
  const outfile = `${root}dist/bench/serving-${name}.mjs`; // Not below node_modules, which checkouts may share.
  await build({
    absWorkingDir: root,
    entryPoints: [`${root}bench/serving/${name}.ts`],
    outfile,
    logLevel: "warning",
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20.19",
    packages: "external",
  });
  return outfile;
}

export interface Program {
  readonly child: ChildProcess;
  /** Sends a question, and waits for the answer. */
  ask<Answer>(question: object): Promise<Answer>;
  /** Ends it and waits until it is gone. */
  end(signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
}

/** Starts a program and waits for its first message. */
export async function start<First>(
  program: string,
  args: readonly string[],
  execArgv: readonly string[] = [],
): Promise<Program & { readonly first: First }> {
  const child = fork(program, args, {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    execArgv: [...execArgv],
  });
  const exited = once(child, "exit");
  const next = async <Answer>(): Promise<Answer> => {
    const told = once(child, "message").then(([message]) => message as Answer);
    const gone = exited.then(([code]) => {
      throw new Error(`${program} ended with code ${String(code)}`);
    });
    return Promise.race([told, gone]);
  };
  const first = await next<First>();
  return {
    child,
    first,
    ask<Answer>(question: object) {
      const answer = next<Answer>();
      child.send(question);
      return answer;
    },
    async end(signal = "SIGTERM") {
      child.kill(signal);
      await exited;
    },
  };
}
