// How a job is asked to checkpoint and how it answers, without ever talking to a server.
//
// The question is a file, BERTH_PREEMPT_FILE, that appears with {"deadline", "reason"}. There are two ways to answer:
//   socket  one line {"report": "done" | "finished" | "progress" | "defer", "seconds"?} to BERTH_SOCKET, one line back
//   files   a file of such a name (`defer` holds the seconds) in BERTH_CHECKPOINT_DIR, removed once read

import { chmodSync, chownSync, type FSWatcher, mkdirSync, unlinkSync, watch } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { hasCode, refusal } from "./errors.ts";
import { onLines } from "./lines.ts";

export type CheckpointReport =
  | { kind: "done" }
  /** All of its work is done, so that its end is a success even if it is being stopped (11.4). */
  | { kind: "finished" }
  | { kind: "progress" }
  | { kind: "defer"; seconds: number }
  /** Said by a checkpoint command that did not succeed; an application has no need to say so. */
  | { kind: "failed"; message: string };

/** What the reporter is answered. */
export interface CheckpointAnswer {
  accepted: boolean;
  /** Why not, or how much of a deferral was granted. */
  message?: string;
}

export type CheckpointHandler = (
  report: CheckpointReport,
) => CheckpointAnswer | undefined | Promise<CheckpointAnswer | undefined>;

export interface CheckpointRequest {
  deadlineAtMs: number;
  reason: string;
}

export interface CheckpointChannel {
  /** Reports wait until there is a handler. */
  onReport(handler: CheckpointHandler): void;
  /** Reports that an application makes in another way, e.g. by the end of a checkpoint command. */
  deliver(report: CheckpointReport): Promise<CheckpointAnswer>;
  request(request: CheckpointRequest): Promise<void>;
  close(): void;
}

const REPORT_CHARS_MAX = 4_096;
const CONNECTIONS_MAX = 32;
const IDLE_MS_MAX = 10_000;
const POLL_MS = 500;
/** The kernel's limit for the path of a socket, its final NUL included. */
const SOCKET_PATH_BYTES_MAX = process.platform === "linux" ? 107 : 103;
const reportNames = ["done", "finished", "progress", "defer"] as const;

/** `owner` is who the job runs as, if that is another user: the files are then for that user, too. */
export async function openCheckpointChannel(
  paths: { preemptFile: string; checkpointDir: string; socketPath: string },
  owner?: { readonly uid: number; readonly gid: number },
): Promise<CheckpointChannel> {
  const { preemptFile, checkpointDir, socketPath } = paths;
  let setHandler: (handler: CheckpointHandler) => void;
  const handlerIsSet = new Promise<CheckpointHandler>((resolve) => {
    setHandler = resolve;
  });
  const deliver = async (report: CheckpointReport): Promise<CheckpointAnswer> => {
    const handler = await handlerIsSet;
    try {
      return (await handler(report)) ?? { accepted: true };
    } catch (error) {
      return { accepted: false, message: (error as Error).message };
    }
  };

  mkdirSync(checkpointDir, { recursive: true, mode: 0o700 });
  // Left over from an earlier attempt in the same directory, they would answer a question not yet asked.
  for (const path of [preemptFile, ...reportNames.map((name) => join(checkpointDir, name))]) removeFile(path);
  const server = await listen(socketPath, deliver);
  if (owner !== undefined)
    for (const path of [checkpointDir, socketPath]) chownSync(path, owner.uid, owner.gid);
  const noticeMode = owner === undefined ? 0o600 : 0o644;
  const files = watchFiles(checkpointDir, deliver);

  return {
    onReport: (handler) => setHandler(handler),
    deliver,
    request: async ({ deadlineAtMs, reason }) => {
      const notice = { deadline: new Date(deadlineAtMs).toISOString(), reason };
      await writeAtomically(preemptFile, `${JSON.stringify(notice)}\n`, noticeMode);
    },
    close: () => {
      files.close();
      server.close();
      for (const path of [socketPath, preemptFile]) removeFile(path);
    },
  };
}

/** For `berth checkpoint done|finished|progress|defer`: tells the wrapper of this job, and returns what it says. */
export function sendCheckpointReport(
  socketPath: string,
  report: CheckpointReport,
): Promise<CheckpointAnswer> {
  const { kind, ...rest } = report;
  return new Promise((resolve, reject) => {
    const socket = createConnection(socketPath);
    socket.on("error", reject);
    socket.setTimeout(6 * IDLE_MS_MAX, () =>
      socket.destroy(new Error("The wrapper of this job did not answer.")),
    );
    onLines(socket, (line) => {
      resolve(JSON.parse(line) as CheckpointAnswer);
      socket.end();
    });
    socket.once("close", () => reject(new Error("The wrapper of this job closed the connection.")));
    socket.write(`${JSON.stringify({ report: kind, ...rest })}\n`);
  });
}

/** A program may leave a report and end before anybody has looked: what is left is taken away, and returned. */
export function takeReports(checkpointDir: string): CheckpointReport[] {
  return (["done", "finished"] as const).flatMap((kind) => {
    try {
      unlinkSync(join(checkpointDir, kind));
      return [{ kind }];
    } catch {
      return [];
    }
  });
}

type Deliver = CheckpointChannel["deliver"];

async function listen(socketPath: string, deliver: Deliver): Promise<Server> {
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_BYTES_MAX) {
    const message = `The path of the checkpoint socket is longer than ${SOCKET_PATH_BYTES_MAX} bytes: ${socketPath}`;
    throw refusal("socket_path_too_long", message, "Set TMPDIR or XDG_RUNTIME_DIR to a shorter path.");
  }
  const server = createServer((socket) => serve(socket, deliver));
  server.maxConnections = CONNECTIONS_MAX;
  removeFile(socketPath);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    // The socket is born closed to others, rather than closed a moment later.
    const umask = process.umask(0o177);
    server.listen(socketPath, resolve);
    process.umask(umask);
  });
  chmodSync(socketPath, 0o600);
  server.unref();
  return server;
}

function serve(socket: Socket, deliver: Deliver): void {
  socket.unref();
  socket.setTimeout(IDLE_MS_MAX, () => socket.destroy());
  socket.on("error", () => undefined);
  const answer = async (line: string) => {
    const report = parseReport(line);
    socket.setTimeout(0); // The handler may ask a server first.
    socket.end(`${JSON.stringify(report === undefined ? malformed : await deliver(report))}\n`);
  };
  onLines(socket, (line) => void answer(line), REPORT_CHARS_MAX);
}

const malformed: CheckpointAnswer = {
  accepted: false,
  message: 'Expected {"report": "done"}, "finished", "progress", or {"report": "defer", "seconds": 60}.',
};

export function parseReport(line: string): CheckpointReport | undefined {
  try {
    const { report, seconds } = JSON.parse(line) as { report?: unknown; seconds?: unknown };
    if (report === "done" || report === "finished" || report === "progress") return { kind: report };
    return report === "defer" ? parseDeferral(seconds) : undefined;
  } catch {
    return undefined;
  }
}

function parseDeferral(seconds: unknown): CheckpointReport | undefined {
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds > 0
    ? { kind: "defer", seconds }
    : undefined;
}

/** Notified where the system can notify, and looking now and then where it cannot. */
function watchFiles(directory: string, deliver: Deliver): { close(): void } {
  let collecting = Promise.resolve();
  const collect = () => {
    collecting = collecting.then(() => collectReports(directory, deliver)).catch(() => undefined);
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(directory, { persistent: false }, collect);
    watcher.on("error", () => undefined);
  } catch {
    // Out of watches: the timer below is enough.
  }
  const timer = setInterval(collect, POLL_MS).unref();
  return {
    close: () => {
      watcher?.close();
      clearInterval(timer);
    },
  };
}

async function collectReports(directory: string, deliver: Deliver): Promise<void> {
  for (const name of reportNames) {
    const path = join(directory, name);
    const text = await readFile(path, "utf8").catch(() => undefined);
    if (text === undefined) continue;
    if (name === "defer" && text.trim() === "") continue; // Created, but not written yet.
    removeFile(path);
    const report = name === "defer" ? parseDeferral(Number(text)) : ({ kind: name } as const);
    if (report !== undefined) void deliver(report);
  }
}

/** A reader sees the whole notice or none. */
async function writeAtomically(path: string, text: string, mode: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}.new`;
  await writeFile(draft, text, { mode });
  await rename(draft, path);
}

function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!hasCode(error, "ENOENT", "ENOTDIR")) throw error;
  }
}
