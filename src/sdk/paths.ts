// Method and path of every route. The schemas stay behind: a page or a short command need not load them.

import type { ROUTES, RouteName } from "../protocol/index.ts";

type Table = typeof ROUTES;

/** Compiled against the table of routes, so that the two cannot differ. */
export const PATHS = {
  submitRequest: "POST /v1/resource-requests",
  submitRequests: "POST /v1/resource-requests/bulk",
  renewRequests: "POST /v1/resource-requests/bulk-renew",
  releaseRequests: "POST /v1/resource-requests/bulk-release",
  listRequests: "GET /v1/resource-requests",
  getRequest: "GET /v1/resource-requests/{id}",
  renewRequest: "POST /v1/resource-requests/{id}/renew",
  releaseRequest: "POST /v1/resource-requests/{id}/release",
  checkpointRequest: "POST /v1/resource-requests/{id}/checkpoint",
  updateRequest: "PATCH /v1/resource-requests/{id}",
  cancelRequest: "POST /v1/resource-requests/{id}/cancel",
  deleteRequest: "DELETE /v1/resource-requests/{id}",
  explainRequest: "GET /v1/resource-requests/{id}/explanation",
  listDecisions: "GET /v1/resource-requests/{id}/decisions",
  makePlan: "POST /v1/plans",
  listPools: "GET /v1/pools",
  createPool: "POST /v1/pools",
  getPool: "GET /v1/pools/{pool}",
  putPool: "PUT /v1/pools/{pool}",
  updatePool: "PATCH /v1/pools/{pool}",
  deletePool: "DELETE /v1/pools/{pool}",
  resumeExpiry: "POST /v1/pools/{pool}/resume-expiry",
  listQueue: "GET /v1/pools/{pool}/queue",
  getShares: "GET /v1/pools/{pool}/shares",
  listPolicies: "GET /v1/pools/{pool}/policies",
  attachPolicy: "POST /v1/pools/{pool}/policies",
  getPolicy: "GET /v1/pools/{pool}/policies/{component}",
  putPolicy: "PUT /v1/pools/{pool}/policies/{component}",
  updatePolicy: "PATCH /v1/pools/{pool}/policies/{component}",
  detachPolicy: "DELETE /v1/pools/{pool}/policies/{component}",
  listGroups: "GET /v1/pools/{pool}/groups",
  createGroup: "POST /v1/pools/{pool}/groups",
  getGroup: "GET /v1/pools/{pool}/groups/{group}",
  putGroup: "PUT /v1/pools/{pool}/groups/{group}",
  updateGroup: "PATCH /v1/pools/{pool}/groups/{group}",
  deleteGroup: "DELETE /v1/pools/{pool}/groups/{group}",
  listNodes: "GET /v1/nodes",
  listPoolNodes: "GET /v1/pools/{pool}/nodes",
  createNode: "POST /v1/nodes",
  getNode: "GET /v1/nodes/{node}",
  putNode: "PUT /v1/nodes/{node}",
  drainNode: "POST /v1/nodes/{node}/drain",
  undrainNode: "POST /v1/nodes/{node}/undrain",
  removeNode: "DELETE /v1/nodes/{node}",
  streamEvents: "GET /v1/events",
  listTokens: "GET /v1/tokens",
  createToken: "POST /v1/tokens",
  getToken: "GET /v1/tokens/{token}",
  revokeToken: "DELETE /v1/tokens/{token}",
  whoami: "GET /v1/whoami",
  listAudit: "GET /v1/audit",
  getSettings: "GET /v1/settings",
  changeSettings: "PATCH /v1/settings",
  metrics: "GET /metrics",
  healthz: "GET /healthz",
  livez: "GET /livez",
  getCluster: "GET /v1/cluster",
  handOver: "POST /v1/cluster/handover",
  readyz: "GET /readyz",
  version: "GET /version",
  openapi: "GET /openapi.json",
  docs: "GET /docs",
} as const satisfies { [Name in RouteName]: `${Table[Name]["method"]} ${Table[Name]["path"]}` };

type Idempotent = {
  [Name in RouteName]: Table[Name] extends { isIdempotent: true } ? Name : never;
}[RouteName];

/** Routes that take an `Idempotency-Key`, so that they may be tried again without a second effect. */
export const IDEMPOTENT: { readonly [Name in Idempotent]: true } = {
  submitRequest: true,
  submitRequests: true,
  releaseRequest: true,
  checkpointRequest: true,
  updateRequest: true,
  cancelRequest: true,
  createPool: true,
  attachPolicy: true,
  createGroup: true,
  createNode: true,
};
