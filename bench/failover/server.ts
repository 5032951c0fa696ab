// The server under proof: the whole product on PostgreSQL, one of several. Arguments: address of the database, address
// under which other servers reach this one, version that it reports.

import { serveUnderProof } from "../proving/serving.ts";

const [databaseUrl = "", advertise = "", version = "0.1.0"] = process.argv.slice(2);

function say(level: string): (fields: object, message: string) => void {
  return (fields, message) => {
    const { err, ...rest } = fields as { err?: unknown };
    const why = err instanceof Error ? { err: err.message } : {};
    console.error(JSON.stringify({ at: new Date().toISOString(), level, message, ...why, ...rest }));
  };
}

await serveUnderProof({
  data: { databaseUrl },
  advertise,
  version,
  // Often, so that many faults fall into a snapshot or into forgetting.
  leaderSettings: { snapshotEveryEvents: 500, endedInMemoryMs: 2_000 },
  log: { info: say("info"), warn: say("warn"), error: say("error") },
});
