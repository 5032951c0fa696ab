// Ten thousand hostile words: each reaches the command byte for byte, or is refused before it runs.

import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildBerth, environmentOf, openWorld, startBerth, type World } from "./run-support.ts";
import { temporaryDirectory } from "./runner-support.ts";

const RUNS = 10;
const ARGUMENTS = 800;
const VARIABLES = 200;

let berth = "";
let world: World;
beforeAll(async () => {
  [berth, world] = await Promise.all([buildBerth(), openWorld({ data: "memory" })]);
});
afterAll(() => world.close());

/** The same words for the same seed. */
function seededRandom(seed: number): (below: number) => number {
  let state = seed * 2654435761 + 1;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    state = (state ^ (state >>> 12)) >>> 0;
    return state % below;
  };
}

const pieces = [
  ..."' \" ` \\ $ $(id) $HOME ! * ? [a-z] {a,b} ~ # & | ; < > - -- --gpu --help -h -r --gpu=9".split(" "),
  ..."--report=/x --name = A=B %s %n ../.. / a 0 -1 null undefined true {} __proto__ NaN ß İ 日本 🦀".split(
    " ",
  ),
  ..."\n,\r\n,\t, ,\v,\u001b[31m,\u0007,\u007f,\u0001,\u0085,\u2028,\u202e,\u200b,\ufffd".split(","),
  ..."é,e\u0301,👩‍👩‍👧,\ufeff,\u{10ffff}".split(","),
];

function hostileWord(random: (below: number) => number): string {
  const kind = random(20);
  if (kind === 0) return "";
  if (kind === 1) return (pieces[random(pieces.length)] as string).repeat(random(400));
  const length = 1 + random(8);
  return Array.from({ length }, () => pieces[random(pieces.length)]).join("");
}

describe(`${RUNS * (ARGUMENTS + VARIABLES)} words`, () => {
  const turns = Array.from({ length: RUNS }, (_, index) => index + 1);
  test.each(turns)("seed %i: all arrive as they were", async (seed) => {
    const random = seededRandom(seed);
    const words = Array.from({ length: ARGUMENTS }, () => hostileWord(random));
    words[random(ARGUMENTS)] = "x".repeat(100_000);
    const variables = Object.fromEntries(
      Array.from({ length: VARIABLES }, (_, index) => [`HOSTILE_${index}`, hostileWord(random)]),
    );
    const directory = temporaryDirectory();
    const script = `cat /proc/$$/cmdline > ${directory}/cmdline; cat /proc/$$/environ > ${directory}/environ`;
    const run = startBerth(berth, world, ["run", "--gpu", "1", "--", "sh", "-c", script, "sh", ...words], {
      env: variables,
    });
    expect(await run.exited).toEqual({ code: 0, signal: null });
    const received = readFileSync(join(directory, "cmdline"));
    const sent = Buffer.from(["sh", "-c", script, "sh", ...words].map((word) => `${word}\0`).join(""));
    expect(received.equals(sent)).toBe(true);
    const environ = readFileSync(join(directory, "environ"), "utf8").split("\0");
    const arrived = environ.filter((entry) => entry.startsWith("HOSTILE_"));
    expect(arrived.toSorted()).toEqual(
      Object.entries(variables)
        .map(([name, value]) => `${name}=${value}`)
        .toSorted(),
    );
  });
});

describe("bytes that are not UTF-8", () => {
  const cases: Record<string, string> = {
    "in an argument": `exec "$@" "$(printf 'a\\377b')"`,
    "in the environment": `export BAD="$(printf 'a\\377b')"; exec "$@"`,
  };
  for (const [name, script] of Object.entries(cases)) {
    test(`${name} are refused, and nothing runs`, async () => {
      const marker = join(temporaryDirectory(), "ran");
      const words = [process.execPath, berth, "run", "--gpu", "1", "--", "touch", marker];
      const child = spawn("sh", ["-c", script, "sh", ...words], {
        env: environmentOf(world),
        stdio: ["ignore", "ignore", "pipe"],
      });
      let said = "";
      child.stderr.on("data", (chunk: Buffer) => {
        said += chunk;
      });
      const code = await new Promise((resolve) => child.once("close", resolve));
      expect(code).toBe(2);
      expect(said).toContain("not valid UTF-8");
      expect(() => readFileSync(marker)).toThrow("ENOENT");
    });
  }
});

describe("bytes that are not UTF-8, in a job for another machine (J2)", () => {
  const cases: Record<string, string> = {
    "in an argument": `exec "$@" -- true "$(printf 'a\\377b')"`,
    "in a variable": `export BAD="$(printf 'a\\377b')"; exec "$@" --env BAD -- true`,
    "in a directory": `exec "$@" --cwd "$(printf '/tmp/a\\377b')" -- true`,
  };
  for (const [name, script] of Object.entries(cases)) {
    test(`${name} are refused, and nothing is submitted`, () => {
      const words = [process.execPath, berth, "submit", "--gpu", "1"];
      const { status, stderr } = spawnSync("sh", ["-c", script, "sh", ...words], {
        env: environmentOf(world),
        encoding: "utf8",
      });
      expect(stderr).toContain("not valid UTF-8");
      expect(status).toBe(2);
    });
  }
});

test("a name that would move the cursor is refused, and not shown with its power", async () => {
  const name = "red\u001b[31m\nline\u202eright";
  const run = startBerth(berth, world, ["run", "--gpu", "1", "--name", name, "--", "true"]);
  expect((await run.exited).code).toBe(2);
  expect(run.stderr()).toContain("control characters");
  for (const power of ["\u001b", "\u202e"]) expect(run.stderr()).not.toContain(power);
});
