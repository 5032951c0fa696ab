// One server of several that share a database: leads or follows. Other folders import from this file only.

export type { Cluster, Replica, ReplicaOptions, ReplicaTimes, Role } from "./interface.ts";
export { DEFAULT_REPLICA_TIMES } from "./interface.ts";
export { startReplica } from "./replica.ts";
