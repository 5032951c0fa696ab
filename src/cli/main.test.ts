import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { main } from "./main.ts";

let directory = "";

const passing = { name: "good", pools: [{ name: "p", capacity: { gpu: 1 } }], script: [{ advance: 1 }] };
const failing = { name: "bad", script: [{ finish: "a" }] };

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-cli-"));
  writeFileSync(join(directory, "good.json"), JSON.stringify([passing]));
  writeFileSync(join(directory, "bad.yaml"), "name: bad\nscript: [{finish: a}]\n");
  writeFileSync(join(directory, "broken.txt"), "{");
  writeFileSync(join(directory, "binary.txt"), Buffer.from([0xff, 0xfe, 0x00]));
});

afterAll(() => rmSync(directory, { recursive: true }));

async function berth(...args: string[]) {
  let stdout = "";
  let stderr = "";
  const exitCode = await main(args, {
    version: "1.2.3",
    write: (text) => {
      stdout += text;
    },
    tell: (text) => {
      stderr += text;
    },
    hasColor: false,
    exitCode: 0,
  });
  return { exitCode, stdout, stderr };
}

const at = (file: string) => join(directory, file);

describe("berth scenario run", () => {
  test("all pass: 0", async () => {
    const { exitCode, stdout, stderr } = await berth("scenario", "run", at("good.json"));
    expect({ exitCode, stdout, stderr }).toEqual({
      exitCode: 0,
      stdout: `ok    ${at("good.json")}  good\n1 passed, 0 failed\n`,
      stderr: "",
    });
  });

  test("one fails: 1, and a directory is read by name", async () => {
    const { exitCode, stdout } = await berth("scenario", "run", directory);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(
      /^FAIL.*bad\.yaml {2}bad\n[\s\S]*\nok .*good\.json {2}good\n1 passed, 1 failed\n$/,
    );
  });

  test("directories are read with those inside them, and files given twice run twice", async () => {
    mkdirSync(at("inner/more"), { recursive: true });
    writeFileSync(at("inner/more/deep.yml"), "name: deep\nscript: []\n");
    const { exitCode, stdout } = await berth("scenario", "run", at("inner"), at("inner/more/deep.yml"));
    rmSync(at("inner"), { recursive: true });
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/deep\.yml {2}deep\n.*deep\.yml {2}deep\n2 passed/);
  });

  test("--json prints the report and nothing else", async () => {
    const { exitCode, stdout, stderr } = await berth("scenario", "run", "--json", directory);
    expect(exitCode).toBe(1);
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toMatchObject({
      passed: 1,
      failed: 1,
      scenarios: [
        { name: failing.name, ok: false, failures: [{ step: 1, field: "error", actual: "not_found" }] },
        { name: passing.name, ok: true, failures: [] },
      ],
    });
  });

  test("--trace follows the steps; beside --json it goes to stderr", async () => {
    const plain = await berth("scenario", "run", "--trace", at("good.json"));
    expect(plain.stdout).toContain("pool p has gpu 1");
    const both = await berth("scenario", "run", "--trace", "--json", at("good.json"));
    expect(both.stderr).toContain("pool p has gpu 1");
    expect(JSON.parse(both.stdout)).toMatchObject({ passed: 1 });
  });

  const unusable: Record<string, { args: () => string[]; code: string }> = {
    "a file that does not exist": { args: () => [at("none.json")], code: "file_not_found" },
    "a file that is not text": { args: () => [at("binary.txt")], code: "file_unreadable" },
    "a file that is not JSON": { args: () => [at("broken.txt")], code: "invalid_syntax" },
    "a device": { args: () => ["/dev/null"], code: "file_unreadable" },
    "one bad file beside a good one": {
      args: () => [at("good.json"), at("broken.txt")],
      code: "invalid_syntax",
    },
  };
  for (const [name, { args, code }] of Object.entries(unusable)) {
    test(`${name}: 2, and nothing runs`, async () => {
      const { exitCode, stdout, stderr } = await berth("scenario", "run", ...args());
      expect(exitCode).toBe(2);
      expect(stdout).toBe("");
      expect(stderr).toMatch(new RegExp(`^berth: .* \\[${code}\\]\\n$`));
    });
  }

  test("--json tells bad input as problem+json on stderr", async () => {
    const { exitCode, stdout, stderr } = await berth("scenario", "run", "--json", at("none.json"));
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(JSON.parse(stderr)).toMatchObject({
      code: "file_not_found",
      problems: [{ file: at("none.json") }],
    });
  });
});

describe("the command line itself", () => {
  const cases: Record<string, { args: string[]; exitCode: number; says: RegExp }> = {
    "no command: help on stderr": { args: [], exitCode: 2, says: /Usage: berth/ },
    "--help shows commands and examples": { args: ["--help"], exitCode: 0, says: /scenario[\s\S]*Examples:/ },
    "help for a command": { args: ["help", "scenario"], exitCode: 0, says: /run .*<file_or_dir\.\.\.>/ },
    "help for a sub-command, the other way round": {
      args: ["help", "scenario", "run"],
      exitCode: 0,
      says: /^Usage: berth scenario run/,
    },
    "help for a mistyped command": {
      args: ["help", "scenaro"],
      exitCode: 2,
      says: /Did you mean scenario\?/,
    },
    "help for a sub-command has a scenario to copy": {
      args: ["scenario", "run", "--help"],
      exitCode: 0,
      says: /script:[\s\S]*Examples:/,
    },
    "a mistyped command": { args: ["scenaro"], exitCode: 2, says: /Did you mean scenario\?/ },
    "a mistyped sub-command": { args: ["scenario", "rnu"], exitCode: 2, says: /Did you mean run\?/ },
    "a mistyped option": {
      args: ["scenario", "run", "--jsno", "x"],
      exitCode: 2,
      says: /Did you mean --json\?/,
    },
    "a missing argument": {
      args: ["scenario", "run"],
      exitCode: 2,
      says: /Missing required argument 'file_or_dir'/,
    },
    version: { args: ["version"], exitCode: 0, says: /^1\.2\.3\n$/ },
    "--version": { args: ["--version"], exitCode: 0, says: /^1\.2\.3\n$/ },
  };
  for (const [name, { args, exitCode, says }] of Object.entries(cases)) {
    test(name, async () => {
      const result = await berth(...args);
      expect(result.exitCode).toBe(exitCode);
      expect(exitCode === 0 ? result.stdout : result.stderr).toMatch(says);
    });
  }
});
