import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { openCheckpointChannel, parseReport, sendCheckpointReport } from "./checkpoint.ts";

describe("a report", () => {
  const cases: Record<string, unknown> = {
    '{"report":"done"}': { kind: "done" },
    '{"report":"progress","extra":1}': { kind: "progress" },
    '{"report":"defer","seconds":1.5}': { kind: "defer", seconds: 1.5 },
    '{"report":"defer"}': undefined,
    '{"report":"defer","seconds":-1}': undefined,
    '{"report":"defer","seconds":"60"}': undefined,
    '{"report":"failed","message":"x"}': undefined,
    '{"report":"stop"}': undefined,
    null: undefined,
    done: undefined,
    "": undefined,
  };
  for (const [line, want] of Object.entries(cases)) {
    test(`${line || "an empty line"} means ${JSON.stringify(want) ?? "nothing"}`, () => {
      expect(parseReport(line)).toEqual(want);
    });
  }
});

test("the notice appears whole, can be moved, and goes with the channel", async () => {
  const { channel, paths } = await open();
  expect(existsSync(paths.preemptFile)).toBe(false);
  await channel.request({ deadlineAtMs: Date.UTC(2030, 0, 1), reason: 'says "now"\n' });
  expect(JSON.parse(readFileSync(paths.preemptFile, "utf8"))).toEqual({
    deadline: "2030-01-01T00:00:00.000Z",
    reason: 'says "now"\n',
  });
  await channel.request({ deadlineAtMs: Date.UTC(2030, 0, 2), reason: "later" });
  expect(readFileSync(paths.preemptFile, "utf8")).toContain("2030-01-02");
  expect(readdirSync(join(paths.preemptFile, "..")).sort()).toEqual(["checkpoint", "preempt", "socket"]);
  channel.close();
  expect(existsSync(paths.preemptFile)).toBe(false);
  expect(existsSync(paths.socketPath)).toBe(false);
});

test("the socket is for its owner alone, whatever the umask", async () => {
  const umask = process.umask(0);
  const { channel, paths } = await open();
  expect(process.umask(umask)).toBe(0);
  expect(statSync(paths.socketPath).mode & 0o777).toBe(0o600);
  channel.close();
});

test("what an earlier attempt left in the directory is not taken for an answer", async () => {
  const directory = temporaryDirectory();
  for (const name of ["done", "progress", "model.bin", "preempt"]) writeFileSync(join(directory, name), "");
  const { channel, paths } = await open({
    checkpointDir: directory,
    preemptFile: join(directory, "preempt"),
  });
  expect(readdirSync(directory)).toEqual(["model.bin"]);
  channel.close();
  expect(paths.checkpointDir).toBe(directory);
});

test("reports wait for a handler", async () => {
  const { channel, paths } = await open();
  const answer = sendCheckpointReport(paths.socketPath, { kind: "progress" });
  channel.onReport((report) => ({ accepted: true, message: `had ${report.kind}` }));
  expect(await answer).toEqual({ accepted: true, message: "had progress" });
  channel.close();
});

test("a handler that fails is told to the reporter", async () => {
  const { channel, paths } = await open();
  channel.onReport(() => Promise.reject(new Error("stale token")));
  const answer = await sendCheckpointReport(paths.socketPath, { kind: "done" });
  expect(answer).toEqual({ accepted: false, message: "stale token" });
  channel.close();
});

test("a malformed report is refused with what was expected, and a flood is cut off", async () => {
  const { channel, paths } = await open();
  channel.onReport(() => ({ accepted: true }));
  expect(await exchange(paths.socketPath, "hello\n")).toContain('"accepted":false');
  expect(await exchange(paths.socketPath, "x".repeat(1_000_000))).toBe("");
  channel.close();
});

test("a deferral by file counts once it has its seconds", async () => {
  const { channel, paths } = await open();
  const report = new Promise((resolve) => channel.onReport((told) => void resolve(told)));
  writeFileSync(join(paths.checkpointDir, "defer"), "");
  writeFileSync(join(paths.checkpointDir, "defer"), "90\n");
  expect(await report).toEqual({ kind: "defer", seconds: 90 });
  channel.close();
});

test("a socket path that the system cannot take is refused in words", async () => {
  const socketPath = join(tmpdir(), "x".repeat(120));
  await expect(open({ socketPath })).rejects.toMatchObject({ code: "socket_path_too_long" });
});

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "berth-test-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function open(given: Partial<Parameters<typeof openCheckpointChannel>[0]> = {}) {
  const directory = temporaryDirectory();
  const paths = {
    preemptFile: join(directory, "preempt"),
    checkpointDir: join(directory, "checkpoint"),
    socketPath: join(directory, "socket"),
    ...given,
  };
  return { channel: await openCheckpointChannel(paths), paths };
}

function exchange(socketPath: string, text: string): Promise<string> {
  return new Promise((resolve) => {
    let received = "";
    const socket = createConnection(socketPath);
    socket.on("data", (chunk) => {
      received += chunk;
    });
    socket.on("error", () => undefined); // Cut off while still writing.
    socket.on("close", () => resolve(received));
    socket.write(text);
  });
}
