// The server under proof when there is no HTTP in between: a store and a leader, talked to over IPC.

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { type RequestId, type RequestSpec, requestOf } from "../../src/engine/index.ts";
import { type Answer, type CallContext, startLeader, type View } from "../../src/leader/index.ts";
import { openPostgresStore, openSqliteStore, type Store } from "../../src/store/index.ts";
import { type Canary, type Operation, POOLS, type Told } from "./operations.ts";

const [kind, place, canary] = process.argv.slice(2) as ["sqlite" | "postgres", string, Canary | undefined];
const store = spoil(
  kind === "sqlite" ? await openSqliteStore({ path: place }) : await openPostgresStore({ url: place }),
);
const leader = await startLeader({
  store,
  // Often, so that many kills fall into a snapshot or into forgetting.
  settings: { snapshotEveryEvents: 200, endedInMemoryMs: 500, pruneEveryMs: 1_000 },
  onFatal: (error) => {
    console.error(error);
    process.exit(70);
  },
});
for (const [name, slots] of Object.entries(POOLS)) await ensurePool(name, slots);

process.on("message", ({ call, operation }: { call: number; operation: Operation }) => {
  void answer(operation).then(
    (told) => process.send?.({ call, told }),
    (error: unknown) => process.send?.({ call, failure: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0)); // Whoever proves is gone.
process.send?.({ ready: true });

/** Mistakes made on purpose, which the judge must find: otherwise its verdict would mean nothing. */
function spoil(sound: Store): Store {
  switch (canary) {
    case undefined:
      return sound;
    case "forgets keys":
      return { ...sound, commit: (commit) => sound.commit({ ...commit, idempotency: [] }) };
    case "answers early": {
      let written: Promise<unknown> = Promise.resolve();
      return {
        ...sound,
        async commit(commit) {
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

async function ensurePool(name: string, slots: number): Promise<void> {
  const pool = name as never;
  const settings = { graceMs: 86_400_000 };
  await leader.perform(
    { kind: "createPool", name: pool, capacity: { slot: slots }, settings },
    keyed(`pool ${name}`),
  );
  const policy = { pool, component: name as never };
  await leader.perform({ kind: "attachPolicy", policy }, keyed(`policy ${name}`));
}

async function answer(operation: Operation): Promise<Told> {
  const told = await decide(operation);
  if (told.outcome === "accepted") return told.body as Told;
  return { refusal: told.refusal.code, id: "", number: 0, status: "", token: null };
}

function decide(operation: Operation): Promise<Answer> {
  const { key } = operation;
  switch (operation.kind) {
    case "submit": {
      // The id is made here: a submission that took effect twice would leave two requests with one label.
      const spec = toSpec(randomUUID() as RequestId, operation);
      return leader.perform({ kind: "submitRequest", spec }, keyed(key, spec.id));
    }
    case "release": {
      const { id: requestId, token } = operation;
      const outcome = "succeeded";
      return leader.perform(
        { kind: "reportEnd", requestId: requestId as RequestId, token: Number(token), outcome },
        keyed(key, requestId),
      );
    }
    case "cancel":
      return leader.perform(
        { kind: "cancelRequest", requestId: operation.id as RequestId },
        keyed(key, operation.id),
      );
  }
}

function keyed(key: string, id?: string): CallContext {
  const idempotency = { scope: "prover", key, bodyHash: key };
  return { actor: "prover", idempotency, ...(id !== undefined && { present: present(id as RequestId) }) };
}

function present(id: RequestId) {
  return ({ state, numberOf }: View): Told => {
    const progress = requestOf(state, id)?.progress;
    return {
      refusal: null,
      id,
      number: numberOf(id) ?? 0,
      status: progress?.status ?? "",
      token: progress?.allocation ? String(progress.allocation.token) : null,
    };
  };
}

function toSpec(id: RequestId, { key, pool }: Extract<Operation, { kind: "submit" }>): RequestSpec {
  return {
    ...{ id, component: pool as never, resources: { slot: 1 }, labels: { key }, note: "", name: "" },
    ...{ preemptible: true, preemptionClass: 5, sensitive: false, checkpoint: "none", checkpointMs: null },
    ...{ walltimeMs: null, operation: null, gang: false, nodes: 1, constraints: {}, waitTimeoutMs: null },
    ...{
      retriesMax: null,
      retryDelayMs: 0,
      requeue: "on_preemption",
      attended: false,
      submittedBy: "prover",
    },
  };
}
