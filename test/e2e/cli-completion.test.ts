// Completion in the shells that are installed here, with names from a real server.

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildBerth, openWorld, type World } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";
import { openTerminal } from "./terminal-support.ts";

let world: World;
const bin = temporaryDirectory();

beforeAll(async () => {
  const [berth, opened] = await Promise.all([buildBerth(), openWorld({ gpu: 1 })]);
  world = opened;
  writeFileSync(join(bin, "berth"), `#!/bin/sh\nexec '${process.execPath}' '${berth}' "$@"\n`);
  chmodSync(join(bin, "berth"), 0o755);
  await world.client.requests.submit({ component: "research", resources: { gpu: 1 }, name: "train" });
});
afterAll(() => world.close());

const environment = () => ({
  PATH: `${bin}:${process.env.PATH}`,
  HOME: bin,
  LANG: "C.UTF-8",
  BERTH_URL: world.url,
  BERTH_API_TOKEN: world.token,
});

/** Not synchronously: the server is in this process, and must be able to answer. */
async function inShell(shell: string, script: string): Promise<string> {
  const child = spawn(shell, ["-c", script], {
    stdio: ["ignore", "pipe", "pipe"],
    env: environment(),
  });
  const [stdout, stderr, status] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise((resolve) => child.once("close", resolve)),
  ]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout;
}

/** How each shell is made to complete a line, the last word being typed. */
const shells: Record<string, (words: readonly string[]) => string> = {
  bash: (words) => `source <(berth completion bash)
    COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}
    _berth; printf '%s\\n' "\${COMPREPLY[@]}"`,
  zsh: (words) => `autoload -U compinit; compinit -u -D
    _describe() { print -l -- "\${(@)\${(@P)2}%%:*}" }; _files() { }
    source <(berth completion zsh)
    words=(${words.map((word) => `'${word}'`).join(" ")}); CURRENT=${words.length}; _berth`,
  fish: (words) =>
    `berth completion fish | source; complete --do-complete '${words.join(" ")}' | string replace -r '\\t.*' ''; true`,
};
const installed = Object.keys(shells).filter((shell) => spawnSync(shell, ["-c", "true"]).status === 0);

const cases: Record<string, { words: string[]; finds: string[] }> = {
  commands: { words: ["berth", "doc"], finds: ["doctor"] },
  "sub-commands": { words: ["berth", "pool", "c"], finds: ["create"] },
  options: { words: ["berth", "ps", "--stat"], finds: ["--status"] },
  "values of options": { words: ["berth", "ps", "-o", "js"], finds: ["json", "jsonl"] },
  pools: { words: ["berth", "pool", "show", "l"], finds: ["lab"] },
  "pools of an option": { words: ["berth", "ps", "--pool", ""], finds: ["lab"] },
  components: { words: ["berth", "run", "--component", "ur"], finds: ["urgent"] },
  "requests by name": { words: ["berth", "why", "tr"], finds: ["train"] },
  "requests by number": { words: ["berth", "cancel", "1"], finds: ["1"] },
};

test("bash is installed wherever this runs", () => expect(installed).toContain("bash"));

describe.each(installed)("%s completes", (shell) => {
  for (const [name, { words, finds }] of Object.entries(cases)) {
    test(name, async () => {
      const found = await inShell(shell, (shells[shell] as (words: readonly string[]) => string)(words));
      expect(found.trim().split("\n").toSorted()).toEqual(finds);
    });
  }
});

/** How each shell is started without anybody's settings, and made to complete. */
const interactive: Record<string, { start: string; prepare: string }> = {
  bash: { start: "bash --norc --noprofile -i", prepare: "source <(berth completion bash)" },
  zsh: {
    start: "zsh -f -i",
    prepare: "autoload -U compinit; compinit -u -D; source <(berth completion zsh)",
  },
  fish: { start: "fish --no-config -i", prepare: "berth completion fish | source" },
};

test.each(installed)("%s completes what is typed at its prompt when Tab is pressed", async (shell) => {
  const { start, prepare } = interactive[shell] as { start: string; prepare: string };
  const terminal = openTerminal(`exec ${start}`, { cwd: bin, env: environment() });
  terminal.type(`${prepare}; echo 'it is' ready\n`);
  await terminal.shows(/it is ready/);
  terminal.type("berth doc\t");
  await terminal.shows(/berth doctor/);
  terminal.type("\u0015berth pool show l\t"); // Ctrl-U clears the line.
  await terminal.shows(/berth pool show lab/);
  terminal.type("\u0015exit\n");
  await terminal.exited;
});

test.each(Object.keys(shells))("the script for %s is printed", async (shell) => {
  expect(await inShell("bash", `berth completion ${shell}`)).toContain("__complete --");
});

test("an unreachable server, or none, is no reason to complain", async () => {
  const script =
    "BERTH_URL=http://127.0.0.1:1 berth __complete -- pool show ''; BERTH_URL= berth __complete -- why ''";
  expect(await inShell("bash", script)).toBe("");
});
