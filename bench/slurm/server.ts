// The server under proof, on an embedded store that outlives it. Arguments: data directory, address to listen on.

import { openServer } from "../../src/server/index.ts";

const [directory = "", listen = ""] = process.argv.slice(2);
const UNLIMITED = { perSecond: Number.POSITIVE_INFINITY, burst: 0 };

const server = await openServer({
  data: { directory },
  listen,
  rates: { perToken: UNLIMITED, perStranger: UNLIMITED, allStrangers: UNLIMITED },
  onFatal(error) {
    console.error(error);
    process.exit(70);
  },
});
process.on("disconnect", () => process.exit(0)); // Whoever proves is gone.
process.send?.({ token: server.firstToken?.secret });
