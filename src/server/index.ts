// The HTTP API: authentication, authorisation, routes, events, metrics. Other folders import from this file only.

export { DEFAULT_RATES, type Rate, type Rates } from "./limits.ts";
export { createMetrics, type Metrics } from "./metrics.ts";
export { type OpenedServer, type OpenServerOptions, openServer, STORE_FILE } from "./open.ts";
export {
  DEFAULT_LISTEN,
  type RunningServer,
  ServerError,
  type ServerOptions,
  startServer,
} from "./server.ts";
export type { MadeToken } from "./tokens.ts";
