// The adapter of a pool whose jobs Slurm runs (21): the loop of all executors, with Slurm's nodes as the pool's.

import type { WireReportedNode } from "../../protocol/index.ts";
import type { Client } from "../../sdk/index.ts";
import { type ExecutorLoop, startLoop } from "../loop.ts";
import { reportedNodes } from "./nodes.ts";
import { createSlurmExecutor, type SlurmSettings } from "./slurm.ts";

export interface SlurmAdapterOptions extends SlurmSettings {
  readonly client: Client;
  readonly stateDirectory: string;
  readonly version: string;
  /** Whether Slurm's nodes are the pool's nodes. */
  readonly reportsNodes: boolean;
}

/** S6. */
const COMPARE_EVERY_SECONDS = 2;
const NODES_EVERY_MS = 2_000;

export function startSlurmAdapter(options: SlurmAdapterOptions): ExecutorLoop {
  const { client, pool, stateDirectory, tell } = options;
  const nodes = watchNodes(options);
  return startLoop({
    channel: {
      async sync(body, call) {
        const known = await nodes();
        const facts = { agent_version: options.version, ...(known !== undefined && { nodes: known }) };
        return client.adapter.sync(pool, { ...body, ...facts }, call);
      },
      checkpoint: (report, call) => client.adapter.checkpoint(pool, report, call),
      sendLog: (reader, piece, call) => client.adapter.sendLog(pool, reader, piece, call),
    },
    stateDirectory,
    executor: (events) => createSlurmExecutor(options, events),
    compareEverySeconds: COMPARE_EVERY_SECONDS,
    tell,
  });
}

/** Undefined: not known now, or not ours to say. The pool keeps the nodes that it has. */
function watchNodes(options: SlurmAdapterOptions): () => Promise<WireReportedNode[] | undefined> {
  let atMs = Number.NEGATIVE_INFINITY;
  let nodes: WireReportedNode[] | undefined;
  return async () => {
    if (!options.reportsNodes) return undefined;
    if (performance.now() - atMs < NODES_EVERY_MS) return nodes;
    try {
      nodes = reportedNodes(await options.slurm.nodes(), options.partition);
      atMs = performance.now();
    } catch {
      nodes = undefined; // The look at the queue reports the failure.
    }
    return nodes;
  };
}
