// The adapter's client against a server of this machine: one that records a real cluster, or one that plays what was recorded.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Kubernetes, openKubernetes } from "../../src/executors/index.ts";

/** What one call asked of the API server, and what it got. */
export interface Recorded {
  readonly method: string;
  readonly path: string;
  /** Of what was sent. */
  readonly type?: string;
  readonly status: number;
  readonly answer: string;
}

export const NAMESPACE = "berth-jobs";

/** A small job, as the adapter makes them. */
export const JOB = {
  ...{ apiVersion: "batch/v1", kind: "Job" },
  metadata: {
    ...{ name: "berth-1-1", labels: { "berth.dev/pool": "lab", "berth.dev/job": "berth-1-1" } },
    annotations: { "berth.dev/request": "0190-a" },
  },
  spec: {
    backoffLimit: 0,
    podReplacementPolicy: "Failed",
    template: {
      metadata: {
        labels: { "berth.dev/pool": "lab", "berth.dev/job": "berth-1-1" },
        finalizers: ["berth.dev/end"],
      },
      spec: {
        restartPolicy: "Never",
        containers: [
          {
            ...{ name: "job", image: "registry.example/job:1" },
            command: ["/bin/sh", "-c", "echo one; sleep 3; echo two; exit 3"],
            resources: { limits: { cpu: "100m", "nvidia.com/gpu": "1" } },
          },
        ],
      },
    },
  },
};

export async function openPlayed(port: number, namespace = NAMESPACE): Promise<Kubernetes> {
  const { path: kubeconfig, remove } = kubeconfigFor(port, namespace);
  try {
    return await openKubernetes({ kubeconfig });
  } finally {
    remove();
  }
}

/** A file that names the server on this port. */
export function kubeconfigFor(
  port: number,
  namespace = NAMESPACE,
): { readonly path: string; remove(): void } {
  const directory = mkdtempSync(join(tmpdir(), "berth-kubeconfig-"));
  const path = join(directory, "config");
  const config = {
    ...{ apiVersion: "v1", kind: "Config", "current-context": "played" },
    clusters: [
      { name: "played", cluster: { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } },
    ],
    users: [{ name: "played", user: {} }],
    contexts: [{ name: "played", context: { cluster: "played", user: "played", namespace } }],
  };
  writeFileSync(path, JSON.stringify(config));
  return { path, remove: () => rmSync(directory, { recursive: true, force: true }) };
}
