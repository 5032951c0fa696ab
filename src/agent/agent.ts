// The agent of a node (20): an executor whose attempts are processes of this machine, each in a shim of its own.
//
// Invariant: whatever becomes of this process, the shims go on, each until the time that a server has granted (E3, E5).

import { rmSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import {
  type Executor,
  type ExecutorEvents,
  type ExecutorLoop,
  hasLog,
  leftMs,
  openLogReader,
  type SyncAnswer,
  startFailed,
  startLoop,
  type Terms,
} from "../executors/index.ts";
import type { WireWantedPart } from "../protocol/index.ts";
import type { Client } from "../sdk/index.ts";
import type { NodeOrder } from "./claims.ts";
import type { Device } from "./devices.ts";
import type { OnLost } from "./messages.ts";
import { jobOrderOf, type OrderSettings } from "./orders.ts";
import { type Part, watchPart } from "./part.ts";

export interface AgentOptions {
  readonly client: Client;
  readonly node: string;
  readonly stateDirectory: string;
  readonly version: string;
  readonly bootId: string;
  /** What the machine has now; left out: what its record says. */
  readonly capacity?: Readonly<Record<string, number>>;
  /** Whether its GPUs are given out, so that a job without one sees none; default: by its capacity. */
  readonly hasGpus?: boolean;
  /** What the machine shows now. */
  readonly devices: () => readonly Device[];
  readonly policyFile?: string | undefined;
  readonly secrets: string;
  /** Where the checkpoint directories of requests are; default: in the agent's own. */
  readonly checkpoints?: string | undefined;
  /** The PATH of jobs. */
  readonly path?: string | undefined;
  /** For people: what goes wrong, and what is right again. */
  readonly tell: (text: string) => void;
}

export interface Agent extends ExecutorLoop {
  /** Resolves with the first answer of a server, which then knows what this machine has. */
  readonly heard: Promise<void>;
}

const COMPARE_EVERY_SECONDS = 5;
/** The devices are looked at so often. */
const DEVICES_EVERY_MS = 30_000;
/** Of the time after which a silent node is down. */
const LEASE_SHARE = 2 / 3;

export function startAgent(options: AgentOptions): Agent {
  const { client, node, stateDirectory, bootId, capacity, tell } = options;
  const devices = lookNowAndThen(options.devices, DEVICES_EVERY_MS);
  const facts = () => ({
    boot_id: bootId,
    agent_version: options.version,
    ...(capacity !== undefined && { capacity }),
    devices: devices().map(({ index, model, uuid, strangers }) => ({
      ...{ index, strangers },
      ...(model !== undefined && { model }),
      ...(uuid !== undefined && { uuid }),
    })),
  });
  let noteHeard: () => void = () => undefined;
  const heard = new Promise<void>((resolve) => {
    noteHeard = resolve;
  });
  const loop = startLoop({
    channel: {
      async sync(body, call) {
        const answer = await client.agent.sync(node, { ...body, ...facts() }, call);
        noteHeard();
        return answer;
      },
      checkpoint: (report, call) => client.agent.checkpoint(node, report, call),
      sendLog: (reader, piece, call) => client.agent.sendLog(node, reader, piece, call),
    },
    stateDirectory,
    executor: (events) => createProcesses(options, events),
    compareEverySeconds: COMPARE_EVERY_SECONDS,
    tell,
  });
  return { ...loop, heard };
}

/** The processes of this machine, as an executor. */
function createProcesses(options: AgentOptions, events: ExecutorEvents): Executor<NodeOrder> {
  const { stateDirectory, bootId, tell } = options;
  const parts = new Map<string, Part>();
  let lastTrouble = "";
  const tellOnce = (text: string) => {
    if (text !== lastTrouble) tell(text);
    lastTrouble = text;
  };
  const orders: OrderSettings = {
    checkpoints: options.checkpoints ?? join(stateDirectory, "checkpoints"),
    path: options.path,
    policyFile: options.policyFile,
    secrets: options.secrets,
    hasGpus: options.hasGpus ?? (options.capacity?.gpu ?? 0) > 0,
  };
  return {
    order(part, terms) {
      const { request_id: requestId, token } = part;
      const job = jobOrderOf(part, orders);
      const onLost = onLostOf(part.run?.on_lost, terms.answer);
      const { resources, devices } = part;
      const order = { requestId, token, bootId, onLost, leaseUntil: leaseUntil(terms), resources, devices };
      return typeof job === "string" ? { order, end: startFailed(job) } : { order: { ...order, job } };
    },
    start(entry) {
      const part = watchPart(entry, bootId, {
        ...events,
        onTrouble: ({ message }) => tellOnce(`A job cannot be looked after: ${message}`),
        passOn: (report) => events.passOn(entry.order, report),
      });
      parts.set(entry.order.token, part);
    },
    list: () => Promise.resolve([...parts.values()].map((part) => part.listing())),
    instruct: (wanted, terms) => instruct(parts.get(wanted.token) as Part, wanted, terms),
    stop: (token) => parts.get(token)?.say({ kind: "kill" }),
    forget({ order: { token, requestId } }) {
      const part = parts.get(token);
      const isFinished = part?.listing().end?.outcome === "succeeded";
      part?.close();
      parts.delete(token);
      if (isFinished) rmSync(join(orders.checkpoints, requestId), { recursive: true, force: true });
    },
    openLog: ({ directory }, from) => (hasLog(directory) ? openLogReader(directory, from) : undefined),
    close() {
      for (const part of parts.values()) part.close();
    },
  };
}

function instruct(part: Part, wanted: WireWantedPart, terms: Terms): void {
  const { do: what, reason = "" } = wanted.instruction;
  const onLost = onLostOf(part.entry.order.onLost, terms.answer);
  part.say({ kind: "lease", until: leaseUntil(terms), onLost });
  part.say({ kind: "instruct", do: what, reason, leftMs: Math.max(0, leftMs(wanted, terms, uptime())) });
  for (const { id, signal } of wanted.signals)
    if (!part.hasDelivered(id)) part.say({ kind: "signal", id, signal });
}

function leaseUntil({ answer, sentAt }: Terms): number {
  return sentAt + answer.lost_after_seconds * LEASE_SHARE;
}

/** The pool has the last word on who may run on. */
function onLostOf(wanted: OnLost = "suspend", { may_run_on }: SyncAnswer): OnLost {
  return wanted === "run-on" && !may_run_on ? "suspend" : wanted;
}

/** Looking costs a process of its own. */
function lookNowAndThen<T>(look: () => T, everyMs: number): () => T {
  let value = look();
  let atMs = performance.now();
  return () => {
    if (performance.now() - atMs > everyMs) {
      value = look();
      atMs = performance.now();
    }
    return value;
  };
}
