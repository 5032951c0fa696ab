// A server under proof in a process of its own: says where it is, ends with the proof, and gives up loudly.

import { type OpenServerOptions, openServer } from "../../src/server/index.ts";

const UNLIMITED = { perSecond: Number.POSITIVE_INFINITY, burst: 0 };

export async function serveUnderProof(
  options: Omit<OpenServerOptions, "listen" | "rates" | "onFatal">,
): Promise<void> {
  const server = await openServer({
    listen: "127.0.0.1:0",
    rates: { perToken: UNLIMITED, perStranger: UNLIMITED, allStrangers: UNLIMITED },
    ...options,
    onFatal(error) {
      console.error(error);
      process.exit(70);
    },
  });
  process.on("disconnect", () => process.exit(0)); // The proof is gone.
  process.on("SIGTERM", () => void server.close().then(() => process.exit(0)));
  process.send?.({ url: server.url, token: server.firstToken?.secret });
}
