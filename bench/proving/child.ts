// The server under proof: the whole of it, on a store that may be spoilt on purpose.
// Arguments: sqlite|postgres, file or address, by how many milliseconds its wall clock is wrong, and what it does wrong.

import { setTimeout as delay } from "node:timers/promises";
import { startLeader } from "../../src/leader/index.ts";
import { startReplica } from "../../src/replica/index.ts";
import { startServer } from "../../src/server/index.ts";
import { openPostgresStore, openSqliteStore, RESERVE_BYTES, type Store } from "../../src/store/index.ts";
import { type Canary, COMPONENTS, POOLS } from "./operations.ts";

const [kind, place, skewMs = "0", canary] = process.argv.slice(2) as [
  kind: "sqlite" | "postgres",
  place: string,
  skewMs: string | undefined,
  canary: Canary | undefined,
];
const wallMs = Date.now;
Date.now = () => wallMs() + Number(skewMs);
/** Not before the server has started: a spoilt start would prove nothing. */
let isSpoiling = false;
const store = spoil(
  kind === "sqlite"
    ? await openSqliteStore({ path: place, reserveBytes: RESERVE_BYTES })
    : await openPostgresStore({ url: place }),
);
const leader = await (kind === "sqlite" ? startLeader(leading()) : startReplica(replicating()));
await ensurePools();
const server = await startServer({
  leader,
  ...("role" in leader && { replica: leader }),
  store,
  listen: "127.0.0.1:0",
  rates: { perToken: { perSecond: Number.POSITIVE_INFINITY, burst: 0 } },
});
const token = await server.makeFirstToken();
isSpoiling = true;
process.on("disconnect", () => process.exit(0)); // The proof has ended.
process.send?.({ url: server.url, token: token?.secret });

function leading() {
  return {
    store,
    // Often, so that many kills fall into a snapshot or into forgetting.
    settings: { snapshotEveryEvents: 200, endedInMemoryMs: 500, pruneEveryMs: 1_000 },
    onFatal: (error: unknown) => {
      console.error(error);
      process.exit(70);
    },
  };
}

/** One server at a time, so that a silent leader can be taken for dead soon: a kill should not cost seconds. */
function replicating() {
  const times = { renewEveryMs: 50, sureMs: 150, hintedSilenceMs: 200, watchEveryMs: 50 };
  return { ...leading(), url: () => null, version: "0.1.0", times };
}

async function ensurePools(): Promise<void> {
  while ("role" in leader && leader.role() !== "leader") await delay(10); // The proof limits how long a start takes.
  const settings = { graceMs: 86_400_000 }; // Nobody is stopped by time, only by the clients.
  for (const [name, slot] of Object.entries(POOLS)) {
    await once({ kind: "createPool", name: name as never, capacity: { slot }, settings }, name);
  }
  for (const [name, { pool, priority }] of Object.entries(COMPONENTS)) {
    const policy = { pool: pool as never, component: name as never, priority };
    await once({ kind: "attachPolicy", policy }, name);
  }
}

async function once(command: Parameters<typeof leader.perform>[0], name: string): Promise<void> {
  const idempotency = { scope: "proof", key: `${command.kind} ${name}`, bodyHash: "" };
  await leader.perform(command, { actor: "proof", idempotency });
}

/** Mistakes that the judge must find: otherwise its verdict would mean nothing. */
function spoil(sound: Store): Store {
  switch (canary) {
    case undefined:
      return sound;
    case "forgets keys":
      // Those of callers: what the server keeps for itself has the empty scope.
      return {
        ...sound,
        commit: ({ idempotency = [], ...commit }) =>
          sound.commit({ ...commit, idempotency: idempotency.filter(({ scope }) => scope === "") }),
      };
    case "answers early": {
      let written: Promise<unknown> = Promise.resolve();
      return {
        ...sound,
        async commit(commit) {
          if (!isSpoiling) return sound.commit(commit);
          const { epoch, expectedSeq, atMs, events = [] } = commit;
          written = written.then(() => delay(30)).then(() => sound.commit(commit));
          const unknown = { hash: "", auditId: 0, auditHash: "", commitId: "" };
          return { epoch, seq: expectedSeq + events.length, atMs, ...unknown };
        },
        saveSnapshot: async () => undefined,
      };
    }
  }
}
