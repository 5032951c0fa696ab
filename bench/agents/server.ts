// The server under proof: the whole product, on a directory of its own or as one of several on PostgreSQL.
// Arguments: the address of the directory or of the database, and the address under which other servers reach this one.

import { fileURLToPath } from "node:url";
import { serveUnderProof } from "../proving/serving.ts";

const [place = "", advertise = ""] = process.argv.slice(2);
const isShared = !place.startsWith("file:");
/** As machines under proof call it, if they have a network of their own. */
const BRIDGES = Array.from({ length: 250 }, (_, index) => `198.18.${index}.1`);
const say = (fields: object, message: string) => console.error(new Date().toISOString(), message, fields);

await serveUnderProof({
  data: isShared ? { databaseUrl: place } : { directory: fileURLToPath(place) },
  allowedHosts: BRIDGES,
  ...(isShared && { advertise }),
  // Often, so that many faults fall into a snapshot or into forgetting.
  leaderSettings: { snapshotEveryEvents: 200, endedInMemoryMs: 5_000 },
  log: { info: say, warn: say, error: say },
});
