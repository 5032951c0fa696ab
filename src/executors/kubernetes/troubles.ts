// What goes wrong between the adapter and the cluster: each failure is said once, and once that all is well again.

import { KubernetesFailure } from "./client.ts";

export interface ClusterTroubles {
  /** What something says of itself now; undefined: it is well. */
  set(what: string, message: string | undefined): void;
  /** Notes a failure of the cluster; anything else is a mistake of ours, and thrown. */
  note(what: string, error: unknown): void;
}

export function createClusterTroubles(tell: (text: string) => void): ClusterTroubles {
  const current = new Map<string, string>();
  function set(what: string, message: string | undefined): void {
    if (message === undefined) {
      if (current.delete(what) && current.size === 0) tell("Kubernetes answers again.");
      return;
    }
    const isKnown = [...current.values()].includes(message);
    current.set(what, message);
    if (!isKnown) tell(message);
  }
  return {
    set,
    note(what, error) {
      if (!(error instanceof KubernetesFailure)) throw error;
      set(what, error.message);
    },
  };
}
