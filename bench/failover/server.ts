// The server under proof: the whole product on PostgreSQL, one of several. Arguments: address of the database, address
// under which other servers reach this one, version that it reports.

import { openServer } from "../../src/server/index.ts";

const [databaseUrl = "", advertise = "", version = "0.1.0"] = process.argv.slice(2);
const UNLIMITED = { perSecond: Number.POSITIVE_INFINITY, burst: 0 };

function say(level: string): (fields: object, message: string) => void {
  return (fields, message) => {
    const { err, ...rest } = fields as { err?: unknown };
    const why = err instanceof Error ? { err: err.message } : {};
    console.error(JSON.stringify({ at: new Date().toISOString(), level, message, ...why, ...rest }));
  };
}

const server = await openServer({
  data: { databaseUrl },
  listen: "127.0.0.1:0",
  advertise,
  version,
  rates: { perToken: UNLIMITED, perStranger: UNLIMITED, allStrangers: UNLIMITED },
  // Often, so that many faults fall into a snapshot or into forgetting.
  leaderSettings: { snapshotEveryEvents: 500, endedInMemoryMs: 2_000 },
  log: { info: say("info"), warn: say("warn"), error: say("error") },
  onFatal(error) {
    console.error(error);
    process.exit(70);
  },
});
process.on("disconnect", () => process.exit(0)); // The proof is gone.
process.on("SIGTERM", () => void server.close().then(() => process.exit(0)));
process.send?.({ url: server.url, token: server.firstToken?.secret });
