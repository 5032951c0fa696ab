// Finds and reads scenario files. Sizes are known before anything is read.

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { type ErrorCode, SCENARIO_JSON_BYTES_MAX } from "../../protocol/index.ts";
import { type InputProblem, type Loaded, loadScenarios } from "./load.ts";
import type { Scenario } from "./run.ts";

const FILE_NAME = /\.(json|ya?ml)$/i;
const FILES_PER_DIRECTORY_MAX = 10_000;

/** All scenarios of the files and directories, in the order given; within a directory by name. */
export async function readScenarios(paths: readonly string[]): Promise<Loaded> {
  const scenarios: Scenario[] = [];
  const problems: InputProblem[] = [];
  for (const path of paths) {
    for (const file of await filesAt(path, problems)) {
      const loaded = await readOne(file);
      // One by one: a large file holds more scenarios than a call may have arguments.
      if (loaded.ok) for (const scenario of loaded.scenarios) scenarios.push(scenario);
      else problems.push(...loaded.problems);
    }
  }
  return problems.length > 0 ? { ok: false, problems } : { ok: true, scenarios };
}

async function filesAt(path: string, problems: InputProblem[]): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const files = (await readdir(path, { recursive: true }))
      .filter((file) => FILE_NAME.test(file))
      .toSorted();
    if (files.length === 0)
      problems.push(problem(path, "file_not_found", "No .json, .yaml or .yml file is in there."));
    if (files.length > FILES_PER_DIRECTORY_MAX) {
      problems.push(
        problem(path, "file_too_large", `More than ${FILES_PER_DIRECTORY_MAX} files are in there.`),
      );
      return [];
    }
    return files.map((file) => join(path, file));
  } catch (error) {
    problems.push(unreadable(path, error));
    return [];
  }
}

async function readOne(file: string): Promise<Loaded> {
  try {
    const { size, ...kind } = await describe(file);
    if (!kind.isFile)
      return { ok: false, problems: [problem(file, "file_unreadable", "This is not a file.")] };
    if (size > SCENARIO_JSON_BYTES_MAX) {
      const message = `It has ${size} bytes; at most ${SCENARIO_JSON_BYTES_MAX} are allowed. Split it.`;
      return { ok: false, problems: [problem(file, "file_too_large", message)] };
    }
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(file));
    return loadScenarios(file, text);
  } catch (error) {
    return { ok: false, problems: [unreadable(file, error)] };
  }
}

async function describe(file: string): Promise<{ isFile: boolean; size: number }> {
  const found = await stat(file);
  return { isFile: found.isFile(), size: found.size };
}

function unreadable(file: string, error: unknown): InputProblem {
  const code = (error as NodeJS.ErrnoException).code ?? "";
  if (code === "ENOENT") return problem(file, "file_not_found", "There is no such file or directory.");
  if (code === "ERR_ENCODING_INVALID_ENCODED_DATA") {
    return problem(file, "file_unreadable", "It is not UTF-8 text.");
  }
  return problem(file, "file_unreadable", `It cannot be read (${code || String(error)}).`);
}

function problem(file: string, code: ErrorCode, message: string): InputProblem {
  return { file, code, scenario: null, step: null, field: null, line: null, message };
}
