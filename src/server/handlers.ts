// Which function serves which route. A route that nobody serves does not compile.

import type { Handlers } from "./call.ts";
import * as access from "./routes/access.ts";
import * as cluster from "./routes/cluster.ts";
import * as nodes from "./routes/nodes.ts";
import * as policies from "./routes/policies.ts";
import * as pools from "./routes/pools.ts";
import * as requests from "./routes/requests.ts";
import * as system from "./routes/system.ts";

export const HANDLERS: Handlers = {
  ...requests,
  ...pools,
  ...policies,
  ...nodes,
  ...access,
  ...cluster,
  ...system,
};
