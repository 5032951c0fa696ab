// Long-run shares of backlogged teams in discipline `fair_share`: `npm run bench:long-run -- [REQUESTS]`.

import { proveLongRun } from "./proving/long-run.ts";

if (!proveLongRun(Number(process.argv[2] ?? 10_000))) process.exitCode = 1;
