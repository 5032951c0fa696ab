import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { WireRequest } from "../../protocol/index.ts";
import { saveCommand, showerOf } from "./here.ts";

const notice = {
  kind: "ended",
  request: { number: 7 } as WireRequest,
  what: "ended",
  text: "#7 has ended.",
} as const;

test("a command that does not end is ended, even if it ignores that it should", async () => {
  const home = mkdtempSync(join(tmpdir(), "berth-notices-"));
  onTestFinished(() => rmSync(home, { recursive: true }));
  vi.stubEnv("XDG_CONFIG_HOME", home);
  onTestFinished(() => void vi.unstubAllEnvs());
  const command = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"];
  saveCommand("deaf", { command, on: ["ended"] });
  const said: string[] = [];
  await showerOf("deaf", (text) => said.push(text), 50)?.(notice);
  expect(said).toEqual(["berth: the command of deaf was ended by SIGKILL.\n"]);
});
