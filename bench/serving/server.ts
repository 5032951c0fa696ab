// The server under measurement, or its limit.
// Arguments: berth|limit, sqlite|postgres|memory, file or address, and `follower` for a server beside another one.

import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Leader } from "../../src/leader/index.ts";
import { openServer } from "../../src/server/index.ts";
import { startLimit } from "./limit.ts";
import { watchPauses } from "./pauses.ts";

const [kind, storeKind = "", place = "", role] = process.argv.slice(2);
/** Every call is counted, and none is refused. */
const NO_RATE_IS_TOO_HIGH = { perSecond: 1_000_000, burst: 1_000_000 };
const beganMs = performance.now();
let leader: Leader | undefined;

async function startBerth() {
  const data =
    storeKind === "memory"
      ? ("memory" as const)
      : storeKind === "sqlite"
        ? { directory: dirname(place) }
        : { databaseUrl: place };
  const server = await openServer({
    data,
    listen: "127.0.0.1:0",
    rates: { perToken: NO_RATE_IS_TOO_HIGH },
    onFatal: (error) => {
      console.error(error);
      process.exit(1);
    },
  });
  leader = server.leader;
  if (role === "follower") return { url: server.url, token: "" }; // The leader's serves here, too.
  const token = server.firstToken ?? (await server.makeAdminToken(`bench ${process.pid}`));
  return { url: server.url, token: token.secret };
}

const opened = kind === "berth" ? await startBerth() : await startLimit(storeKind, place);
process.send?.({ ...opened, startMs: performance.now() - beganMs, pid: process.pid });

/** What it uses: memory in bytes, and the time of processors since it started. */
async function tellUse(): Promise<void> {
  // What the first collection frees is given back in the background.
  global.gc?.();
  await delay(500);
  global.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  process.send?.({ rss, heapUsed, cpuMs: (user + system) / 1000 });
}

/** What the leader says about itself, and the longest pause of its loop since the last question. */
let longestPauseMs = () => 0;
function tellStatus(): void {
  const { snapshotSeq = 0, seq = 0, recovery } = leader?.status() ?? {};
  process.send?.({ snapshotSeq, seq, replayedEvents: recovery?.events ?? 0, pauseMs: longestPauseMs() });
}

process.on("message", ({ kind: what }: { kind?: string }) => {
  if (what === "watch") longestPauseMs = watchPauses();
  if (what === "watch" || what === "status") tellStatus();
  else void tellUse();
});
process.on("disconnect", () => process.exit());
process.on("SIGTERM", () => process.exit());
