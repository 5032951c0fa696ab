import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const source = fileURLToPath(new URL("./environ.ts", import.meta.url));
const program = `
  import { readFileSync } from "node:fs";
  import { hideVariable } from ${JSON.stringify(source)};
  hideVariable("SECRET_TOKEN");
  console.log(JSON.stringify({ own: process.env.SECRET_TOKEN ?? null, seen: readFileSync("/proc/self/environ", "latin1") }));
`;

test.runIf(process.platform === "linux")("a hidden variable is gone from what other processes see", () => {
  const env = { ...process.env, BEFORE: "1", SECRET_TOKEN: "berth_0123456789", SECRET_TOKEN_NOT: "stays" };
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", "tsx", "--input-type=module", "-e", program],
    { env, encoding: "utf8" },
  );
  expect(stderr).toBe("");
  const { own, seen } = JSON.parse(stdout) as { own: string | null; seen: string };
  expect(own).toBeNull();
  expect(seen).not.toContain("berth_0123456789");
  expect(seen).toContain("SECRET_TOKEN_NOT=stays");
  expect(seen).toContain("BEFORE=1");
});
