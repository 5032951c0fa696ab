// The adapter of a pool whose jobs Kubernetes runs (22): the loop of all executors, with the cluster's nodes as the pool's.

import type { WireReportedNode } from "../../protocol/index.ts";
import type { Client } from "../../sdk/index.ts";
import { type ExecutorLoop, startLoop } from "../loop.ts";
import { createKubernetesExecutor, type KubernetesSettings } from "./kubernetes.ts";
import { POOL_LABEL, poolLabel } from "./labels.ts";
import { openMirror } from "./mirror.ts";
import { reportedNodes } from "./nodes.ts";
import { type ClusterTroubles, createClusterTroubles } from "./troubles.ts";

export interface KubernetesAdapterOptions extends Omit<KubernetesSettings, "troubles"> {
  readonly client: Client;
  readonly stateDirectory: string;
  readonly version: string;
  /** Whether the cluster's nodes are the pool's nodes; `selector`: only those with these labels. */
  readonly nodes: { readonly selector: string | undefined } | undefined;
  /** For people: what goes wrong, and what is right again. */
  readonly tell: (text: string) => void;
}

const COMPARE_EVERY_SECONDS = 2;

export function startKubernetesAdapter(options: KubernetesAdapterOptions): ExecutorLoop {
  const { client, pool, stateDirectory, tell } = options;
  const troubles = createClusterTroubles(tell);
  const machines = watchNodes(options, troubles);
  const loop = startLoop({
    channel: {
      async sync(body, call) {
        const known = machines?.nodes();
        const facts = { agent_version: options.version, ...(known !== undefined && { nodes: known }) };
        return client.adapter.sync(pool, { ...body, ...facts }, call);
      },
      checkpoint: (report, call) => client.adapter.checkpoint(pool, report, call),
      sendLog: (reader, piece, call) => client.adapter.sendLog(pool, reader, piece, call),
    },
    stateDirectory,
    executor: (events) => createKubernetesExecutor({ ...options, troubles }, events),
    compareEverySeconds: COMPARE_EVERY_SECONDS,
    tell,
  });
  return {
    async close() {
      machines?.close();
      await loop.close();
    },
  };
}

/** Undefined: not ours to say. What is not known yet is not said either: the pool keeps the nodes that it has. */
function watchNodes(
  { kubernetes, nodes: wanted, pool, gpuResource }: KubernetesAdapterOptions,
  troubles: ClusterTroubles,
) {
  if (wanted === undefined) return undefined;
  const events = (what: string) => ({
    onChange: () => undefined, // Changes wait for the next sync.
    onTrouble: (message: string | undefined) => troubles.set(what, message),
  });
  const nodes = openMirror(kubernetes.nodes(wanted.selector), events("nodes"));
  const pods = openMirror(kubernetes.livePods(), events("pods of all namespaces"));
  const label = poolLabel(pool);
  return {
    nodes(): WireReportedNode[] | undefined {
      const found = { nodes: nodes.items(), pods: pods.items() };
      if (found.nodes === undefined || found.pods === undefined) return undefined;
      return reportedNodes({
        ...{ nodes: found.nodes, pods: found.pods, gpuResource },
        isOwn: ({ metadata }) =>
          metadata?.namespace === kubernetes.namespace && metadata?.labels?.[POOL_LABEL] === label,
      });
    },
    close() {
      nodes.close();
      pods.close();
    },
  };
}
