// Which function serves which route. A route that nobody serves does not compile.

import type { Handlers } from "./call.ts";
import * as access from "./routes/access.ts";
import * as agents from "./routes/agents.ts";
import * as cluster from "./routes/cluster.ts";
import * as dashboard from "./routes/dashboard.ts";
import * as jobs from "./routes/jobs.ts";
import * as nodes from "./routes/nodes.ts";
import * as notices from "./routes/notices.ts";
import * as operations from "./routes/operations.ts";
import { plansOver } from "./routes/plans.ts";
import * as policies from "./routes/policies.ts";
import * as pools from "./routes/pools.ts";
import * as requests from "./routes/requests.ts";
import * as sessions from "./routes/sessions.ts";
import * as system from "./routes/system.ts";

const SERVED: Omit<Handlers, "makePlan"> = {
  ...requests,
  ...pools,
  ...policies,
  ...nodes,
  ...agents,
  ...jobs,
  ...operations,
  ...access,
  ...dashboard,
  ...notices,
  ...sessions,
  ...cluster,
  ...system,
};

export const HANDLERS: Handlers = { ...SERVED, makePlan: plansOver(SERVED) };
