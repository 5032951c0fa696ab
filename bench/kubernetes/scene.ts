// A cluster with played nodes and a volume for checkpoints, and the adapter's way to its API server, which can be cut.

import { startTcpProxy, type TcpProxy } from "../../test/support/proxy.ts";
import { GPUS_PER_NODE, type Site } from "../clusters/world.ts";
import { type KubernetesCluster, NAMESPACE, openKubernetesCluster } from "./cluster.ts";
import { type Kubelets, startKubelets } from "./kubelet.ts";

export interface Scene {
  readonly cluster: KubernetesCluster;
  readonly kubelets: Kubelets;
  readonly way: TcpProxy;
  close(): Promise<void>;
}

export const NODES = ["n1", "n2", "n3"] as const;

export function siteOf({ cluster, way }: Scene): Site {
  return {
    ...{ executor: "kubernetes", directory: cluster.directory, env: process.env, nodes: NODES },
    adapterOptions: (own) => ({
      ...{ stateDirectory: `${own}/adapter`, kubeconfig: cluster.kubeconfigFor(way.port) },
    }),
  };
}

export async function openScene(): Promise<Scene> {
  const cluster = await openKubernetesCluster();
  const kubelets = await startKubelets({
    ...{ api: cluster.api, directory: cluster.directory, nodes: NODES, gpusPerNode: GPUS_PER_NODE },
    ...{ tls: cluster.tls(), variables: {} },
  });
  const way = await startTcpProxy();
  way.aim(cluster.port);
  await makeClaim(cluster);
  return {
    ...{ cluster, kubelets, way },
    async close() {
      await way.close();
      await kubelets.close();
      await cluster.close();
    },
  };
}

/** Of a volume for checkpoints that all nodes can reach: as the guide calls it. */
export const CLAIM = "scratch";

async function makeClaim({ api, directory }: KubernetesCluster): Promise<void> {
  const common = { accessModes: ["ReadWriteMany"], storageClassName: "" };
  await api.insist("POST", "/api/v1/persistentvolumes", {
    metadata: { name: CLAIM },
    spec: { ...common, capacity: { storage: "1Gi" }, hostPath: { path: `${directory}/volumes` } },
  });
  await api.insist("POST", `/api/v1/namespaces/${NAMESPACE}/persistentvolumeclaims`, {
    metadata: { name: CLAIM },
    spec: { ...common, volumeName: CLAIM, resources: { requests: { storage: "1Gi" } } },
  });
}
