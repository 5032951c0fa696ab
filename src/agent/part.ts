// One attempt on this node, as its agent sees it: the shim is started, found again, listened to, and buried.

import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import {
  type Entry,
  endedPart,
  ending,
  logBytes,
  type NumberedReport,
  printable,
  readEnd,
  readTail,
  type StoredEnd,
  startFailed,
  TAIL_BYTES,
  writeEnd,
} from "../executors/index.ts";
import type { WireRunningPart } from "../protocol/index.ts";
import {
  type CheckpointAnswer,
  endTree,
  identify,
  isRunning,
  onLines,
  programArguments,
  programEnvironment,
} from "../runner/index.ts";
import { claim, type NodeOrder, readClaim, readPlan } from "./claims.ts";
import { judge } from "./finding.ts";
import type { FromShim, ShimState, ToShim } from "./messages.ts";

export interface Part {
  readonly entry: Entry<NodeOrder>;
  /** For the next sync. */
  listing(): WireRunningPart;
  isEnded(): boolean;
  /** Sent to the shim now, or as soon as it is connected. */
  say(message: ToShim): void;
  /** Which signals the shim has delivered. */
  hasDelivered(signal: number): boolean;
  /** The agent goes; the job does not. */
  close(): void;
}

export interface PartEvents {
  /** Something of the listing is different. */
  onChange(): void;
  onLogGrown(): void;
  onTrouble(error: Error): void;
  /** Rejects if the server could not be asked: then it is asked again. */
  passOn(report: NumberedReport): Promise<CheckpointAnswer>;
}

const LOOK_EVERY_MS = 100;
const SHIM_STARTS_MAX = 3;

export function watchPart(entry: Entry<NodeOrder>, bootId: string, events: PartEvents): Part {
  const { directory, order } = entry;
  let state: ShimState = { phase: "starting", signals: [], isStuck: false };
  let end: WireRunningPart | undefined;
  let shim: Socket | undefined;
  let isClosed = false;
  let starts = 0;
  let isStarting = false;
  /** For a shim that is not connected yet: the newest message of each kind. */
  const unsaid = new Map<string, ToShim>();

  /** A full disk or the like: it is tried again, and the agent goes on with the others. */
  async function follow(): Promise<void> {
    while (!isClosed && end === undefined) {
      await step().catch((error: Error) => events.onTrouble(error));
      if (end === undefined) await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }

  async function step(): Promise<void> {
    const claimed = readClaim(directory);
    const shimState = claimed === undefined ? "none" : isRunning(claimed) ? "alive" : "dead";
    const found = {
      hasEnd: readEnd(directory) !== undefined,
      bootId: order.bootId,
      shim: shimState,
    } as const;
    switch (judge(found, bootId)) {
      case "ended":
        await settle(readEnd(directory) as StoredEnd);
        break;
      case "lost":
        keep(ending("lost", "The machine was restarted."));
        break;
      case "start":
        start();
        break;
      case "adopt":
        await session();
        break;
      case "bury":
        await bury();
        break;
    }
  }

  /** Reports come before the end that they are about. */
  async function settle(stored: StoredEnd): Promise<void> {
    for (const report of stored.reports) {
      while (
        !isClosed &&
        !(await events.passOn(report).then(
          () => true,
          () => false,
        ))
      )
        await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS * 10));
    }
    if (isClosed) return;
    const { requestId: request_id, token } = order;
    const tail = readTail(directory, TAIL_BYTES);
    end = endedPart({ request_id, token }, stored.end, tail, logBytes(directory));
    events.onChange();
  }

  function keep(stored: StoredEnd): void {
    writeEnd(directory, stored);
  }

  /** Started twice it would still run once: the claim is made once. */
  function start(): void {
    if (isStarting) return;
    if (++starts > SHIM_STARTS_MAX) {
      const own = identify(process.pid);
      if (own !== undefined && claim(directory, own))
        keep(startFailed("The shim of the job could not be started."));
      return;
    }
    isStarting = true;
    const errors = openSync(join(directory, "shim.err"), "a", 0o600);
    const child = spawn(process.execPath, [...programArguments("shim"), directory], {
      cwd: "/",
      detached: true,
      env: programEnvironment(),
      stdio: ["ignore", "ignore", errors],
    });
    closeSync(errors);
    const over = () => {
      isStarting = false;
    };
    child.once("error", over);
    child.once("exit", over);
    child.unref();
  }

  /** Resolves when the connection is over. */
  function session(): Promise<void> {
    return new Promise((resolve) => {
      const socket = createConnection(join(directory, "socket"));
      socket.on("error", () => undefined); // "close" follows.
      socket.on("connect", () => {
        shim = socket;
        if (isClosed) socket.destroy();
        for (const message of unsaid.values()) write(message);
        unsaid.clear();
      });
      onLines(socket, (line) => hear(JSON.parse(line) as FromShim));
      socket.once("close", () => {
        shim = undefined;
        resolve();
      });
    });
  }

  function hear(message: FromShim): void {
    if (message.kind === "log") return events.onLogGrown();
    if (message.kind === "report") {
      const { id, report } = message;
      void events.passOn({ id, report }).then(
        (answer) => write({ kind: "answer", id, answer }),
        () => undefined, // The shim keeps it, and it comes with the end or with the next connection.
      );
      return;
    }
    const isNews = JSON.stringify(message.state) !== JSON.stringify(state);
    state = message.state;
    if (isNews) events.onChange();
  }

  /** Its shim died, or the process that had claimed it: it ends with its shim, and is reported when nothing of it is left. */
  async function bury(): Promise<void> {
    const stored = readEnd(directory); // Written in the last moment.
    if (stored !== undefined) return;
    const plan = readPlan(directory);
    if (plan !== undefined) {
      const { end: ended, gone } = endTree(plan);
      if ((await ended).kind === "stuck") {
        state = { ...state, isStuck: true };
        events.onChange();
      }
      await gone;
    }
    keep(ending("failed", "Its shim died.", "interrupted"));
  }

  function write(message: ToShim): void {
    shim?.write(`${JSON.stringify(message)}\n`);
  }

  void follow();
  return {
    entry,
    listing() {
      const { requestId: request_id, token, resources, devices } = order;
      const { phase, progress, signals, isStuck } = state;
      if (end !== undefined) return end;
      return {
        ...{ request_id, token, phase },
        ...(resources && { resources }),
        ...(devices && { devices: [...devices] }),
        ...(progress !== undefined && { progress: printable(progress) }),
        ...(signals.length > 0 && { signals: signals.slice(-64) }),
        ...(isStuck && { stuck: true }),
      };
    },
    isEnded: () => end !== undefined,
    say(message) {
      if (shim === undefined)
        unsaid.set(message.kind === "signal" ? `signal ${message.id}` : message.kind, message);
      else write(message);
    },
    hasDelivered: (signal) => state.signals.includes(signal),
    close() {
      isClosed = true;
      shim?.destroy();
    },
  };
}
