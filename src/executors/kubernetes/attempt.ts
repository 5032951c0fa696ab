// One attempt in Kubernetes, as its adapter knows it.

import { KeptAttempt } from "../attempt.ts";
import { TAIL_BYTES } from "../ends.ts";
import type { Entry, Order } from "../journal.ts";
import { logBytes, readTail } from "../log-files.ts";
import type { JobManifest } from "./manifest.ts";
import type { PodFacts } from "./states.ts";
import { type Note, whyWaiting } from "./steps.ts";

export interface KubernetesOrder extends Order {
  /** The names of its jobs, one for each node (K1). */
  readonly names: readonly string[];
  readonly graceSeconds: number;
  readonly job?: { readonly manifests: readonly JobManifest[] };
}

export class Attempt extends KeptAttempt<KubernetesOrder, Note> {
  /** What the cluster's events say, while it waits. */
  saying: { readonly atMs: number; readonly text: string | undefined } | undefined;
  /** By when its pods must be gone, as they were last told. */
  hurriedToMs: number | undefined;

  constructor(entry: Entry<KubernetesOrder>) {
    super(entry, "kubernetes.json", {});
  }

  get names(): readonly string[] {
    return this.entry.order.names;
  }

  protected tail() {
    const { directory } = this.entry;
    return { data: readTail(directory, TAIL_BYTES), bytes: logBytes(directory) };
  }

  /** What the cluster shows of it now. */
  show(pods: readonly PodFacts[]): void {
    const { told, pods: known = {} } = this.note;
    const own = pods.filter(({ job, uid }) => (known[job] ?? uid) === uid);
    const isWaiting = own.length < this.names.length || own.some(({ stage }) => stage === "waiting");
    if (told !== undefined) this.phase = told === "checkpoint" ? "checkpointing" : "stopping";
    else if (own.some(({ stage }) => stage === "ending")) this.phase = "stopping";
    else if (!isWaiting) this.phase = "running";
    const why = whyWaiting(own) ?? this.saying?.text;
    this.progress = this.phase === "starting" && why !== undefined ? `Kubernetes: ${why}` : undefined;
  }
}
