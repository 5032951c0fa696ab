// Whatever the arguments and the environment contain reaches the child byte for byte, or is refused in words.

import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JobOptions, JobRefusal } from "../../src/runner/index.ts";
import { HOSTILE_PIECES } from "../support/hostile-words.ts";
import { buildWrapper, environment, levels, start, temporaryDirectory } from "./runner-support.ts";

const VECTORS = 500;
const ENVIRONMENTS = 100;

const pieces = [
  ...HOSTILE_PIECES,
  ..."--pdeathsig --fork %s %n".split(" "),
  ...["\u0001", "\u001b[31m", "\u007f", "\u000b", "\u0085"],
];

test("500 hostile argument vectors arrive as they were", async () => {
  for (let seed = 1; seed <= VECTORS; seed++) {
    const random = randomFrom(seed);
    const words = Array.from({ length: 1 + random(12) }, () => hostileText(random));
    expect(await received(["printf", "%s\\0", ...words]), `seed ${seed}`).toEqual(words);
  }
}, 240_000);

test.each(levels)(
  "hostile arguments arrive as they were at level %s",
  async (containment) => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = randomFrom(seed);
      const words = Array.from({ length: 1 + random(12) }, () => hostileText(random));
      expect(await received(["printf", "%s\\0", ...words], { containment }), `seed ${seed}`).toEqual(words);
    }
  },
  240_000,
);

test("hostile environments arrive as they were", async () => {
  for (let seed = 1; seed <= ENVIRONMENTS; seed++) {
    const random = randomFrom(seed);
    const entries = Array.from({ length: 1 + random(8) }, (_, index) => [
      `V${index}${hostileText(random).replaceAll("=", "")}`,
      hostileText(random),
    ]);
    const env: Record<string, string> = { ...Object.fromEntries(entries), PATH: environment.PATH };
    const arrived = (await received(["env", "-0"], { env })).filter((entry) => !entry.startsWith("BERTH_"));
    expect(arrived.sort(), `seed ${seed}`).toEqual(
      Object.entries(env)
        .map(([name, value]) => `${name}=${value}`)
        .sort(),
    );
  }
}, 240_000);

test("a command may have any name", async () => {
  for (const name of ["-rf", "--", "two words", "new\nline", "quo'te\"s", "$(id)", "日本語", "a=b"]) {
    const directory = temporaryDirectory();
    copyFileSync("/usr/bin/printf", join(directory, name));
    chmodSync(join(directory, name), 0o755);
    const env = { PATH: `${directory}:${environment.PATH}` };
    expect(await received([name, "%s\\0", "arrived"], { env }), name).toEqual(["arrived"]);
  }
});

const refused: Record<
  string,
  { options: Partial<JobOptions> & { command: string[] }; want: Partial<JobRefusal> }
> = {
  "no command": { options: { command: [] }, want: { code: "command_invalid", exitCode: 2 } },
  "a NUL byte in an argument": {
    options: { command: ["echo", "a\0b"] },
    want: {
      code: "command_invalid",
      message: "Argument 1 of the command contains a NUL byte, which no process can receive.",
    },
  },
  "half of a character in an argument": {
    options: { command: ["echo", "a\ud83d"] },
    want: { code: "command_invalid", exitCode: 2 },
  },
  "a NUL byte in the environment": {
    options: { command: ["true"], env: { PATH: "/bin:/usr/bin", A: "x\0B=y" } },
    want: { code: "environment_invalid", exitCode: 2 },
  },
  "an equals sign in the name of a variable": {
    options: { command: ["true"], env: { PATH: "/bin:/usr/bin", "A=B": "c" } },
    want: { code: "environment_invalid", message: 'The environment variable "A=B" has "=" in its name.' },
  },
  "a variable without a name": {
    options: { command: ["true"], env: { PATH: "/bin:/usr/bin", "": "c" } },
    want: { code: "environment_invalid" },
  },
  "an unknown command": {
    options: { command: ["no-such-command-here"] },
    want: { code: "command_not_found", exitCode: 127 },
  },
  "an empty name": { options: { command: [""] }, want: { code: "command_not_found", exitCode: 127 } },
  "a missing path": {
    options: { command: ["./no/such"] },
    want: { code: "command_not_found", exitCode: 127 },
  },
  "a directory": { options: { command: ["/tmp"] }, want: { code: "command_not_executable", exitCode: 126 } },
  "a file without permission": {
    options: { command: [plainFile()] },
    want: { code: "command_not_executable", exitCode: 126 },
  },
  "more than the system takes": {
    options: { command: ["true", "x".repeat(3_000_000)] },
    want: { code: "arguments_too_long", exitCode: 126 },
  },
  "a working directory that is not there": {
    options: { command: ["true"], cwd: "/no/such/directory" },
    want: { code: "directory_missing", exitCode: 125 },
  },
  "a checkpoint command that is not there": {
    options: { command: ["true"], checkpointCommand: ["no-such-command-here"] },
    want: { code: "command_not_found" },
  },
};
for (const containment of levels) {
  for (const [name, { options, want }] of Object.entries(refused)) {
    test(`${name} is refused at level ${containment}`, async () => {
      await expect(start({ ...options, containment })).rejects.toMatchObject(want);
    });
  }
}

test("bytes that are not UTF-8 are refused, because Node would change them", async () => {
  const wrapper = await buildWrapper();
  const file = join(temporaryDirectory(), "options.json");
  // The shell makes the bytes; the wrapper hands its own variable on.
  const options = { command: ["true"], env: { ...environment, BAD: "a\ufffdb" }, graceMs: 1_000 };
  writeFileSync(file, JSON.stringify(options));
  const script = 'BAD=$(printf "a\\377b") exec "$1" "$2" "$3"';
  const args = ["-c", script, "sh", process.execPath, wrapper, file];
  const { status, stderr } = spawnSync("sh", args, { encoding: "utf8", timeout: 45_000 });
  expect(stderr).toBe('environment_invalid: The environment variable "BAD" is not valid UTF-8.\n');
  expect(status).toBe(2);
});

/** The words that the command printed, each ended by a NUL byte. */
async function received(command: string[], options: Partial<JobOptions> = {}): Promise<string[]> {
  const { job, outputEnded } = await start({ command, ...options });
  const output = await outputEnded;
  await job.gone;
  job.close();
  expect(output.at(-1)).toBe(0);
  return output.subarray(0, -1).toString("utf8").split("\0");
}

function hostileText(random: (below: number) => number): string {
  if (random(40) === 0) return "long ".repeat(1 + random(20_000));
  return Array.from({ length: random(6) }, () => pieces[random(pieces.length)]).join("");
}

/** The same numbers for the same seed, so that a failure can be repeated. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % below;
  };
}

function plainFile(): string {
  const path = join(temporaryDirectory(), "plain");
  writeFileSync(path, "echo no\n", { mode: 0o644 });
  return path;
}
