// The Python packages against a real server, by their own tests (unittest), with the python3 of this machine.

import { spawn, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { buildBerth } from "./run-support.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const suites = {
  "clients/python": ["tests.test_client", "tests.test_work"],
  "integrations/zenml": ["tests.test_zenml"],
};
const SUITE_MS_MAX = 300_000;

const version = spawnSync("python3", ["-c", "import sys; print(*sys.version_info[:2])"], {
  encoding: "utf8",
});
const [major = 0, minor = 0] = (version.stdout ?? "").split(" ").map(Number);
const hasPython = major === 3 && minor >= 9;

if (!hasPython) {
  const found = version.status === 0 ? `python3 is ${major}.${minor}` : "there is no python3";
  test("without Python 3.9 the Python tests do not run", () => {
    process.stderr.write(`The Python packages were not tested: ${found}; they need 3.9 or newer.\n`);
  });
}

let berth: string;
beforeAll(async () => {
  if (hasPython) berth = await buildBerth();
});

for (const [folder, modules] of Object.entries(hasPython ? suites : {})) {
  for (const module of modules) {
    test(`${folder}: ${module}`, { timeout: SUITE_MS_MAX }, async () => {
      const { code, output } = await unittest(folder, module);
      expect(code, output).toBe(0);
    });
  }
}

async function unittest(folder: string, module: string): Promise<{ code: number | null; output: string }> {
  const child = spawn("python3", ["-m", "unittest", module], {
    cwd: `${root}/${folder}`,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      PYTHONDONTWRITEBYTECODE: "1",
      BERTH_COMMAND: JSON.stringify([process.execPath, berth]),
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk;
    });
  }
  const code = await new Promise<number | null>((resolve) => {
    child.once("close", resolve);
  });
  return { code, output };
}
