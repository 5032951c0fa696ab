// The marks by which an adapter knows what is its own in a cluster.

/** Of a pod: its job. Kubernetes' own label of that meaning has changed its name. */
export const JOB_LABEL = "berth.dev/job";
export const POOL_LABEL = "berth.dev/pool";
export const REQUEST_ANNOTATION = "berth.dev/request";
/** Keeps a pod, with how it ended, until its end was acknowledged (J5). */
export const FINALIZER = "berth.dev/end";

/** A pool in the characters that a label may have. */
export function poolLabel(pool: string): string {
  const safe = pool.replaceAll(/[^A-Za-z0-9_.-]/g, "_").slice(0, 61);
  return /^[A-Za-z0-9].*[A-Za-z0-9]$/.test(safe) ? safe : `p${safe}p`;
}

/** The container of the command: others may be injected by the cluster. */
export const CONTAINER = "job";
